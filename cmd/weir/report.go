package main

import (
	"bytes"
	"fmt"
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
