package ban

import (
	"net/netip"
	"testing"
	"time"
)

// TestClocksDiffer: where the clock of one node is ahead, a lift at either one ends a ban at both, and who offends
// again at either one is banned at both.
func TestClocksDiffer(t *testing.T) {
	const skew = 10 * time.Minute
	for name, who := range map[string]struct{ client, source, key string }{
		"a client": {"x", "", "client:x"}, "an address": {"", "192.0.2.1", "192.0.2.1"},
	} {
		for _, snapshots := range []bool{false, true} {
			for _, lifts := range []int{0, 1} {
				for _, again := range []int{0, 1} {
					nodes := [2]*member{newMember(t, Options{AddressFrom: 1}), newMember(t, Options{AddressFrom: 1})}
					now := epoch
					at := func(node int) time.Time { return now.Add(time.Duration(node) * skew) } // the second is ahead
					tell := func(from int) {
						msgs := nodes[from].take(t)
						if snapshots {
							msgs = nodes[from].snapshot(at(from))
						}
						for range 2 { // words may come twice
							nodes[1-from].hears(t, at(1-from), msgs...)
						}
					}
					banned := func(want bool, when string) {
						for i, n := range nodes {
							if _, found := n.Get(key(t, who.key), at(i)); found != want {
								t.Errorf("%s, snapshots %v, lifted at %d, again at %d, %s: banned at %d: %v", name,
									snapshots, lifts, again, when, i, found)
							}
						}
					}
					for _, offends := range []int{1, 0} {
						offend(t, nodes[offends].List, who.client, who.source, at(offends))
						tell(offends)
						banned(true, "first")
					}
					now = now.Add(time.Minute)
					must(t, nodes[lifts].Remove(key(t, who.key), at(lifts)))
					tell(lifts)
					banned(false, "lifted")
					now = now.Add(time.Minute)
					offend(t, nodes[again].List, who.client, who.source, at(again))
					tell(again)
					banned(true, "again")
				}
			}
		}
	}
}

// TestOffencesBeforeALift: a request that came before a lift, and was judged after it, counts for nothing.
func TestOffencesBeforeALift(t *testing.T) {
	m := newMember(t, Options{AddressFrom: 1})
	offend(t, m.List, "x", "192.0.2.1", minutes(1))
	for _, who := range []string{"client:x", "192.0.2.1"} {
		must(t, m.Remove(key(t, who), minutes(3)))
	}
	offend(t, m.List, "x", "192.0.2.1", minutes(2))
	if got := names(m.List, minutes(3)); got != "" {
		t.Error(got)
	}
}

// TestOneListForEachSpelling: an address is the same one, however it is written.
func TestOneListForEachSpelling(t *testing.T) {
	a, b := newMember(t, Options{AddressFrom: 2}), newMember(t, Options{AddressFrom: 2})
	for _, c := range []struct{ ban, ask, lift string }{
		{"192.0.2.1", "::ffff:192.0.2.1", "::ffff:c000:201"},
		{"::ffff:192.0.2.0/120", "192.0.2.77", "192.0.2.0/24"},
		{"2001:DB8::1", "2001:db8:0:0::1", "2001:0db8::0001"},
		{"2001:db8::/64", "2001:db8::5%eth0", "2001:db8::ffff/64"},
	} {
		must(t, a.Add(byOperator(t, c.ban, 0), epoch))
		b.hears(t, epoch, a.take(t)...)
		if _, found := b.Find("", netip.MustParseAddr(c.ask), epoch); !found {
			t.Errorf("%s is banned, and %s is not", c.ban, c.ask)
		}
		must(t, b.Remove(key(t, c.lift), minutes(1)))
		a.hears(t, minutes(1), b.take(t)...)
		if got := names(a.List, minutes(1)); got != "" {
			t.Errorf("%s is lifted, and %s is not", c.lift, got)
		}
	}
	// Offences count together.
	offend(t, a.List, "x", "::ffff:203.0.113.1", minutes(2))
	b.hears(t, minutes(2), a.take(t)...)
	offend(t, b.List, "y", "203.0.113.1", minutes(2))
	a.hears(t, minutes(2), b.take(t)...)
	for _, m := range []*member{a, b} {
		if banned(m.List, "", "::ffff:203.0.113.1", minutes(2)) == "" {
			t.Error("two spellings are two addresses")
		}
	}
}
