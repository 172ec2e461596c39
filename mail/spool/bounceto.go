package spool

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"weir/store"
)

// Bounds of what is sent to unknown senders: addresses in envelopes that are not known to be the user's.
const (
	maxUnknown      = 10     // notifications an hour for each user
	maxUnknownUsers = 10_000 // users with such notifications in an hour
	unknownEach     = time.Hour
)

// A bounceTarget is the address that is told what became of a mail.
type bounceTarget struct {
	to     string // empty: no address
	full   bool   // the text may be returned
	reason string // why there is no address, where it is to be noted
	mute   bool   // the next server takes no address that could be told
}

// bounceTo decides who is told what became of a mail. Anybody can write any sender into an envelope, and what weir
// writes itself is not counted. Users must not be able to send what they like to anybody in that way, least of all when
// they are stopped. So
//
//   - a client that is known by its address is trusted with its senders, and so is everybody where nothing is counted;
//   - an address that the user reaches without being counted is told: the user's own, and internal ones;
//   - for other addresses the user is told, at the registered contact, as it is the user's mail;
//   - without a contact such an address is told a little: the header, and no more than 10 times an hour.
//
// plain passes over addresses that the next server does not take, as it knows no SMTPUTF8.
func (d *delivery) bounceTo(conf *Gate, l *store.Letter, reports int, plain bool, now time.Time) (*bounceTarget,
	error) {
	taken := func(address string) bool { return !plain || ascii(address) }
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
	if first { // or they would fill the log
		t.reason = fmt.Sprintf("%s is not known to be the user's, and was told %d times within an hour; nor is "+
			"anybody of further ones in it",
			l.Sender, maxUnknown)
	}
	return t, nil
}

func ascii(address string) bool {
	return !strings.ContainsFunc(address, func(r rune) bool { return r > 127 })
}

// byAddress reports whether a user is a client that is known by its address, or by its network.
func byAddress(user string) bool {
	if _, err := netip.ParseAddr(user); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(user)
	return err == nil
}

// unknown counts what is sent to unknown senders, in fixed hours. The zero value is ready to use.
type unknown struct {
	mu    sync.Mutex
	since time.Time
	told  map[string]int // by user; more than maxUnknown: it is noted already
}

// take reports whether a user may have n more notifications sent, or else whether this is the first refusal of the
// hour.
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
