package main

import (
	"bytes"
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
