package ban

import (
	"slices"
	"time"

	"weir"
	"weir/store"
)

var _ weir.Clocked = (*List)(nil)

// What has become of a ban.
type What string

const (
	Added   What = "added"
	Changed What = "changed" // it ends at another time, or somebody else added it
	Removed What = "removed" // by an operator
	Expired What = "expired"
	Evicted What = "evicted" // pushed out by others
)

// A Change is something that happened to the list. Ban is the ban as it is now, or as it was when it left the list.
type Change struct {
	What What
	Ban  store.Ban
}

// Holds reports whether the ban is on the list after the change.
func (c Change) Holds() bool { return c.What == Added || c.What == Changed }

type watcher struct{ told func(Change) }

// Watch registers a function that is called for every ban on the list, and then for every change, in order. It is
// called under a lock: it must not block for long, nor call back. stop ends it.
func (l *List) Watch(told func(Change)) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.each(func(i *item) { told(Change{Added, i.ban}) })
	w := &watcher{told}
	l.watchers = append(l.watchers, w)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.watchers = slices.DeleteFunc(l.watchers, func(other *watcher) bool { return other == w })
	}
}

// tell passes a change on to all watchers, and to the keeper if the store does not know of it.
func (l *List) tell(c Change, store bool) {
	if l.keeper != nil && store {
		l.keeper.note(c)
	}
	for _, w := range l.watchers {
		w.told(c)
	}
}

// rest is the least time between two rounds of Advance. Bans that are over are not found in between either.
const rest = time.Second

// Advance takes bans off the list that are over, and has the store tried again. It returns when there is more to do.
func (l *List) Advance(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = now.UnixNano()
	gone := false
	for _, e := range []*ending{&l.operators, &l.others} {
		for soonest(e) <= l.seen {
			l.drop(e.First(), Expired)
			gone = true
		}
	}
	for soonest(&l.lifts.ends) <= l.seen {
		l.lifts.drop(l.lifts.ends.First()) // the store knows when it ends
		gone = true
	}
	l.suspects.expire(l.seen - int64(l.setup.Load().Window))
	l.due = min(soonest(&l.operators), soonest(&l.others), soonest(&l.lifts.ends))
	if l.keeper != nil {
		l.due = min(l.due, l.keeper.advance(l.seen, gone))
	}
	if l.due != forGood {
		l.due = max(l.due, l.seen+int64(rest))
	}
	return instant(l.due)
}

// Alarm registers the one function that is called when Advance is due earlier than it said, under a lock.
func (l *List) Alarm(f func(due time.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alarm = f
	if l.due != forGood {
		f(instant(l.due))
	}
}

func (l *List) dueBy(at int64) {
	if at < l.due {
		l.due = at
		l.alarm(instant(at))
	}
}
