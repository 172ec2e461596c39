package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"weir/internal/testkit/needs"
	"weir/store"
	"weir/store/sqlite"
)

// A sent is a mail that was acknowledged: what its sender knows of it.
type sent struct {
	to   string
	body string
}

var (
	queuedAs = regexp.MustCompile(`queued as ([0-9A-Z]{13})`)
	handedTo = regexp.MustCompile(`RCPT TO:<(gone-[^>]*)>`)
)

// sendMail sends a mail over a connection of its own, and returns under which id it was acknowledged.
func sendMail(address, body string, to ...string) (string, error) {
	c, err := smtp.Dial(address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.Mail("ann@example.org", nil); err != nil {
		return "", err
	}
	for _, one := range to {
		if err := c.Rcpt(one, nil); err != nil {
			return "", err
		}
	}
	w, err := c.Data()
	if err != nil {
		return "", err
	}
	if _, err := io.WriteString(w, body); err != nil {
		return "", err
	}
	said, err := w.CloseWithResponse()
	if err != nil {
		return "", err
	}
	id := queuedAs.FindStringSubmatch(said.StatusText)
	if id == nil {
		return "", fmt.Errorf("%q says no id", said.StatusText)
	}
	return id[1], nil
}

// startWeir starts a weir, and returns when it is ready.
func startWeir(t *testing.T, file string, command ...string) *exec.Cmd {
	t.Helper()
	return startWeirWith(t, file, nil, command...)
}

// startWeirWith is startWeir with files that the command inherits, from the descriptor 3 on.
func startWeirWith(t *testing.T, file string, inherited []*os.File, command ...string) *exec.Cmd {
	t.Helper()
	short, err := os.MkdirTemp("", "weir") // t.TempDir has too long a name for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(short, "notify")})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	weir := exec.Command(command[0], append(command[1:], "serve", "-c", file)...)
	weir.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(short, "notify"), "GORACE=atexit_sleep_ms=0")
	var said strings.Builder
	weir.Stderr, weir.ExtraFiles = &said, inherited
	if err := weir.Start(); err != nil {
		t.Fatal(err)
	}
	manager.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := manager.Read(make([]byte, 4096)); err != nil {
		weir.Process.Kill()
		weir.Wait()
		t.Fatalf("%v: %s", err, said.String())
	}
	return weir
}

// TestPowerCut: a real weir takes mail while everything that it writes and syncs is recorded. At any moment, of all
// that was not synced any part may be lost or torn: what the disk then holds has every mail that was acknowledged
// before. Without one of the syncs it has not.
func TestPowerCut(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	strace := needs.Program(t, "strace", "apt-get install strace")
	mails, points := 24, 10
	if needs.Long() {
		mails, points = 300, 200
	}
	data := t.TempDir()
	if os.Getuid() == 0 { // on a small disk the log is carried over often
		if err := syscall.Mount("weir", data, "tmpfs", 0, "size=64m,mode=700"); err == nil {
			t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
		}
	}
	trace, acknowledged := traceWeir(t, strace, data, mails)
	if n := cutEverywhere(t, data, trace, acknowledged, points, nil, t.Errorf); n > 0 {
		t.Errorf("%d lost", n)
	}
	text := func(path string) bool { return strings.HasPrefix(path, data+"/mail/") }
	without := map[string]func(string) bool{
		"log":         func(path string) bool { return strings.HasSuffix(path, "-wal") },
		"text":        func(path string) bool { return text(path) && len(path) > len(data+"/mail/AB") },
		"folder":      func(path string) bool { return text(path) && len(path) == len(data+"/mail/AB") },
		"mail folder": func(path string) bool { return path == data+"/mail" },
		"data folder": func(path string) bool { return path == data },
	}
	if needs.Long() && os.Getuid() == 0 {
		without["database"] = func(path string) bool { return filepath.Base(path) == sqlite.File }
	}
	for name, ignores := range without {
		t.Run("without a sync of the "+name, func(t *testing.T) {
			if n := cutEverywhere(t, data, trace, acknowledged, max(8, points/4), ignores,
				func(string, ...any) {}); n == 0 {
				t.Error("and nothing is lost: the test sees nothing")
			}
		})
	}
}

// cutEverywhere cuts the power at so many points of a trace, half of them when a mail is just being acknowledged, and
// returns how often a mail is lost that was acknowledged before. With syncs that are ignored, everything is lost that
// was not synced.
func cutEverywhere(t *testing.T, data string, trace []*event, acknowledged map[string]*sent, points int,
	ignores func(path string) bool,
	tell func(string, ...any)) (lost int) {
	t.Helper()
	says := func(e *event) [][]string {
		if !e.begun || e.call != "write" || len(e.args) < 2 {
			return nil
		}
		return queuedAs.FindAllStringSubmatch(e.args[1], -1)
	}
	at, seen := map[int]bool{}, map[string]bool{} // a write that the kernel interrupts is there twice
	for i, e := range trace {
		for _, id := range says(e) {
			if acks := len(seen) + 1; !seen[id[1]] {
				seen[id[1]] = true
				at[i] = at[i] || acks*points/2/len(acknowledged) != (acks-1)*points/2/len(acknowledged)
			}
		}
	}
	acks := len(seen)
	maps.DeleteFunc(at, func(_ int, cut bool) bool { return !cut })
	for chance := rand.New(rand.NewPCG(4, 4)); len(at) < points; {
		at[chance.IntN(len(trace))] = true
	}
	checked := 0
	d, due, handed := newDisk(data, ignores), map[string]*sent{}, map[string]bool{}
	for i, e := range trace {
		if err := d.follow(e); err != nil {
			t.Fatal(err)
		}
		if e.begun && e.call == "write" && len(e.args) > 1 {
			for _, to := range handedTo.FindAllStringSubmatch(e.args[1], -1) { // maybe before the sender knows
				handed[to[1]] = true
			}
		}
		for _, id := range says(e) {
			due[id[1]] = acknowledged[id[1]]
		}
		maps.DeleteFunc(due, func(_ string, m *sent) bool { return handed[m.to] })
		if !at[i] {
			continue
		}
		into := t.TempDir()
		d.cutPower(t, into, rand.New(rand.NewPCG(3, uint64(i))), ignores != nil)
		lost += missing(into, due, tell)
		checked += len(due)
		if err := os.RemoveAll(into); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d system calls, %d mails acknowledged, %d power cuts: a mail was due %d times, and lost %d times",
		len(trace), acks, points, checked, lost)
	if acks != len(acknowledged) || checked < points {
		t.Errorf("%d of %d mails were seen being acknowledged", acks, len(acknowledged))
	}
	return lost
}

// traced are the calls by which something gets to the disk, or to a client. What SQLite writes through mapped memory is
// its index of the log, which it makes anew after a crash.
const traced = "trace=open,openat,close,lseek,write,pwrite64,writev,pwritev,sendto,sendmsg,fsync,fdatasync,ftruncate,fallocate,mkdir,mkdirat," +
	"unlink,unlinkat,rename,renameat,renameat2,link,linkat,copy_file_range,sendfile"

// traceWeir runs a weir that takes mail, and returns what it did, and what it has acknowledged.
func traceWeir(t *testing.T, strace, data string, mails int) (trace []*event, acknowledged map[string]*sent) {
	t.Helper()
	folder, err := os.MkdirTemp("", "weir") // t.TempDir has too long a name for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	file, out, address := filepath.Join(folder, "weir.yaml"), filepath.Join(folder, "trace"), needs.FreeAddress()
	text := fmt.Sprintf("data: %s\ncontrol: %s\nconsole: {listen: \"off\"}\nsmtp: [{listen: \"%s\", auth: none, "+
		"networks: [127.0.0.0/8], next_hop: \"%s\"}]\n",
		data, filepath.Join(folder, "weir.sock"), address, newHop(t, "gone-").address)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("weir")
	if err != nil {
		t.Fatal(err)
	}
	weir := startWeir(t, file, strace, "-f", "-qq", "-xx", "-s", "2000000", "-o", out, "-e", "signal=none",
		"-e", traced, program)
	end := func() { // strace ends with its child; it does not pass on what it is told itself
		text, _ := os.ReadFile(filepath.Join(data, sqlite.LockFile))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = weir.Wait()
	}
	acknowledged = map[string]*sent{}
	var mu sync.Mutex
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			for i := client; i < mails; i += 4 {
				to, size := fmt.Sprintf("stay-%d@example.net", i), 3000
				if i%3 == 0 {
					to = fmt.Sprintf("gone-%d@example.net", i)
				}
				if i%4 == 1 || i%9 == 0 {
					size = store.MaxInline + 5000
				}
				body := fmt.Sprintf("Subject: %d\r\n\r\n%s\r\n", i,
					strings.Repeat(strings.Repeat(fmt.Sprint(i%10), 70)+"\r\n", size/72+1))
				id, err := sendMail(address, body, to)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acknowledged[id] = &sent{to, body}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	end()
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return readTrace(t, f), acknowledged
}

// missing opens what a power cut has left, and returns how many mails are not there as they were.
func missing(folder string, due map[string]*sent, tell func(string, ...any)) (n int) {
	if secret, err := os.ReadFile(filepath.Join(folder, "secret")); len(due) > 0 && len(secret) != 65 {
		tell("a secret of %d bytes: %v", len(secret), err)
		n++
	}
	s, err := sqlite.Open(context.Background(), sqlite.Options{Folder: folder})
	if err != nil {
		if len(due) > 0 {
			tell("it cannot be opened: %v", err)
		}
		return n + len(due)
	}
	defer s.Close()
	for id, m := range due {
		if err := waits(s, id, m); err != nil {
			tell("%s to %s: %v", id, m.to, err)
			n++
		}
	}
	return n
}

// waits returns an error unless a mail waits for its recipient, with its text.
func waits(s *sqlite.Store, name string, m *sent) error {
	id, err := store.ParseMailID(name)
	if err != nil {
		return err
	}
	if err := s.Mail().View(context.Background(), func(tx store.MailTx) error {
		to, err := tx.Addressees(id)
		if err == nil && (len(to) != 1 || to[0].Address != m.to) {
			err = fmt.Errorf("it is to %v", to)
		}
		return err
	}); err != nil {
		return err
	}
	r, err := s.Mail().Open(context.Background(), id)
	if err != nil {
		return err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err == nil && !strings.HasSuffix(string(text), m.body) {
		err = fmt.Errorf("another text of %d bytes", len(text))
	}
	return err
}
