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
