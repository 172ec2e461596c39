package ban

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/identify"
	"weir/internal/testkit/needs"
	"weir/store"
)

// A model is the list as one would write it down: everything is looked for in everything.
type model struct {
	Options
	bans     map[store.BanKey]modelBan
	turns    int
	offences map[netip.Prefix][]offence // in order
	heard    []netip.Prefix             // of suspects, the last one heard of at the end
}

type modelBan struct {
	store.Ban
	turn int
}

type offence struct {
	client string
	at     time.Time
}

// soonest is the key of the ban that ends first among those that match.
func (m *model) soonest(match func(modelBan) bool) (best store.BanKey, found bool) {
	for key, b := range m.bans {
		old := m.bans[best]
		if !b.Until.IsZero() && match(b) &&
			(!found || b.Until.Before(old.Until) || b.Until.Equal(old.Until) && b.turn < old.turn) {
			best, found = key, true
		}
	}
	return best, found
}

func (m *model) add(b store.Ban, now time.Time) error {
	old, known := m.bans[b.BanKey]
	if known && !old.Holds(now) {
		delete(m.bans, b.BanKey)
		known = false
	}
	switch {
	case known && !b.Operator && (old.Operator || !b.Until.After(old.Until)):
		return nil
	case known && !b.Operator:
		b.Since = old.Since
	case !known && len(m.bans) >= m.Max:
		gone, found := m.soonest(func(b modelBan) bool { return b.Operator && !b.Holds(now) })
		if !found {
			gone, found = m.soonest(func(b modelBan) bool { return !b.Operator })
		}
		if !found {
			return ErrFull
		}
		delete(m.bans, gone)
	}
	m.turns++
	m.bans[b.BanKey] = modelBan{b, m.turns}
	return nil
}

func (m *model) offend(client string, source netip.Addr, now time.Time) error {
	ban := func(key store.BanKey, reason string) error {
		return m.add(store.Ban{BanKey: key, Reason: reason, Since: now, Until: now.Add(m.TTL.Std())}, now)
	}
	if client != "" {
		if err := ban(store.BanKey{Client: client}, "forged"); err != nil {
			return err
		}
	}
	if m.exempt(source) {
		return nil
	}
	address := identify.Network(source, m.V4, m.V6)
	m.forget(func(p netip.Prefix) bool { return !m.late(p).After(now.Add(-m.Window.Std())) })
	kept := slices.DeleteFunc(m.offences[address], func(o offence) bool {
		return !o.at.After(now.Add(-m.Window.Std())) || client != "" && o.client == client
	})
	m.offences[address] = append(kept, offence{client, now})
	m.heard = append(slices.DeleteFunc(m.heard, func(p netip.Prefix) bool { return p == address }), address)
	if len(m.offences[address]) < m.AddressFrom {
		if len(m.heard) > m.Max {
			first := m.heard[0]
			m.forget(func(p netip.Prefix) bool { return p == first })
		}
		return nil
	}
	m.forget(func(p netip.Prefix) bool { return p == address })
	return ban(store.BanKey{Prefix: address}, fmt.Sprintf("%d clients: forged", m.AddressFrom))
}

// late is when a suspect was last heard of.
func (m *model) late(p netip.Prefix) time.Time {
	all := m.offences[p]
	return all[len(all)-1].at
}

// forget forgets suspects.
func (m *model) forget(which func(netip.Prefix) bool) {
	for _, p := range slices.Clone(m.heard) {
		if which(p) {
			delete(m.offences, p)
			m.heard = slices.DeleteFunc(m.heard, func(q netip.Prefix) bool { return p == q })
		}
	}
}

func (m *model) exempt(addr netip.Addr) bool {
	return slices.ContainsFunc(m.Exempt, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func (m *model) find(client string, source netip.Addr, now time.Time) (best store.Ban, found bool) {
	if b, known := m.bans[store.BanKey{Client: client}]; client != "" && known && b.Holds(now) {
		return b.Ban, true
	}
	for _, b := range m.bans {
		hits := b.Prefix.IsValid() && b.Prefix.Contains(source) && b.Holds(now) && (b.Operator || !m.exempt(source))
		if hits && (!found || b.Prefix.Bits() > best.Prefix.Bits()) {
			best, found = b.Ban, true
		}
	}
	return best, found
}

func (m *model) remove(key store.BanKey, now time.Time) error {
	m.forget(func(p netip.Prefix) bool { return p == key.Prefix })
	b, known := m.bans[key]
	delete(m.bans, key)
	if !known || !b.Holds(now) {
		return store.ErrNotFound
	}
	return nil
}

func (m *model) advance(now time.Time) {
	maps.DeleteFunc(m.bans, func(_ store.BanKey, b modelBan) bool { return !b.Holds(now) })
	m.forget(func(p netip.Prefix) bool { return !m.late(p).After(now.Add(-m.Window.Std())) })
}

// Whatever happens, the list says what the model says, and whoever watches knows the whole list.
func TestAnySequence(t *testing.T) {
	needs.Unwatched(t)
	clients := []string{"", "a", "b", "c", "d", "e"}
	var sources []netip.Addr
	for _, s := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.130", "198.51.100.1", "2001:db8::1",
		"2001:db8:0:1::1"} {
		sources = append(sources, netip.MustParseAddr(s))
	}
	keys := []store.BanKey{key(t, "192.0.2.1"), key(t, "192.0.2.0/24"), key(t, "192.0.0.0/8"), key(t, "2001:db8::/64"),
		key(t, "2001:db8::/32"),
		key(t, "client:a"), key(t, "client:b"), key(t, "client:c")}
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{bans: map[store.BanKey]modelBan{}, offences: map[netip.Prefix][]offence{}}
		m.Options = Options{
			Max:         rapid.IntRange(1, 8).Draw(rt, "max"),
			AddressFrom: rapid.IntRange(2, 3).Draw(rt, "address_from"),
			V4:          rapid.SampledFrom([]int{24, 32}).Draw(rt, "v4"),
			Exempt:      []netip.Prefix{netip.MustParsePrefix("192.0.2.128/25")},
		}.WithDefaults()
		l := newList(t, m.Options)
		watched := map[store.BanKey]store.Ban{}
		l.Watch(func(c Change) {
			if before, known := watched[c.Ban.BanKey]; known != (c.What != Added) {
				rt.Fatalf("%s %s, and before: %v", c.What, c.Ban.BanKey, before)
			}
			if c.Holds() {
				watched[c.Ban.BanKey] = c.Ban
			} else {
				delete(watched, c.Ban.BanKey)
			}
		})
		now := epoch
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 10).Draw(rt, "minutes"))*time.Minute + 1)
			var got, want error
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				b := store.Ban{BanKey: rapid.SampledFrom(keys).Draw(rt, "who"), By: "x",
					Operator: rapid.Bool().Draw(rt, "operator"), Since: now}
				if minutes := rapid.IntRange(0, 90).Draw(rt, "until"); minutes > 0 || !b.Operator {
					b.Until = now.Add(time.Duration(minutes+1) * time.Minute)
				}
				got, want = l.Add(b, now), m.add(b, now)
			case 1, 2, 3:
				o := Offence{Client: rapid.SampledFrom(clients).Draw(rt, "client"),
					Source: rapid.SampledFrom(sources).Draw(rt, "source"), Reason: "forged"}
				got, want = l.Offend(o, now), m.offend(o.Client, o.Source, now)
			case 4:
				who := rapid.SampledFrom(keys).Draw(rt, "remove")
				got, want = l.Remove(who, now), m.remove(who, now)
			case 5:
				l.Advance(now)
				m.advance(now)
			}
			if !errors.Is(got, want) {
				rt.Fatalf("%v, want %v", got, want)
			}
			var all []store.Ban
			for _, b := range m.bans {
				if b.Holds(now) {
					all = append(all, b.Ban)
				}
			}
			slices.SortFunc(all, func(a, b store.Ban) int { return a.Compare(b.BanKey) })
			if !slices.EqualFunc(l.All(now), all, func(a, b store.Ban) bool { return a.Equal(&b) }) {
				rt.Fatalf("the list is\n%v, want\n%v", l.All(now), all)
			}
			for _, client := range clients {
				for _, source := range sources {
					got, found := l.Find(client, source, now)
					if want, known := m.find(client, source, now); found != known || !got.Equal(&want) {
						rt.Fatalf("%s at %s: %v, want %v", client, source, got, want)
					}
				}
			}
			s := l.Stats()
			if s.Clients+s.Networks != len(m.bans) || len(m.bans) > m.Max || s.Suspects != len(m.heard) {
				rt.Fatalf("%+v, want %d bans and %d suspects", s, len(m.bans), len(m.heard))
			}
			if !maps.EqualFunc(watched, m.bans, func(a store.Ban, b modelBan) bool { return a.Equal(&b.Ban) }) {
				rt.Fatalf("whoever watches knows\n%v, want\n%v", watched, m.bans)
			}
		}
	})
}

// The table says what a map says, whatever its size.
func TestTable(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		tab, want := newTable[int](), map[int]*item{}
		for range rapid.IntRange(1, 400).Draw(rt, "steps") {
			k := rapid.IntRange(0, 200).Draw(rt, "key")
			if rapid.IntRange(0, 3).Draw(rt, "step") == 0 {
				tab.remove(k)
				delete(want, k)
			} else {
				i := &item{}
				tab.put(k, i)
				want[k] = i
			}
		}
		seen := map[*item]bool{}
		tab.each(func(i *item) { seen[i] = true })
		if tab.count != len(want) || len(seen) != len(want) {
			rt.Fatalf("%d counted, %d seen, want %d", tab.count, len(seen), len(want))
		}
		for k := range 201 {
			if tab.find(k) != want[k] {
				rt.Fatalf("key %d", k)
			}
		}
	})
}

// Networks as the table knows them are told apart as prefixes are.
func TestNetworks(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		some := rapid.Custom(func(t *rapid.T) netip.Prefix {
			b := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x80, 0xff}), 16, 16).Draw(t, "bytes")
			if rapid.Bool().Draw(t, "v4") {
				p, _ := netip.AddrFrom4([4]byte(b)).Prefix(rapid.IntRange(0, 32).Draw(t, "bits"))
				return p
			}
			p, _ := netip.AddrFrom16([16]byte(b)).Prefix(rapid.IntRange(0, 128).Draw(t, "bits"))
			return p
		})
		p, q := some.Draw(rt, "p"), some.Draw(rt, "q")
		if (networkOfPrefix(p) == networkOfPrefix(q)) != (p == q) {
			rt.Fatalf("%s and %s", p, q)
		}
		if q.Addr().Is4() == p.Addr().Is4() &&
			(networkOf(q.Addr()).cut(p.Bits()) == networkOfPrefix(p)) != p.Contains(q.Addr()) {
			rt.Fatalf("%s in %s", q.Addr(), p)
		}
	})
}
