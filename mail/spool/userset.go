package spool

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"weir/store"
)

// A throttleUser is a user of one throttle.
type throttleUser struct{ throttle, user string }

// A userSet has the stopped or the flagged users in memory, so that the store need not be asked. Whoever changes one in
// the store calls refresh, which reads the store, so that the last reader sees all changes.
type userSet struct {
	is    string // stopped or flagged, for the log
	bound string // what Observer.Bounded is told when there are too many
	read  func(tx store.MailTx, of throttleUser) (bool, error)
	page  func(tx store.MailTx, after throttleUser, limit int) ([]throttleUser, error)

	asking sync.Mutex
	mu     sync.RWMutex
	in     map[throttleUser]struct{}
}

func (u *userSet) has(throttle, user string) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	_, in := u.in[throttleUser{throttle, user}]
	return in
}

// all returns everybody in the set, in no order.
func (u *userSet) all() []throttleUser {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return slices.Collect(maps.Keys(u.in))
}

func (u *userSet) len() int {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return len(u.in)
}

// set adds or removes a user. It reports false if there are too many.
func (u *userSet) set(of throttleUser, is bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !is {
		delete(u.in, of)
		return true
	}
	if _, known := u.in[of]; !known && len(u.in) >= MaxStopped {
		return false
	}
	if u.in == nil {
		u.in = map[throttleUser]struct{}{}
	}
	u.in[of] = struct{}{}
	return true
}

// each calls do for all users of the set in the store, until it returns false.
func (u *userSet) each(tx store.MailTx, do func(throttleUser) bool) error {
	const page = 1000
	var last throttleUser
	for {
		list, err := u.page(tx, last, page)
		if err != nil {
			return err
		}
		for _, one := range list {
			if !do(one) {
				return nil
			}
		}
		if len(list) < page {
			return nil
		}
		last = list[page-1]
	}
}

// refresh learns from the store whether a user is in a set.
func (e *env) refresh(u *userSet, throttle, user string) {
	u.asking.Lock()
	defer u.asking.Unlock()
	of, is := throttleUser{throttle, user}, false
	err := e.store.View(context.Background(), func(tx store.MailTx) (err error) {
		if is, err = u.read(tx, of); errors.Is(err, store.ErrNotFound) {
			is, err = false, nil
		}
		return err
	})
	if err != nil { // the next mail of the user is judged by the store all the same
		e.log.Error("whether a user is "+u.is+" cannot be read", "user", user, "error", err)
		return
	}
	if !u.set(of, is) {
		e.tell.Bounded(u.bound)
	}
}

// learn learns from the store who is in a set.
func (e *env) learn(ctx context.Context, u *userSet) error {
	return e.store.View(ctx, func(tx store.MailTx) error {
		return u.each(tx, func(of throttleUser) bool {
			ok := u.set(of, true)
			if !ok {
				e.tell.Bounded(u.bound)
			}
			return ok
		})
	})
}

func newStopped() userSet {
	return newUserSet("stopped", BoundStopped, store.MailTx.Remembered, store.MailTx.Stopped,
		func(m store.Memory) (throttleUser, bool) { return throttleUser{m.Throttle, m.User}, m.Stopped })
}

func newFlagged() userSet {
	return newUserSet("flagged", BoundFlagged, store.MailTx.Sketch, store.MailTx.Flagged,
		func(k store.Sketch) (throttleUser, bool) { return throttleUser{k.Throttle, k.User}, k.Flagged })
}

// newUserSet makes a set of what the store has of users: one of them, and pages of those that are in.
func newUserSet[T any](is, bound string, one func(tx store.MailTx, throttle, user string) (T, error),
	page func(tx store.MailTx, throttle, user string, limit int) ([]T, error),
	of func(T) (throttleUser, bool)) userSet {
	return userSet{is: is, bound: bound,
		read: func(tx store.MailTx, u throttleUser) (bool, error) {
			kept, err := one(tx, u.throttle, u.user)
			_, in := of(kept)
			return in, err
		},
		page: func(tx store.MailTx, after throttleUser, limit int) (list []throttleUser, err error) {
			all, err := page(tx, after.throttle, after.user, limit)
			for _, kept := range all {
				u, _ := of(kept)
				list = append(list, u)
			}
			return list, err
		}}
}

// Stopped reports whether a user of a gate is stopped, from memory. In shadow nobody is.
func (e *env) Stopped(gate, user string) bool {
	g := e.gates.Load().of(gate)
	return g != nil && !g.inShadow() && e.stopped.has(g.Throttle, user)
}

// CountStopped is how many users are stopped, as far as they are known without asking the store.
func (e *env) CountStopped() int { return e.stopped.len() }

// StoppedUsers returns up to limit names of stopped users that come after one, in order.
func (e *env) StoppedUsers(after string, limit int) []string {
	var names []string
	for _, u := range e.stopped.all() {
		if u.user > after {
			names = append(names, u.user)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), limit)]
}

// warnOfLost warns of users who are stopped by throttles that are gone: they may send, and what is held stays held.
func (e *env) warnOfLost() {
	known, lost := e.gates.Load(), map[string]int{}
	for _, u := range e.stopped.all() {
		lost[u.throttle]++
	}
	for _, throttle := range slices.Sorted(maps.Keys(lost)) {
		if known.throttle(throttle) == nil {
			e.log.Warn("users were stopped by a throttle that is gone: they may send again, what is held of theirs "+
				"stays held (weir user list --stopped shows them, weir user resume lets it go)",
				"throttle", throttle, "users", lost[throttle])
		}
	}
}
