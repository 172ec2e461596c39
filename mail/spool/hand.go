package spool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/store"
)

// handDue hands everything to the workers that is due and fits, and sees to mail whose lease is over.
func (s *Spool) handDue(ctx context.Context, now time.Time) error {
	s.under.add()
	defer s.under.done()
	ctx = context.WithoutCancel(ctx) // it is done for others too
	err := s.dispatch.do(now, func(now time.Time) error {
		for more := true; more && s.halt.Err() == nil; {
			b := batch{s: s, now: now, all: s.gates.Load()}
			if err := s.update(ctx, b.pick); err != nil {
				b.giveBack()
				return err
			}
			b.hand()
			more = b.more
		}
		return nil
	})
	if err != nil {
		s.complain(&s.failing.hands, "mail that is due cannot be handed over yet", "error", err)
		s.expect(s.clock.Now().Add(soon))
	}
	return err
}

// A batch is what is handed over in one transaction.
type batch struct {
	s         *Spool
	now       time.Time
	all       *gates
	jobs      []*job
	starved   map[*gateway]bool
	lost      map[string]int // mails of gates that are gone
	ambiguous map[string]int // recipients
	more      bool
}

// giveBack gives the places back that the workers do not get anything for.
func (b *batch) giveBack() {
	for _, j := range b.jobs {
		j.gate.unreserve()
	}
	b.jobs = nil
}

// pick finds what is due. It may be run again.
func (b *batch) pick(tx store.MailTx) error {
	b.giveBack()
	b.starved, b.lost, b.ambiguous, b.more = map[*gateway]bool{}, map[string]int{}, map[string]int{}, false
	due, err := tx.Ready(b.now, false, handBatch)
	if err != nil {
		return err
	}
	seen := map[store.MailID]bool{}
	changed := 0
	for i := range due {
		id := due[i].Mail
		if seen[id] {
			continue
		}
		seen[id] = true
		n, err := b.mail(tx, id)
		if err != nil {
			return err
		}
		changed += n
	}
	b.more = len(due) == handBatch && changed > 0
	return nil
}

// mail sees to one mail, and returns how many of its addressees are not due any more.
func (b *batch) mail(tx store.MailTx, id store.MailID) (changed int, err error) {
	l, err := tx.Letter(id)
	if err != nil {
		return 0, err
	}
	rows, err := tx.Addressees(id)
	if err != nil {
		return 0, err
	}
	var ready, put []store.Addressee
	var end ending
	way := b.all.way(l.Gate)
	for _, a := range rows {
		switch {
		case a.State != store.Ready && a.State != store.Sending || a.Due.After(b.now):
		case a.Owner == b.s.opts.Owner && b.s.flight.has(&a): // somebody has it, and it takes long
			if a.State == store.Sending {
				a.Due = b.now.Add(lease)
			} else {
				a.Due = b.now.Add(handOver)
			}
			put = append(put, a)
		case a.State == store.Sending:
			end.doubt(b.policy(way), &l, &a, b.now, "its lease is over")
		default:
			ready = append(ready, a)
		}
	}
	if end.ambiguous > 0 {
		b.ambiguous[l.Gate] += end.ambiguous
		put = append(put, end.put...)
		for _, e := range end.entries {
			if err := tx.Log(e); err != nil {
				return 0, err
			}
		}
	}
	put = append(put, b.place(way, &l, ready)...)
	for i := range put {
		if err := tx.PutAddressees(put[i]); err != nil {
			return 0, err
		}
	}
	return len(put), nil
}

// place reserves a place for a mail, and returns its addressees as they are to be stored: none where it has to wait.
func (b *batch) place(way *gateway, l *store.Letter, ready []store.Addressee) []store.Addressee {
	if len(ready) == 0 {
		return nil
	}
	due, owner := b.now.Add(handOver), b.s.opts.Owner
	switch {
	case way == nil:
		b.lost[l.Gate]++
		due, owner = b.now.Add(gonePause), ""
	case way.reserve():
		b.jobs = append(b.jobs, &job{gate: way, letter: *l, to: ready})
	default:
		b.starved[way] = true
		if b.allFull() {
			return nil
		}
		due, owner = b.now.Add(fullPause), "" // or others would not be found behind it
	}
	for i := range ready {
		ready[i].Due, ready[i].Owner = due, owner
	}
	return ready
}

func (b *batch) allFull() bool {
	for _, way := range b.all.list {
		if !way.full() {
			return false
		}
	}
	return true
}

// policy is how a gate is configured; one that is gone sends again.
func (b *batch) policy(way *gateway) *Gate {
	if way == nil {
		g := Gate{}.withDefaults()
		return &g
	}
	return way.conf.Load()
}

// hand hands over what was picked.
func (b *batch) hand() {
	for _, j := range b.jobs {
		b.s.hand(j)
	}
	for way := range b.starved {
		b.s.starve(way)
	}
	for gate, n := range b.lost {
		b.s.log.Warn("mail waits for a gate that is gone", "gate", gate, "mails", n)
	}
	for gate, n := range b.ambiguous {
		b.s.tell.Ambiguous(gate, n)
		b.s.log.Warn("nobody knows whether mail was delivered", "gate", gate, "recipients", n)
	}
}

// takeOver takes over what another run of the process has left, once: what it was sending is ambiguous, and what it had
// handed to its workers is free again. Where that fails it is done by RunDue; until then leases and hand-overs end by
// themselves.
func (s *Spool) takeOver(ctx context.Context, now time.Time) error {
	if s.heir.Load() {
		return nil
	}
	sending, err := s.takeAll(ctx, now, store.Sending)
	for gate, n := range sending {
		s.tell.Ambiguous(gate, n)
	}
	var ready map[string]int
	if err == nil {
		ready, err = s.takeAll(ctx, now, store.Ready)
	}
	if len(sending)+len(ready) > 0 {
		s.log.Warn("the last run was not stopped in order", "recipients_ambiguous", total(sending), "recipients_again",
			total(ready))
	}
	if err != nil {
		s.complain(&s.failing.takes, "what the last run has left cannot be taken over yet", "error", err)
		return err
	}
	s.heir.Store(true)
	return nil
}

// learnPooled learns whether something waits in the pool.
func (s *Spool) learnPooled(ctx context.Context) error {
	return s.store.View(ctx, func(tx store.MailTx) error {
		_, states, err := tx.Count()
		s.pooled.Store(states[store.Pooled] > 0)
		return err
	})
}

func total(of map[string]int) (n int) {
	for _, k := range of {
		n += k
	}
	return n
}

// takeAll takes over addressees in a state, and returns how many at which gate.
func (s *Spool) takeAll(ctx context.Context, now time.Time, state store.State) (taken map[string]int, err error) {
	left := func(q *store.Queued) bool {
		return slices.ContainsFunc(q.To, func(a store.Addressee) bool { return s.left(state, &a) })
	}
	return s.each(ctx, store.LetterQuery{State: state}, left,
		func(tx store.MailTx, l *store.Letter, to []store.Addressee) (int, error) {
			return s.takeOne(tx, now, state, l, to)
		})
}

// left reports whether an addressee in a state is one that another run has left.
func (s *Spool) left(state store.State, a *store.Addressee) bool {
	return a.State == state && a.Owner != s.opts.Owner && (a.Owner != "" || state != store.Ready)
}

// each does something to all mails that match, some at a time, with those whom they still have to reach. It returns the
// sums by gate of what is returned for each, also with an error.
func (s *Spool) each(ctx context.Context, q store.LetterQuery, match func(*store.Queued) bool,
	do func(store.MailTx, *store.Letter, []store.Addressee) (int, error)) (map[string]int, error) {
	const page = 500
	sums := map[string]int{}
	for {
		var found []store.Queued
		err := s.store.View(ctx, func(tx store.MailTx) (err error) {
			found, err = tx.Letters(q, page)
			return err
		})
		if err != nil || len(found) == 0 {
			return sums, err
		}
		q.After = found[len(found)-1].ID
		found = slices.DeleteFunc(found, func(q store.Queued) bool { return !match(&q) })
		if len(found) == 0 {
			continue
		}
		var done map[string]int
		err = s.update(ctx, func(tx store.MailTx) error {
			done = map[string]int{}
			for i := range found {
				to, err := tx.Addressees(found[i].ID) // others go on meanwhile
				if err != nil {
					return err
				}
				k, err := do(tx, &found[i].Letter, to)
				if err != nil {
					return err
				}
				if k > 0 {
					done[found[i].Gate] += k
				}
			}
			return nil
		})
		if err != nil {
			return sums, err
		}
		for gate, n := range done {
			sums[gate] += n
		}
	}
}

func (s *Spool) takeOne(tx store.MailTx, now time.Time, state store.State, l *store.Letter,
	to []store.Addressee) (taken int, err error) {
	b, way := batch{s: s}, s.gates.Load().way(l.Gate)
	var end ending
	for _, a := range to {
		switch {
		case !s.left(state, &a):
			continue
		case state == store.Ready:
			a.Owner, a.Due = "", now
			end.put = append(end.put, a)
		default:
			end.doubt(b.policy(way), l, &a, now, "weir ended while it was sent")
		}
		taken++
	}
	for i := range end.put {
		if state == store.Sending && end.put[i].State == store.Ready {
			end.put[i].Due = now // the next server has done nothing wrong
		}
		if err := tx.PutAddressees(end.put[i]); err != nil {
			return 0, err
		}
	}
	for _, e := range end.entries {
		if err := tx.Log(e); err != nil {
			return 0, err
		}
	}
	return taken, nil
}

var errNoGate = errors.New("spool: there is no gate yet")

// firstGate is the gate in whose name something is told that concerns no other.
func (s *Spool) firstGate() (*Gate, error) {
	all := s.gates.Load()
	if len(all.list) == 0 {
		return nil, fmt.Errorf("%w", errNoGate)
	}
	return all.list[0].conf.Load(), nil
}
