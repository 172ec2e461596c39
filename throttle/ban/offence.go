package ban

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"
	"unicode/utf8"

	"weir/identify"
	"weir/internal/queue"
	"weir/store"
)

// An Offence is what a mechanism bans a client for.
type Offence struct {
	// The id that weir gave to the client; with one that the client claims, anybody could have others banned. Empty
	// where there is none, or nothing but the address: the offence then counts as one of a new client.
	Client string
	Source netip.Addr // where it came from; may be invalid
	Reason string     // for people, as in "forged stamp"
	By     string     // the mechanism
}

// Offend bans a client for the TTL, and its address when enough clients from there were banned within the window.
func (l *List) Offend(o Offence, now time.Time) error {
	l.counts.offences.Add(1)
	if o.Client == "" && !o.Source.IsValid() {
		return fmt.Errorf("an offence of nobody: %w", store.ErrInvalid)
	}
	if o.Client == identify.AddressID(o.Source) {
		o.Client = "" // behind an address there may be a company: it is banned as an address, from the threshold on
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = now.UnixNano()
	m := mark{l.suspects.name(o.Client), l.seen, l.afterLifts(&o)}
	l.shared.tell(o, m)
	return l.offend(o, m)
}

// offend takes in an offence of this node, or of another one. l.mu is held.
func (l *List) offend(o Offence, m mark) error {
	s := l.setup.Load()
	if o.Client != "" {
		b := o.ban(store.BanKey{Client: o.Client}, m.at, s.TTL.Std())
		if err := b.Validate(); err != nil {
			return err
		}
		if b.Holds(time.Unix(0, l.seen)) && !l.lifted(b.BanKey, m.told) {
			if err := l.add(b, m.told); err != nil {
				return err
			}
		}
	}
	if !o.Source.IsValid() || l.exempts(o.Source) {
		return nil
	}
	return l.suspect(s, identify.Network(o.Source, s.V4, s.V6), o, m)
}

// ban is the ban for an offence.
func (o *Offence) ban(key store.BanKey, at int64, ttl time.Duration) store.Ban {
	since := time.Unix(0, at)
	return store.Ban{BanKey: key, Reason: o.Reason, By: o.By, Since: since, Until: since.Add(ttl)}
}

// suspect notes that a client of an address was banned, and bans the address from the threshold on.
func (l *List) suspect(s *setup, address netip.Prefix, o Offence, m mark) error {
	key := store.BanKey{Prefix: address}
	since := l.seen - int64(s.Window)
	if m.at <= since || l.lifted(key, m.told) {
		return nil
	}
	l.suspects.expire(since)
	marks := l.suspects.note(address, o, m, since)
	if len(marks) < s.AddressFrom {
		l.suspects.shrink(s.Max)
		return nil
	}
	at, told := marks[len(marks)-1].at, int64(0)
	for _, m := range marks {
		told = max(told, m.told)
	}
	l.suspects.forget(address)
	if s.AddressFrom > 1 {
		o.Reason = clip(fmt.Sprintf("%d clients: %s", s.AddressFrom, o.Reason), store.MaxReason)
	}
	b := o.ban(key, at, s.TTL.Std())
	if err := b.Validate(); err != nil {
		return err
	}
	if !b.Holds(time.Unix(0, l.seen)) {
		return nil
	}
	err := l.add(b, told)
	if err == nil {
		l.counts.byThreshold.Add(1)
	}
	return err
}

// clip shortens a text to n bytes, between two letters.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// suspects are addresses from which clients were banned recently, at most as many as the list has entries.
type suspects struct {
	by       map[netip.Prefix]*suspect
	order    queue.Listed[suspect] // the latest last
	nameless uint64                // the name of the last client without an id
}

type suspect struct {
	address netip.Prefix
	marks   []mark
	reason  string // of the last one
	by      string
	node    queue.Node[suspect]
}

// A mark is one banned client.
type mark struct {
	client uint64 // see name
	at     int64
	told   int64 // the same by the clock of the node where it happened, which may be ahead: for comparing with lifts
}

// name is what a client is known by, on all nodes: a hash of its id. One without an id is a new client each time.
func (s *suspects) name(client string) uint64 {
	if client == "" {
		s.nameless++
		return s.nameless
	}
	return hashed(client)
}

func hashed(client string) uint64 {
	sum := sha256.Sum256([]byte(client))
	return binary.BigEndian.Uint64(sum[:])
}

// note counts a client, and returns the different ones since a time, the latest last.
func (s *suspects) note(address netip.Prefix, o Offence, m mark, since int64) []mark {
	who := s.by[address]
	if who == nil {
		who = &suspect{address: address}
		s.by[address] = who
	} else {
		s.order.Remove(&who.node)
	}
	s.order.Add(&who.node, who)
	who.reason, who.by = o.Reason, o.By
	who.marks = slices.DeleteFunc(who.marks, func(old mark) bool {
		if old.client == m.client {
			m.at, m.told = max(m.at, old.at), max(m.told, old.told)
		}
		return old.at <= since || old.client == m.client
	})
	// What another node tells may come late.
	behind := len(who.marks)
	for behind > 0 && who.marks[behind-1].at > m.at {
		behind--
	}
	who.marks = slices.Insert(who.marks, behind, m)
	return who.marks
}

// before forgets what was held against an address up to a time.
func (s *suspects) before(address netip.Prefix, at int64) {
	who := s.by[address]
	if who == nil {
		return
	}
	who.marks = slices.DeleteFunc(who.marks, func(m mark) bool { return m.told <= at })
	if len(who.marks) == 0 {
		s.forget(address)
	}
}

func (s *suspects) forget(address netip.Prefix) {
	if who := s.by[address]; who != nil {
		s.order.Remove(&who.node)
		delete(s.by, address)
	}
}

// expire forgets addresses without a banned client since a time.
func (s *suspects) expire(since int64) {
	for who := s.order.First(); who != nil && who.marks[len(who.marks)-1].at <= since; who = s.order.First() {
		s.forget(who.address)
	}
}

// shrink forgets addresses until there are no more than most.
func (s *suspects) shrink(most int) {
	for len(s.by) > most {
		s.forget(s.order.First().address)
	}
}
