//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"weir/identify"
)

// A list is the allowed or the banned networks: a map of the kernel, and what stands in it.
type list struct {
	name    string
	flag    uint64 // of the control word: the list is not empty
	kernel  *ebpf.Map
	entries map[netip.Prefix]entry
}

// An entry holds until a time on the kernel's clock, or permanently when that is 0.
type entry struct {
	until  time.Duration
	static bool
}

// markStatic marks entries from the configuration.
const markStatic = 1

// familyBits is how many bits of a key are the family.
const familyBits = 32

func keyOf(p netip.Prefix) objectListKey {
	k := objectListKey{Prefixlen: familyBits + uint32(p.Bits()), Family: 6}
	if p.Addr().Is4() {
		k.Family = 4
	}
	copy(k.Addr[:], p.Addr().AsSlice())
	return k
}

func prefixOf(k objectListKey) netip.Prefix {
	addr := netip.AddrFrom16(k.Addr)
	if k.Family == 4 {
		addr = netip.AddrFrom4([4]byte(k.Addr[:4]))
	}
	return netip.PrefixFrom(addr, int(k.Prefixlen)-familyBits)
}

// readList reads what stands in a map of the kernel.
func readList(name string, flag uint64, kernel *ebpf.Map) (*list, error) {
	l := &list{name: name, flag: flag, kernel: kernel, entries: map[netip.Prefix]entry{}}
	var key objectListKey
	var value objectListEntry
	all := kernel.Iterate()
	for all.Next(&key, &value) {
		l.entries[prefixOf(key)] = entry{time.Duration(value.Until), value.Mark == markStatic}
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("cannot read the %s list: %w", name, err)
	}
	return l, nil
}

// put adds a network or changes how long it stands on the list.
func (l *list) put(p netip.Prefix, e entry) error {
	old, known := l.entries[p]
	if !known && len(l.entries) >= MaxEntries {
		return ErrListFull
	}
	if known && old == e {
		return nil
	}
	value := objectListEntry{Until: uint64(e.until), Bits: uint32(p.Bits())}
	if e.static {
		value.Mark = markStatic
	}
	if err := l.kernel.Update(keyOf(p), value, ebpf.UpdateAny); err != nil {
		return fmt.Errorf("cannot put %s on the %s list: %w", p, l.name, err)
	}
	l.entries[p] = e
	return nil
}

func (l *list) remove(p netip.Prefix) error {
	if _, known := l.entries[p]; !known {
		return nil
	}
	if err := l.kernel.Delete(keyOf(p)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("cannot take %s off the %s list: %w", p, l.name, err)
	}
	delete(l.entries, p)
	return nil
}

// fits checks that there is room for the networks of the configuration beside those that were added while the gate ran.
func (l *list) fits(static []netip.Prefix) error {
	n := len(static)
	for _, e := range l.entries {
		if !e.static {
			n++
		}
	}
	if n > MaxEntries {
		return fmt.Errorf("the %s list, with %d networks: %w", l.name, n, ErrListFull)
	}
	return nil
}

// configure puts the networks of the configuration on the list, permanently, and takes those off that are no longer in
// it. What was added while the gate ran stays.
func (l *list) configure(static []netip.Prefix) error {
	wanted := make(map[netip.Prefix]bool, len(static))
	for _, p := range static {
		wanted[identify.PlainPrefix(p)] = true
	}
	for p, e := range l.entries {
		if e.static && !wanted[p] {
			if err := l.remove(p); err != nil {
				return err
			}
		}
	}
	for p := range wanted {
		if err := l.put(p, entry{static: true}); err != nil {
			return err
		}
	}
	return nil
}

// expire takes off what has expired. The kernel ignores such entries already.
func (l *list) expire(now time.Duration) error {
	for p, e := range l.entries {
		if e.until != 0 && e.until <= now {
			if err := l.remove(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// all returns the entries that hold now, in the order of addresses. kernel is the present time on the kernel's clock.
func (l *list) all(kernel time.Duration, now time.Time) []Entry {
	all := make([]Entry, 0, len(l.entries))
	for p, e := range l.entries {
		out := Entry{Prefix: p, Static: e.static}
		if e.until != 0 {
			if e.until <= kernel {
				continue
			}
			out.Until = now.Add(e.until - kernel)
		}
		all = append(all, out)
	}
	slices.SortFunc(all, func(a, b Entry) int {
		if c := a.Prefix.Addr().Compare(b.Prefix.Addr()); c != 0 {
			return c
		}
		return a.Prefix.Bits() - b.Prefix.Bits()
	})
	return all
}
