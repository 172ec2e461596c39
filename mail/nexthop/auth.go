package nexthop

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Errors of Auth. What else it returns is why no server could be asked.
var (
	ErrWrong = errors.New("nexthop: wrong name or password")
	ErrBusy  = errors.New("nexthop: too many log-ins at once")
)

// maxLogIn is the length of a name or a password that is passed on.
const maxLogIn = 1024

// logInsPerSlot is how many log-ins may wait for each that is under way.
const logInsPerSlot = 10

// Auth asks the next hop whether a password is right, by logging in on a connection of its own, encrypted as for our
// own password. As many are asked at once as there may be connections for mail; ten times as many wait, and one more
// gets ErrBusy.
func (c *Client) Auth(ctx context.Context, name, password string) error {
	if name == "" || len(name) > maxLogIn || len(password) > maxLogIn || strings.ContainsRune(name+password, 0) {
		return ErrWrong // AUTH PLAIN separates with NUL
	}
	defer c.asking.Add(-1)
	if c.asking.Add(1) > int64((1+logInsPerSlot)*c.opts.Connections) {
		return ErrBusy
	}
	ctx, leave, err := c.enter(ctx, c.logIns)
	if err != nil {
		return fmt.Errorf("nexthop: %w", err)
	}
	defer leave()
	reason := Result{Text: "no server can be used"}
	for _, s := range c.servers {
		if rest := c.pausing(s); rest != nil {
			reason = *rest
			continue
		}
		k, why := c.dial(ctx, s, s.login, name, password)
		switch {
		case why == nil:
			c.goodbye(k)
			return nil
		case why.Code == 535:
			return ErrWrong
		case ctx.Err() != nil:
			return fmt.Errorf("nexthop: %w", errStopped)
		case why.Status == statusNoAnswer:
			c.down(s, why.Result)
		}
		reason = why.Result
	}
	return fmt.Errorf("nexthop: %s: %s", reason.Server, reason.Text)
}

// pausing returns why a server is left alone, or nil.
func (c *Client) pausing(s *server) *Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.paused || !c.env.Clock.Now().Before(s.until) {
		return nil
	}
	reason := s.reason
	return &reason
}
