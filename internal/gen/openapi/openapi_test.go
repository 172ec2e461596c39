package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestCurrent: the document is what the table of calls makes.
func TestCurrent(t *testing.T) {
	const root = "../../.."
	want, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, file))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not current (%v): run go generate ./console", file, err)
	}
	if again, err := generate(root); err != nil || !bytes.Equal(again, want) {
		t.Errorf("it is never the same: %v", err)
	}
}
