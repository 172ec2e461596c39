package ban

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/identify"
	"weir/internal/tables"
	"weir/store"
)

// ErrFull is returned when the list is full of operators' bans.
var ErrFull = errors.New("the block list is full of operators' bans")

// A List is the block list. Make one with New. It is safe for concurrent use.
type List struct {
	setup    atomic.Pointer[setup]
	clients  *table[string]
	networks *table[network]
	lengths  atomic.Pointer[lengths]
	counts   counts

	repeaters repeaters

	mu        sync.Mutex // whoever changes something
	operators ending
	others    ending // of mechanisms
	added     uint64 // items so far
	suspects  suspects
	lifts     lifts
	shared    *Shared // nil where there is no farm
	watchers  []*watcher
	keeper    *Keeper
	alarm     func(time.Time)
	due       int64 // when Advance was last said to be due
	seen      int64 // the time as last told
}

// A setup is the options, ready for use.
type setup struct {
	Options
	exempt identify.Ranges[struct{}]
}

// lengths are the prefix lengths that occur, falling; of IPv4 and of IPv6.
type lengths [2][]lengthCount

type lengthCount struct{ bits, n int }

// counts are the figures behind Stats.
type counts struct {
	clients, networks, operators                                     atomic.Int64
	added, removed, expired, evicted, refused, offences, byThreshold atomic.Uint64
	wouldBan, autoBanned                                             atomic.Uint64
}

// Stats is the size of the list, and what has become of bans since the start.
type Stats struct {
	Clients   int    `json:"clients" metric:"weir_bans_listed" label:"kind=client" help:"Entries of the block list now."`
	Networks  int    `json:"networks" metric:"weir_bans_listed" label:"kind=network"`
	Operators int    `json:"operators"` // of both, what operators added
	Max       int    `json:"max" metric:"weir_bans_limit" help:"How many entries the block list can hold."`
	Added     uint64 `json:"added" metric:"weir_bans_added_total" help:"Bans added to the block list, including those loaded at the start."`
	// By operators.
	Removed uint64 `json:"removed" metric:"weir_bans_removed_total" label:"reason=removed" help:"Bans that left the block list, by reason: removed by an operator, expired, or evicted to make room."`
	Expired uint64 `json:"expired" metric:"weir_bans_removed_total" label:"reason=expired"`
	// Pushed out by others.
	Evicted   uint64 `json:"evicted" metric:"weir_bans_removed_total" label:"reason=evicted"`
	Refused   uint64 `json:"refused" metric:"weir_bans_refused_total" help:"Bans that were not added because the block list is full of operators' bans."`
	Offences  uint64 `json:"offences" metric:"weir_bans_offences_total" help:"Offences that throttles reported."`
	Addresses uint64 `json:"addresses" metric:"weir_bans_addresses_total" help:"Addresses banned because many of their clients are."`
	// Networks that stayed over a limit: banned for it, and in shadow.
	AutoBanned uint64 `json:"auto_banned" metric:"weir_bans_auto_total" label:"mode=enforce" help:"Networks that stayed over a limit: banned for it (enforce), or only counted (shadow)."`
	AutoWould  uint64 `json:"auto_would" metric:"weir_bans_auto_total" label:"mode=shadow"`

	Suspects int `json:"-"` // addresses from which clients were banned recently
	Lifts    int `json:"-"` // that are remembered, so that no other node brings a ban back
	Unsaved  int `json:"-"` // changes that the store does not have yet
}

// New returns an empty list.
func New(o Options) (*List, error) {
	s, err := newSetup(o)
	if err != nil {
		return nil, err
	}
	l := &List{clients: newTable[string](), networks: newTable[network](), operators: newEnding(),
		others: newEnding(), alarm: func(time.Time) {}, due: forGood}
	l.setup.Store(s)
	l.repeaters.seed, l.repeaters.table = maphash.MakeSeed(), tables.NewSets[repeater](autoSets, autoWays)
	l.lengths.Store(&lengths{})
	l.suspects = suspects{nameless: rand.Uint64(), by: map[netip.Prefix]*suspect{}}
	l.lifts = lifts{map[store.BanKey]*item{}, newEnding()}
	return l, nil
}

func newSetup(o Options) (*setup, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &setup{Options: o.WithDefaults()}
	for _, p := range o.Exempt {
		s.exempt.Add(p, struct{}{})
	}
	return s, nil
}

// Configure changes the options, or nothing on an error. A smaller list drops the bans that end soonest, no operator's.
func (l *List) Configure(o Options, now time.Time) error {
	s, err := newSetup(o)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = now.UnixNano()
	l.setup.Store(s)
	for l.size() > s.Max && l.evict() {
	}
	l.suspects.shrink(s.Max)
	for len(l.lifts.by) > s.Max {
		l.unlift(l.lifts.ends.First().ban.BanKey)
	}
	return nil
}

// Find returns the ban of a client, or else of the narrowest banned network of its address. Both may be missing.
func (l *List) Find(client string, source netip.Addr, now time.Time) (store.Ban, bool) {
	if i := l.find(&weir.Event{Client: client, Source: source, Time: now}); i != nil {
		return i.ban, true
	}
	return store.Ban{}, false
}

// find returns the ban of an event's client, or else of a network that contains its source by either reading.
func (l *List) find(ev *weir.Event) *item {
	at := ev.Time.UnixNano()
	if ev.Client != "" && l.counts.clients.Load() > 0 {
		for _, name := range [...]string{ev.Client, identify.ClientAt(ev.Client, ev.Source)} {
			if i := l.clients.find(name); i != nil && i.holds(at) {
				return i
			}
		}
	}
	if l.counts.networks.Load() == 0 {
		return nil
	}
	return l.findNetwork(ev, at)
}

// findNetwork returns the ban of the narrowest network that contains the source of an event. Where networks are exempt,
// only what operators have banned one by one holds.
func (l *List) findNetwork(ev *weir.Event, at int64) *item {
	if !ev.Source.IsValid() {
		return nil
	}
	source := identify.Plain(ev.Source)
	whole := networkOf(source)
	for _, length := range l.lengths.Load()[family(source)] {
		if i := l.networks.find(whole.cut(length.bits)); i != nil && i.holds(at) &&
			(i.ban.Operator && !Listed(&i.ban) || !ev.Freed(l.exempts)) {
			return i
		}
	}
	return nil
}

// exempts reports whether no mechanism's ban of a network holds for an address.
func (l *List) exempts(source netip.Addr) bool {
	_, exempt := l.setup.Load().exempt.Find(source)
	return exempt
}

func family(addr netip.Addr) int {
	if addr.Is4() {
		return 0
	}
	return 1
}

// Get returns the ban of exactly that client or network.
func (l *List) Get(key store.BanKey, now time.Time) (store.Ban, bool) {
	key.Prefix = identify.PlainPrefix(key.Prefix)
	if key.Validate() != nil || key.Lifted {
		return store.Ban{}, false
	}
	if i := l.item(key); i != nil && i.holds(now.UnixNano()) {
		return i.ban, true
	}
	return store.Ban{}, false
}

// item returns what is on the list for a valid key, or nil.
func (l *List) item(key store.BanKey) *item {
	if key.Client != "" {
		return l.clients.find(key.Client)
	}
	return l.networks.find(networkOfPrefix(key.Prefix))
}

// Each calls f with every ban that holds at now, networks first, in no order. It takes no lock: changes may be missed.
func (l *List) Each(now time.Time, f func(store.Ban)) {
	at := now.UnixNano()
	l.each(func(i *item) {
		if i.holds(at) {
			f(i.ban)
		}
	})
}

func (l *List) each(f func(*item)) {
	l.networks.each(f)
	l.clients.each(f)
}

// All returns the bans that hold at now, in the order of store.BanKey.Compare.
func (l *List) All(now time.Time) []store.Ban {
	all := make([]store.Ban, 0, l.size())
	l.Each(now, func(b store.Ban) { all = append(all, b) })
	slices.SortFunc(all, func(a, b store.Ban) int { return a.Compare(b.BanKey) })
	return all
}

// Stats returns the size of the list.
func (l *List) Stats() Stats {
	c := &l.counts
	s := Stats{Clients: int(c.clients.Load()), Networks: int(c.networks.Load()), Operators: int(c.operators.Load()),
		Max: l.setup.Load().Max, Added: c.added.Load(), Removed: c.removed.Load(), Expired: c.expired.Load(),
		Evicted: c.evicted.Load(), Refused: c.refused.Load(), Offences: c.offences.Load(),
		Addresses: c.byThreshold.Load(), AutoBanned: c.autoBanned.Load(), AutoWould: c.wouldBan.Load()}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Suspects, s.Lifts = len(l.suspects.by), len(l.lifts.by)
	if l.keeper != nil {
		s.Unsaved = l.keeper.unsaved()
	}
	return s
}

func (l *List) size() int { return int(l.counts.clients.Load() + l.counts.networks.Load()) }

// Add bans a client or a network. A ban without a start begins now. One of a mechanism (Operator is false) without an
// end gets the TTL; it prolongs a ban, but no operator's. One of an operator may be permanent, and replaces any.
//
// It returns ErrFull when the list is full, and store.ErrInvalid or store.ErrTooLarge for a ban that makes no sense.
func (l *List) Add(b store.Ban, now time.Time) error {
	b.Prefix = identify.PlainPrefix(b.Prefix)
	if b.Since.IsZero() {
		b.Since = now
	}
	if b.Until.IsZero() && !b.Operator {
		b.Until = now.Add(l.setup.Load().TTL.Std())
	}
	// Round drops the reading of the monotonic clock, which means nothing to another machine.
	b.Since, b.Until = b.Since.Round(0), b.Until.Round(0)
	if err := b.Validate(); err != nil {
		return err
	}
	switch {
	case b.Lifted:
		return fmt.Errorf("a lift is not a ban: %w", store.ErrInvalid)
	case b.Client == "" && b.Prefix.Bits() == 0:
		return errEverybody
	case !b.Holds(now):
		return fmt.Errorf("a ban that is over at %s already: %w", b.Until.Format(time.RFC3339), store.ErrInvalid)
	case b.Operator:
		return l.order(b, now)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = now.UnixNano()
	if last := b.Since.UnixNano(); !l.lifted(b.BanKey, last) {
		return l.add(b, last)
	}
	return nil
}

var errEverybody = fmt.Errorf("a ban of everybody: %w", store.ErrInvalid)

// order puts an operator's ban on the list, and tells the other nodes.
func (l *List) order(b store.Ban, now time.Time) error {
	l.mu.Lock()
	l.seen = now.UnixNano()
	s := l.shared
	l.current(b.BanKey)
	if w := l.word(b.BanKey); s != nil && w != nil && !b.Since.After(w.Since) {
		b.Since = w.Since.Add(1) // another node's clock is ahead
	}
	err := l.add(b, 0)
	if err == nil {
		l.outdate(b)
		s.say(b)
	}
	l.mu.Unlock()
	_ = s.Flush() // what cannot be sent waits
	return err
}

// add puts a valid ban on the list. last is when a mechanism last had a reason for it. l.mu is held.
func (l *List) add(b store.Ban, last int64) error {
	old := l.current(b.BanKey)
	switch {
	case old == nil:
		return l.enter(b, last, true)
	case b.Operator:
	case old.ban.Operator:
		return nil
	case end(b) <= old.until:
		old.last.Store(max(last, old.last.Load()))
		return nil
	default:
		b.Since, last = old.ban.Since, max(last, old.last.Load())
	}
	l.replace(old, b, last)
	return nil
}

// current returns what is on the list for a key and is not over, or nil. l.mu is held.
func (l *List) current(key store.BanKey) *item {
	i := l.item(key)
	if i != nil && !i.holds(l.seen) {
		l.drop(i, Expired)
		return nil
	}
	return i
}

// put makes an item of a ban, in the order in which they end, and puts it into its table.
func (l *List) put(b store.Ban, last int64) {
	l.added++
	i := &item{ban: b, until: end(b), order: l.added}
	i.last.Store(last)
	if i.until != forGood {
		l.heap(i).Add(i)
	}
	if b.Client != "" {
		l.clients.put(b.Client, i)
	} else {
		l.networks.put(networkOfPrefix(b.Prefix), i)
	}
	l.dueBy(i.until)
}

// enter puts a ban on the list that is not there. A full list drops another one.
func (l *List) enter(b store.Ban, last int64, store bool) error {
	if l.size() >= l.setup.Load().Max && !l.evict() {
		l.counts.refused.Add(1)
		return ErrFull
	}
	l.put(b, last)
	l.count(b, 1)
	l.counts.added.Add(1)
	l.tell(Change{Added, b}, store)
	return nil
}

func (l *List) replace(old *item, b store.Ban, last int64) {
	l.heap(old).Remove(old)
	l.put(b, last)
	if b.Operator && !old.ban.Operator {
		l.counts.operators.Add(1)
	}
	l.tell(Change{Changed, b}, true)
}

func (l *List) drop(i *item, why What) {
	l.heap(i).Remove(i)
	if i.ban.Client != "" {
		l.clients.remove(i.ban.Client)
	} else {
		l.networks.remove(networkOfPrefix(i.ban.Prefix))
	}
	l.count(i.ban, -1)
	switch why {
	case Removed:
		l.counts.removed.Add(1)
	case Expired:
		l.counts.expired.Add(1)
	case Evicted:
		l.counts.evicted.Add(1)
	}
	l.tell(Change{why, i.ban}, true)
}

// evict drops the ban of a mechanism that ends soonest, if there is one.
func (l *List) evict() bool {
	if soonest(&l.operators) <= l.seen { // it is over
		l.drop(l.operators.First(), Expired)
		return true
	}
	i := l.others.First()
	if i == nil {
		return false
	}
	why := Evicted
	if !i.holds(l.seen) {
		why = Expired
	}
	l.drop(i, why)
	return true
}

// count counts a ban that joins the list (1) or leaves it (-1).
func (l *List) count(b store.Ban, n int) {
	if b.Client != "" {
		l.counts.clients.Add(int64(n))
	} else {
		l.counts.networks.Add(int64(n))
		l.length(b.Prefix, n)
	}
	if b.Operator {
		l.counts.operators.Add(int64(n))
	}
}

func (l *List) heap(i *item) *ending {
	if i.ban.Operator {
		return &l.operators
	}
	return &l.others
}

// length counts how often the length of a prefix occurs. Readers see the old lengths or the new ones.
func (l *List) length(p netip.Prefix, n int) {
	next := *l.lengths.Load()
	all := slices.Clone(next[family(p.Addr())])
	at, found := slices.BinarySearchFunc(all, p.Bits(), func(a lengthCount, bits int) int { return bits - a.bits })
	if !found {
		all = slices.Insert(all, at, lengthCount{bits: p.Bits()})
	}
	if all[at].n += n; all[at].n == 0 {
		all = slices.Delete(all, at, at+1)
	}
	next[family(p.Addr())] = all
	l.lengths.Store(&next)
}

// Remove takes a client or a network off the list, whoever added it, and forgets what was held against the address. It
// returns store.ErrNotFound when it is not there; a network is removed as it was banned, not as a part of a wider one.
func (l *List) Remove(key store.BanKey, now time.Time) error {
	key.Prefix = identify.PlainPrefix(key.Prefix)
	if err := key.Validate(); err != nil {
		return err
	}
	if key.Lifted {
		return fmt.Errorf("a lift is not a ban: %w", store.ErrInvalid)
	}
	l.mu.Lock()
	l.seen = now.UnixNano()
	s := l.shared
	err := l.remove(key)
	l.mu.Unlock()
	_ = s.Flush() // what cannot be sent waits
	return err
}

// remove is Remove. l.mu is held.
func (l *List) remove(key store.BanKey) error {
	if key.Client == "" {
		l.suspects.forget(key.Prefix)
	}
	i := l.current(key)
	if i == nil {
		return fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	l.drop(i, Removed)
	if l.shared != nil {
		b := l.lift(i)
		l.remember(b, true)
		l.shared.say(b)
	}
	return nil
}
