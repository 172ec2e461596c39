package spool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"weir/internal/shown"
	"weir/store"
)

// Bounds of bounces to unknown senders: addresses in envelopes that are not known to be the user's.
const (
	maxUnknown      = 10     // bounces an hour for each user
	maxUnknownUsers = 10_000 // users with such bounces in an hour
	unknownEach     = time.Hour
)

// A bounceTarget is the address that gets the bounces of a message.
type bounceTarget struct {
	to     string // empty: no address
	full   bool   // the text may be returned
	reason string // why there is no address, for the audit log
	mute   bool   // the next server takes no address that could be told
}

// bounceTo decides who gets the bounces of a message. Users can write any sender into an envelope, and bounces are not
// counted. So bounces must not let users send anything to anybody, least of all when they are stopped:
//
//   - a client that is known by its address is trusted with its senders, and so is everybody if nothing is counted;
//   - an address that the user reaches uncounted gets the bounce: the user's own, and internal ones;
//   - instead of any other address, the user's registered contact gets it;
//   - without a contact such an address gets only the header, and no more than 10 times an hour.
//
// plain skips addresses that need SMTPUTF8, since the next server does not have it.
func (d *delivery) bounceTo(conf *Gate, l *store.Letter, reports int, plain bool,
	now time.Time) (*bounceTarget, error) {
	taken := func(address string) bool { return !plain || shown.ASCII(address) }
	if byAddress(l.User) || conf.Mail == nil && !d.Stopped(conf.Name, l.User) {
		if !taken(l.Sender) {
			return &bounceTarget{mute: true}, nil
		}
		return &bounceTarget{to: l.Sender, full: true}, nil
	}
	user, err := d.User(context.Background(), l.User)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	switch {
	case taken(l.Sender) && conf.free(&user, l.Sender, normal(l.Sender)):
		return &bounceTarget{to: l.Sender, full: true}, nil
	case user.Contact != "" && taken(user.Contact):
		return &bounceTarget{to: user.Contact, full: true}, nil
	case !taken(l.Sender):
		return &bounceTarget{mute: true}, nil
	}
	ok, first := d.unknown.take(l.User, reports, now)
	if ok {
		return &bounceTarget{to: l.Sender}, nil
	}
	d.tell.Bounded(BoundBounces)
	t := &bounceTarget{}
	if first { // one entry an hour
		t.reason = fmt.Sprintf("%s is not known to be the user's, and was told %d times within an hour; nor is "+
			"anybody of further ones in it", l.Sender, maxUnknown)
	}
	return t, nil
}

// byAddress reports whether a user is a client that is known by its address, or by its network.
func byAddress(user string) bool {
	if _, err := netip.ParseAddr(user); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(user)
	return err == nil
}

// unknown counts bounces to unknown senders, in fixed hours. The zero value is ready to use.
type unknown struct {
	mu    sync.Mutex
	since time.Time
	told  map[string]int // by user; more than maxUnknown: it is in the audit log
}

// take reports whether n more bounces may be sent for a user, and if not, whether this is the first time in the hour.
func (c *unknown) take(user string, n int, now time.Time) (ok, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told == nil || now.Sub(c.since) >= unknownEach || now.Before(c.since) {
		c.since, c.told = now, map[string]int{}
	}
	told, known := c.told[user]
	switch {
	case !known && len(c.told) >= maxUnknownUsers:
		return false, false
	case told+n <= maxUnknown:
		c.told[user] = told + n
		return true, false
	}
	c.told[user] = maxUnknown + 1
	return false, told <= maxUnknown
}
