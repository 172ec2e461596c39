package ban

import (
	"fmt"
	"hash/maphash"
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
	if o.Client != "" {
		b := store.Ban{BanKey: store.BanKey{Client: o.Client}, Reason: o.Reason, By: o.By}
		if err := l.Add(b, now); err != nil {
			return err
		}
	}
	s := l.setup.Load()
	if !o.Source.IsValid() || l.exempts(o.Source) {
		return nil
	}
	address := identify.Network(o.Source, s.V4, s.V6)
	if !l.suspect(s, address, o.Client, now) {
		return nil
	}
	if s.AddressFrom > 1 {
		o.Reason = clip(fmt.Sprintf("%d clients: %s", s.AddressFrom, o.Reason), store.MaxReason)
	}
	err := l.Add(store.Ban{BanKey: store.BanKey{Prefix: address}, Reason: o.Reason, By: o.By}, now)
	if err == nil {
		l.counts.byThreshold.Add(1)
	}
	return err
}

// suspect notes that a client of an address was banned, and reports whether the address is to be banned too.
func (l *List) suspect(s *setup, address netip.Prefix, client string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = now.UnixNano()
	since := l.seen - int64(s.Window)
	l.suspects.expire(since)
	n := l.suspects.note(address, client, l.seen, since)
	if n < s.AddressFrom {
		l.suspects.shrink(s.Max)
		return false
	}
	l.suspects.forget(address)
	return true
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
	seed  maphash.Seed
	by    map[netip.Prefix]*suspect
	order queue.Listed[suspect] // the latest last
}

type suspect struct {
	address netip.Prefix
	marks   []mark
	node    queue.Node[suspect]
}

// A mark is one banned client.
type mark struct {
	client uint64 // a hash of its id
	at     int64
}

// note counts a client, and returns how many different ones there were since a time.
func (s *suspects) note(address netip.Prefix, client string, now, since int64) int {
	who := s.by[address]
	if who == nil {
		who = &suspect{address: address}
		s.by[address] = who
	} else {
		s.order.Remove(&who.node)
	}
	s.order.Add(&who.node, who)
	hash := maphash.String(s.seed, client)
	who.marks = slices.DeleteFunc(who.marks, func(m mark) bool {
		return m.at <= since || m.client == hash && client != ""
	})
	who.marks = append(who.marks, mark{hash, now})
	return len(who.marks)
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
