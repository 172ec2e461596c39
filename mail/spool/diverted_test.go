package spool

import (
	"errors"
	"testing"
	"time"

	"weir"
	"weir/store"
	"weir/throttle/reach"
)

// TestDivertedMailOfTheStopped: what another server took before the user was stopped is held where they see it, and is
// gone when they have deleted it. Nothing is left with the other server, which would send it when they may send again.
func TestDivertedMailOfTheStopped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent(ann, recipients("r", 40)...)
	r.idle()
	late := func(to ...string) (Receipt, error) {
		_, got, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org", Diverted: true}, to...)
		return got, err
	}
	if _, err := r.send(ann, "x@example.net"); !errors.Is(err, ErrStopped) {
		t.Errorf("what nobody has taken yet: %v", err)
	}
	if got, err := late("x@example.net"); err != nil || got != (Receipt{Held: 1}) {
		t.Errorf("to one: %+v, %v", got, err)
	}
	if got, err := late("y@example.net", "Y@example.net", "z@example.net", "x@internal.example"); err != nil ||
		got != (Receipt{Held: 3, Passed: 1}) {
		t.Errorf("to several, one of whom he reaches: %+v, %v", got, err)
	}
	if _, got, err := r.mail(&Envelope{User: ann, Diverted: true}, "null@example.net"); err != nil || got.Held != 1 {
		t.Errorf("without a sender: %+v, %v", got, err)
	}
	r.idle()
	r.wantStates(map[store.State]int{store.Held: 25 + 1 + 3 + 1})
	r.wantDelivered(15 + 1)
	if n := len(r.audit("stopped")); n != 1 {
		t.Errorf("he was stopped %d times", n)
	}
	if n, err := r.Delete(t.Context(), r.now(), ann, ann, Selection{All: true}); err != nil || n != 30 {
		t.Errorf("%d deleted, %v", n, err)
	}
	r.must(r.ResumeUser(t.Context(), r.now(), ann, ann, false))
	r.pass(24 * time.Hour)
	r.idle()
	r.wantStates(map[store.State]int{})
	r.wantDelivered(15 + 1)
}

// TestDivertedMailStaysWithTheRest: it is held and released with the other mail of the user; in shadow nothing is held.
func TestDivertedMailStaysWithTheRest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sent(ann, recipients("r", 40)...)
	_, got, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org", Diverted: true}, "late@example.net")
	if err != nil || got.Held != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	r.idle()
	r.again("second")
	r.must(r.ResumeUser(t.Context(), r.now(), "root", ann, false))
	r.wantHeld(26)
	if n, err := r.Release(t.Context(), r.now(), "root", ann, Selection{All: true}); n != 26 || err != nil {
		t.Errorf("released %d, %v", n, err)
	}
	r.idle()
	r.wantDelivered(41)
	r.must(r.StopUser(t.Context(), r.now(), "root", ann, ""))
	r.shadow = true
	if _, got, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org", Diverted: true},
		"shadow@example.net"); err != nil || got.Held != 0 {
		t.Errorf("in shadow: %+v, %v", got, err)
	}
}

// TestDivertedMailOfTheStoppedAndFlagged: a limit of reach does not leave it with the other server either.
func TestDivertedMailOfTheStoppedAndFlagged(t *testing.T) {
	t.Parallel()
	r := reachRig(t, reach.Options{Over: reach.Limit, Limit: weir.Rate{Count: 1, Per: time.Hour}})
	r.sent(ann, recipients("a", 6)...)
	divert := func() (Receipt, error) {
		_, got, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org", Diverted: true}, "late@example.net")
		return got, err
	}
	if _, err := divert(); !errors.Is(err, ErrFlaggedLimit) {
		t.Errorf("flagged: %v", err)
	}
	// Somebody lets the user send again while the mail comes in: then there is nothing to hold it with.
	r.Spool.stopped.set(throttleUser{"outgoing", ann}, true)
	if got, err := divert(); !errors.Is(err, ErrFlaggedLimit) {
		t.Errorf("flagged, and not stopped any more: %+v, %v", got, err)
	}
	r.must(r.StopUser(t.Context(), r.now(), "root", ann, ""))
	if got, err := divert(); err != nil || got.Held != 1 || got.Passed != 0 {
		t.Errorf("flagged and stopped: %+v, %v", got, err)
	}
}
