package needs

import "testing"

// Unwatched marks a test that the race detector can see nothing in: one that computes in one goroutine, or in which
// other programs work. It would take ten times as long there, so "make race" leaves it out. "make test" runs it.
func Unwatched(t testing.TB) {
	t.Helper()
	if Watched {
		t.Skip("it runs without the race detector")
	}
}
