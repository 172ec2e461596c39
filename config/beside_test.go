package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestFilesAreBesideTheConfiguration: a relative path starts from the folder of the configuration, whichever key it is
// of, and a whole path stays.
func TestFilesAreBesideTheConfiguration(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "weir.yaml")
	text, err := os.ReadFile("testdata/files.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	texts(reflect.ValueOf(*c), "", func(at, text string) {
		switch {
		case strings.Contains(text, "whole"):
			if text != "/whole" {
				t.Errorf("%s: %s", at, text)
			}
		case strings.Contains(text, "beside"):
			seen++
			if filepath.Dir(text) != filepath.Join(folder, "beside") {
				t.Errorf("%s: %s", at, text)
			}
		}
	})
	if want := strings.Count(string(text), "beside/"); seen != want || want < 20 {
		t.Errorf("%d paths are read, and %d are written", seen, want)
	}
}
