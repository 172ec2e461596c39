package needs

import (
	"os"
	"testing"
)

// Unwatched marks a test that the race detector can see nothing in: one that computes in one goroutine, or in which
// other programs work. It takes ten times as long under the detector.
//
// "make test" runs the packages that have such tests twice, with the race detector and without it, and says so by
// WEIR_TWICE. Then the test is left out of the run with the detector. "make race" and "make long" leave nothing out.
func Unwatched(t testing.TB) {
	t.Helper()
	if Watched && os.Getenv("WEIR_TWICE") != "" {
		t.Skip("it runs without the race detector")
	}
}
