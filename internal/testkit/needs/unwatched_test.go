package needs

import "testing"

// TestUnwatched: a test is left out where the race detector watches it, and nowhere else.
func TestUnwatched(t *testing.T) {
	l := &listener{TB: t}
	runs, ended := false, make(chan struct{})
	go func() {
		defer close(ended)
		Unwatched(l)
		runs = true
	}()
	<-ended
	if runs == Watched || (l.skipped != "") != Watched || l.failed != "" {
		t.Errorf("watched %t: runs %t, skipped %q, failed %q", Watched, runs, l.skipped, l.failed)
	}
}
