package ban

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"weir/internal/queue"
	"weir/store"
)

// forGood is when a ban ends that never does.
const forGood = math.MaxInt64

// An item is a ban on the list. What a reader looks at never changes.
type item struct {
	ban      store.Ban
	until    int64        // in nanoseconds since the epoch
	position int          // among those that end; not for readers
	order    uint64       // the order in which items came; not for readers
	last     atomic.Int64 // of a mechanism: when it last had a reason, see mark.told; of a lift: when it was heard of
}

func end(b store.Ban) int64 {
	if b.Until.IsZero() {
		return forGood
	}
	return b.Until.UnixNano()
}

// holds reports whether the ban is not over.
func (i *item) holds(now int64) bool { return now < i.until }

// A table finds items by key. Any number may read while one writes: what they walk over never changes, a writer
// replaces old chains by new ones. There are as many chains as items, about, so that each is short.
type table[K comparable] struct {
	seed   maphash.Seed
	chains atomic.Pointer[[]atomic.Pointer[node[K]]] // a power of two
	count  int                                       // the writer's
}

type node[K comparable] struct {
	key  K
	item *item
	next *node[K]
}

// A network is a prefix as the table of networks knows it: without pointers, so that it is hashed and cut quickly.
type network struct {
	hi, lo uint64 // the bits of the address, from the left; those of IPv4 fill half of hi
	length uint64 // of the prefix, and v6
}

// v6 marks networks of IPv6.
const v6 = 1 << 8

func networkOf(addr netip.Addr) network {
	if addr.Is4() {
		b := addr.As4()
		return network{hi: uint64(binary.BigEndian.Uint32(b[:])) << 32, length: 32}
	}
	b := addr.As16()
	return network{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), 128 | v6}
}

func networkOfPrefix(p netip.Prefix) network { return networkOf(p.Addr()).cut(p.Bits()) }

// cut returns the wider network of so many bits.
func (n network) cut(bits int) network {
	n.length = n.length&v6 | uint64(bits)
	n.hi &^= math.MaxUint64 >> min(bits, 64)
	n.lo &^= math.MaxUint64 >> max(bits-64, 0)
	return n
}

// leastChains is how many chains an empty table has.
const leastChains = 64

func newTable[K comparable]() *table[K] {
	t := &table[K]{seed: maphash.MakeSeed()}
	chains := make([]atomic.Pointer[node[K]], leastChains)
	t.chains.Store(&chains)
	return t
}

// find returns the item of a key, or nil.
func (t *table[K]) find(key K) *item {
	for n := t.chain(*t.chains.Load(), key).Load(); n != nil; n = n.next {
		if n.key == key {
			return n.item
		}
	}
	return nil
}

func (t *table[K]) chain(chains []atomic.Pointer[node[K]], key K) *atomic.Pointer[node[K]] {
	return &chains[maphash.Comparable(t.seed, key)&uint64(len(chains)-1)]
}

func (t *table[K]) put(key K, i *item) {
	if t.find(key) == nil {
		t.count++
		if t.count > len(*t.chains.Load()) {
			t.grow()
		}
	}
	c := t.chain(*t.chains.Load(), key)
	c.Store(&node[K]{key, i, c.Load().without(key)})
}

func (t *table[K]) remove(key K) {
	if t.find(key) == nil {
		return
	}
	t.count--
	c := t.chain(*t.chains.Load(), key)
	c.Store(c.Load().without(key))
}

// without is the chain without a key. What comes before the key is copied, because readers may be walking over it.
func (n *node[K]) without(key K) *node[K] {
	switch {
	case n == nil:
		return nil
	case n.key == key:
		return n.next
	}
	rest := n.next.without(key)
	if rest == n.next {
		return n
	}
	return &node[K]{n.key, n.item, rest}
}

// grow doubles the chains. Readers go on with the old ones.
func (t *table[K]) grow() {
	old := *t.chains.Load()
	chains := make([]atomic.Pointer[node[K]], 2*len(old))
	for i := range old {
		for n := old[i].Load(); n != nil; n = n.next {
			c := t.chain(chains, n.key)
			c.Store(&node[K]{n.key, n.item, c.Load()})
		}
	}
	t.chains.Store(&chains)
}

// each calls f with every item. What is added or removed meanwhile may be among them or not.
func (t *table[K]) each(f func(*item)) {
	chains := *t.chains.Load()
	for i := range chains {
		for n := chains[i].Load(); n != nil; n = n.next {
			f(n.item)
		}
	}
}

// An ending is the bans that end, the one that ends soonest first.
type ending = queue.Ranked[item]

func newEnding() ending {
	return queue.NewRanked(func(a, b *item) bool {
		return a.until < b.until || a.until == b.until && a.order < b.order
	}, func(i *item) *int { return &i.position })
}

// soonest is when the first of them ends; forGood when none does.
func soonest(e *ending) int64 {
	if e.Len() == 0 {
		return forGood
	}
	return e.First().until
}

func instant(ns int64) time.Time {
	if ns == forGood {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
