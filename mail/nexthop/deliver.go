package nexthop

import (
	"context"
	"errors"
	"slices"

	"weir/internal/turns"
)

var (
	errClosed  = errors.New("the next hop is being closed")
	errStopped = errors.New("the delivery was stopped")
)

// Deliver hands a message to the first server that takes connections, and returns a result for each recipient, in
// order. It may wait for a free connection. When ctx ends before the final dot, the results are Later. After the dot it
// waits for the answer for 5 more seconds.
func (c *Client) Deliver(ctx context.Context, j *Job) []Result {
	results := make([]Result, len(j.Recipients))
	todo := addressed(j, results)
	if len(todo) == 0 {
		return results
	}
	c.waiting.Add(1)
	ctx, leave, err := c.enter(ctx, c.slots, turns.Last)
	c.waiting.Add(-1)
	if err != nil {
		fill(results, todo, Result{Outcome: Later, Status: statusStopping, Text: err.Error()})
		return results
	}
	defer leave()
	for len(todo) > 0 {
		part := todo[:min(len(todo), c.opts.Recipients)]
		todo = todo[len(part):]
		if rest := c.hand(ctx, j, part, results); len(rest) > 0 {
			todo = append(rest, todo...)
		}
	}
	return results
}

// addressed returns the recipients with valid addresses. The others have failed.
func addressed(j *Job, results []Result) []int {
	todo := make([]int, 0, len(j.Recipients))
	sender := j.Sender == "" || isAddress(j.Sender)
	for i := range j.Recipients {
		switch {
		case !sender:
			results[i] = Result{Outcome: Failed, Status: statusBadSender, Text: "the sender is not an address"}
		case !isAddress(j.Recipients[i].Address):
			results[i] = Result{Outcome: Failed, Status: statusBadRecipient, Text: "the recipient is not an address"}
		default:
			results[i] = Result{Outcome: Later, Status: statusOurs, Text: "not tried"}
			todo = append(todo, i)
		}
	}
	return todo
}

func fill(results []Result, who []int, r Result) {
	for _, i := range who {
		results[i] = r
	}
}

// enter waits for a slot. The function that it returns gives the slot back.
func (c *Client) enter(ctx context.Context, slots *turns.Turns, rank turns.Rank) (context.Context, func(), error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, nil, errClosed
	}
	c.active.Add(1)
	c.mu.Unlock()
	whole := ctx // it may have ended, and its children not yet
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(c.life, cancel)
	leave := func() {
		unhook()
		cancel()
		c.active.Done()
	}
	if err := slots.Take(ctx, rank); err != nil {
		leave()
		if !errors.Is(err, turns.ErrBusy) {
			err = errStopped
		}
		return nil, nil, err
	}
	out := func() {
		slots.Done()
		leave()
	}
	if ctx.Err() != nil || whole.Err() != nil { // it may have ended at the same moment
		out()
		return nil, nil, errStopped
	}
	return ctx, out, nil
}

// hand gives a message to the first server that takes it, and returns the recipients that need another transaction.
func (c *Client) hand(ctx context.Context, j *Job, part []int, results []Result) []int {
	reason := Result{Outcome: Later, Status: statusNoAnswer, Text: "no server can be used"}
	var probed *server // by another delivery
	for _, s := range c.servers {
		rest, why, busy := c.try(ctx, s, j, part, results)
		if why == nil {
			return rest
		}
		if ctx.Err() != nil {
			break
		}
		reason = why.Result
		if busy && probed == nil {
			probed = s
		}
	}
	if probed != nil && c.probed(ctx, probed) {
		rest, why, _ := c.try(ctx, probed, j, part, results)
		if why == nil {
			return rest
		}
		reason = why.Result
	}
	if ctx.Err() != nil {
		reason = Result{Outcome: Later, Status: statusStopping, Text: errStopped.Error(), Server: reason.Server}
	}
	fill(results, part, reason)
	return nil
}

// try gives a message to a server. probed tells that another delivery is finding out whether the server can be used.
func (c *Client) try(ctx context.Context, s *server, j *Job, part []int, results []Result) (rest []int, lost *trouble,
	probed bool) {
	if k := c.take(s); k != nil {
		c.reused.Add(1)
		if rest, lost = c.over(ctx, k, j, part, results); lost == nil {
			return rest, nil, false
		}
		if !lost.early || ctx.Err() != nil {
			return nil, lost, false
		}
		// The server may have closed all idle connections long ago.
		c.restarts.Add(1)
		c.drop(s)
	}
	k, lost, probed := c.connect(ctx, s)
	if lost != nil {
		return nil, lost, probed
	}
	rest, lost = c.over(ctx, k, j, part, results)
	return rest, lost, false
}

func (c *Client) over(ctx context.Context, k *conn, j *Job, part []int, results []Result) ([]int, *trouble) {
	fresh := k.mails == 0
	rest, lost := k.transact(ctx, j, part, results)
	silent := slices.IndexFunc(part, func(i int) bool { return results[i].Outcome == Ambiguous })
	switch {
	case lost != nil && ctx.Err() == nil && (fresh || !lost.early):
		c.lost.Add(1)
		c.down(k.server, lost.Result)
		c.env.Log.Info("connection to the next hop lost", "mail", j.ID, "server", k.server.address, "reason", lost.Text)
	case lost == nil && silent >= 0:
		c.ambiguous.Add(1)
		if ctx.Err() == nil {
			c.down(k.server, results[part[silent]])
		}
		c.env.Log.Warn("the next hop did not answer after the end of a mail", "mail", j.ID, "server", k.server.address)
	case lost == nil:
		c.mails.Add(1)
		c.up(k.server)
	}
	c.put(k)
	return rest, lost
}
