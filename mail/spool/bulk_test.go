package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/mail/nexthop"
	"weir/store"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	m := store.Queued{Message: store.Message{User: "ann", Sender: "Ann@Example.org", Subject: "Cheap Watches", Received: start,
		Size: 1000}, To: []store.Addressee{{Address: "Bob@mail.Example.com", State: store.Held},
		{Address: "cleo@example.net", State: store.Ready}}}
	for _, c := range []struct {
		f    Filter
		want int // recipients
	}{
		{Filter{}, 2},
		{Filter{User: "ann", Sender: "ann@", Subject: "cheap w", Recipient: "BOB@"}, 1},
		{Filter{User: "an"}, 0},
		{Filter{Sender: "<>"}, 0},
		{Filter{Sender: "bob"}, 0},
		{Filter{Subject: "watches cheap"}, 0},
		{Filter{Domain: "mail.example.com"}, 1},
		{Filter{Domain: "example.com"}, 0},
		{Filter{Domain: ".example.com"}, 1},
		{Filter{Domain: ".mail.example.com"}, 1},
		{Filter{Domain: ".xample.com"}, 0},
		{Filter{State: store.Ready}, 1},
		{Filter{Since: start, Before: start.Add(1)}, 2},
		{Filter{Since: start.Add(1)}, 0},
		{Filter{Before: start}, 0},
		{Filter{Larger: 999, Smaller: 1001}, 2},
		{Filter{Larger: 1000}, 0},
		{Filter{Smaller: 1000}, 0},
	} {
		f := c.f.lowered()
		got := 0
		if f.matches(&m.Message) {
			got = countOf(m.To, f.addressee)
		}
		if got != c.want {
			t.Errorf("%+v matches %d, want %d", c.f, got, c.want)
		}
	}
	none := m.Message
	none.Sender = ""
	if f := (Filter{Sender: "<>"}); !f.matches(&none) {
		t.Error("<> does not find a message without a sender")
	}
}

// bulk does an act to its end, and returns how many messages and recipients, and in how many parts.
func (r *rig) bulk(b Bulk) (mails, n, parts int) {
	r.Helper()
	for {
		done, err := r.Bulk(context.Background(), r.now(), "op", b)
		r.must(err)
		mails, n, parts = mails+done.Mails, n+done.Recipients, parts+1
		if done.Next == 0 {
			return mails, n, parts
		}
		b.After, b.UpTo = done.Next, done.UpTo
	}
}

// What matches is released or deleted, recipient by recipient; the rest stays, and in its order.
func TestBulk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 6 {
		_, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org"}, fmt.Sprintf("r%d@example.net", i+1))
		r.must(err)
	}
	_, _, err := r.mail(&Envelope{User: "bob", Sender: "b"}, append(recipients("b", 15), // who are served at once
		"x@one.example", "y@two.example", "z@two.example")...)
	r.must(err)
	r.idle()
	before := r.states()
	if _, n, _ := r.bulk(Bulk{Filter: Filter{Domain: "two.example"}, Act: ActDelete, Dry: true}); n != 2 ||
		fmt.Sprint(r.states()) != fmt.Sprint(before) {
		t.Errorf("a rehearsal found %d, and left %v of %v", n, r.states(), before)
	}
	if mails, n, _ := r.bulk(Bulk{Filter: Filter{Domain: "two.example"}, Act: ActDelete}); mails != 1 || n != 2 {
		t.Errorf("deleted %d messages to %d", mails, n)
	}
	if mails, n, _ := r.bulk(Bulk{Filter: Filter{Recipient: "R4@"}, Act: ActRelease}); mails != 1 || n != 1 {
		t.Errorf("released %d messages to %d", mails, n)
	}
	if mails, _, _ := r.bulk(Bulk{Filter: Filter{Recipient: "r4@"}, Act: ActRelease}); mails != 0 {
		t.Errorf("released %d messages again", mails)
	}
	r.idle()
	if len(r.carrier.to("r4@example.net")) != 1 || len(r.carrier.to("r3@example.net")) != 0 {
		t.Error("not what was asked for was released")
	}
	r.pass(time.Hour) // the others leave by themselves, in order
	for to, want := range map[string]int{"x@one.example": 1, "y@two.example": 0, "z@two.example": 0, "r3@example.net": 1} {
		if got := len(r.carrier.to(to)); got != want {
			t.Errorf("%s got %d messages, want %d", to, got, want)
		}
	}
	if len(r.audit("deleted")) != 1 || len(r.audit("released")) != 1 {
		t.Errorf("audit log %v", r.audit(""))
	}
	steps := r.Trail(0, "R4@", 9)
	if len(steps) != 2 || steps[0].Result != "delivered" || steps[1].Result != "accepted" || steps[0].User != ann || steps[0].Mail == 0 {
		t.Errorf("the trail has %+v", steps)
	}
	if _, err := r.Bulk(t.Context(), r.now(), "op", Bulk{Act: "eat"}); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("an unknown act: %v", err)
	}
}

// fill puts held mail into the store.
func (r *rig) fill(n int) {
	r.Helper()
	for i := 0; i < n; {
		r.must(r.opts.Store.Update(context.Background(), func(tx store.MailTx) error {
			for range min(1000, n) {
				l := store.Message{ID: r.NewID(r.now()), Gate: gateName, User: fmt.Sprint("user", i%7), Sender: "spam@example.org",
					Subject: fmt.Sprint("offer ", i%10), Received: r.now(), Size: 4}
				if err := tx.PutMessage(l, store.Text{Inline: []byte("hi\r\n"), Size: 4}, []store.Addressee{{Number: 0,
					Address: fmt.Sprintf("r%d@d%d.example", i, i%10), State: store.Held}}); err != nil {
					return err
				}
				i++
			}
			return nil
		}))
		r.clock.Advance(time.Millisecond) // within one, the counter of ids may begin again
	}
}

// Very many held messages are acted on in parts, in little memory. What comes meanwhile is left alone.
func TestBulkOfVeryMany(t *testing.T) {
	needs.Unwatched(t)
	if testing.Short() {
		t.Skip("writes very many messages")
	}
	all := 20_000
	if needs.Long() {
		all = 100_000
	}
	r := newRig(t)
	r.fill(all)
	if found, next, err := r.Find(t.Context(), Filter{Subject: "OFFER 3", Domain: ".d3.example"}, 0, 50); err != nil ||
		len(found) != 50 || next == 0 {
		t.Errorf("found %d, next %s, %v", len(found), next, err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var peak uint64
	b := Bulk{Filter: Filter{Subject: "offer 3"}, Act: ActDelete}
	mails, parts := 0, 0
	for {
		done, err := r.Bulk(t.Context(), r.now(), "op", b)
		r.must(err)
		mails += done.Mails
		if parts++; parts == 1 {
			r.fill(1000) // 100 of them match
		}
		runtime.ReadMemStats(&after)
		peak = max(peak, after.HeapAlloc)
		if done.Next == 0 {
			break
		}
		b.After, b.UpTo = done.Next, done.UpTo
	}
	if mails != all/10 || parts < all/10/bulkMatches {
		t.Errorf("%d messages in %d parts, want %d", mails, parts, all/10)
	}
	if peak > before.HeapAlloc+64<<20 {
		t.Errorf("%d MB of memory for one of %d messages", (peak-before.HeapAlloc)>>20, all)
	}
	r.wantStates(map[store.State]int{store.Held: all - all/10 + 1000})
}

func TestBulkRetry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.carrier.answer = func(*nexthop.Job, nexthop.Recipient) nexthop.Result {
		return nexthop.Result{Outcome: nexthop.Later, Status: "4.2.0", Text: "not now"}
	}
	for _, to := range []string{"a@one.example", "b@two.example"} {
		_, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org"}, to)
		r.must(err)
	}
	r.idle()
	r.carrier.mu.Lock()
	r.carrier.answer = nil
	r.carrier.mu.Unlock()
	if mails, n, _ := r.bulk(Bulk{Filter: Filter{Domain: "one.example"}, Act: ActRetry}); mails != 1 || n != 1 {
		t.Errorf("tried %d messages to %d now", mails, n)
	}
	r.idle()
	if len(r.carrier.to("a@one.example")) != 1 || len(r.carrier.to("b@two.example")) != 0 {
		t.Error("not what was asked for was tried")
	}
	var results []string
	for _, s := range r.Trail(0, "one.example", 9) {
		results = append(results, s.Result)
	}
	if got := strings.Join(results, " "); got != "delivered deferred accepted" {
		t.Errorf("the trail is %q", got)
	}
	if mails, _, _ := r.bulk(Bulk{Act: ActRetry}); mails != 1 { // all of them
		t.Errorf("tried %d messages", mails)
	}
}

// TestTrail: a bounded number of steps is remembered, the last ones, in memory and in the file that another run reads.
// A message is found by each of its ids.
func TestTrail(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "trail")
	domains := false
	open := func() *delivery {
		d := newDelivery(newEnv(Options{Trail: path, Domains: func() bool { return domains }}.withDefaults()))
		d.openTrail()
		return d
	}
	d := open()
	for i := range 3*MaxTrail + 7 {
		d.note(MailStep{At: start, Mail: store.MailID(i + 1), Result: stepAccepted, ID: fmt.Sprintf("%d@laptop", i+1),
			Queue: fmt.Sprintf("Q%dZ", i+1)})
	}
	j := &job{message: store.Message{ID: 3*MaxTrail + 7, User: ann}, to: []store.Addressee{{Address: "Bob@example.net"}},
		results: []nexthop.Result{{Outcome: nexthop.Done, Code: 250, Status: "2.0.0", Text: "Ok: queued as 4cXr2w0Q9Mz1Vk",
			Server: "127.0.0.1:25"}}}
	d.note(j.ends(start)...)
	domains = true
	j.to[0].Address = "eve@example.net"
	d.note(j.ends(start)...)
	if len(d.trail.ring) != MaxTrail || len(d.trail.ids) > MaxTrail || d.Trail(2*MaxTrail+8, "", 9) != nil {
		t.Errorf("%d steps and %d ids are remembered", len(d.trail.ring), len(d.trail.ids))
	}
	for _, end := range []string{"", oldSuffix} {
		if b, err := os.ReadFile(path + end); err != nil || bytes.Count(b, []byte("\n")) > MaxTrail ||
			bytes.Contains(b, []byte("eve@")) {
			t.Errorf("%s: %d lines, %v", end, bytes.Count(b, []byte("\n")), err)
		}
	}
	if f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	} else if _, err = f.WriteString(`{"mail":"6GX`); err != nil || f.Close() != nil { // a crash
		t.Fatal(err)
	}
	d = open()
	for _, text := range []string{fmt.Sprintf("<%d@laptop>", j.message.ID), "4cXr2w0Q9Mz1Vk", fmt.Sprintf("Q%dZ", j.message.ID)} {
		got := d.Trail(0, text, 9)
		if len(got) != 3 || got[1].Address != "Bob@example.net" || got[1].ID != fmt.Sprintf("%d@laptop", j.message.ID) ||
			got[1].Hop != "127.0.0.1:25" || got[2].Result != stepAccepted {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if got := d.Trail(0, "bob@", 9); len(got) != 1 || got[0].Status != "250 2.0.0 Ok: queued as 4cXr2w0Q9Mz1Vk" {
		t.Errorf("%+v", got)
	}
}

// TestQueueID: what servers call a message.
func TestQueueID(t *testing.T) {
	for text, want := range map[string]string{
		"Ok: queued as 4cXr2w0Q9Mz1Vk": "4cXr2w0Q9Mz1Vk", "OK: queued as 6GXY1KS59WAG2": "6GXY1KS59WAG2",
		"OK id=1tXk2a-000000003Ab-1Wxy": "1tXk2a-000000003Ab-1Wxy", "5A2B7c9d012345 Message accepted for delivery": "5A2B7c9d012345",
		"Message accepted": "", "ok": "", "": "",
	} {
		if got := queueID(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
