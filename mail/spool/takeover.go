package spool

import (
	"context"
	"slices"
	"time"

	"weir/store"
)

// takeOver takes over, once, the messages that another run has left: those that it was sending are ambiguous, and those
// of its workers are free again. RunDue tries again after an error. Until then leases and hand-overs end by themselves.
func (d *delivery) takeOver(ctx context.Context, now time.Time) error {
	if d.tookOver.Load() {
		return nil
	}
	sending, err := d.takeAll(ctx, now, store.Sending)
	for gate, n := range sending {
		d.tell.Ambiguous(gate, n)
	}
	var ready map[string]int
	if err == nil {
		ready, err = d.takeAll(ctx, now, store.Ready)
	}
	if len(sending)+len(ready) > 0 {
		d.log.Warn("the last run was not stopped in order", "recipients_ambiguous", total(sending), "recipients_again",
			total(ready))
	}
	if err != nil {
		d.complain(&d.failing.takes, "what the last run has left cannot be taken over yet", "error", err)
		return err
	}
	d.tookOver.Store(true)
	return nil
}

func (d *delivery) takeAll(ctx context.Context, now time.Time, state store.State) (taken map[string]int, err error) {
	left := func(q *store.Queued) bool {
		return slices.ContainsFunc(q.To, func(a store.Addressee) bool { return d.left(state, &a) })
	}
	return d.eachMail(ctx, store.LetterQuery{State: state}, left,
		func(tx store.MailTx, l *store.Letter, to []store.Addressee) (int, error) {
			return d.takeOne(tx, now, state, l, to)
		})
}

// left reports whether another run has left an addressee in a state.
func (d *delivery) left(state store.State, a *store.Addressee) bool {
	return a.State == state && a.Owner != d.opts.Owner && (a.Owner != "" || state != store.Ready)
}

func (d *delivery) takeOne(tx store.MailTx, now time.Time, state store.State, l *store.Letter,
	to []store.Addressee) (taken int, err error) {
	var end ending
	for _, a := range to {
		switch {
		case !d.left(state, &a):
			continue
		case state == store.Ready:
			a.Owner, a.Due = "", now
			end.put = append(end.put, a)
		default:
			end.doubt(d.gates.Load().out(l.Gate), l, &a, now, "weir ended while it was sent")
		}
		taken++
	}
	for i := range end.put {
		if state == store.Sending && end.put[i].State == store.Ready {
			end.put[i].Due = now // the next server is not at fault
		}
	}
	if err := tx.PutAddressees(end.put...); err != nil {
		return 0, err
	}
	return taken, logAll(tx, end.entries)
}

// eachMail calls do for all messages that match, some in each transaction, with their remaining addressees. It returns
// the sums of the results by gate, also with an error.
func (d *delivery) eachMail(ctx context.Context, q store.LetterQuery, match func(*store.Queued) bool,
	do func(store.MailTx, *store.Letter, []store.Addressee) (int, error)) (map[string]int, error) {
	const page = 500
	sums := map[string]int{}
	for {
		found, err := read(ctx, d.env, func(tx store.MailTx) ([]store.Queued, error) { return tx.Letters(q, page) })
		if err != nil || len(found) == 0 {
			return sums, err
		}
		q.After = found[len(found)-1].ID
		found = slices.DeleteFunc(found, func(q store.Queued) bool { return !match(&q) })
		if len(found) == 0 {
			continue
		}
		var done map[string]int
		err = d.update(ctx, func(tx store.MailTx) error {
			done = map[string]int{}
			for i := range found {
				to, err := tx.Addressees(found[i].ID) // they may have changed since the view
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

func total(of map[string]int) (n int) {
	for _, k := range of {
		n += k
	}
	return n
}
