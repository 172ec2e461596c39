package spool

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"weir/store"
	"weir/throttle/outbreak"
)

func someMemory() *memory {
	m := &memory{told: start, shadow: true}
	p, _ := (&outbreak.Options{}).Params("", "")
	m.state.Submit(&p, start, 7, []uint64{1, 2, 3}, nil, make([]outbreak.Fate, 3))
	m.state.Stop(start)
	return m
}

func FuzzMemory(f *testing.F) {
	for _, m := range []*memory{{}, {told: start}, {shadow: true, wouldStop: true}, someMemory()} {
		b, err := m.append(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{})
	f.Add([]byte{2, 0, 0})
	f.Add([]byte{1, 0xFF, 0})
	f.Add([]byte{1, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := memory{told: start}
		if err := m.read(b); err != nil {
			if !errors.Is(err, store.ErrCorrupt) && !errors.Is(err, store.ErrNewer) {
				t.Fatalf("%v", err)
			}
			if !m.told.Equal(start) || m.shadow {
				t.Fatal("half of it was read")
			}
			return
		}
		again, err := m.append(nil)
		if err != nil {
			t.Fatal(err)
		}
		var other memory
		if err := other.read(again); err != nil {
			t.Fatalf("%x became %x: %v", b, again, err)
		}
		third, _ := other.append(nil)
		if !bytes.Equal(again, third) {
			t.Fatalf("%x became %x", again, third)
		}
	})
}

// What is damaged does not keep a user from sending, and what waits is held for a review.
func TestDamagedMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, to := range recipients("r", 3) {
		r.sent(ann, to)
	}
	r.idle()
	damage := func(b []byte) {
		r.must(r.store.Mail().Update(t.Context(), func(tx store.MailTx) error {
			return tx.Remember(store.Memory{Throttle: "outgoing", User: ann, State: b, Due: r.now()})
		}))
	}
	damage([]byte("nonsense"[:1]))
	if standing, err := r.Standing(t.Context(), r.now(), ann); err != nil || standing[0].Problem == "" {
		t.Errorf("standing %+v, %v", standing, err)
	}
	r.run()
	r.wantStates(map[store.State]int{store.Held: 2})
	if len(r.audit("damaged")) != 1 {
		t.Errorf("audit log %v", r.audit(""))
	}
	if receipt := r.sent(ann, "x@example.net"); receipt.Passed != 1 {
		t.Errorf("receipt %+v", receipt)
	}
	// A newer version is left alone.
	damage([]byte{memoryVersion + 1, 0, 0})
	if _, err := r.send(ann, "y@example.net"); !errors.Is(err, store.ErrNewer) {
		t.Errorf("a newer one: %v", err)
	}
	r.idle() // or what is being delivered would be looked at earlier
	next, err := r.RunDue(t.Context(), r.now())
	if r.must(err); next.Before(r.now().Add(lostPause)) {
		t.Errorf("looked at again at %s", next)
	}
}

// TestDamagedMemoryOfASender: the same where the next mail of the user finds it.
func TestDamagedMemoryOfASender(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, to := range recipients("r", 3) {
		r.sent(ann, to)
	}
	r.idle()
	r.must(r.store.Mail().Update(t.Context(), func(tx store.MailTx) error {
		return tx.Remember(store.Memory{Throttle: "outgoing", User: ann, State: []byte("n"),
			Due: r.now().Add(time.Hour)})
	}))
	if receipt := r.sent(ann, "x@example.net"); receipt.Passed != 1 {
		t.Errorf("receipt %+v", receipt)
	}
	r.idle()
	r.wantStates(map[store.State]int{store.Held: 2})
}

func TestHasher(t *testing.T) {
	t.Parallel()
	a, b := newHasher(secret), newHasher([]byte("another secret, as long"))
	if x := a.key("x@example.net"); x != newHasher(secret).key("x@example.net") || x == a.key("y@example.net") ||
		x == b.key("x@example.net") {
		t.Error("no keyed hash")
	}
}

func TestNormal(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"Ann@Example.org": "ann@example.org", `"ann"@example.org`: "ann@example.org",
		"ann+x@example.org": "ann+x@example.org",
		"no address":        "no address", "Ünïcode@exämple.org": "ünïcode@exämple.org", "a@b@c": "a@b@c",
		`"a b"@example.org`: "a b@example.org",
	} {
		if got := normal(address); got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
}

func TestWants(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		notify, what string
		want         bool
	}{
		{"", "FAILURE", true}, {"", "DELAY", true}, {"", "SUCCESS", false}, {"NEVER", "FAILURE", false},
		{"success, failure", "FAILURE", true}, {"SUCCESS", "DELAY", false},
	} {
		if got := wants(c.notify, c.what); got != c.want {
			t.Errorf("%q wants %s: %v", c.notify, c.what, got)
		}
	}
	if got := span(5 * 24 * time.Hour); got != "5 days" {
		t.Error(got)
	}
}
