package nexthop

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Errors of Auth. Any other error says why no server could be asked.
var (
	ErrWrong = errors.New("nexthop: wrong name or password")
	ErrBusy  = errors.New("nexthop: too many log-ins at once")
)

const (
	maxLogIn      = 1024 // bytes of a name or a password that is passed on
	logInsPerSlot = 10   // logins that may wait for each that is under way
)

// Auth asks the next hop whether a password is right, by a login on a connection of its own. It is encrypted as for our
// own password. As many are under way at once as there may be connections for mail. Ten times as many wait, and one
// more gets ErrBusy.
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
		c.mu.Lock()
		pausing := s.paused && c.env.Clock.Now().Before(s.until)
		if pausing {
			reason = s.reason
		}
		c.mu.Unlock()
		if pausing {
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
