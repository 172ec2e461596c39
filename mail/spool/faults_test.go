package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"weir/store"
	"weir/throttle/outbreak"
	"weir/throttle/reach"
)

var errBroken = errors.New("the disk is on fire")

// breakable is a store that fails on demand: a fault that cannot be made otherwise.
type breakable struct {
	store.Mail
	fails atomic.Bool
	why   error // nil: errBroken
}

func (b *breakable) Update(ctx context.Context, f func(store.MailTx) error) error {
	if b.fails.Load() {
		return cmp.Or(b.why, errBroken)
	}
	return b.Mail.Update(ctx, f)
}

// flaky is a store of which one call fails.
type flaky struct {
	store.Mail
	left      atomic.Int64 // calls before that one
	committed atomic.Bool  // a transaction
	late      atomic.Bool  // the call that failed came after it: what was asked for is done
}

func (s *flaky) Update(ctx context.Context, f func(store.MailTx) error) error {
	err := s.Mail.Update(ctx, func(tx store.MailTx) error { return f(flakyTx{tx, s}) })
	if err == nil {
		s.committed.Store(true)
	}
	return err
}

func (s *flaky) View(ctx context.Context, f func(store.MailTx) error) error {
	return s.Mail.View(ctx, func(tx store.MailTx) error { return f(flakyTx{tx, s}) })
}

// flakyTx counts the calls that most of the spool is made of.
type flakyTx struct {
	store.MailTx
	s *flaky
}

func one[T any](s *flaky, call func() (T, error)) (result T, err error) {
	if s.left.Add(-1) == -1 {
		s.late.Store(s.committed.Load())
		return result, errBroken
	}
	return call()
}

func none(s *flaky, call func() error) error {
	_, err := one(s, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func (t flakyTx) User(name string) (store.User, error) {
	return one(t.s, func() (store.User, error) { return t.MailTx.User(name) })
}
func (t flakyTx) Remembered(throttle, user string) (store.Memory, error) {
	return one(t.s, func() (store.Memory, error) { return t.MailTx.Remembered(throttle, user) })
}
func (t flakyTx) Sketch(throttle, user string) (store.Sketch, error) {
	return one(t.s, func() (store.Sketch, error) { return t.MailTx.Sketch(throttle, user) })
}
func (t flakyTx) Known(throttle, user string) ([]byte, error) {
	return one(t.s, func() ([]byte, error) { return t.MailTx.Known(throttle, user) })
}
func (t flakyTx) Message(id store.MailID) (store.Message, error) {
	return one(t.s, func() (store.Message, error) { return t.MailTx.Message(id) })
}
func (t flakyTx) Addressees(id store.MailID) ([]store.Addressee, error) {
	return one(t.s, func() ([]store.Addressee, error) { return t.MailTx.Addressees(id) })
}
func (t flakyTx) Messages(q store.MessageQuery, limit int) ([]store.Queued, error) {
	return one(t.s, func() ([]store.Queued, error) { return t.MailTx.Messages(q, limit) })
}
func (t flakyTx) Ready(now time.Time, pooled bool, limit int) ([]store.Addressee, error) {
	return one(t.s, func() ([]store.Addressee, error) { return t.MailTx.Ready(now, pooled, limit) })
}
func (t flakyTx) Remember(m store.Memory) error {
	return none(t.s, func() error { return t.MailTx.Remember(m) })
}
func (t flakyTx) PutSketch(k store.Sketch) error {
	return none(t.s, func() error { return t.MailTx.PutSketch(k) })
}
func (t flakyTx) PutMessage(l store.Message, text store.Text, to []store.Addressee) error {
	return none(t.s, func() error { return t.MailTx.PutMessage(l, text, to) })
}
func (t flakyTx) PutAddressees(all ...store.Addressee) error {
	return none(t.s, func() error { return t.MailTx.PutAddressees(all...) })
}
func (t flakyTx) RemoveAddressees(id store.MailID, numbers ...int) error {
	return none(t.s, func() error { return t.MailTx.RemoveAddressees(id, numbers...) })
}
func (t flakyTx) PutTicket(k store.Ticket) error {
	return none(t.s, func() error { return t.MailTx.PutTicket(k) })
}
func (t flakyTx) Memories(user string, limit int) ([]store.Memory, error) {
	return one(t.s, func() ([]store.Memory, error) { return t.MailTx.Memories(user, limit) })
}
func (t flakyTx) PutUser(u store.User) error {
	return none(t.s, func() error { return t.MailTx.PutUser(u) })
}
func (t flakyTx) PutKnown(throttle, user string, known []byte) error {
	return none(t.s, func() error { return t.MailTx.PutKnown(throttle, user, known) })
}
func (t flakyTx) Log(e store.Entry) error {
	return none(t.s, func() error { return t.MailTx.Log(e) })
}

// fullLog is an audit log that takes two entries.
type fullLog struct {
	store.MailTx
	texts []string
}

func (l *fullLog) Log(e store.Entry) error {
	if l.texts = append(l.texts, e.Text); len(l.texts) > 2 {
		return errBroken
	}
	return nil
}

// TestAllIsLogged: every entry, and whoever asked is told when one cannot be.
func TestAllIsLogged(t *testing.T) {
	entries := []store.Entry{{Text: "a"}, {Text: "b"}, {Text: "c"}, {Text: "d"}}
	for n, want := range []string{"[] <nil>", "[a] <nil>", "[a b] <nil>", fmt.Sprint("[a b c] ", errBroken),
		fmt.Sprint("[a b c] ", errBroken)} {
		l := new(fullLog)
		err := logAll(l, entries[:n])
		if got := fmt.Sprint(l.texts, " ", err); got != want {
			t.Errorf("%d entries: %s, want %s", n, got, want)
		}
	}
}

// TestNoErrorIsLost: whichever call of the store fails, whoever asked is told, and nothing has changed: asked once
// more, all is done.
func TestNoErrorIsLost(t *testing.T) {
	t.Parallel()
	r := reachRig(t, reach.Options{Over: reach.KnownOnly, Threshold: reach.Threshold{Count: 1000}},
		func(r *rig) { r.gate.Mail = &outbreak.Options{} })
	id, receipt, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org"}, recipients("a", 18)...)
	if r.must(err); receipt.Delayed == 0 {
		t.Fatalf("%+v", receipt)
	}
	leased, _, err := r.mail(&Envelope{User: "bea@example.org", Sender: "bea@example.org",
		To: []To{{Address: "c@example.net", After: start.Add(time.Hour)}}})
	r.must(err)
	r.idle()
	failing := &flaky{Mail: r.store.Mail()}
	r.Spool.store = failing
	ctx, ids := t.Context(), []store.MailID{id}
	decide := func(commit bool) error {
		_, err := r.Decide(ctx, r.now(), gateName, ann, "ann@example.org", []string{"b@example.net", "a1@example.net"},
			commit, true)
		return err
	}
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"take over", func() error {
			r.tookOver.Store(false)
			return r.takeOver(ctx, r.now())
		}},
		{"look", func() error { return decide(false) }},
		{"decide", func() error { return decide(true) }},
		{"accept", func() error { _, err := r.send(ann, "a1@example.net"); return err }},
		{"stop", func() error { return r.StopUser(ctx, r.now(), "op", ann, "") }},
		{"bounce to", func() error {
			_, err := r.bounceTo(&r.gate, &store.Message{User: ann, Sender: victim}, 1, false, r.now())
			return err
		}},
		{"hand", func() error { return r.handDue(ctx, r.now()) }},
		{"hand what another left", func() error {
			r.must(r.store.Mail().Update(ctx, func(tx store.MailTx) error {
				rows, err := tx.Addressees(leased)
				if err != nil {
					return err
				}
				rows[0].State, rows[0].Owner, rows[0].Due = store.Sending, "first", r.now()
				return tx.PutAddressees(rows...)
			}))
			return r.handDue(ctx, r.now())
		}},
		{"resume", func() error { return r.ResumeUser(ctx, r.now(), "op", ann, false) }},
		{"delete", func() error { _, err := r.DeleteMails(ctx, r.now(), "op", ids); return err }},
	} {
		r.eachCallFails(failing, c.name, c.do)
	}
}

// eachCallFails does it until no call of the store fails any more: at first the first one does, then the second, and
// so on.
func (r *rig) eachCallFails(failing *flaky, name string, do func() error) {
	r.Helper()
	for calls := int64(0); ; calls++ {
		failing.left.Store(1 << 40)
		r.idle() // else the calls of workers are counted, too
		failing.left.Store(calls)
		failing.committed.Store(false)
		failing.late.Store(false)
		err := do()
		if failing.left.Load() >= 0 { // all of them went well
			if err != nil || calls == 0 {
				r.Errorf("%s: %v after %d calls", name, err, calls)
			}
			return
		}
		if !errors.Is(err, errBroken) && !failing.late.Load() {
			r.Errorf("%s: call %d fails, and whoever asked is told %v", name, calls+1, err)
		}
		if calls > 1000 {
			r.Fatalf("%s does not end", name)
		}
	}
}
