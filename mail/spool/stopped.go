package spool

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"weir/store"
)

// stoppedUsers are those whom gates refuse without asking the store. It is as the store had it when it was last asked:
// whoever changes it asks again, so that the last one to ask sees what everybody has changed.
type stoppedUsers struct {
	asking sync.Mutex
	mu     sync.RWMutex
	in     map[stoppedUser]struct{}
}

type stoppedUser struct{ throttle, user string }

func (u *stoppedUsers) has(throttle, user string) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	_, in := u.in[stoppedUser{throttle, user}]
	return in
}

func (u *stoppedUsers) any() bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return len(u.in) > 0
}

// set notes whether a user is stopped. It reports false where there is no room to.
func (u *stoppedUsers) set(throttle, user string, stopped bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := stoppedUser{throttle, user}
	if !stopped {
		delete(u.in, key)
		return true
	}
	if _, known := u.in[key]; !known && len(u.in) >= MaxStopped {
		return false
	}
	if u.in == nil {
		u.in = map[stoppedUser]struct{}{}
	}
	u.in[key] = struct{}{}
	return true
}

// Stopped reports whether a user of a gate is stopped, from memory. In shadow nobody is.
func (s *Spool) Stopped(gate, user string) bool {
	g := s.gates.Load().of(gate)
	return g != nil && !g.inShadow() && s.stopped.has(g.Throttle, user)
}

// CountStopped is how many users are stopped, as far as they are known without asking the store.
func (s *Spool) CountStopped() int {
	s.stopped.mu.RLock()
	defer s.stopped.mu.RUnlock()
	return len(s.stopped.in)
}

// StoppedUsers returns up to limit names of stopped users that come after one, in order.
func (s *Spool) StoppedUsers(after string, limit int) []string {
	s.stopped.mu.RLock()
	defer s.stopped.mu.RUnlock()
	var names []string
	for u := range s.stopped.in {
		if u.user > after {
			names = append(names, u.user)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), limit)]
}

// tellLost warns of users who are stopped by throttles that are gone: nobody refuses their mail any more, and what is
// held stays so.
func (s *Spool) tellLost() {
	known, lost := s.gates.Load(), map[string]int{}
	s.stopped.mu.RLock()
	for u := range s.stopped.in {
		lost[u.throttle]++
	}
	s.stopped.mu.RUnlock()
	for _, throttle := range slices.Sorted(maps.Keys(lost)) {
		if known.throttle(throttle) == nil {
			s.log.Warn("users were stopped by a throttle that is gone: they may send again, what is held of theirs "+
				"stays held "+
				"(weir user list --stopped shows them, weir user resume lets it go)", "throttle", throttle, "users",
				lost[throttle])
		}
	}
}

// refresh learns from the store whether a user is stopped.
func (s *Spool) refresh(throttle, user string) {
	s.stopped.asking.Lock()
	defer s.stopped.asking.Unlock()
	stopped := false
	err := s.store.View(context.Background(), func(tx store.MailTx) error {
		m, err := tx.Remembered(throttle, user)
		stopped = m.Stopped
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil { // his next mail is refused by the store all the same
		s.log.Error("whether a user is stopped cannot be read", "user", user, "error", err)
		return
	}
	if !s.stopped.set(throttle, user, stopped) {
		s.tell.Bounded(BoundStopped)
	}
}

// learnStopped learns from the store who is stopped.
func (s *Spool) learnStopped(ctx context.Context) error {
	const page = 1000
	return s.store.View(ctx, func(tx store.MailTx) error {
		var throttle, user string
		for {
			list, err := tx.Stopped(throttle, user, page)
			if err != nil || len(list) == 0 {
				return err
			}
			for _, m := range list {
				if !s.stopped.set(m.Throttle, m.User, true) {
					s.tell.Bounded(BoundStopped)
					return nil
				}
			}
			throttle, user = list[len(list)-1].Throttle, list[len(list)-1].User
		}
	})
}
