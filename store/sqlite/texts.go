package sqlite

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"weir/store"
)

const (
	maxStaged  = 100_000 // files of incoming mails
	maxHeld    = 100_000 // files whose removal waits for a backup; Sweep removes what is beyond it
	nameLength = 26      // of a file; the first two characters are its folder
	unsealed   = ".new"  // the end of the name of a file that is being written
)

// texts are the files of mails that are too long for the database. A file is written before the row that names it, and
// removed after that row. A crash in between leaves a file too many, which Sweep finds, and never one too few.
type texts struct {
	folder string

	mu     sync.Mutex
	staged map[string]bool // incoming files by name; true when the file is sealed
	copies int             // backups that are being made: no file is removed meanwhile
	held   []string        // files to be removed afterwards

	making sync.Mutex      // of made
	made   map[string]bool // folders that survive a power failure
}

// path is where a file is. The folders keep it quick to find one among many.
func (t *texts) path(name string) string { return filepath.Join(t.folder, name[:2], name) }

// validName reports whether a name can be one of rand.Text. A path cannot.
func validName(name string) bool {
	if len(name) != nameLength {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

func (t *texts) create() (name string, file *os.File, err error) {
	name = rand.Text()
	if err := t.expect(name); err != nil {
		return "", nil, err
	}
	if err = t.makeFolders(name); err == nil {
		file, err = os.OpenFile(t.path(name)+unsealed, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		t.forget(name)
		return "", nil, unwritten(err)
	}
	return name, file, nil
}

func (t *texts) expect(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.staged) >= maxStaged {
		return fmt.Errorf("%s: %w: %d texts are coming in", t.folder, store.ErrTooMany, maxStaged)
	}
	if t.staged == nil {
		t.staged = map[string]bool{}
	}
	t.staged[name] = false
	return nil
}

// makeFolders makes the folders of a file.
func (t *texts) makeFolders(name string) error {
	if err := t.makeFolder(t.folder); err != nil {
		return err
	}
	return t.makeFolder(filepath.Dir(t.path(name)))
}

// makeFolder makes a folder, unless it is there, and makes sure that it survives a power failure.
func (t *texts) makeFolder(path string) error {
	t.making.Lock()
	defer t.making.Unlock()
	if t.made[path] {
		return nil
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return err
	}
	if t.made == nil {
		t.made = map[string]bool{}
	}
	t.made[path] = true
	return nil
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// Some file systems cannot do it, and do not need it.
	if err := f.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

func unwritten(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("a text: %w (%w%s)", store.ErrFull, err, hints[store.ErrFull])
	}
	return fmt.Errorf("a text %w: %w", store.ErrUnwritable, err)
}

// seal makes a file safe, and gives it its name.
func (t *texts) seal(name string, file *os.File) error {
	path := t.path(name)
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return unwritten(err)
	}
	if err := os.Rename(path+unsealed, path); err != nil {
		return unwritten(err)
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return unwritten(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.staged[name] = true
	return nil
}

// sealed returns ErrInvalid for a file that is not ready for a mail.
func (t *texts) sealed(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.staged[name] {
		return fmt.Errorf("%.32q is not a sealed text: %w", name, store.ErrInvalid)
	}
	return nil
}

// forget takes a file off the list of incoming ones, and reports whether it was on it.
func (t *texts) forget(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.staged[name]
	delete(t.staged, name)
	return known
}

func (t *texts) committed(took, dropped []string) {
	if len(took)+len(dropped) == 0 {
		return
	}
	t.mu.Lock()
	for _, name := range took {
		delete(t.staged, name)
	}
	if t.copies > 0 {
		t.held = append(t.held, dropped[:min(len(dropped), maxHeld-len(t.held))]...)
		dropped = nil
	}
	t.mu.Unlock()
	t.remove(dropped)
}

// remove removes files. What cannot be removed is found by Sweep again.
func (t *texts) remove(names []string) {
	for _, name := range names {
		if validName(name) {
			_ = os.Remove(t.path(name))
		}
	}
}

func (t *texts) hold() (release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.copies++
	return func() {
		t.mu.Lock()
		var names []string
		if t.copies--; t.copies == 0 {
			names, t.held = t.held, nil
		}
		t.mu.Unlock()
		t.remove(names)
	}
}

func (t *texts) idle(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, coming := t.staged[name]
	return !coming
}

// aside is the folder for texts that belong to no mail.
func (t *texts) aside() string { return filepath.Join(filepath.Dir(t.folder), store.AsideFolder) }

// setAside moves a file away that may belong to a mail which this store does not know, unless a backup is being made.
// The modification time of the file becomes the time of the move.
func (t *texts) setAside(name string, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.copies > 0 {
		return false
	}
	if err := os.Mkdir(t.aside(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return false
	}
	to := filepath.Join(t.aside(), name)
	return os.Chtimes(t.path(name), at, at) == nil && os.Rename(t.path(name), to) == nil
}

func (t *texts) forgetAside(before time.Time) (removed int) {
	entries, err := os.ReadDir(t.aside())
	if err != nil {
		return 0
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && validName(entry.Name()) && info.ModTime().Before(before) &&
			os.Remove(filepath.Join(t.aside(), entry.Name())) == nil {
			removed++
		}
	}
	return removed
}

func (t *texts) removeNow(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.copies > 0 {
		return false
	}
	return os.Remove(t.path(name)) == nil
}

// A note is the envelope of a mail, written behind its text in the file, so that the recipients are known even if the
// row is lost. It is written before the fsync of the file and needs none of its own. After it come its length, its
// checksum and noteMark.
type note struct {
	store.Message
	To  []noted `json:"to"`
	Sum uint32  `json:"sum"` // of the text: Castagnoli's
}

// sums are of texts. Most machines compute them in hardware.
var sums = crc32.MakeTable(crc32.Castagnoli)

// sumSize is how long a sum is that stands behind a text in the database.
const sumSize = 4

// summed is a text with its sum, as the database has it.
func summed(text []byte) []byte {
	return binary.BigEndian.AppendUint32(slices.Clip(text), crc32.Checksum(text, sums))
}

// sumOf is the sum of the first bytes of a file.
func sumOf(path string, size int64) (uint32, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h := crc32.New(sums)
	_, err = io.CopyN(h, f, size)
	return h.Sum32(), err
}

type noted struct {
	Number   int    `json:"number"`
	Address  string `json:"address"`
	Notify   string `json:"notify,omitempty"`
	Original string `json:"original,omitempty"`
}

const (
	noteMark = "\x00weirenv" // a mail ends with a line
	noteTail = 16            // length, checksum and mark
	maxNote  = 32 << 20      // all addressees with addresses as long as may be, in JSON
)

// errNoNote: a file has only a text, as all had before there were notes.
var errNoNote = errors.New("no envelope behind the text")

func appendNote(w io.Writer, l *store.Message, to []store.Addressee, sum uint32) error {
	n := note{Message: *l, To: make([]noted, len(to)), Sum: sum}
	for i, a := range to {
		n.To[i] = noted{a.Number, a.Address, a.Notify, a.Original}
	}
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	size, sum := uint32(len(b)), crc32.ChecksumIEEE(b)
	b = binary.BigEndian.AppendUint32(b, size)
	b = binary.BigEndian.AppendUint32(b, sum)
	_, err = w.Write(append(b, noteMark...))
	return err
}

// readNote reads the note of a file and returns the length of the text before it. Without a note that is the length of
// the file.
func readNote(path string) (n note, text int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return n, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return n, 0, err
	}
	text = info.Size()
	var tail [noteTail]byte
	if text < noteTail {
		return n, text, errNoNote
	}
	if _, err := f.ReadAt(tail[:], text-noteTail); err != nil {
		return n, text, err
	}
	size := int64(binary.BigEndian.Uint32(tail[:]))
	if !bytes.Equal(tail[8:], []byte(noteMark)) || size > min(maxNote, text-noteTail) {
		return n, text, errNoNote
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, text-noteTail-size); err != nil {
		return n, text, err
	}
	if crc32.ChecksumIEEE(b) != binary.BigEndian.Uint32(tail[4:]) || json.Unmarshal(b, &n) != nil {
		return note{}, text, errNoNote
	}
	return n, text - noteTail - size, nil
}

// held is the mail of a note, with all recipients held for a review. It is unknown which of them have it already.
func (n *note) held(size int64) (l store.Message, to []store.Addressee, err error) {
	l = n.Message
	l.Size = size
	for _, a := range n.To {
		to = append(to, store.Addressee{Mail: l.ID, Number: a.Number, Address: a.Address, Notify: a.Notify,
			Original: a.Original, State: store.Held})
	}
	if err := errors.Join(l.Validate(), store.CheckAddressees(l.ID, to)); err != nil {
		return l, nil, fmt.Errorf("%w: %w", errNoNote, err)
	}
	return l, to, nil
}

type textFile struct {
	io.Reader
	file *os.File
}

func (t textFile) Close() error { return t.file.Close() }
