package ban

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/identify"
	"weir/store"
)

var epoch = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func newList(t testing.TB, o Options) *List {
	t.Helper()
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func key(t testing.TB, text string) store.BanKey {
	t.Helper()
	k, err := store.ParseBanKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// byOperator is a ban by an operator, for good when d is 0.
func byOperator(t testing.TB, who string, d time.Duration) store.Ban {
	b := store.Ban{BanKey: key(t, who), Reason: "scraper", By: "alice", Operator: true}
	if d > 0 {
		b.Until = epoch.Add(d)
	}
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// offend tells of an offence.
func offend(t testing.TB, l *List, client, source string, now time.Time) {
	t.Helper()
	o := Offence{Client: client, Reason: "forged stamp", By: "stamp"}
	if source != "" {
		o.Source = netip.MustParseAddr(source)
	}
	must(t, l.Offend(o, now))
}

// banned reports whether a client or an address is banned, and by which entry.
func banned(l *List, client, source string, now time.Time) string {
	var addr netip.Addr
	if source != "" {
		addr = netip.MustParseAddr(source)
	}
	b, found := l.Find(client, addr, now)
	if !found {
		return ""
	}
	return b.BanKey.String()
}

// names is who is banned, as text.
func names(l *List, now time.Time) string {
	var all []string
	for _, b := range l.All(now) {
		all = append(all, b.BanKey.String())
	}
	return strings.Join(all, " ")
}

func TestAClientIsBannedAndItsNeighboursAreNot(t *testing.T) {
	l := newList(t, Options{})
	offend(t, l, "a", "192.0.2.1", epoch)
	for _, c := range []struct{ client, source, want string }{
		{"a", "192.0.2.1", "client:a"},
		{"a", "198.51.100.1", "client:a"}, // on another network
		{"a", "", "client:a"},
		{"b", "192.0.2.1", ""},
		{"", "192.0.2.1", ""},
		{"", "", ""},
	} {
		if got := banned(l, c.client, c.source, epoch); got != c.want {
			t.Errorf("%s at %s: %q, want %q", c.client, c.source, got, c.want)
		}
	}
	b, found := l.Get(key(t, "client:a"), epoch)
	if !found || b.Reason != "forged stamp" || b.By != "stamp" || b.Operator || !b.Since.Equal(epoch) ||
		!b.Until.Equal(epoch.Add(time.Hour)) {
		t.Errorf("%+v", b)
	}
	// It ends at its time, before anybody has cleaned up.
	if end := epoch.Add(time.Hour); banned(l, "a", "", end.Add(-1)) == "" || banned(l, "a", "", end) != "" ||
		names(l, end) != "" {
		t.Error("it does not end at its time")
	}
}

// TestAClientThatIsItsAddress: where a client is known by nothing but its address, as with classic stamps, it is banned
// as an address: from the threshold on, and not where addresses are exempt.
func TestAClientThatIsItsAddress(t *testing.T) {
	for source, want := range map[string]string{"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"2001:db8:1:2::3": "2001:db8:1:2::/64"} {
		l := newList(t, Options{})
		id := identify.AddressID(netip.MustParseAddr(source))
		for n := range 3 {
			if got := names(l, epoch) + banned(l, id, source, epoch); got != "" {
				t.Errorf("after %d offences of %s %s is banned", n, source, got)
			}
			offend(t, l, id, source, epoch)
		}
		if got := names(l, epoch); got != want {
			t.Errorf("after three offences of %s: %q", source, got)
		}
		if got := banned(l, id, source, epoch); got != want {
			t.Errorf("%s: %q", source, got)
		}
	}
	l := newList(t, Options{AddressFrom: 1})
	offend(t, l, "@192.0.2.1", "192.0.2.1", epoch)
	offend(t, l, "@192.0.2.1", "192.0.2.2", epoch) // the id of another address is no more than an id
	if got := names(l, epoch); got != "192.0.2.1 192.0.2.2 client:@192.0.2.1" {
		t.Error(got)
	}
	l = newList(t, Options{AddressFrom: 1, Exempt: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	offend(t, l, "@192.0.2.1", "192.0.2.1", epoch)
	if got := names(l, epoch); got != "" {
		t.Errorf("exempt: %s", got)
	}
}

func TestAnAddressIsBannedFromAThreshold(t *testing.T) {
	at := func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }
	t.Run("three clients", func(t *testing.T) {
		l := newList(t, Options{})
		offend(t, l, "a", "192.0.2.1", at(0))
		offend(t, l, "a", "192.0.2.1", at(1)) // the same one counts once
		offend(t, l, "b", "192.0.2.1", at(2))
		offend(t, l, "c", "192.0.2.2", at(2)) // elsewhere
		if got := names(l, at(2)); got != "client:a client:b client:c" {
			t.Fatal(got)
		}
		offend(t, l, "d", "::ffff:192.0.2.1", at(3))
		if got := names(l, at(3)); got != "192.0.2.1 client:a client:b client:c client:d" {
			t.Fatal(got)
		}
		if got := banned(l, "innocent", "192.0.2.1", at(3)); got != "192.0.2.1" {
			t.Error(got)
		}
		if b, _ := l.Get(key(t, "192.0.2.1"), at(3)); b.Reason != "3 clients: forged stamp" || b.By != "stamp" ||
			!b.Until.Equal(at(63)) {
			t.Errorf("%+v", b)
		}
		if s := l.Stats(); s.Clients != 4 || s.Networks != 1 || s.Operators != 0 || s.Offences != 5 ||
			s.Addresses != 1 || s.Suspects != 1 {
			t.Errorf("%+v", s)
		}
		// When an operator lets it go, it starts with a clean slate.
		must(t, l.Remove(key(t, "192.0.2.1"), at(4)))
		offend(t, l, "e", "192.0.2.1", at(4))
		if banned(l, "", "192.0.2.1", at(4)) != "" {
			t.Error("banned again by the first one")
		}
	})
	t.Run("within the window", func(t *testing.T) {
		l := newList(t, Options{})
		offend(t, l, "a", "192.0.2.1", at(0))
		offend(t, l, "b", "192.0.2.1", at(5))
		offend(t, l, "c", "192.0.2.1", at(10)) // the first one is forgotten
		if banned(l, "", "192.0.2.1", at(10)) != "" {
			t.Error("banned too early")
		}
		offend(t, l, "d", "192.0.2.1", at(14))
		if banned(l, "", "192.0.2.1", at(14)) == "" {
			t.Error("not banned")
		}
		offend(t, l, "e", "192.0.2.9", at(14))
		l.Advance(at(100))
		if s := l.Stats(); s.Suspects != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("without an id", func(t *testing.T) {
		l := newList(t, Options{})
		for i := range 3 {
			if banned(l, "", "192.0.2.1", epoch) != "" {
				t.Errorf("banned after %d", i)
			}
			offend(t, l, "", "192.0.2.1", epoch)
		}
		if banned(l, "", "192.0.2.1", epoch) == "" {
			t.Error("not banned")
		}
	})
	t.Run("at once", func(t *testing.T) {
		l := newList(t, Options{AddressFrom: 1})
		offend(t, l, "", "192.0.2.1", epoch)
		if b, found := l.Get(key(t, "192.0.2.1"), epoch); !found || b.Reason != "forged stamp" {
			t.Errorf("%+v", b)
		}
	})
	t.Run("a whole IPv6 network", func(t *testing.T) {
		l := newList(t, Options{})
		for i := range 3 {
			offend(t, l, fmt.Sprint(i), fmt.Sprintf("2001:db8::%d", i), epoch)
		}
		if got := banned(l, "", "2001:db8::ffff%eth0", epoch); got != "2001:db8::/64" {
			t.Error(got)
		}
	})
	t.Run("exempt", func(t *testing.T) {
		o := Options{AddressFrom: 2, V4: 24, Exempt: []netip.Prefix{netip.MustParsePrefix("192.0.2.128/25")}}
		l := newList(t, o)
		for i := range 5 {
			offend(t, l, fmt.Sprint(i), "192.0.2.200", epoch)
		}
		if got := names(l, epoch); got != "client:0 client:1 client:2 client:3 client:4" {
			t.Error(got)
		}
		offend(t, l, "x", "192.0.2.1", epoch)
		offend(t, l, "y", "192.0.2.2", epoch)
		if banned(l, "", "192.0.2.1", epoch) == "" || banned(l, "", "192.0.2.200", epoch) != "" {
			t.Error("neighbours are banned with the network, but not those who are exempt")
		}
		must(t, l.Add(byOperator(t, "192.0.2.0/24", 0), epoch))
		if banned(l, "", "192.0.2.200", epoch) == "" {
			t.Error("an operator's ban holds for everybody")
		}
	})
	if err := newList(t, Options{}).Offend(Offence{Reason: "x"}, epoch); !errors.Is(err, store.ErrInvalid) {
		t.Error(err)
	}
}

func TestOperatorsBanNetworks(t *testing.T) {
	l := newList(t, Options{})
	for _, who := range []string{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "2001:db8::/32", "2001:db8:1::/48",
		"client:a"} {
		must(t, l.Add(byOperator(t, who, 0), epoch))
	}
	later := epoch.AddDate(50, 0, 0)
	for source, want := range map[string]string{
		"10.1.2.3": "10.1.2.3", "10.1.2.4": "10.1.0.0/16", "10.9.9.9": "10.0.0.0/8", "::ffff:10.9.9.9": "10.0.0.0/8",
		"11.0.0.1":      "",
		"2001:db8:1::1": "2001:db8:1::/48", "2001:db8:2::1": "2001:db8::/32", "2001:db9::1": "",
		"2001:db8:1:0:ffff:ffff:ffff:ffff": "2001:db8:1::/48",
	} {
		if got := banned(l, "", source, later); got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
	if got := names(l, later); got != "10.0.0.0/8 10.1.0.0/16 10.1.2.3 2001:db8::/32 2001:db8:1::/48 client:a" {
		t.Error(got)
	}
	// Where the narrowest is over, a wider one holds.
	must(t, l.Add(byOperator(t, "10.1.0.0/16", time.Minute), epoch))
	if got := banned(l, "", "10.1.2.4", epoch.Add(time.Minute)); got != "10.0.0.0/8" {
		t.Error(got)
	}
	must(t, l.Remove(key(t, "10.0.0.0/8"), epoch))
	if got := banned(l, "", "10.9.9.9", epoch); got != "" {
		t.Error(got)
	}
	for _, who := range []string{"10.0.0.0/8", "10.1.2.0/24", "client:b"} {
		if err := l.Remove(key(t, who), epoch); !errors.Is(err, store.ErrNotFound) ||
			!strings.Contains(err.Error(), who) {
			t.Error(who, err)
		}
	}
	if err := l.Remove(key(t, "10.1.0.0/16"), epoch.Add(time.Hour)); !errors.Is(err, store.ErrNotFound) {
		t.Error("it was over:", err)
	}
	if err := l.Remove(store.BanKey{}, epoch); !errors.Is(err, store.ErrInvalid) {
		t.Error(err)
	}
	if s := l.Stats(); s.Networks != 3 || s.Clients != 1 || s.Operators != 4 || s.Removed != 1 || s.Expired != 1 {
		t.Errorf("%+v", s)
	}
	if got := fmt.Sprint(*l.lengths.Load()); got != "[[{32 1}] [{48 1} {32 1}]]" {
		t.Error("lengths that do not occur are looked for:", got)
	}
}

// What an operator says goes; mechanisms prolong each other's bans.
func TestWhoGoesFirst(t *testing.T) {
	l := newList(t, Options{})
	until := func() time.Duration {
		b, _ := l.Get(key(t, "client:a"), epoch)
		if b.Until.IsZero() {
			return 0
		}
		return b.Until.Sub(epoch)
	}
	mechanism := func(d time.Duration) {
		b := store.Ban{BanKey: store.BanKey{Client: "a"}, By: "stamp", Until: epoch.Add(d)}
		must(t, l.Add(b, epoch))
	}
	operator := func(d time.Duration) { must(t, l.Add(byOperator(t, "client:a", d), epoch)) }
	for _, step := range []struct {
		do   func(time.Duration)
		d    time.Duration
		want time.Duration
	}{
		{mechanism, time.Hour, time.Hour},
		{mechanism, 2 * time.Hour, 2 * time.Hour},
		{mechanism, time.Minute, 2 * time.Hour},
		{operator, time.Minute, time.Minute},
		{mechanism, time.Hour, time.Minute},
		{operator, 0, 0},
		{mechanism, time.Hour, 0},
		{operator, time.Second, time.Second},
	} {
		if step.do(step.d); until() != step.want {
			t.Errorf("until %s, want %s", until(), step.want)
		}
	}
	// When the operator's is over, a mechanism's counts again, from its own start.
	now := epoch.Add(time.Second)
	offend(t, l, "a", "", now)
	if b, _ := l.Get(key(t, "client:a"), now); b.Operator || !b.Since.Equal(now) {
		t.Errorf("%+v", b)
	}
	if s := l.Stats(); s.Operators != 0 || s.Clients != 1 {
		t.Errorf("%+v", s)
	}
}

func TestBansThatMakeNoSense(t *testing.T) {
	l := newList(t, Options{})
	for what, c := range map[string]struct {
		ban  store.Ban
		want error
	}{
		"nobody": {store.Ban{}, store.ErrInvalid},
		"both": {store.Ban{BanKey: store.BanKey{Client: "a", Prefix: netip.MustParsePrefix("10.0.0.0/8")}},
			store.ErrInvalid},
		"everybody":  {byOperator(t, "10.0.0.0/0", 0), store.ErrInvalid},
		"everybody6": {byOperator(t, "::/0", 0), store.ErrInvalid},
		"over":       {byOperator(t, "client:a", -1), store.ErrInvalid},
		"too long": {store.Ban{BanKey: store.BanKey{Client: strings.Repeat("x", store.MaxClient+1)}},
			store.ErrTooLarge},
	} {
		if what == "over" {
			c.ban.Until = epoch
		}
		if err := l.Add(c.ban, epoch); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	if _, found := l.Get(store.BanKey{}, epoch); found {
		t.Error("nobody is banned")
	}
	must(t, l.Add(store.Ban{BanKey: store.BanKey{Prefix: netip.MustParsePrefix("::ffff:10.1.2.3/104")}, Operator: true},
		epoch))
	if got := names(l, epoch); got != "10.0.0.0/8" {
		t.Error(got)
	}
}

func TestTheListIsBounded(t *testing.T) {
	const most = 10
	l := newList(t, Options{Max: most})
	at := func(i int) time.Time { return epoch.Add(time.Duration(i) * time.Second) }
	for i := range most {
		offend(t, l, fmt.Sprint(i), "", at(i))
	}
	offend(t, l, "ten", "", at(10)) // one more: the one that ends soonest goes
	if s := l.Stats(); s.Clients != most || s.Evicted != 1 || banned(l, "0", "", at(10)) != "" ||
		banned(l, "1", "", at(10)) == "" {
		t.Errorf("%+v", s)
	}
	for i := range most {
		must(t, l.Add(byOperator(t, fmt.Sprintf("192.0.2.%d", i), 24*time.Hour), at(11)))
	}
	if s := l.Stats(); s.Networks != most || s.Clients != 0 || s.Operators != most || s.Evicted != most+1 {
		t.Errorf("%+v", s)
	}
	// Now all are operators'.
	if err := l.Offend(Offence{Client: "a"}, at(12)); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	if err := l.Add(byOperator(t, "client:b", 0), at(12)); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	must(t, l.Add(byOperator(t, "192.0.2.3", time.Hour), at(12))) // one that is there can be changed
	if s := l.Stats(); s.Refused != 2 || s.Networks != most {
		t.Errorf("%+v", s)
	}
	offend(t, l, "late", "", epoch.Add(time.Hour)) // one of them is over
	if s := l.Stats(); s.Expired != 1 || s.Clients != 1 || s.Networks != most-1 {
		t.Errorf("%+v", s)
	}
	// A smaller list keeps the operators' bans.
	must(t, l.Configure(Options{Max: 3}, epoch.Add(time.Hour)))
	if s := l.Stats(); s.Clients != 0 || s.Networks != most-1 {
		t.Errorf("%+v", s)
	}
	if err := l.Configure(Options{Max: -1}, epoch); err == nil {
		t.Error("no error")
	}
}

// TestWhoIsOverIsNotEvicted: evictions tell an operator that the list is too small. A ban that makes room the moment
// it ends is none.
func TestWhoIsOverIsNotEvicted(t *testing.T) {
	l := newList(t, Options{Max: 1, TTL: weir.Duration(time.Minute)})
	for i := range 3 {
		offend(t, l, fmt.Sprint(i), "", epoch.Add(time.Duration(i)*time.Minute))
	}
	if s := l.Stats(); s.Expired != 2 || s.Evicted != 0 || s.Clients != 1 {
		t.Errorf("%+v", s)
	}
}

func TestSuspectsAreBounded(t *testing.T) {
	l := newList(t, Options{Max: 5})
	for i := range 6 {
		offend(t, l, "", fmt.Sprintf("192.0.2.%d", i), epoch.Add(time.Duration(i)))
	}
	if s := l.Stats(); s.Suspects != 5 {
		t.Errorf("%+v", s)
	}
	for range 2 { // the first one was forgotten, the last one was not
		offend(t, l, "", "192.0.2.0", epoch.Add(time.Second))
		offend(t, l, "", "192.0.2.5", epoch.Add(time.Second))
	}
	if got := names(l, epoch.Add(time.Second)); got != "192.0.2.5" {
		t.Error(got)
	}
}

func TestLongReasons(t *testing.T) {
	l := newList(t, Options{AddressFrom: 2})
	reason := strings.Repeat("ä", store.MaxReason/2)
	for i := range 2 {
		must(t, l.Offend(Offence{Client: fmt.Sprint(i), Source: netip.MustParseAddr("192.0.2.1"), Reason: reason},
			epoch))
	}
	b, found := l.Get(key(t, "192.0.2.1"), epoch)
	if !found || len(b.Reason) > store.MaxReason || !strings.HasPrefix(b.Reason, "2 clients: ää") {
		t.Errorf("%v, %d bytes", found, len(b.Reason))
	}
}

func TestOptions(t *testing.T) {
	if err := (Options{}).Validate(); err != nil {
		t.Error(err)
	}
	o := Options{}.WithDefaults()
	if o.TTL.Std() != time.Hour || o.Max != 100_000 || o.AddressFrom != 3 || o.Window.Std() != 10*time.Minute ||
		o.V4 != 32 || o.V6 != 64 {
		t.Errorf("%+v", o)
	}
	most := Options{TTL: weir.Duration(maxTTL), Max: MaxEntries, AddressFrom: MaxAddressFrom,
		Window: weir.Duration(maxWindow), V4: 32, V6: 128,
		Exempt: make([]netip.Prefix, MaxExempt)}
	for i := range most.Exempt {
		most.Exempt[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
	}
	if err := most.Validate(); err != nil {
		t.Error(err)
	}
	over := Options{TTL: most.TTL + 1, Max: most.Max + 1, AddressFrom: most.AddressFrom + 1, Window: most.Window + 1,
		V4: 33, V6: 129,
		Exempt: append(most.Exempt, netip.Prefix{})}
	below := Options{TTL: 1, Max: -1, AddressFrom: -1, Window: 1, V4: -1, V6: -1}
	for o, want := range map[*Options]string{
		&over:  "[ttl max address_from window v4 v6 exempt exempt[10000]]",
		&below: "[ttl max address_from window v4 v6]",
	} {
		var at []string
		for _, fe := range weir.FieldErrors(o.Validate()) {
			at = append(at, fe.Path)
		}
		if fmt.Sprint(at) != want {
			t.Errorf("%v, want %v", at, want)
		}
		if l, err := New(*o); err == nil || l != nil {
			t.Error("no error")
		}
	}
}

// Many goroutines at once: the race detector looks on.
func TestConcurrentUse(t *testing.T) {
	l := newList(t, Options{Max: 200})
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	must(t, l.Add(byOperator(t, "192.0.2.0/24", 0), epoch))
	for range 2 {
		readers.Go(func() {
			addr := netip.MustParseAddr("192.0.2.1")
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if b, found := l.Find(fmt.Sprint("nobody", i), addr, epoch); !found || b.By != "alice" {
					t.Errorf("%+v", b)
					return
				}
				l.Find(fmt.Sprint(i%1000), netip.Addr{}, epoch)
				if i%100 == 0 {
					l.All(epoch)
					l.Stats()
				}
			}
		})
	}
	for w := range 4 {
		writers.Go(func() {
			for i := range 2000 {
				now := epoch.Add(time.Duration(i) * time.Second)
				id := fmt.Sprint((i*7 + w) % 1000)
				switch i % 10 {
				case 8:
					_ = l.Remove(store.BanKey{Client: id}, now)
				case 9:
					l.Advance(now)
				default:
					_ = l.Offend(Offence{Client: id, Source: netip.AddrFrom4([4]byte{10, 0, byte(w), byte(i)})}, now)
				}
				if i%500 == 0 {
					defer l.Watch(func(Change) {})()
					must(t, l.Configure(Options{Max: 200 + i%7}, now))
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if s := l.Stats(); s.Clients+s.Networks > 206 || s.Operators != 1 {
		t.Errorf("%+v", s)
	}
}
