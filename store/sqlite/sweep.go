package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/store"
)

// Open returns the text of a mail.
func (m mail) Open(ctx context.Context, id store.MailID) (io.ReadCloser, error) {
	for range 2 {
		var text []byte
		var name string
		found := false
		if err := m.view(ctx, func(s *session) error {
			return m.files.explain(s.query(func(r row) error {
				found, name, text = true, r.text(0), r.bytes(1)
				return nil
			}, `SELECT file, text FROM letters WHERE id = ?`, key(id)))
		}); err != nil {
			return nil, err
		}
		switch {
		case !found:
			return nil, noMail(id)
		case name == "":
			return io.NopCloser(bytes.NewReader(text)), nil
		case !validName(name):
			return nil, fmt.Errorf("%w: the mail %s has its text in %.32q", store.ErrCorrupt, id, name)
		}
		file, err := os.Open(m.texts.path(name))
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		// It may have been delivered meanwhile.
	}
	return nil, fmt.Errorf("%w: the text of the mail %s is missing in %s", store.ErrCorrupt, id, m.texts.folder)
}

// Sweep removes files that nobody needs. While a copy of the store is made it removes none: the copy may need them.
func (m mail) Sweep(ctx context.Context, before time.Time) (removed int, err error) {
	done, err := m.read()
	if err != nil {
		return 0, err
	}
	defer done()
	folders, err := os.ReadDir(m.texts.folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, folder := range folders {
		if !folder.IsDir() || len(folder.Name()) != 2 {
			continue
		}
		n, err := m.sweep(ctx, folder.Name(), before)
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, ctx.Err()
}

// sweep is Sweep of one folder.
func (m mail) sweep(ctx context.Context, folder string, before time.Time) (removed int, err error) {
	entries, err := os.ReadDir(filepath.Join(m.texts.folder, folder))
	if err != nil {
		return 0, err
	}
	var old []string // and not coming in; so if a mail has it, the store knows by now
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), unsealed)
		if info, err := entry.Info(); err != nil || !validName(name) || name[:2] != folder || !info.ModTime().Before(before) {
			continue
		}
		if m.texts.idle(name) {
			old = append(old, entry.Name())
		}
	}
	err = m.view(ctx, func(s *session) error {
		for _, name := range old {
			used := false
			if err := s.query(func(row) error { used = true; return nil }, `SELECT 1 FROM letters WHERE file = ?`, name); err != nil {
				return m.files.explain(err)
			}
			if !used && m.texts.removeNow(name) {
				removed++
			}
		}
		return nil
	})
	return removed, err
}
