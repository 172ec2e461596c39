package needs

import "testing"

// TestUnwatched: a test is left out where the race detector watches it and it runs a second time, and nowhere else.
func TestUnwatched(t *testing.T) {
	for _, twice := range []string{"", "1"} {
		t.Setenv("WEIR_TWICE", twice)
		l := &listener{TB: t}
		runs, ended := false, make(chan struct{})
		go func() {
			defer close(ended)
			Unwatched(l)
			runs = true
		}()
		<-ended
		if want := !Watched || twice == ""; runs != want || (l.skipped == "") != want {
			t.Errorf("WEIR_TWICE=%q, watched %t: runs %t, skipped %q", twice, Watched, runs, l.skipped)
		}
	}
}
