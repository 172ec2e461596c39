package spool

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"weir/mail/nexthop"
	"weir/store"
)

// hooked is a store that somebody is told of before each transaction.
type hooked struct {
	store.Mail
	before func()
}

func (h hooked) Update(ctx context.Context, f func(store.MailTx) error) error {
	h.before()
	return h.Mail.Update(ctx, f)
}

// The stop comes while it is stored that a mail is being sent: it is sent then, or nothing is left that looks like it.
func TestStopDuringClaim(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"stored": false, "not stored": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.carrier.set(func(c *carrier) { c.answer = answers(nexthop.Later, 451, "4.7.1", "later") })
			id, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org"}, "a@example.net")
			r.must(err)
			r.idle()
			q, err := r.Show(t.Context(), id)
			r.must(err)
			way := r.gates.Load().byName[gateName]
			q.To[0].Owner = r.Spool.opts.Owner
			r.must(r.update(t.Context(), func(tx store.MailTx) error { return tx.PutAddressees(q.To[0]) }))
			j := &job{gate: way, message: q.Message, to: q.To}
			kept := &breakable{Mail: r.store.Mail()}
			kept.fails.Store(fails)
			r.Spool.store = hooked{kept, func() {
				r.end()
				if j.breakOff() {
					t.Error("broken off in the middle of a claim")
				}
			}}
			if err := r.claim(j); (err != nil) != fails || j.claimed == fails || j.broken != fails {
				t.Errorf("claim says %v: claimed %v, broken %v", err, j.claimed, j.broken)
			}
			r.Spool.store = r.store.Mail()
			way.slots.Add(1)
			r.flight.add(j)
			r.under.add()
			j.conf, j.results = way.conf.Load(), []nexthop.Result{{Outcome: nexthop.Later}}
			r.finish(j)
			r.wantStates(map[store.State]int{store.Ready: 1})
		})
	}
}

// A delivery whose end could not be stored gets another chance when weir stops.
func TestStopStoresEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	broken := &breakable{Mail: r.store.Mail()}
	r.Spool.store = broken
	r.carrier.set(func(c *carrier) { c.after = func(context.Context, *nexthop.Job) { broken.fails.Store(true) } })
	r.sent(ann, "a@example.net")
	r.idle()
	r.wantStates(map[store.State]int{store.Sending: 1})
	broken.fails.Store(false)
	r.must(r.Stop(t.Context()))
	r.wantStates(nil)
}

// Where nothing is under way nothing is broken off, however little patience there is.
func TestStopOfNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.idle()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.must(r.Stop(ctx))
}

// A caller that comes while another hands over has its later time looked at.
func TestHandDueAtTheLatestTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, _, err := r.mail(&Envelope{User: ann, Sender: "ann@example.org",
		To: []To{{Address: "a@example.net", Stamp: freshStamp(), After: start.Add(time.Minute)}}})
	r.must(err)
	r.idle()
	var came atomic.Bool
	r.Spool.store = hooked{r.store.Mail(), func() {
		if came.CompareAndSwap(false, true) { // within the first round
			r.must(r.handDue(t.Context(), start.Add(time.Minute)))
		}
	}}
	r.must(r.handDue(t.Context(), start))
	r.idle()
	r.wantDelivered(1)
}
