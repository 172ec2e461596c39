package apigate

import (
	"fmt"
	"net/http"
	"time"

	"weir"
)

// findHold returns the hold of an id, or the problem to answer with.
func (g *Gate) findHold(id string) (*hold, *problem) {
	if id == "" {
		return nil, invalid("hold", "the hold is missing", "send what decide answered")
	}
	if h := g.holds.find(id); h != nil {
		return h, nil
	}
	if len(id) == idLetters && id[nodeLetters] == '.' && id[:nodeLetters] != g.node {
		return nil, otherNode(g.node)
	}
	return nil, noHold()
}

// abandon settles a hold that its client did not settle in time.
func (g *Gate) abandon(h *hold) {
	h.settle(g, 0, weir.Outcome{Done: g.Setup.Load().opts.Holds.Expired == ExpiredDone,
		Price: weir.Price{Known: weir.Unanswered}})
}

// settle ends holds as their clients say.
func (c *call) settle() {
	items, batch, _, wrong := requests[settlement](c)
	switch {
	case wrong != nil:
		c.refuse(wrong)
	case batch:
		c.answer(http.StatusOK, answerAll(c, items, c.conclude))
	default:
		answerOne(c, &items[0], c.conclude)
	}
}

func (c *call) conclude(s *settlement) (settled, *problem) {
	if wrong := checkAmount("bytes", s.Bytes); wrong != nil {
		return settled{}, wrong
	}
	if s.Status != 0 && (s.Status < 100 || s.Status > 599) {
		return settled{}, invalid("status", fmt.Sprintf("%d is not an HTTP status", s.Status),
			"between 100 and 599, or leave it out")
	}
	price := weir.Price{Known: weir.Unpriced}
	if s.Cost != nil {
		if wrong := checkAmount("cost", *s.Cost); wrong != nil {
			return settled{}, wrong
		}
		price = weir.Price{Known: weir.Priced, N: *s.Cost}
	}
	h, wrong := c.gate.findHold(s.Hold)
	if wrong != nil {
		return settled{}, wrong
	}
	if !c.gate.holds.take(h) {
		return settled{}, noHold()
	}
	h.settle(c.gate, s.Bytes, weir.Outcome{Done: s.Done == nil || *s.Done, Status: s.Status, Price: price})
	return settled{true}, nil
}

// await waits for a turn.
func (c *call) await() {
	items, batch, _, wrong := requests[waiting](c)
	switch {
	case wrong != nil:
		c.refuse(wrong)
	case batch:
		c.refuse(malformed("one hold is awaited at a time",
			"send one object; several requests may wait at the same time"))
	default:
		answerOne(c, &items[0], c.outcome)
	}
}

// outcome waits for the turn of a hold and returns the final verdict, or a wait that goes on when the time is over.
// Awaiting a hold keeps it alive. A final verdict that leaves nothing to settle is told once and ends the hold.
func (c *call) outcome(w *waiting) (d decision, wrong *problem) {
	g, ttl := c.gate, c.setup.opts.Holds.TTL.Std()
	patience, wrong := c.patience(w.For)
	if wrong != nil {
		return d, wrong
	}
	h, wrong := g.findHold(w.Hold)
	if wrong != nil {
		return d, wrong
	}
	g.holds.keep(h, patience+ttl)
	called := h.follow(g)
	if called == nil {
		return d, noHold()
	}
	if wrong := c.pause(called, patience); wrong != nil {
		return d, wrong
	}
	answer := h.told()
	d = newDecision(&answer, g.env.Clock.Now())
	if answer.Verdict > weir.Wait || answer.Verdict == weir.Admit && !h.keep {
		if !g.holds.take(h) {
			return d, noHold()
		}
		h.settle(g, h.bytes, weir.Outcome{Done: answer.Verdict == weir.Admit})
		return d, nil
	}
	expires, open := g.holds.keep(h, ttl)
	if !open {
		return d, noHold()
	}
	d.Hold, d.Expires = h.id, tellTime(expires)
	return d, nil
}

// patience is how long one request of a client waits.
func (c *call) patience(text string) (time.Duration, *problem) {
	most := c.setup.opts.Timeouts.Wait
	if text == "" {
		return most.Std(), nil
	}
	d, err := weir.ParseDuration(text)
	if err != nil {
		return 0, invalid("for", fmt.Sprintf("%s is not a duration", quoted(text)), "write 500ms, 5s or 1m")
	}
	return min(d, most).Std(), nil
}

// pause waits until a turn has come, for at most patience. A client that has left, or that meets a gate that stops, is
// not told a verdict: that would end a hold that the client still counts on.
func (c *call) pause(called <-chan struct{}, patience time.Duration) *problem {
	over := make(chan struct{})
	timer := c.gate.env.Clock.AfterFunc(patience, func() { close(over) })
	defer timer.Stop()
	select {
	case <-called:
	case <-over:
	case <-c.gate.Serving.Done():
		return stopping()
	case <-c.r.Context().Done():
	}
	if c.r.Context().Err() != nil {
		return timedOut("the client has left")
	}
	return nil
}
