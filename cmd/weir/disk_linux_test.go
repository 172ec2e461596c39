package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

// An event is a system call of a traced process, or one end of it: others happen between them.
type event struct {
	call        string
	args        []string
	ret         int
	begun, over bool // it begins here; it ends here
	from        *event
}

// readTrace reads what strace -f -xx has written.
func readTrace(t *testing.T, r io.Reader) (all []*event) {
	t.Helper()
	begun := map[string]*event{} // by thread
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		thread, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "+++") || strings.HasPrefix(rest, "---") {
			continue
		}
		if head, ok := strings.CutSuffix(rest, " <unfinished ...>"); ok {
			call, args, _ := strings.Cut(head, "(")
			e := &event{call: call, args: arguments(args), begun: true}
			begun[thread], all = e, append(all, e)
			continue
		}
		if tail, ok := strings.CutPrefix(rest, "<... "); ok {
			if e := begun[thread]; e != nil {
				all = append(all, &event{call: e.call, args: e.args, ret: returned(tail), over: true, from: e})
			}
			delete(begun, thread)
			continue
		}
		call, args, ok := strings.Cut(rest, "(")
		end := strings.LastIndex(args, ") ")
		if !ok || end < 0 {
			continue
		}
		all = append(all, &event{call: call, args: arguments(args[:end]), ret: returned(args[end:]), begun: true,
			over: true})
	}
}

// arguments takes apart what stands between the brackets. Texts are in hexadecimal, so that they hold no comma; what is
// kept of them is the text.
func arguments(text string) []string {
	all := strings.Split(text, ", ")
	for i, a := range all {
		if strings.HasPrefix(a, `"`) {
			b, err := hex.DecodeString(strings.ReplaceAll(strings.Trim(strings.TrimSuffix(a, "..."), `"`), `\x`, ""))
			if err == nil {
				all[i] = string(b)
			}
		}
	}
	return all
}

func returned(text string) int {
	_, value, _ := strings.Cut(text, "= ")
	value, _, _ = strings.Cut(value, " ")
	n, err := strconv.Atoi(value)
	if err != nil {
		return -1
	}
	return n
}

// A disk is what a file system holds of a folder while a process writes to it: what is safe, and what was written and
// may be lost. It promises as little as POSIX does: a file is safe when it was synced, and a name when its folder was.
type disk struct {
	root    string
	names   map[string]*inode // as the process sees them, by path
	safe    map[string]*inode // as they are after the worst of power cuts
	changes []*change         // of names, that are not safe
	open    map[int]*opened
	writes  map[*event]*change     // that are under way
	ignores func(path string) bool // paths that cannot be made safe: as if the process did not try; nil: none
}

type inode struct {
	folder  bool
	safe    []byte
	changes []*change
}

// A change is one that may be lost. over is false while the call is under way: no sync makes it safe.
type change struct {
	over bool

	folder string // of a name
	apply  func(names map[string]*inode)

	at   int // of a file
	data []byte
	cut  bool // it is cut off at at, or made as long
}

type opened struct {
	path  string
	file  *inode
	at    int
	syncs map[*event][]*change // what was over when a sync began
}

func newDisk(root string, ignores func(string) bool) *disk {
	top := &inode{folder: true}
	return &disk{root: root, names: map[string]*inode{root: top}, safe: map[string]*inode{root: top},
		open: map[int]*opened{}, writes: map[*event]*change{}, ignores: ignores}
}

// follow does what an event has done. The data of a write may be on the disk from its beginning on.
func (d *disk) follow(e *event) error {
	if e.over && !e.begun {
		d.end(e)
		return nil
	}
	switch e.call {
	case "write", "pwrite64":
		d.write(e)
	case "fsync", "fdatasync":
		if f := d.file(e); f != nil {
			f.syncs[e] = d.pending(f)
		}
	case "close": // the number may be given away again before it returns
		if n, err := strconv.Atoi(e.args[0]); err == nil {
			delete(d.open, n)
		}
	case "open", "openat", "lseek", "ftruncate", "mkdirat", "unlink", "unlinkat", "renameat", "renameat2":
	default:
		if d.file(e) != nil || strings.Contains(strings.Join(e.args, " "), d.root) {
			return fmt.Errorf("%s%q: nobody knows what that does to the disk", e.call, e.args)
		}
	}
	if e.over {
		whole := *e
		whole.from = e
		d.end(&whole)
	}
	return nil
}

// file is the open file that an event is about, or nil.
func (d *disk) file(e *event) *opened {
	n, err := strconv.Atoi(e.args[0])
	if err != nil {
		return nil
	}
	return d.open[n]
}

// pending are the changes of a file or folder that are over.
func (d *disk) pending(f *opened) (all []*change) {
	from := f.file.changes
	if f.file.folder {
		from = d.changes
	}
	for _, c := range from {
		if c.over && (!f.file.folder || c.folder == f.path) {
			all = append(all, c)
		}
	}
	return all
}

// write notes a write as one that may be lost. Where it is written tells the call, or the position.
func (d *disk) write(e *event) {
	f := d.file(e)
	if f == nil || len(e.args) < 3 {
		return
	}
	c := &change{at: f.at, data: []byte(e.args[1])}
	if e.call == "pwrite64" {
		c.at, _ = strconv.Atoi(e.args[3])
	} else {
		f.at += len(c.data)
	}
	f.file.changes = append(f.file.changes, c)
	d.writes[e] = c
}

// end does what is done when a call has returned.
func (d *disk) end(e *event) {
	f := (*opened)(nil)
	if len(e.args) > 0 {
		f = d.file(e)
	}
	switch e.call {
	case "write", "pwrite64":
		if c := d.writes[e.from]; c != nil {
			c.over = true
			delete(d.writes, e.from)
		}
	case "fsync", "fdatasync":
		if f != nil && e.ret == 0 && (d.ignores == nil || !d.ignores(f.path)) {
			d.sync(f, f.syncs[e.from])
		}
		if f != nil {
			delete(f.syncs, e.from)
		}
	case "open":
		d.opened(e.args[0], e.args[1], e.ret)
	case "openat":
		d.opened(e.args[1], e.args[2], e.ret)
	case "lseek":
		if f != nil {
			f.at = e.ret
		}
	case "ftruncate":
		if n, err := strconv.Atoi(e.args[1]); err == nil && f != nil && e.ret == 0 {
			f.file.changes = append(f.file.changes, &change{over: true, at: n, cut: true})
		}
	case "mkdirat":
		if e.ret == 0 {
			d.name(e.args[1], &inode{folder: true})
		}
	case "unlink":
		if e.ret == 0 {
			d.rename(e.args[0], "")
		}
	case "unlinkat":
		if e.ret == 0 {
			d.rename(e.args[1], "")
		}
	case "renameat", "renameat2":
		if e.ret == 0 {
			d.rename(e.args[1], e.args[3])
		}
	}
}

// opened notes an open file, and the name of one that is new.
func (d *disk) opened(path, flags string, fd int) {
	if path != d.root && !strings.HasPrefix(path, d.root+"/") || fd < 0 {
		return
	}
	if d.names[path] == nil {
		if !strings.Contains(flags, "O_CREAT") {
			return
		}
		d.name(path, &inode{})
	}
	f := d.names[path]
	if strings.Contains(flags, "O_TRUNC") {
		f.changes = append(f.changes, &change{over: true, cut: true})
	}
	d.open[fd] = &opened{path: path, file: f, syncs: map[*event][]*change{}}
}

func (d *disk) name(path string, file *inode) {
	if !strings.HasPrefix(path, d.root+"/") {
		return
	}
	d.change(path, func(names map[string]*inode) { names[path] = file })
}

// rename gives a file another name, or none.
func (d *disk) rename(from, to string) {
	file := d.names[from]
	if file == nil {
		return
	}
	d.change(from, func(names map[string]*inode) {
		delete(names, from)
		if to != "" {
			names[to] = file
		}
	})
}

func (d *disk) change(path string, apply func(map[string]*inode)) {
	apply(d.names)
	d.changes = append(d.changes, &change{over: true, folder: filepath.Dir(path), apply: apply})
}

// sync makes changes safe.
func (d *disk) sync(f *opened, done []*change) {
	safe := map[*change]bool{}
	for _, c := range done {
		safe[c] = true
	}
	if f.file.folder {
		for _, c := range d.changes {
			if safe[c] {
				c.apply(d.safe)
			}
		}
		d.changes = slices.DeleteFunc(d.changes, func(c *change) bool { return safe[c] })
		return
	}
	for _, c := range f.file.changes {
		if safe[c] {
			f.file.safe = c.onto(f.file.safe, nil)
		}
	}
	f.file.changes = slices.DeleteFunc(f.file.changes, func(c *change) bool { return safe[c] })
}

const sector = 512

// onto does a change of a file; with chance, sectors of it are lost.
func (c *change) onto(b []byte, chance *rand.Rand) []byte {
	if c.cut {
		if c.at <= len(b) {
			return b[:c.at:c.at]
		}
		return append(b, make([]byte, c.at-len(b))...)
	}
	if need := c.at + len(c.data); need > len(b) {
		b = append(b, make([]byte, need-len(b))...)
	}
	for i := 0; i < len(c.data); {
		n := min(sector-(c.at+i)%sector, len(c.data)-i)
		if chance == nil || chance.IntN(2) == 0 {
			copy(b[c.at+i:], c.data[i:i+n])
		}
		i += n
	}
	return b
}

// cutPower writes what the disk may hold after a power cut into a folder: everything that is safe, and of the rest
// nothing, or any part.
func (d *disk) cutPower(t *testing.T, into string, chance *rand.Rand, worst bool) {
	t.Helper()
	how := chance.IntN(4) // 0: nothing of the rest is there; else each change is there, lost or torn
	if worst {
		how = 0
	}
	lost := func() bool { return how == 0 || chance.IntN(how+1) == 0 }
	view := maps.Clone(d.safe)
	for _, c := range d.changes {
		if !lost() {
			c.apply(view)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(view)) {
		to := filepath.Join(into, strings.TrimPrefix(path, d.root))
		file := view[path]
		if file.folder {
			_ = os.Mkdir(to, 0o700) // without its own folder it is lost, with everything in it
			continue
		}
		b := bytes.Clone(file.safe)
		for _, c := range file.changes {
			if lost() {
				continue
			}
			tear := chance
			if chance.IntN(3) > 0 {
				tear = nil
			}
			b = c.onto(b, tear)
		}
		if _, err := os.Stat(filepath.Dir(to)); err != nil {
			continue
		}
		if err := os.WriteFile(to, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The disk of a power cut holds what was synced, and may lose everything else.
func TestDisk(t *testing.T) {
	needs.Unwatched(t)
	line := func(format string, args ...any) string {
		for i := range args {
			if s, ok := args[i].(string); ok {
				args[i] = `"` + "\\x" + strings.Join(pairs(hex.EncodeToString([]byte(s))), `\x`) + `"`
			}
		}
		return "7 " + fmt.Sprintf(format, args...) + "\n"
	}
	trace := line(`openat(AT_FDCWD, %s, O_RDONLY|O_CLOEXEC) = 3`, "/d") +
		line(`openat(AT_FDCWD, %s, O_RDWR|O_CREAT|O_EXCL, 0600) = 4`, "/d/a") +
		line(`write(4, %s, 5) = 5`, "safe!") + line(`fsync(4) = 0`) + line(`fsync(3) = 0`) +
		line(`pwrite64(4, %s, 2, 0) = 2`, "un") + line(`fsync(4 <unfinished ...>`) +
		strings.Replace(line(`pwrite64(4, %s, 1, 4) = 1`, "?"), "7 ", "8 ", 1) + line(`<... fsync resumed>) = 0`) +
		line(`openat(AT_FDCWD, %s, O_RDWR|O_CREAT|O_EXCL, 0600) = 5`, "/d/b") + line(`write(5, %s, 1) = 1`, "b") +
		line(`fsync(5) = 0`)
	d := newDisk("/d", nil)
	for _, e := range readTrace(t, strings.NewReader(trace)) {
		if err := d.follow(e); err != nil {
			t.Fatal(err)
		}
	}
	if a := d.safe["/d/a"]; a == nil || string(a.safe) != "unfe!" || len(a.changes) != 1 ||
		string(a.changes[0].data) != "?" {
		t.Errorf("a: %+v", a)
	}
	if d.safe["/d/b"] != nil || string(d.names["/d/b"].safe) != "b" {
		t.Error("a name is safe that nobody synced")
	}
	seen := map[string]bool{}
	for i := range 50 {
		into := t.TempDir()
		d.cutPower(t, into, rand.New(rand.NewPCG(1, uint64(i))), false)
		a, err := os.ReadFile(filepath.Join(into, "a"))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := os.ReadFile(filepath.Join(into, "b"))
		seen[string(a)+" "+string(b)] = true
	}
	if got := fmt.Sprint(slices.Sorted(maps.Keys(seen))); got != "[unfe!  unfe! b unfe?  unfe? b]" {
		t.Error(got)
	}
}

func pairs(digits string) (all []string) {
	for i := 0; i < len(digits); i += 2 {
		all = append(all, digits[i:i+2])
	}
	return all
}
