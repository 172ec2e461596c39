package admission

import (
	"encoding/binary"
	"net/netip"

	"weir/identify"
)

// A client is where somebody comes from, as far as his places are counted: an IPv4 address, or an IPv6 /64. The zero value is nobody
// in particular, who is not counted.
type client struct {
	network uint64
	family  uint8 // 4 or 6; 0 for nobody
}

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

// clients counts what each client has waiting. It holds no more entries than there are requests held and places in line.
type clients map[client]int

func (c clients) of(who client) int {
	if who.family == 0 {
		return 0
	}
	return c[who]
}

func (c clients) add(who client) {
	if who.family != 0 {
		c[who]++
	}
}

func (c clients) remove(who client) {
	switch n := c.of(who); {
	case n > 1:
		c[who] = n - 1
	case n == 1:
		delete(c, who)
	}
}
