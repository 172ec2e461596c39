package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

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

func (m mail) Open(ctx context.Context, id store.MailID) (io.ReadCloser, error) {
	for range 2 {
		var text []byte
		var name string
		var size int64
		found := false
		if err := m.query(ctx, func(r row) error {
			found, name, text, size = true, r.text(0), r.bytes(1), r.int(2)
			return nil
		}, `SELECT file, text, size FROM messages WHERE id = ?`, key(id)); err != nil {
			return nil, err
		}
		switch {
		case !found:
			return nil, noMail(id)
		case name == "":
			return io.NopCloser(bytes.NewReader(text[:min(int64(len(text)), size)])), nil
		case !validName(name):
			return nil, fmt.Errorf("%w: the mail %s has its text in %.32q", store.ErrCorrupt, id, name)
		}
		file, err := os.Open(m.texts.path(name))
		if err == nil {
			if info, err := file.Stat(); err != nil || info.Size() < size { // no part of a mail is delivered
				return nil, errors.Join(fmt.Errorf("%w: the text of the mail %s in %s is cut off", store.ErrCorrupt, id,
					m.texts.folder), file.Close())
			}
			return textFile{io.LimitReader(file, size), file}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		// It may have been delivered meanwhile.
	}
	return nil, fmt.Errorf("%w: the text of the mail %s is missing in %s", store.ErrCorrupt, id, m.texts.folder)
}

// Sweep does nothing while a backup is made, which may need the files.
func (m mail) Sweep(ctx context.Context, before time.Time) (swept store.Swept, err error) {
	done, err := m.read()
	if err != nil {
		return swept, err
	}
	defer done()
	folders, err := os.ReadDir(m.texts.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return swept, err
	}
	for _, folder := range folders {
		if !folder.IsDir() || len(folder.Name()) != 2 {
			continue
		}
		if err := m.sweep(ctx, folder.Name(), before, &swept); err != nil {
			return swept, err
		}
	}
	swept.Removed += m.texts.forgetAside(before.Add(-store.KeepAside))
	return swept, ctx.Err()
}

func (m mail) sweep(ctx context.Context, folder string, before time.Time, swept *store.Swept) error {
	entries, err := os.ReadDir(filepath.Join(m.texts.folder, folder))
	if err != nil {
		return err
	}
	var old []string // files that are not incoming: if one belongs to a mail, its row is there by now
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), unsealed)
		if info, err := entry.Info(); err == nil && validName(name) && name[:2] == folder &&
			info.ModTime().Before(before) && m.texts.idle(name) {
			old = append(old, entry.Name())
		}
	}
	return m.view(ctx, func(s *session) error {
		for _, name := range old {
			used, err := s.has(`SELECT 1 FROM messages WHERE file = ?`, name)
			if err != nil {
				return m.files.explain(err)
			}
			switch {
			case used:
			case strings.HasSuffix(name, unsealed):
				if m.texts.removeNow(name) {
					swept.Removed++
				}
			case m.texts.setAside(name, before):
				swept.SetAside++
			}
		}
		return nil
	})
}
