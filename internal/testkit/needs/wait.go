package needs

import (
	"testing"
	"time"
)

// patience is how long a test waits for what must happen. It is long: a busy machine is no failure.
const patience = 2 * time.Minute

// Wait returns when the condition holds, which it tries every few milliseconds. Without it after two minutes the test
// fails, and says what it waited for. Prefer a channel where there is one.
func Wait(t testing.TB, what string, condition func() bool) {
	t.Helper()
	late := time.Now().Add(patience)
	for pause := time.Millisecond; !condition(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("waited in vain: " + what)
		}
		time.Sleep(pause)
	}
}
