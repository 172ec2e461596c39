package sqlite

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"weir/store"
)

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
