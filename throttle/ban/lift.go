package ban

import (
	"cmp"
	"strings"
	"time"

	"weir/identify"
	"weir/store"
)

// KeepWords is how long an operator's word is remembered after it was said, when it bans nobody any more. A node that
// was cut off for longer may bring an old ban back. It is the same for a lift of a mechanism's ban, since another node
// may have an operator's ban that this one has not heard of.
const KeepWords = 7 * 24 * time.Hour

// lifts are operators' words that ban nobody: at most as many as the list has entries. The one that ends soonest goes
// first.
type lifts struct {
	by   map[store.BanKey]*item // Lifted is set in all keys
	ends ending
}

func (l *lifts) drop(i *item) {
	l.ends.Remove(i)
	delete(l.by, i.ban.BanKey)
}

// find returns the lift of a client or network, or nil.
func (l *lifts) find(key store.BanKey) *item {
	if len(l.by) == 0 {
		return nil
	}
	key.Lifted = true
	return l.by[key]
}

// compareWords says which of two operators' words about the same goes before the other: the later one. Of two at the
// same time a ban goes first: a lift that follows from a ban's end has the ban's time, and must not end the ban on
// nodes whose clocks are behind.
func compareWords(a, b store.Ban) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(side(a), side(b)), cmp.Compare(end(a), end(b)),
		strings.Compare(a.Reason, b.Reason), strings.Compare(a.By, b.By))
}

func side(b store.Ban) int {
	if b.Lifted {
		return 0
	}
	return 1
}

// word returns the last word of an operator about a client or network, or nil. l.mu is held.
func (l *List) word(key store.BanKey) *store.Ban {
	if i := l.item(key); i != nil && i.ban.Operator {
		return &i.ban
	}
	if i := l.lifts.find(key); i != nil {
		return &i.ban
	}
	return nil
}

// lifted reports whether what happened at a time counts for nothing, because an operator lifted the ban then or later.
// l.mu is held.
func (l *List) lifted(key store.BanKey, at int64) bool {
	i := l.lifts.find(key)
	return i != nil && at <= i.ban.Since.UnixNano()
}

// afterLifts is the time by which the other nodes know an offence that happens here now. It comes after the lifts that
// were heard of before, though the clock of whoever lifted may be ahead. l.mu is held.
func (l *List) afterLifts(o *Offence) int64 {
	told, s := l.seen, l.setup.Load()
	for _, key := range []store.BanKey{{Client: o.Client}, {Prefix: identify.Network(o.Source, s.V4, s.V6)}} {
		if i := l.lifts.find(key); i != nil && i.last.Load() < l.seen {
			told = max(told, i.ban.Since.UnixNano()+1)
		}
	}
	return told
}

// outlives reports whether an operator's ban goes before the lift that is remembered.
func (l *List) outlives(b store.Ban) bool {
	i := l.lifts.find(b.BanKey)
	return b.Operator && (i == nil || compareWords(b, i.ban) > 0)
}

// remember remembers a lift. keep says whether the store is to have it. l.mu is held.
func (l *List) remember(b store.Ban, keep bool) {
	if !b.Holds(time.Unix(0, l.seen)) {
		return
	}
	heard := l.seen
	if old := l.lifts.by[b.BanKey]; old != nil {
		until := later(b.Until, old.ban.Until) // the longer memory may be about another ban
		if compareWords(old.ban, b) > 0 {
			b, heard = old.ban, old.last.Load()
		}
		if b.Until = until; b.Equal(&old.ban) {
			return
		}
		keep = true
		l.lifts.drop(old)
	} else if len(l.lifts.by) >= l.setup.Load().Max {
		first := l.lifts.ends.First()
		if end(b) <= first.until {
			return
		}
		l.unlift(first.ban.BanKey)
	}
	l.added++
	i := &item{ban: b, until: end(b), order: l.added}
	i.last.Store(heard)
	l.lifts.by[b.BanKey] = i
	l.lifts.ends.Add(i)
	l.dueBy(i.until)
	if keep && l.keeper != nil {
		l.keeper.note(Change{Added, b})
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// unlift forgets the lift of a client or network, in the store too. l.mu is held.
func (l *List) unlift(key store.BanKey) {
	i := l.lifts.find(key)
	if i == nil {
		return
	}
	l.lifts.drop(i)
	if l.keeper != nil {
		l.keeper.note(Change{Removed, i.ban})
	}
}

// outdate makes an operator's ban the last word: older ones must not come back, not even when it has ended. So what
// will then be left of a short ban is remembered from the start: nobody may be there to see it end. l.mu is held.
func (l *List) outdate(b store.Ban) {
	l.unlift(b.BanKey)
	if l.shared != nil && end(b) < end(over(b)) {
		l.remember(over(b), true)
	}
}

// over is what is left of an operator's ban that has ended: a lift.
func over(b store.Ban) store.Ban {
	b.Lifted, b.Until = true, b.Since.Add(KeepWords)
	return b
}

// lift is what an operator who takes something off the list says. It is later than everything known about that.
func (l *List) lift(i *item) store.Ban {
	at := max(l.seen, i.last.Load())
	if i.ban.Operator {
		at = max(at, i.ban.Since.UnixNano()+1)
	}
	if old := l.lifts.find(i.ban.BanKey); old != nil {
		at = max(at, old.ban.Since.UnixNano()+1)
	}
	b := store.Ban{BanKey: i.ban.BanKey, Operator: true, Since: time.Unix(0, at)}
	b.Lifted, b.Until = true, b.Since.Add(KeepWords)
	return b
}
