package identify

import (
	"net/netip"
	"slices"
)

// Ranges is a map of networks. Find returns the value of the narrowest network that an address is in. The zero value is
// empty. Several goroutines may read it once it is complete.
type Ranges[T any] struct {
	said    map[netip.Prefix]T
	lengths [2][]int // prefix lengths that occur, falling; of IPv4 and of IPv6
}

// Add sets the value of a network.
func (r *Ranges[T]) Add(p netip.Prefix, what T) {
	p = PlainPrefix(p)
	if r.said == nil {
		r.said = map[netip.Prefix]T{}
	}
	r.said[p] = what
	lengths := &r.lengths[family(p.Addr())]
	if at, found := slices.BinarySearchFunc(*lengths, p.Bits(), func(a, b int) int { return b - a }); !found {
		*lengths = slices.Insert(*lengths, at, p.Bits())
	}
}

// Find returns the value of the narrowest network that an address is in.
func (r *Ranges[T]) Find(addr netip.Addr) (what T, found bool) {
	if len(r.said) == 0 || !addr.IsValid() {
		return what, false
	}
	addr = Plain(addr)
	for _, bits := range r.lengths[family(addr)] {
		p, _ := addr.Prefix(bits)
		if what, found = r.said[p]; found {
			return what, true
		}
	}
	return what, false
}

// Len is the number of networks.
func (r *Ranges[T]) Len() int { return len(r.said) }

func family(addr netip.Addr) int {
	if addr.Is4() {
		return 0
	}
	return 1
}

// PlainPrefix returns a network as throttles know it: IPv4 where it is mapped into IPv6, and without host bits.
func PlainPrefix(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked()
}
