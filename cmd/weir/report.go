package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// finish writes the report, and then the figures: as JSON, or by show.
func (f reportFlag) finish(t *terminal, page func(io.Writer) error, asJSON bool, figures any, show func()) error {
	if err := f.write(page); err != nil {
		return err
	}
	if asJSON {
		return t.json(figures)
	}
	show()
	f.told(t)
	return nil
}

func (f reportFlag) told(t *terminal) {
	if f.Report != "" {
		fmt.Fprintf(t.out, "\nThe report is in %s.\n", printable(f.Report))
	}
}

func (f reportFlag) write(to func(io.Writer) error) error {
	if f.Report == "" {
		return nil
	}
	var page bytes.Buffer
	if err := to(&page); err != nil {
		return err
	}
	return replaceFile(f.Report, page.Bytes())
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
	mode := os.FileMode(0o644)
	switch info, err := os.Stat(name); {
	case err != nil:
	case !info.Mode().IsRegular():
		return os.WriteFile(name, data, mode)
	default:
		mode = info.Mode().Perm()
	}
	part := fmt.Sprintf("%s.%d.part", name, os.Getpid())
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, name)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}
