package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"modernc.org/sqlite"

	"weir/store"
)

// copyPages is how many pages of the file are copied between two looks at the context.
const copyPages = 256

// Backup copies the database page by page as it is at one moment, and the files of its mails, which are kept until
// then. The log grows meanwhile, since it cannot be carried over while a reader needs it. In the end the copy is opened
// and closed as a check.
func (m mail) Backup(ctx context.Context, folder string, progress func(done, total int64)) (err error) {
	done, err := m.read()
	if err != nil {
		return err
	}
	defer done()
	to, err := filesIn(folder)
	if err != nil {
		return err
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	remove, err := emptyFolder(to.folder)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("the copy in %s is not complete: %w", to.folder, err)
			remove()
		}
	}()
	release := m.texts.hold()
	defer release()
	b := &backup{ctx: ctx, from: m.Store, to: to, progress: progress}
	if err := b.copy(); err != nil {
		return err
	}
	return b.verify()
}

// emptyFolder makes a folder, or returns ErrExists if it is not empty. remove removes what was written into it.
func emptyFolder(path string) (remove func(), err error) {
	err = os.Mkdir(path, 0o700)
	made := err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("the folder of the copy %w: %w", store.ErrUnwritable, err)
	}
	there, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("the folder of the copy %w: %w", store.ErrUnwritable, err)
	}
	if len(there) > 0 {
		return nil, fmt.Errorf("%s is not empty: %w", path, store.ErrExists)
	}
	return func() {
		if made {
			_ = os.RemoveAll(path)
			return
		}
		for _, name := range []string{File, File + "-wal", File + "-shm", File + "-journal", LockFile, MailFolder} {
			_ = os.RemoveAll(filepath.Join(path, name))
		}
	}, nil
}

type backup struct {
	ctx         context.Context
	from        *Store
	to          *files
	progress    func(done, total int64)
	done, total int64 // bytes
}

// copy copies the database and the texts of one moment.
func (b *backup) copy() error {
	if err := b.to.create(); err != nil {
		return unwritten(err)
	}
	s, err := newSession(b.ctx, b.from.viewing)
	if err != nil {
		return b.from.files.explain(err)
	}
	defer s.close()
	if err := s.exec("BEGIN"); err != nil { // the moment: while it lasts, the copy is never begun anew
		return b.from.files.explain(err)
	}
	names, err := b.names(s)
	if err != nil {
		return err
	}
	if err := b.pages(s.conn); err != nil {
		return err
	}
	return b.texts(names)
}

// names returns the names of the files of texts, and adds up the bytes to copy.
func (b *backup) names(s *session) (names []string, err error) {
	each := func(r row) error {
		if !validName(r.text(0)) {
			return fmt.Errorf("%w: a text in %.32q", store.ErrCorrupt, r.text(0))
		}
		names = append(names, r.text(0))
		b.total += r.int(1)
		return nil
	}
	err = cmp.Or(s.query(func(r row) error { b.total += r.int(0) * pageSize; return nil }, `PRAGMA page_count`),
		s.query(each, `SELECT file, size FROM messages WHERE file IS NOT NULL`))
	b.progress(0, b.total)
	return names, b.from.files.explain(err)
}

func (b *backup) pages(conn driver.Conn) error {
	copying, err := conn.(interface {
		NewBackup(string) (*sqlite.Backup, error)
	}).NewBackup(b.to.address("mode=rw"))
	if err != nil {
		return b.to.explain(err)
	}
	for more := true; more && err == nil; {
		if more, err = copying.Step(copyPages); err == nil {
			err = b.ctx.Err()
		}
		b.progress(b.done+int64(copying.PageCount()-copying.Remaining())*pageSize, b.total)
	}
	b.done += int64(copying.PageCount()) * pageSize
	return b.to.explain(cmp.Or(err, copying.Finish()))
}

func (b *backup) texts(names []string) error {
	to := b.to.texts()
	folders := map[string]bool{b.to.folder: true}
	for _, name := range names {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		folder := filepath.Dir(to.path(name))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return unwritten(err)
		}
		folders[to.folder], folders[folder] = true, true
		n, err := copyFile(b.from.texts.path(name), to.path(name))
		if err != nil {
			return err
		}
		b.done += n
		b.progress(min(b.done, b.total), b.total) // the note behind the text was not counted
	}
	for folder := range folders {
		if err := syncFolder(folder); err != nil {
			return unwritten(err)
		}
	}
	return nil
}

func copyFile(from, to string) (n int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, corrupt(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, unwritten(err)
	}
	n, err = io.Copy(out, in)
	return n, unwritten(errors.Join(err, out.Sync(), out.Close()))
}

// verify opens the copy as weir would.
func (b *backup) verify() error {
	s, err := Open(b.ctx, Options{Folder: b.to.folder, Patience: b.from.opts.Patience})
	if err != nil {
		return err
	}
	return cmp.Or(s.Close(), os.Remove(b.to.lock))
}
