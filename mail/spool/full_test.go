package spool

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/logs"
	"weir/internal/testkit/needs"
	"weir/mail/nexthop"
	"weir/store"
)

// logged counts what is logged.
type logged struct{ n atomic.Int64 }

func (l *logged) Write(b []byte) (int, error) { l.n.Add(1); return len(b), nil }

// A store that fails for long neither keeps the processor busy nor fills the log, and what waited for it goes on
// afterwards.
func TestFailingStoreIsLeftAlone(t *testing.T) {
	t.Parallel()
	var written logged
	r := newRig(t, func(r *rig) { r.opts.Log = slog.New(slog.NewTextHandler(&written, nil)) })
	broken := &breakable{Mail: r.store.Mail()}
	var tried atomic.Int64
	r.Spool.store = hooked{broken, func() { tried.Add(1) }}
	r.carrier.set(func(c *carrier) { c.after = func(context.Context, *nexthop.Job) { broken.fails.Store(true) } })
	_, _,
		err := r.mail(&Envelope{User: ann, Sender: "ann@example.org",
		To: []To{{Address: "later@example.net", Stamp: freshStamp(), After: start.Add(time.Second)}}})
	r.must(err)
	r.sent(ann, "a@example.net")
	r.idle()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.Run(ctx) })
	rest := func() { // until Run waits for the clock
		needs.Wait(t, "Run waits for the clock", func() bool { return r.clock.Pending() > 0 || tried.Load() >= 1000 })
	}
	const rounds = 20
	began := r.now()
	for range rounds {
		rest()
		r.wakeUp()
		r.clock.Advance(failPause)
	}
	rest()
	if n := tried.Load(); n > 10*(rounds+1) {
		t.Errorf("tried %d times in %d rounds", n, rounds)
	}
	if n, most := written.n.Load(), 4*int64(1+r.now().Sub(began)/logs.Every); n == 0 || n > most {
		t.Errorf("%d lines, want up to %d", n, most)
	}
	r.carrier.set(func(c *carrier) { c.after = nil })
	broken.fails.Store(false)
	needs.Wait(t, "all is delivered", func() bool {
		r.clock.Advance(failPause)
		return len(r.states()) == 0
	})
	cancel()
	wg.Wait()
	r.wantDelivered(2)
	if len(r.audit("ambiguous")) != 0 {
		t.Errorf("ambiguous: %v", r.audit(""))
	}
}

// nearlyFull is a store that has so much space for new mail.
type nearlyFull struct {
	store.Mail
	space  atomic.Int64
	inside atomic.Int64
	looked atomic.Int64
}

func (n *nearlyFull) Space() (disk, inside int64) {
	n.looked.Add(1)
	return n.space.Load(), n.inside.Load()
}

// Short mail goes where the store has space inside. Long mail, in a file, needs the disk, and takes it whole.
func TestRoomInside(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	kept := &nearlyFull{Mail: r.store.Mail()}
	r.Spool.store = kept
	writes := func(bytes int, full bool) {
		t.Helper()
		r.clock.Advance(lookEvery)
		text := r.Stage()
		defer text.Discard()
		var err error
		for err == nil && bytes > 0 {
			_, err = text.Write(make([]byte, min(bytes, 1000)))
			bytes -= 1000
		}
		if (err != nil) != full || err != nil && !errors.Is(err, store.ErrFull) {
			t.Errorf("%d bytes with %d on the disk and %d inside: %v", text.Size(), kept.space.Load(),
				kept.inside.Load(), err)
		}
	}
	kept.space.Store(-1)
	writes(1, true)
	if err := r.Full(); !errors.Is(err, store.ErrFull) {
		t.Error(err)
	}
	kept.inside.Store(2 * store.MaxInline)
	writes(store.MaxInline, false)
	writes(store.MaxInline+1, true)
	if err := r.Full(); err != nil {
		t.Error(err)
	}
	kept.space.Store(store.MaxInline)
	writes(store.MaxInline+1, true)
	kept.space.Store(store.MaxInline + 1)
	writes(store.MaxInline+1, false)
	kept.inside.Store(0)
	writes(store.MaxInline+1, true) // first as a short one, and then whole
	kept.space.Store(3 * store.MaxInline)
	writes(store.MaxInline+1, false)
}

// New mail leaves space for what becomes of the mail that is there.
func TestNoRoomForNewMail(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.carrier.set(func(c *carrier) {
		c.answer = func(j *nexthop.Job, to nexthop.Recipient) nexthop.Result {
			if j.Sender == "" {
				return nexthop.Result{}
			}
			return nexthop.Result{Outcome: nexthop.Later, Status: "4.4.1", Text: "no answer"}
		}
	})
	kept := &nearlyFull{Mail: r.store.Mail()}
	kept.space.Store(100) // for three
	r.Spool.store = kept
	taken := 0
	for range 10 {
		text := r.Stage()
		_, err := text.Write(make([]byte, 30))
		text.Discard()
		if err == nil {
			taken++
		} else if !errors.Is(err, store.ErrFull) {
			t.Error(err)
		}
	}
	if taken != 3 || kept.looked.Load() != 1 {
		t.Errorf("%d were taken, and the store was asked %d times", taken, kept.looked.Load())
	}
	r.clock.Advance(lookEvery)
	r.sent(ann, "a@internal.example")
	r.idle()
	kept.space.Store(-1)
	r.clock.Advance(lookEvery)
	text := r.Stage()
	if _, err := text.Write([]byte("x")); !errors.Is(err, store.ErrFull) {
		t.Errorf("a mail without room: %v", err)
	}
	text.Discard()
	r.carrier.set(func(c *carrier) { c.answer = answers(nexthop.Failed, 550, "5.1.1", "no") })
	r.pass(time.Minute) // its end, and the bounce, find space
	r.wantStates(nil)
	r.clock.Advance(lookEvery)
	kept.space.Store(1000)
	r.carrier.set(func(c *carrier) { c.answer = nil })
	r.sent(ann, "b@internal.example")
	r.idle()
	r.wantDelivered(1)
}

// A disk that is full keeps no weir from starting. What the last one has left is taken over when there is space.
func TestStartWithoutRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id, _,
		err := r.mail(&Envelope{User: ann, Sender: "ann@example.org",
		To: []To{{Address: "a@example.net", After: start.Add(time.Hour)}}})
	r.must(err)
	q, err := r.Show(t.Context(), id)
	r.must(err)
	q.To[0].State, q.To[0].Owner = store.Sending, "another"
	r.must(r.update(t.Context(), func(tx store.MailTx) error { return tx.PutAddressees(q.To[0]) }))
	full := &breakable{Mail: r.store.Mail(), why: store.ErrFull}
	full.fails.Store(true)
	r.opts.Store = full
	second, err := New(r.opts)
	r.must(err)
	t.Cleanup(func() { second.Stop(context.Background()) })
	r.must(second.Configure([]Gate{r.gate}))
	r.must(second.Start(t.Context()))
	r.wantStates(map[store.State]int{store.Sending: 1})
	if _, err := second.RunDue(t.Context(), r.now()); !errors.Is(err, store.ErrFull) {
		t.Errorf("what is due: %v", err)
	}
	full.fails.Store(false)
	if _, err := second.RunDue(t.Context(), r.now()); err != nil {
		t.Error(err)
	}
	r.must(second.Idle(t.Context()))
	r.wantStates(nil)
	r.wantDelivered(1)
	if n := r.seen.get(&r.seen.ambiguous); n != 1 || len(r.audit("ambiguous")) != 1 {
		t.Errorf("%d ambiguous: %v", n, r.audit(""))
	}
	full.fails.Store(true)
	full.why = errBroken
	third, err := New(r.opts)
	r.must(err)
	r.must(third.Configure([]Gate{r.gate}))
	r.must(third.Start(t.Context())) // nothing to take over, nothing to write
	r.must(third.Stop(t.Context()))
}
