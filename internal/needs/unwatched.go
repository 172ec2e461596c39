package needs

import (
	"os"
	"strings"
	"testing"
)

// Unwatched marks a test that the race detector can see nothing in: one that computes in one goroutine, or in which
// other programs work. It takes ten times as long under the detector.
//
// "make test" names a file by WEIR_TWICE. Then the test is left out of the run with the detector, and its name is added
// to that file: "make test" runs the tests that stand there again, without the detector. "make race" and "make long"
// leave nothing out.
func Unwatched(t testing.TB) {
	t.Helper()
	list := os.Getenv("WEIR_TWICE")
	if !Watched || list == "" {
		return
	}
	if err := leaveOut(list, t.Name()); err != nil {
		t.Fatal("nobody would run this test: ", err)
	}
	t.Skip("it runs without the race detector")
}

// leaveOut adds the name of a test to a list. A test within another one runs when that one does. Tests of several
// packages write at the same time: a line is one write to the end.
func leaveOut(list, name string) error {
	f, err := os.OpenFile(list, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	name, _, _ = strings.Cut(name, "/")
	if _, err := f.WriteString(name + "\n"); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
