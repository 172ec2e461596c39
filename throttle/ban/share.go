package ban

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"weir/identify"
	"weir/internal/parcel"
	"weir/store"
)

// Bounds of what travels between nodes.
const (
	maxOutbox = 10_000         // offenders, and operators' words, that wait to be sent
	maxAhead  = 24 * time.Hour // how far the clock of whoever tells something may be ahead
)

// Errors of what is heard.
var (
	ErrNotShared = errors.New("the list is no longer shared")
	errFarAhead  = fmt.Errorf("a time that is more than %s ahead: set the clocks of both nodes", maxAhead)
)

// A Shared is a list that the nodes of a farm share. List.Share makes one. Goroutines may share it, and a nil one does
// nothing.
//
// Offences travel, so that thresholds hold over all nodes, and operators' bans and lifts with their time: of two words
// about the same client or network the later one counts, in whatever order they come. What mechanisms ban follows from
// the offences, and is told in snapshots only. Evictions and ends are never told.
type Shared struct {
	list  *List
	send  func(msg []byte) error
	spare atomic.Pointer[func(netip.Prefix) bool]
	wake  atomic.Pointer[func()]
	heard struct{ words, unknown, malformed atomic.Uint64 }

	flushing sync.Mutex // one at a time, so that what cannot be sent is put back in order

	// Under list.mu.
	offences map[offender]word
	words    map[store.BanKey]word
	dropped  atomic.Uint64
}

// An offender is who is told about once until the next Flush.
type offender struct {
	client string
	source netip.Addr
}

// SharedStats say what has become of what was told and heard.
type SharedStats struct {
	Waiting   int    // words to be sent
	Dropped   uint64 // words for which there was no room: others learn of them from a snapshot
	Heard     uint64 // words of others
	Unknown   uint64 // of those, words of a newer weir that this one does not know
	Malformed uint64 // of those, words that make no sense
}

// Share makes the list one of several. What happens to it is handed to send, in messages of at most 60 KB, by Flush;
// what an operator does, at once. send must not block. It is called under no lock of the list.
//
// A list is shared once at a time: with a second call the first one ends. Close ends it.
func (l *List) Share(send func(msg []byte) error) *Shared {
	s := &Shared{list: l, send: send, offences: map[offender]word{}, words: map[store.BanKey]word{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shared = s
	return s
}

// Close ends sharing. What waits is not sent.
func (s *Shared) Close() {
	l := s.list
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared == s {
		l.shared = nil
	}
	clear(s.offences)
	clear(s.words)
}

// Spare registers the one function that says whether a network has an address that no mechanism of another node may
// have banned here, as one of a trusted proxy. It must not block.
func (s *Shared) Spare(f func(netip.Prefix) bool) { s.spare.Store(&f) }

func (s *Shared) spares(p netip.Prefix) bool {
	f := s.spare.Load()
	return f != nil && (*f)(p)
}

// Wake registers the one function that is called when there is something to send where there was nothing. It is called
// under a lock: it must not block, nor call back.
func (s *Shared) Wake(f func()) { s.wake.Store(&f) }

// Due reports whether Flush has something to send.
func (s *Shared) Due() bool {
	s.list.mu.Lock()
	defer s.list.mu.Unlock()
	return s.waiting() > 0
}

func (s *Shared) waiting() int { return len(s.offences) + len(s.words) }

// Dropped is how many words were not sent because too many waited. When it has grown, the other nodes need a snapshot.
func (s *Shared) Dropped() uint64 { return s.dropped.Load() }

// Stats says what has become of what was told and heard.
func (s *Shared) Stats() SharedStats {
	s.list.mu.Lock()
	waiting := s.waiting()
	s.list.mu.Unlock()
	return SharedStats{waiting, s.dropped.Load(), s.heard.words.Load(), s.heard.unknown.Load(),
		s.heard.malformed.Load()}
}

// say has the other nodes told what an operator did. list.mu is held.
func (s *Shared) say(b store.Ban) {
	if s == nil {
		return
	}
	key := b.BanKey
	key.Lifted = false
	wait(s, s.words, key, wordOf(b))
}

// sayListed has the other nodes told of a mechanism's ban. What an operator has said meanwhile goes first. list.mu is
// held.
func (s *Shared) sayListed(b store.Ban, last int64) {
	if s == nil {
		return
	}
	if waiting, known := s.words[b.BanKey]; known && waiting.Kind != listedWord {
		return
	}
	w := wordOf(b)
	w.Last = last
	wait(s, s.words, b.BanKey, w)
}

// tell has the other nodes told of an offence. list.mu is held.
func (s *Shared) tell(o Offence, m mark) {
	if s == nil || o.Client != "" && (store.BanKey{Client: o.Client}).Validate() != nil {
		return
	}
	who := offender{o.Client, identify.Plain(o.Source).WithZone("")}
	w := word{Kind: offenceWord, Client: o.Client, Source: who.source, Reason: clip(o.Reason, store.MaxReason),
		By: clip(o.By, store.MaxBy), Since: m.told}
	if o.Client == "" { // several of one address are several clients
		w.Marks = append(s.offences[who].Marks, sharedMark{m.client, m.told})
		w.Marks = w.Marks[max(0, len(w.Marks)-MaxAddressFrom):] // more make no difference
	}
	wait(s, s.offences, who, w)
}

// wait puts a word into the outbox, in the place of an earlier one about the same.
func wait[K comparable](s *Shared, box map[K]word, key K, w word) {
	if _, known := box[key]; !known && len(box) >= maxOutbox {
		s.dropped.Add(1)
		return
	}
	empty := s.waiting() == 0
	box[key] = w
	if wake := s.wake.Load(); empty && wake != nil {
		(*wake)()
	}
}

// Flush sends what waits. What cannot be sent waits for the next call, as far as there is room; the error is that of
// send.
func (s *Shared) Flush() error {
	if s == nil {
		return nil
	}
	s.flushing.Lock()
	defer s.flushing.Unlock()
	l := s.list
	l.mu.Lock()
	offences, words := s.offences, s.words
	s.offences, s.words = map[offender]word{}, map[store.BanKey]word{}
	l.mu.Unlock()
	var err error
	p := parcel.Packer{Version: wireVersion, Give: func(msg []byte) bool {
		err = s.send(msg)
		return err == nil
	}}
	for _, w := range words {
		p.Add(w)
	}
	for _, w := range offences {
		p.Add(w)
	}
	if p.Flush(); err == nil {
		return nil
	}
	// Words may come twice, so all of them are put back.
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared == s {
		putBack(s, s.words, words)
		putBack(s, s.offences, offences)
	}
	return fmt.Errorf("the other nodes are not told of bans: %w", err)
}

// putBack puts words back into the outbox, apart from those that there is a later one of.
func putBack[K comparable](s *Shared, box, back map[K]word) {
	for key, w := range back {
		if _, known := box[key]; !known {
			wait(s, box, key, w)
		}
	}
}

// Snapshot gives messages that together say all that this node knows, until give returns false.
func (s *Shared) Snapshot(now time.Time, give func(msg []byte) bool) {
	l := s.list
	p := parcel.Packer{Version: wireVersion, Give: give}
	l.mu.Lock()
	if l.shared != s {
		l.mu.Unlock()
		return
	}
	at := now.UnixNano()
	var lifted []*item
	for _, i := range l.lifts.by {
		if i.holds(at) {
			lifted = append(lifted, i)
		}
	}
	marks := l.suspects.words()
	l.mu.Unlock()
	for _, i := range lifted {
		p.Add(wordOf(i.ban))
	}
	for _, operator := range []bool{true, false} { // what operators say matters most
		l.each(func(i *item) {
			if i.holds(at) && i.ban.Operator == operator {
				w := wordOf(i.ban)
				w.Last = i.last.Load()
				p.Add(w)
			}
		})
	}
	for _, w := range marks {
		p.Add(w)
	}
	p.Flush()
}

// words are what is held against addresses, for other nodes.
func (s *suspects) words() (all []word) {
	for _, who := range s.by {
		w := word{Kind: suspectWord, Prefix: who.address, Reason: clip(who.reason, store.MaxReason),
			By: clip(who.by, store.MaxBy)}
		for _, m := range who.marks {
			w.Marks = append(w.Marks, sharedMark{m.client, m.told})
		}
		all = append(all, w)
	}
	return all
}

// Hear takes in what another node tells. It may come late, twice and in any order. Words that make no sense are left
// out, counted, and the error is about the first of them; the others hold.
func (s *Shared) Hear(msg []byte, now time.Time) error {
	words, bad, err := parse(msg)
	if err != nil {
		s.heard.malformed.Add(1)
		return err
	}
	s.heard.words.Add(uint64(len(words) + bad.unknown + bad.malformed))
	s.heard.unknown.Add(uint64(bad.unknown))
	for i := range words {
		if err := s.hear(&words[i], now); errors.Is(err, ErrNotShared) {
			return err
		} else if err != nil {
			bad.malformed++
			bad.first = first(bad.first, err)
		}
	}
	s.heard.malformed.Add(uint64(bad.malformed))
	if bad.malformed > 0 {
		return fmt.Errorf("%d of %d words about bans make no sense: %w", bad.malformed, len(words)+bad.malformed,
			bad.first)
	}
	return nil
}

func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (s *Shared) hear(w *word, now time.Time) error {
	l := s.list
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared != s {
		return ErrNotShared
	}
	l.seen = now.UnixNano()
	if err := w.check(l.seen); err != nil {
		return err
	}
	switch w.Kind {
	case offenceWord:
		return s.hearOffence(w)
	case suspectWord:
		if l.wide(w.Prefix) && !s.spares(w.Prefix) && !l.exempts(w.Prefix.Addr()) {
			return s.hearMarks(w.Prefix, w)
		}
		return nil
	case listedWord:
		return s.hearListed(w)
	}
	b := w.ban()
	if err := b.Validate(); err != nil {
		return err
	}
	if b.Lifted {
		l.hearLift(b)
	} else {
		l.hearBan(b)
	}
	return nil
}

// hearBan takes in an operator's ban. l.mu is held.
func (l *List) hearBan(b store.Ban) {
	i := l.current(b.BanKey)
	if w := l.word(b.BanKey); w != nil && compareWords(b, *w) <= 0 {
		return
	}
	if b.Holds(time.Unix(0, l.seen)) {
		if l.add(b, 0) == nil { // else there is no room; it is counted
			l.outdate(b)
		}
		return
	}
	// It is over, and goes before an earlier word all the same.
	if i != nil && i.ban.Operator {
		l.drop(i, Removed)
	}
	l.remember(over(b), true)
}

// hearLift takes in that an operator lifted a ban. l.mu is held.
func (l *List) hearLift(b store.Ban) {
	key := b.BanKey
	key.Lifted = false
	at := b.Since.UnixNano()
	b.Until = earlier(b.Until, b.Since.Add(KeepWords))
	i := l.current(key)
	if w := l.word(key); w == nil || w.Lifted || compareWords(b, *w) > 0 {
		if i != nil && i.ban.Operator {
			l.drop(i, Removed)
			i = nil
		}
		l.remember(b, true)
	}
	switch {
	case i == nil || i.ban.Operator:
	case i.last.Load() <= at:
		l.drop(i, Removed)
	case i.ban.Since.UnixNano() <= at: // it was banned again since
		again := i.ban
		again.Since = time.Unix(0, min(i.last.Load(), l.seen))
		if !again.Since.Equal(i.ban.Since) {
			l.replace(i, again, i.last.Load())
		}
	}
	if key.Client == "" {
		l.suspects.before(key.Prefix, at)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// hearOffence takes in an offence. A source that is spared here counts for nothing; the client does. list.mu is held.
func (s *Shared) hearOffence(w *word) error {
	l := s.list
	o := Offence{Client: w.Client, Source: w.Source, Reason: w.Reason, By: w.By}
	if o.Source.IsValid() && s.spares(netip.PrefixFrom(o.Source, o.Source.BitLen())) {
		o.Source = netip.Addr{}
	}
	if o.Client != "" {
		single := o
		single.Source = netip.Addr{}
		m := mark{at: min(w.Since, l.seen), told: w.Since}
		if err := l.offend(single, m); err != nil && !errors.Is(err, ErrFull) {
			return err
		}
		w.Marks = []sharedMark{{hashed(o.Client), w.Since}}
	}
	if !o.Source.IsValid() || l.exempts(o.Source) {
		return nil
	}
	setup := l.setup.Load()
	return s.hearMarks(identify.Network(o.Source, setup.V4, setup.V6), w)
}

// hearMarks takes in clients that were banned elsewhere and count towards banning their address. list.mu is held.
func (s *Shared) hearMarks(address netip.Prefix, w *word) error {
	l := s.list
	setup := l.setup.Load()
	key := store.BanKey{Prefix: address}
	o := Offence{Reason: w.Reason, By: w.By}
	for _, m := range w.Marks {
		// A ban of the address has taken its earlier clients into account.
		if i := l.current(key); i != nil && !i.ban.Operator && m.At <= i.last.Load() {
			continue
		}
		if err := l.suspect(setup, address, o, mark{m.Client, min(m.At, l.seen), m.At}); err != nil &&
			!errors.Is(err, ErrFull) {
			return err
		}
	}
	return nil
}

// wide reports whether a network is as wide as those that mechanisms ban here.
func (l *List) wide(p netip.Prefix) bool {
	s := l.setup.Load()
	return p == identify.Network(p.Addr(), s.V4, s.V6)
}

// hearListed takes in what a mechanism has banned elsewhere. list.mu is held.
func (s *Shared) hearListed(w *word) error {
	l := s.list
	b := w.ban()
	last := max(w.Last, w.Since)
	b.Since, b.Until = time.Unix(0, min(w.Since, l.seen)), earlier(b.Until, time.Unix(0, l.seen).Add(maxTTL))
	if err := b.Validate(); err != nil {
		return err
	}
	if b.Client == "" && (!l.wide(b.Prefix) || s.spares(b.Prefix)) || l.lifted(b.BanKey, last) ||
		!b.Holds(time.Unix(0, l.seen)) {
		return nil
	}
	if l.lifted(b.BanKey, w.Since) {
		b.Since = time.Unix(0, min(last, l.seen))
	}
	if l.item(b.BanKey) == nil && l.size() >= l.setup.Load().Max && end(b) <= soonest(&l.others) {
		return nil // it would push out one that lasts longer
	}
	_ = l.add(b, last) // counted where the list is full
	if b.Client == "" {
		l.suspects.before(b.Prefix, last)
	}
	return nil
}
