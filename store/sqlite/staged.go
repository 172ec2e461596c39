package sqlite

import (
	"fmt"
	"hash/crc32"
	"os"

	"weir/store"
)

func (m mail) Stage() store.Staged { return &staged{texts: &m.texts} }

// A staged is the text of an incoming mail. It is in memory until it is longer than store.MaxInline.
type staged struct {
	texts  *texts
	memory []byte
	name   string
	file   *os.File
	size   int64
	sum    uint32 // of what is in the file
	ended  bool
	err    error // of the file; it stays

	message *store.Message // of Note
	to      []store.Addressee
}

var errSealed = fmt.Errorf("the text was sealed or discarded before: %w", store.ErrInvalid)

func (s *staged) Size() int64 { return s.size }

func (s *staged) Write(p []byte) (n int, err error) {
	switch {
	case s.err != nil:
		return 0, s.err
	case s.ended:
		return 0, errSealed
	case s.file == nil && len(s.memory)+len(p) <= store.MaxInline:
		s.memory = append(s.memory, p...)
		s.size += int64(len(p))
		return len(p), nil
	case s.file == nil:
		if s.name, s.file, s.err = s.texts.create(); s.err != nil {
			s.file = nil
			return 0, s.err
		}
		if _, err = s.file.Write(s.memory); err != nil {
			s.err = unwritten(err)
			return 0, s.err
		}
		s.sum, s.memory = crc32.Checksum(s.memory, sums), nil
	}
	n, err = s.file.Write(p)
	s.sum = crc32.Update(s.sum, sums, p[:n])
	s.size += int64(n)
	s.err = unwritten(err)
	return n, s.err
}

func (s *staged) Note(l *store.Message, to []store.Addressee) { s.message, s.to = l, to }

func (s *staged) Seal() (store.Text, error) {
	switch {
	case s.err != nil:
		return store.Text{}, s.err
	case s.ended:
		return store.Text{}, errSealed
	}
	s.ended = true
	if s.file == nil {
		return store.Text{Inline: s.memory, Size: s.size}, nil
	}
	if s.message != nil {
		if s.err = unwritten(appendNote(s.file, s.message, s.to, s.sum)); s.err != nil {
			return store.Text{}, s.err
		}
	}
	if s.err = s.texts.seal(s.name, s.file); s.err != nil {
		return store.Text{}, s.err
	}
	return store.Text{File: s.name, Size: s.size}, nil
}

// Discard does not touch a file that belongs to a mail.
func (s *staged) Discard() {
	s.ended, s.memory = true, nil
	if s.file == nil {
		return
	}
	_ = s.file.Close()
	s.file = nil
	if s.texts.forget(s.name) {
		_ = os.Remove(s.texts.path(s.name) + unsealed)
		_ = os.Remove(s.texts.path(s.name))
	}
}
