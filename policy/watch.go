package policy

import (
	"net/netip"
	"sync/atomic"
	"time"

	"weir"
	"weir/policy/heavy"
)

// How fast a Watch forgets: counts halve in this time. What a throttle would do in shadow is looked at over an hour.
const (
	HeldHalfLife  = time.Minute
	WouldHalfLife = 15 * time.Minute
)

// WatchBytes is what a Watch takes at most, and PayersBytes what it takes more beside a throttle that asks for stamps.
const (
	WatchBytes  = 2*heavy.Bytes + RefusalsKept*refusalBytes
	PayersBytes = heavy.Bytes
)

// A Watch remembers who a throttle holds back, and its last refusals, in fixed memory. Of events that are admitted
// only those get here that paid. The zero value is ready. It is safe for concurrent use, and nobody waits for another
// one in it: what two goroutines would write at once is left out, and counted.
type Watch struct {
	held     atomic.Pointer[heavy.Sketch] // made when somebody is held back for the first time
	would    atomic.Pointer[heavy.Sketch]
	paid     atomic.Pointer[heavy.Sketch] // of a throttle that asks for stamps
	refusals refusals
}

// A Party is who an event is charged to. The zero value is nobody.
type Party struct {
	Kind    PartyKind
	Name    string       // of an account or a mail user. Accounts may be secrets: whoever shows them masks them
	Network netip.Prefix // of a network
}

// A PartyKind says what a party is.
type PartyKind uint8

const (
	Nobody PartyKind = iota
	Account
	Network
	User // of mail
)

var partyNames = [...]string{"", "account", "network", "user"}

func (k PartyKind) String() string { return weir.Name(partyNames[:], k, "party") }

// Naming says how a throttle tells clients apart, for its Watch. The zero value takes the mail user or the account, and
// the source where an event names neither.
type Naming struct {
	Sources bool // always the source
	V4, V6  int  // how many bits of a source count; 0: 32 and 64
	Payers  bool // it asks for stamps, and those who pay are remembered, too
}

// client is what an event says about where it comes from. It is kept for those who wait.
type client struct {
	account, user, id string
	source            netip.Addr
}

func clientOf(ev *weir.Event) client {
	c := client{account: ev.Account, id: ev.ID, source: ev.Source}
	if ev.Message != nil {
		c.user = ev.Message.User
	}
	return c
}

// party is who a client is for a throttle.
func (n Naming) party(c *client) Party {
	switch {
	case !n.Sources && c.user != "":
		return Party{Kind: User, Name: c.user}
	case !n.Sources && c.account != "":
		return Party{Kind: Account, Name: c.account}
	case !c.source.IsValid():
		return Party{}
	}
	bits := n.V6
	if bits == 0 {
		bits = 64
	}
	source := c.source.Unmap()
	if source.Is4() {
		if bits = n.V4; bits == 0 {
			bits = 32
		}
	}
	network, err := source.Prefix(bits)
	if err != nil { // more bits than the address has
		network = netip.PrefixFrom(source, source.BitLen())
	}
	return Party{Kind: Network, Network: network}
}

// Held counts n events of a party that were held back, or in shadow would have been.
func (w *Watch) Held(now time.Time, who Party, n int, shadow bool) {
	if w == nil || who.Kind == Nobody || n <= 0 {
		return
	}
	at, life := &w.held, HeldHalfLife
	if shadow {
		at, life = &w.would, WouldHalfLife
	}
	count(at, life, now, who, n)
}

// Paid counts an event that went on because its party paid with a stamp.
func (w *Watch) Paid(now time.Time, who Party) {
	if w != nil && who.Kind != Nobody {
		count(&w.paid, HeldHalfLife, now, who, 1)
	}
}

// count adds to a sketch, which is made when the first one comes.
func count(at *atomic.Pointer[heavy.Sketch], life time.Duration, now time.Time, who Party, n int) {
	s := at.Load()
	if s == nil {
		at.CompareAndSwap(nil, heavy.New(life))
		s = at.Load()
	}
	if who.Kind == Network {
		var key [networkKey]byte
		s.AddBytes(now, uint8(who.Kind), packNetwork(&key, who.Network), uint32(n))
		return
	}
	s.Add(now, uint8(who.Kind), who.Name, uint32(n))
}

// Refused tells those who watch that a throttle has refused an event which a gate put before it without a chain.
func (l *Link) Refused(ev *weir.Event, f weir.Figure, gate string, shadow bool) {
	if l.Watch == nil {
		return
	}
	c := clientOf(ev)
	who := l.Names.party(&c)
	l.Watch.Held(ev.Time, who, 1, shadow)
	f.By = l.Name
	l.Watch.Refused(&Refusal{Time: ev.Time, Gate: gate, Verdict: weir.Refuse, Reason: weir.OverLimit, Figure: f,
		Shadow: shadow, Who: who, Source: c.source, ID: c.id})
}

// networkKey is how many bytes a network takes in a sketch.
const networkKey = 17

func packNetwork(key *[networkKey]byte, p netip.Prefix) []byte {
	a, bits := p.Addr().As16(), p.Bits()
	if p.Addr().Is4() {
		bits += 128 // those of IPv4 are told apart by their length
	}
	key[0] = byte(bits)
	copy(key[1:], a[:])
	return key[:]
}

func unpackNetwork(key string) netip.Prefix {
	var a [16]byte
	copy(a[:], key[1:])
	addr, bits := netip.AddrFrom16(a), int(key[0])
	if bits > 128 || bits == 128 && addr.Is4In6() {
		return netip.PrefixFrom(addr.Unmap(), bits-128)
	}
	return netip.PrefixFrom(addr, bits)
}

// A Heavy is a party that is held back often, or pays often.
type Heavy struct {
	Party
	heavy.Entry
}

// Top returns the parties that were held back most lately, at most so many: in earnest, or in shadow.
func (w *Watch) Top(now time.Time, most int, shadow bool) []Heavy {
	if w == nil {
		return nil
	}
	if shadow {
		return top(w.would.Load(), now, most)
	}
	return top(w.held.Load(), now, most)
}

// Payers returns the parties that paid most often lately, at most so many.
func (w *Watch) Payers(now time.Time, most int) []Heavy {
	if w == nil {
		return nil
	}
	return top(w.paid.Load(), now, most)
}

func top(s *heavy.Sketch, now time.Time, most int) []Heavy {
	if s == nil {
		return nil
	}
	var all []Heavy
	for _, e := range s.Top(now, most) {
		h := Heavy{Party: Party{Kind: PartyKind(e.Kind), Name: e.Name}, Entry: e}
		if h.Party.Kind == Network {
			h.Party.Name, h.Party.Network = "", unpackNetwork(e.Name)
		}
		all = append(all, h)
	}
	return all
}

// Age forgets names that have not been held back, or have not paid, for long. Call it every few seconds.
func (w *Watch) Age(now time.Time) {
	if w == nil {
		return
	}
	for _, at := range []*atomic.Pointer[heavy.Sketch]{&w.held, &w.would, &w.paid} {
		if s := at.Load(); s != nil {
			s.Age(now)
		}
	}
}

// GateFigures are what the chains of one gate count for those who watch. Reloads keep them.
type GateFigures struct {
	Gate string
	// Would counts events that throttles in shadow would have held back, each once.
	Would atomic.Uint64
	// Connections that came to the door, and of them those that were turned away.
	Connections, TurnedAway atomic.Uint64
}
