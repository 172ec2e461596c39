package apigate

import (
	"cmp"
	"context"
	"crypto/rand"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"weir"
	"weir/gate"
)

// A hold's id is the name of its node, a dot, and 26 random letters, which stand for 128 bits: a client that knows the
// id may settle the hold.
const (
	nodeLetters = 8
	idLetters   = nodeLetters + 1 + 26
)

// A visit is one question on its way through the gate. Visits are reused, so that a decision leaves little garbage.
type visit struct {
	event   weir.Event
	message weir.Message
	hold    *hold // has the pass; it is kept if the decision stays open
}

// decide answers questions.
func (c *call) decide() {
	items, batch, flags, wrong := requests[question](c, "http")
	switch {
	case wrong != nil:
		c.refuse(wrong)
	case batch && flags["http"]:
		c.refuse(invalid("?http", "a batch has no verdict of its own", "leave it out, or send one question"))
	case batch:
		c.answer(http.StatusOK, answerAll(c, items, c.judge))
	case flags["http"]:
		c.decideByStatus(&items[0])
	default:
		answerOne(c, &items[0], c.judge)
	}
}

// decideByStatus answers a client that looks only at the status. It cannot wait in line: what would wait is given back.
func (c *call) decideByStatus(it *item[question]) {
	d, wrong := answerItem(it, func(q *question) (decision, *problem) { return c.judgeWith(q, false) })
	if wrong != nil {
		c.refuse(wrong)
		return
	}
	status := http.StatusOK
	if d.Verdict != weir.Admit {
		status = http.StatusTooManyRequests
		if d.RetryAfter > 0 {
			c.w.Header().Set("Retry-After", strconv.FormatInt(int64(math.Ceil(d.RetryAfter)), 10))
		}
	}
	c.answer(status, d)
}

func (c *call) judge(q *question) (decision, *problem) { return c.judgeWith(q, true) }

// judgeWith puts a question before its policy. line says whether the client can wait in line.
func (c *call) judgeWith(q *question, line bool) (d decision, wrong *problem) {
	g := c.gate
	name, chain, wrong := c.setup.policy(q.Policy)
	if wrong == nil {
		wrong = q.Parts.unasked(chain.KeyParts())
	}
	if wrong != nil {
		return d, wrong
	}
	v := g.visits.Get().(*visit)
	if wrong := q.event(&v.event, &v.message, c.setup.opts.Bounds.Recipients); wrong != nil {
		g.visits.Put(v)
		return d, wrong
	}
	if v.hold == nil {
		v.hold = new(hold)
	}
	h, now := v.hold, g.env.Clock.Now()
	v.event.Time = now
	taker := chain.StampTaker()
	if taker != nil {
		v.event.Load = weir.Load{Of: "api/" + name, Share: weir.Share(q.Load)}
		v.event.Purse = weir.NewPurse(func(ctx context.Context, ev *weir.Event) (weir.Paid, func()) {
			return taker.Receive(ctx, ev, q.Stamp, q.Message)
		})
	}
	defer g.Recover("a panic while judging a question", func() {
		h.pass.Settle(weir.Outcome{Time: now}) // gives back what the throttles before the failing one have taken
		wrong = failure()
	})
	chain.Judge(c.r.Context(), &v.event, &h.pass)
	d = newDecision(&h.pass.Answer, now)
	if d.Verdict == weir.Challenge && taker != nil {
		p, err := taker.Ask(&v.event, v.event.Client, q.Message)
		if err != nil {
			g.env.Log.Error("no puzzle could be made", "policy", name, "err", err)
			return d, failure()
		}
		d.Challenge, d.Algorithm, d.Work = p.Text, p.Algorithm, int64(p.Work)
	}
	if d.Verdict != weir.Admit && (d.Verdict != weir.Wait || !line) {
		v.event.Purse.Refund()
	}
	switch {
	case d.Verdict == weir.Wait && line, d.Verdict == weir.Admit && q.Hold:
		v.hold = nil // it is in use now
		wrong = c.hold(h, q, v.event.Source, &d, now)
	case d.Verdict == weir.Admit:
		end(&h.pass, q.Bytes, weir.Outcome{Time: now, Done: true})
	default:
		h.pass.Settle(weir.Outcome{Time: now})
	}
	if wrong == nil {
		g.env.Observer.Decided(name, d.Verdict)
	}
	*v = visit{hold: v.hold}
	g.visits.Put(v)
	return d, wrong
}

// hold keeps a decision open and tells the client its id. Where there is no room for it, the decision is given back.
func (c *call) hold(h *hold, q *question, source netip.Addr, d *decision, now time.Time) *problem {
	o := &c.setup.opts.Holds
	h.id, h.keep, h.bytes, h.answer = newHoldID(c.gate.node), q.Hold, q.Bytes, h.pass.Answer
	if h.who = gate.WhoAt(source); q.Account != "" || q.User != "" {
		h.who = gate.WhoIs(cmp.Or(q.Account, q.User))
	}
	ttl := o.TTL.Std()
	if d.Verdict == weir.Wait {
		ttl += max(h.answer.Until.Sub(now), 0) // it counts from the expected turn
	}
	expires, ok := c.gate.holds.add(h, ttl, o.Max)
	if ok {
		d.Hold, d.Expires = h.id, tellTime(expires)
		return nil
	}
	h.pass.Settle(weir.Outcome{Time: now})
	if c.gate.Stopping() {
		return stopping()
	}
	return full(BoundHolds, "open holds", o.Max)
}

func newHoldID(node string) string { return node + "." + strings.ToLower(rand.Text()) }

// tellTime is a time as answers show it.
func tellTime(t time.Time) time.Time { return t.UTC().Round(0).Truncate(time.Millisecond) }
