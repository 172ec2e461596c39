package admission

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"

	"weir"
	"weir/identify"
)

// A client is who takes turns with others: an account that the upstream has accepted, otherwise an IPv4 address or an
// IPv6 /64. The zero value is an unknown client, which is not counted.
type client struct {
	id     uint64
	family uint8 // 4, 6, byAccount or byID; 0 for an unknown client
}

// Families of clients besides those of addresses: known by its account, and by the id that weir gave it.
const byAccount, byID = 1, 2

func clientOf(source netip.Addr) client {
	switch source = identify.Plain(source); {
	case !source.IsValid():
		return client{}
	case source.Is4():
		b := source.As4()
		return client{uint64(binary.BigEndian.Uint32(b[:])), 4}
	default:
		b := source.As16()
		return client{binary.BigEndian.Uint64(b[:]), 6}
	}
}

func (c client) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], c.id)
	switch c.family {
	case 4:
		return netip.AddrFrom4([4]byte(b[4:8])).String()
	case 6:
		return netip.PrefixFrom(netip.AddrFrom16(b), 64).String()
	}
	return map[uint8]string{byAccount: "an account", 0: "unknown"}[c.family]
}

func (c client) hash(seed maphash.Seed) uint64 {
	var key [9]byte
	binary.BigEndian.PutUint64(key[:], c.id)
	key[8] = c.family
	return maphash.Bytes(seed, key[:])
}

// client returns who an event is from. An account counts only if the upstream has accepted it: names can be made up.
func (l *Lanes) client(ev *weir.Event) client {
	who := clientOf(ev.Source)
	if ev.Account != "" && l.accepted.has(who, ev.Account, nanos(ev.Time)) {
		return client{maphash.String(l.accepted.seed, ev.Account), byAccount}
	}
	return who
}

// clients counts what each client has waiting, in the lanes and in the line of the waiting room. Both are bounded. Who
// paid and has an id is counted by it, so that neighbours at one address do not keep each other out.
type clients map[client]int

// add counts n more, or fewer.
func (c clients) add(who client, n int) {
	if c[who] += n; c[who] == 0 || who.family == 0 {
		delete(c, who)
	}
}
