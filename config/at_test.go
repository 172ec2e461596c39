package config

import (
	"os"
	"path/filepath"
	"testing"

	"weir"
)

// TestAt: mistakes that are found later have their lines, if the file is still there.
func TestAt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := "http:\n- listen: 127.0.0.1:80\n  upstream:\n    servers: [https://a]\n    tls: {ca: /none}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all := []*weir.FieldError{{Path: "http[0].upstream.tls.ca", Msg: "cannot be read", Hint: "put it there"},
		{Path: "http[0].upstream.servers[0]", Msg: "cannot be looked up"}, {Msg: "the disk is full"},
		{Path: "nowhere", Msg: "strange"}}
	want := []string{file + ":5:15: cannot be read (put it there)", file + ":4:15: cannot be looked up",
		file + ": the disk is full", file + ": nowhere: strange"}
	for i, e := range At(file, all) {
		if e.Error() != want[i] {
			t.Errorf("%s, want %s", e, want[i])
		}
	}
	if got := At(file+"x", all[:1]); len(got) != 1 || got[0].Error() != file+"x: http[0].upstream.tls.ca: cannot be read (put it there)" {
		t.Error(got)
	}
}
