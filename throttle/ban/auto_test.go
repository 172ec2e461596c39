package ban

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
	"weir/store"
)

// A crowd is a list with automatic bans, and a limit of 60 a minute that sources are over.
type crowd struct {
	*List
	t   testing.TB
	now time.Time
}

func newCrowd(t testing.TB, o Options) *crowd {
	if o.Auto == nil {
		o.Auto = &Auto{Enforce: true}
	}
	return &crowd{List: newList(t, o), t: t, now: epoch}
}

// refused has a source refused n times, and returns what came of the last one.
func (c *crowd) refused(source string, n int) (what Repeat) {
	for range n {
		if _, r := c.Exceed(Excess{Source: netip.MustParseAddr(source), Throttle: "edge", Limit: 60, Per: time.Minute},
			c.now); r > what {
			what = r
		}
	}
	return what
}

func (c *crowd) banned(source string) bool {
	_, found := c.Find("", netip.MustParseAddr(source), c.now)
	return found
}

// flood has a source refused n times in each of so many seconds, and returns after how many it was banned; 0: it was
// not.
func (c *crowd) flood(source string, n, seconds int) int {
	for i := range seconds {
		if c.refused(source, n) != Noted {
			return i + 1
		}
		c.now = c.now.Add(time.Second)
	}
	return 0
}

func TestAFloodIsBannedForAWhile(t *testing.T) {
	c := newCrowd(t, Options{})
	if got := c.flood("192.0.2.7", 100, 60); got != 20 {
		t.Errorf("banned after %d seconds, want 20", got)
	}
	if !c.banned("192.0.2.7") || c.banned("192.0.2.8") {
		t.Error("another one is banned")
	}
	b, _ := c.Find("", netip.MustParseAddr("192.0.2.7"), c.now)
	if b.By != "auto: throttle edge" || b.Operator || !b.Until.Equal(c.now.Add(10*time.Minute)) || b.Reason == "" {
		t.Errorf("%+v", b)
	}
	c.now = c.now.Add(10 * time.Minute)
	if c.banned("192.0.2.7") {
		t.Error("it does not end")
	}
	if got := c.flood("192.0.2.7", 100, 60); got != 20 {
		t.Errorf("whoever begins again is banned after %d seconds, want 20", got)
	}
	if s := c.Stats(); s.AutoBanned != 2 || s.AutoWould != 0 {
		t.Errorf("%+v", s)
	}
}

// People who load a page of many parts, and those behind one address who are a little over the limit, are not banned.
func TestPeopleAreNotBanned(t *testing.T) {
	for name, live := range map[string]func(c *crowd, second int){
		"a page with 500 pictures, twice a minute": func(c *crowd, second int) {
			if second%30 < 2 {
				c.refused("192.0.2.7", 250)
			}
		},
		"an office a little over its limit": func(c *crowd, _ int) { c.refused("192.0.2.7", 2) },
		"a program that asks once a second": func(c *crowd, _ int) { c.refused("192.0.2.7", 1) },
		"somebody who reloads every 4 seconds, with 20 pictures": func(c *crowd, second int) {
			if second%4 == 0 {
				c.refused("192.0.2.7", 20)
			}
		},
	} {
		c := newCrowd(t, Options{})
		for second := range 3600 {
			live(c, second)
			if c.banned("192.0.2.7") {
				t.Errorf("%s: banned after %d seconds", name, second)
				break
			}
			c.now = c.now.Add(time.Second)
		}
	}
}

// Who has used up a day's limit and asks once a second is no flood; who asks more than the limit again and again is.
func TestALimitOfADay(t *testing.T) {
	x := Excess{Source: netip.MustParseAddr("192.0.2.7"), Throttle: "edge", Limit: 1000, Per: 24 * time.Hour}
	c := newCrowd(t, Options{})
	for range 3600 {
		if _, what := c.Exceed(x, c.now); what != Noted {
			t.Fatal("banned for one request a second")
		}
		c.now = c.now.Add(time.Second)
	}
	for range 60 * 200 {
		if _, what := c.Exceed(x, c.now); what == BannedByNow {
			return
		}
		c.now = c.now.Add(time.Second / 200)
	}
	t.Error("200 refusals a second do not lead to a ban")
}

// However somebody spreads it, refusals in fewer parts of the time than it takes never lead to a ban.
func TestJustUnder(t *testing.T) {
	needs.Unwatched(t)
	random := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		c := newCrowd(t, Options{})
		var last []time.Time // the seconds with refusals in the last minute
		for range 2000 {
			for len(last) > 0 && c.now.Sub(last[0]) >= time.Minute {
				last = last[1:]
			}
			if len(last) < 19 && random.IntN(2) == 0 {
				last = append(last, c.now)
				if c.refused("192.0.2.7", 1+random.IntN(1000)) != Noted {
					t.Fatalf("banned for %d seconds within a minute", len(last))
				}
			}
			c.now = c.now.Add(time.Second)
		}
	}
}

func TestAutoInShadow(t *testing.T) {
	needs.Unwatched(t)
	c := newCrowd(t, Options{Auto: &Auto{}})
	would := 0
	for range 600 {
		if c.refused("192.0.2.7", 100) == WouldBan {
			would++
		}
		if c.banned("192.0.2.7") {
			t.Fatal("banned in shadow")
		}
		c.now = c.now.Add(time.Second)
	}
	if s := c.Stats(); would != 1 || s.AutoWould != 1 || s.AutoBanned != 0 || s.Networks != 0 {
		t.Errorf("said %d times in ten minutes: %+v", would, s)
	}
}

func TestAutoCountsByNetwork(t *testing.T) {
	c := newCrowd(t, Options{Exempt: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}})
	for i := range 30 { // another address of the same /64 each time
		c.refused(fmt.Sprintf("2001:db8:0:1::%x", i+1), 100)
		c.refused(fmt.Sprintf("2001:db8:%x:1::1", i+2), 100) // another network each time
		c.refused("::ffff:192.0.2.7", 50)
		c.refused("192.0.2.7", 50)
		c.refused("198.51.100.7", 100)
		c.now = c.now.Add(time.Second)
	}
	for source, want := range map[string]bool{"2001:db8:0:1::ffff": true, "2001:db8:0:2::1": false, "2001:db8:5:1::1": false,
		"192.0.2.7": true, "198.51.100.7": false} {
		if c.banned(source) != want {
			t.Errorf("%s banned: %v", source, !want)
		}
	}
	other := newCrowd(t, Options{Auto: &Auto{Enforce: true, Throttles: []string{"another"}}})
	if other.flood("192.0.2.7", 100, 60) != 0 {
		t.Error("a throttle that is not named counts")
	}
	off := &crowd{List: newList(t, Options{}), t: t, now: epoch}
	if off.flood("192.0.2.7", 100, 60) != 0 {
		t.Error("banned although nobody asked for it")
	}
}

// What an operator has lifted is not banned again at once, and what an operator has banned stays as it is.
func TestOperatorsGoFirst(t *testing.T) {
	c := newCrowd(t, Options{})
	c.flood("192.0.2.7", 100, 60)
	must(t, c.Remove(store.BanKey{Prefix: netip.MustParsePrefix("192.0.2.7/32")}, c.now))
	if c.flood("192.0.2.7", 100, 60) != 0 {
		t.Error("banned again at once")
	}
	own := store.Ban{BanKey: store.BanKey{Prefix: netip.MustParsePrefix("203.0.113.7/32")}, Operator: true, By: "ann"}
	must(t, c.Add(own, c.now))
	c.flood("203.0.113.7", 100, 60)
	if b, _ := c.Find("", netip.MustParseAddr("203.0.113.7"), c.now); !b.Operator || b.By != "ann" {
		t.Errorf("%+v", b)
	}
}

// A flood from many networks fills a table of fixed size. Who is refused most is caught all the same.
func TestAutoIsBounded(t *testing.T) {
	needs.Unwatched(t)
	c := newCrowd(t, Options{Max: 100})
	random := rand.New(rand.NewPCG(5, 6))
	caught := 0
	for second := range 40 {
		for range 4 * AutoRemembered / 40 {
			n := random.Uint32()
			source := netip.AddrFrom4([4]byte{byte(20 + n>>24%100), byte(n >> 16), byte(n >> 8), 1})
			c.Exceed(Excess{Source: source, Throttle: "edge", Limit: 60, Per: time.Minute}, c.now)
		}
		for i := range 50 {
			if c.refused(fmt.Sprintf("192.0.2.%d", i), 10) == BannedByNow {
				caught++
			}
		}
		c.now = c.now.Add(time.Second)
		_ = second
	}
	if caught < 48 {
		t.Errorf("only %d of 50 were caught among %d others", caught, 4*AutoRemembered)
	}
	if s := c.Stats(); s.Networks > 100 {
		t.Errorf("%d networks on a list of 100", s.Networks)
	}
}

// A ban of one node holds on the others, and on one that joins later. A proxy that another node trusts is spared there.
func TestAutoBansTravel(t *testing.T) {
	a, b, c := newMember(t, Options{Auto: &Auto{Enforce: true}}), newMember(t, Options{}), newMember(t, Options{})
	b.Spare(func(p netip.Prefix) bool { return p.Contains(netip.MustParseAddr("192.0.2.8")) })
	on := &crowd{List: a.List, t: t, now: epoch}
	for _, source := range []string{"192.0.2.7", "192.0.2.8"} {
		on.now = epoch
		if on.flood(source, 100, 60) != 20 {
			t.Fatal("not banned")
		}
	}
	b.hears(t, on.now, a.take(t)...)
	c.hears(t, on.now, a.snapshot(on.now)...)
	for source, want := range map[string][2]bool{"192.0.2.7": {true, true}, "192.0.2.8": {false, true}} {
		for i, m := range []*member{b, c} {
			found, banned := m.Find("", netip.MustParseAddr(source), on.now)
			if banned != want[i] || banned && found.By != "auto: throttle edge" {
				t.Errorf("%s on node %d: %+v", source, i, found)
			}
		}
	}
	// A lift at one node ends it at all.
	must(t, b.Remove(store.BanKey{Prefix: netip.MustParsePrefix("192.0.2.7/32")}, on.now.Add(time.Second)))
	a.hears(t, on.now.Add(time.Second), b.take(t)...)
	if on.banned("192.0.2.7") {
		t.Error("the lift did not reach the node that banned")
	}
}

func TestAutoOptions(t *testing.T) {
	most := Auto{After: Parts, Times: MaxTimes, Within: weir.Duration(time.Hour)}
	if err := (Options{Auto: &most}).Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []Auto{{After: 1}, {After: Parts + 1}, {Times: -1}, {Times: MaxTimes + 1}, {Within: 1},
		{Within: weir.Duration(maxAutoWithin + 1)}, {For: 1}, {For: weir.Duration(maxAutoFor + 1)},
		{Throttles: make([]string, maxAutoNames+1)}} {
		if (Options{Auto: &bad}).Validate() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// A clock that is set back begins again, and bans nobody for it.
func TestAutoClockSetBack(t *testing.T) {
	c := newCrowd(t, Options{})
	for i := range 200 {
		c.now = epoch.Add(-time.Duration(i) * time.Hour)
		if c.refused("192.0.2.7", 1000) != Noted {
			t.Fatal("banned")
		}
	}
}

func BenchmarkExceed(b *testing.B) {
	c := newCrowd(b, Options{Auto: &Auto{}})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		source := netip.AddrFrom4([4]byte{192, byte(i >> 16), byte(i >> 8), byte(i)})
		c.Exceed(Excess{Source: source, Throttle: "edge", Limit: 60, Per: time.Minute}, c.now)
	}
}

// asks has a source ask n times of a limit of 60 a minute that is shared, of which so many are granted, and returns
// what came of it.
func (c *crowd) asks(source string, n, granted int) (what Repeat) {
	addr := netip.MustParseAddr(source)
	for i := range n {
		if i < granted {
			if c.Sharing(c.now) {
				c.Granted(addr, "edge", c.now)
			}
			continue
		}
		x := Excess{Source: addr, Throttle: "edge", Limit: 60, Per: time.Minute, Shared: true}
		if _, r := c.Exceed(x, c.now); r > what {
			what = r
		}
	}
	return what
}

// TestSharedLimits: of a limit that others use, too, only who got most of it by itself is banned for its refusals,
// however often the others come again.
func TestSharedLimits(t *testing.T) {
	needs.Unwatched(t)
	for name, c := range map[string]struct {
		granted func(second int) (flooder, innocent int)
		banned  bool // the flooder
	}{
		"the flooder takes all":              {func(int) (int, int) { return 1, 0 }, true},
		"somebody gets a fifth":              {func(s int) (int, int) { return min(1, s%5), 1 - min(1, s%5) }, true},
		"neither gets anything of a third":   {func(int) (int, int) { return 0, 0 }, false},
		"most of it went to a third network": {func(s int) (int, int) { return max(0, 1-s%3), max(0, s%3-1) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCrowd(t, Options{})
			for second := range 600 {
				flooder, innocent := c.granted(second)
				w.asks("192.0.2.7", 100, flooder)
				if w.asks("192.0.2.8", 50, innocent) != Noted || w.banned("192.0.2.8") {
					t.Fatalf("the innocent is banned after %d seconds", second)
				}
				w.now = w.now.Add(time.Second)
			}
			if w.Stats().AutoBanned > 0 != c.banned {
				t.Errorf("the flooder is banned: %t", !c.banned)
			}
		})
	}
}

// TestGrantsOfOtherThrottles: they do not count. Who is served at one gate has not used up the limit of another one.
func TestGrantsOfOtherThrottles(t *testing.T) {
	c := newCrowd(t, Options{})
	innocent := netip.MustParseAddr("192.0.2.8")
	for range 600 {
		for range 50 {
			c.Granted(innocent, "another", c.now)
			c.Exceed(Excess{Source: innocent, Throttle: "another", Limit: 1e6, Per: time.Minute, Shared: true}, c.now)
		}
		if c.asks("192.0.2.8", 50, 0) != Noted {
			t.Fatal("banned")
		}
		c.now = c.now.Add(time.Second)
	}
}

// TestOneBanForAllThrottles: what an operator has lifted stays lifted, whichever throttle refuses the network next.
func TestOneBanForAllThrottles(t *testing.T) {
	c := newCrowd(t, Options{})
	c.flood("192.0.2.7", 100, 60)
	must(t, c.Remove(store.BanKey{Prefix: netip.MustParsePrefix("192.0.2.7/32")}, c.now))
	for range 60 {
		for range 100 {
			x := Excess{Source: netip.MustParseAddr("192.0.2.7"), Throttle: "another", Limit: 60, Per: time.Minute}
			if _, what := c.Exceed(x, c.now); what != Noted {
				t.Fatal("banned again at once")
			}
		}
		c.now = c.now.Add(time.Second)
	}
}
