package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"weir/internal/tabular"
	"weir/lab/sheet"
)

// A reportFlag names the page that a study is written to.
type reportFlag struct {
	Report string `placeholder:"FILE" help:"Also write a report with plots, in one HTML file."`
}

// validate checks that the report can be written and does not overwrite a file that is read. Empty names in read are
// skipped.
func (f reportFlag) validate(read ...string) error {
	for _, file := range read {
		if f.Report != "" && file != "" && sameFile(f.Report, file) {
			return fmt.Errorf("--report: %s would be written over %s, which is read (write another name, such as "+
				"report.html)", f.Report, file)
		}
	}
	return folderOf("report", f.Report)
}

// finish writes the report, and then the figures as JSON, or the same sheet.
func (f reportFlag) finish(t *terminal, s *sheet.Sheet, asJSON bool, figures any) error {
	if f.Report != "" {
		var page bytes.Buffer
		if err := s.Page(&page); err != nil {
			return err
		}
		if err := replaceFile(f.Report, page.Bytes()); err != nil {
			return err
		}
	}
	if asJSON {
		return t.json(figures)
	}
	for _, line := range s.Lines(widthOf(t.out), tabular.Ink(t.colour), printable) {
		fmt.Fprintln(t.out, line)
	}
	if f.Report != "" {
		fmt.Fprintf(t.out, "\nThe report is in %s.\n", printable(f.Report))
	}
	return nil
}

// sameFile reports whether two names are of the same file, which exists.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// folderOf checks that a file can be written, before the work that fills it.
func folderOf(flag, file string) error {
	if file == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return fmt.Errorf("--%s: there is no folder %s", flag, filepath.Dir(file))
	}
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return fmt.Errorf("--%s: %s is a folder (write %s)", flag, file, filepath.Join(file, "report.html"))
	}
	return nil
}

// replaceFile replaces a file completely or not at all. Anything that is not a regular file, such as /dev/stdout, is
// written to directly.
func replaceFile(name string, data []byte) (err error) {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real // the link stays one
	}
	mode, old := os.FileMode(0o644), os.FileInfo(nil)
	switch info, err := os.Stat(name); {
	case err != nil:
	case !info.Mode().IsRegular():
		return os.WriteFile(name, data, mode)
	default:
		mode, old = info.Mode().Perm(), info
	}
	part, err := writePart(name, data, mode)
	if err == nil && old != nil {
		keepOwner(part, old)
	}
	if err == nil {
		err = os.Rename(part, name)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}

// createFile makes a file that everybody may read, completely or not at all. A file that exists stays as it is: the
// error is fs.ErrExist.
func createFile(name string, data []byte) error {
	part, err := writePart(name, data, 0o644)
	if err != nil {
		return err
	}
	defer os.Remove(part)
	err = os.Link(part, name) // a rename would replace a file that was made meanwhile
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// Not every file system has links.
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fs.ErrExist, err)
	}
	return os.Rename(part, name)
}

// writePart writes what will be a file into one beside it.
func writePart(name string, data []byte, mode fs.FileMode) (part string, err error) {
	part = fmt.Sprintf("%s.%d.part", name, os.Getpid())
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(part)
	}
	return part, err
}
