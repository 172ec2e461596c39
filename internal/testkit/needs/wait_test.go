package needs

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWait: it ends with the condition, and fails with what was waited for.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		Wait(t, "a second", func() bool { return time.Since(start) >= time.Second })
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
		l := &listener{TB: t}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Wait(l, "what never comes", func() bool { return false })
		}()
		<-ended
		if l.failed != "waited in vain: what never comes" {
			t.Errorf("it failed with %q", l.failed)
		}
	})
}
