package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weir/store"
)

// adopt brings back texts that no row names, as held mail or as exported files. Texts of rows go back to their place.
func (v *salvage) adopt() error {
	err := v.unknown(func(path, name string) error {
		v.done++
		v.progress(min(v.done, v.total), v.total)
		n, size, err := readNote(path)
		switch {
		case err == nil:
			var l store.Message
			var to []store.Addressee
			if l, to, err = n.held(size); err == nil {
				return v.hold(&l, to, path, name)
			}
		case !errors.Is(err, errNoNote):
			return err
		}
		return v.exportFile(path, name, size)
	})
	return cmp.Or(err, v.syncFolders())
}

// unknown calls each with the files that no row names, set aside or not. Files of rows that were set aside go back.
func (v *salvage) unknown(each func(path, name string) error) error {
	for _, at := range []string{v.texts.folder, v.texts.aside()} {
		var paths []string
		if err := walk(at, func(path string, d fs.DirEntry) {
			if d.Type().IsRegular() && validName(d.Name()) {
				paths = append(paths, path)
			}
		}); err != nil {
			return err
		}
		for _, path := range paths {
			if err := v.ctx.Err(); err != nil {
				return err
			}
			name := filepath.Base(path)
			used, err := v.to.has(`SELECT 1 FROM messages WHERE file = ?`, name)
			if err != nil {
				return err
			}
			if used {
				if path != v.texts.path(name) {
					v.result.Returned++
				}
				err = v.moveBack(path, name)
			} else {
				err = each(path, name)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// moveBack moves a file to its place among the texts, unless it is there.
func (v *salvage) moveBack(path, name string) error {
	to := v.texts.path(name)
	if path == to {
		return nil
	}
	if err := v.texts.makeFolders(name); err != nil {
		return unwritten(err)
	}
	return unwritten(cmp.Or(os.Rename(path, to), syncFolder(filepath.Dir(to)),
		ownAll(v.files.folder, v.texts.folder, filepath.Dir(to), to)))
}

// hold stores a mail as held for all its recipients. It gets a new id if another mail has its own.
func (v *salvage) hold(l *store.Message, to []store.Addressee, path, name string) error {
	if err := v.moveBack(path, name); err != nil {
		return err
	}
	for ; ; l.ID++ {
		if taken, err := v.to.has(`SELECT 1 FROM messages WHERE id = ?`, int64(l.ID)); err != nil {
			return err
		} else if !taken {
			break
		}
	}
	if err := v.to.exec("BEGIN"); err != nil {
		return err
	}
	err := v.putMessage(l, name)
	for i := range to {
		a := &to[i]
		err = cmp.Or(err, v.to.exec(`INSERT INTO addressees (`+addresseeColumns+
			`) VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0, '', '', 0)`,
			int64(l.ID), int64(a.Number), a.Address, a.Notify, a.Original, int64(a.State)))
	}
	err = cmp.Or(err, v.log("salvaged", l.User, l.ID,
		fmt.Sprintf("its text was in a file; held for %d recipients, and some of them may have it", len(to))))
	if err != nil {
		return errors.Join(err, v.to.exec("ROLLBACK"))
	}
	v.result.Held++
	return v.to.exec("COMMIT")
}

func (v *salvage) putMessage(l *store.Message, file string) error {
	return v.to.exec(`INSERT INTO messages (`+messageColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		int64(l.ID), l.Gate, l.User, l.Sender, l.Subject, source(l.Source), nanos(l.Received), l.Size, flagsOf(l),
		l.Envelope, file)
}

// exportFile moves a text to SalvagedFolder.
func (v *salvage) exportFile(path, name string, size int64) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := v.export(name, func(w io.Writer) error { _, err := io.CopyN(w, in, size); return err }); err != nil {
		return err
	}
	return unwritten(os.Remove(path))
}

// export writes a text into a file in SalvagedFolder and syncs it.
func (v *salvage) export(name string, write func(io.Writer) error) error {
	folder := filepath.Join(v.files.folder, SalvagedFolder)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return unwritten(err)
	}
	path := filepath.Join(folder, strings.ToLower(name)+".eml")
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return unwritten(err)
	}
	if err := errors.Join(write(out), out.Sync(), out.Close(), ownAll(v.files.folder, path),
		syncFolder(folder)); err != nil {
		return unwritten(err)
	}
	v.result.Unknown++
	v.result.Folder = folder
	return nil
}

func (v *salvage) syncFolders() error {
	for _, folder := range []string{v.files.folder, v.texts.folder, v.texts.aside()} {
		if err := syncFolder(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unwritten(err)
		}
	}
	return nil
}
