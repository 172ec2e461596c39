package identify

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
)

// engines are bots that only DNS can tell from pretenders.
var engines = ExemptOptions{Bots: []Bot{
	{Name: "google", Agent: "Googlebot", Domains: []string{"GoogleBot.com", "google.com."}},
	{Name: "bing", Agent: "bingbot", Domains: []string{"search.msn.com"}},
}}

// asking makes exempt and a list of the addresses that they asked about.
func asking(t testing.TB, o ExemptOptions) (*Exempt, *[]string) {
	g := newExempt(t, o, nil)
	asked := &[]string{}
	g.Unsure(func(addr netip.Addr) { *asked = append(*asked, addr.String()) })
	return g, asked
}

func at(ev *weir.Event, after time.Duration) *weir.Event {
	later := *ev
	later.Time = today.Add(after)
	return &later
}

func TestConfirm(t *testing.T) {
	g, asked := asking(t, engines)
	ev := from("66.249.66.1", googlebot)
	for range 3 {
		if g.Known(ev) {
			t.Fatal("known before DNS was asked")
		}
	}
	if !slices.Equal(*asked, []string{"66.249.66.1"}) {
		t.Fatalf("asked about %v", *asked)
	}
	g.Confirm(ev.Source, []string{"crawl-66-249-66-1.googlebot.com."}, today)
	if !g.Known(ev) {
		t.Error("not known though confirmed")
	}
	if !g.Known(from("::ffff:66.249.66.1", googlebot)) {
		t.Error("not known by another spelling of its address")
	}
	if g.Known(from("66.249.66.1", "bingbot")) || g.Known(from("66.249.66.1", firefox)) {
		t.Error("known by the name of another")
	}
	if g.Known(from("66.249.66.2", googlebot)) {
		t.Error("a neighbour is known")
	}
	if g.Known(at(ev, confirmedFor)) {
		t.Error("known for longer than a day")
	}
	if want := (ExemptStats{Asked: 3, Pending: 2, Confirmed: 1}); g.Stats() != want {
		t.Errorf("%+v", g.Stats())
	}

	pretender := from("192.0.2.66", googlebot)
	g.Known(pretender)
	*asked = nil
	g.Confirm(pretender.Source, nil, today)
	if g.Known(pretender) || g.Known(at(pretender, unconfirmedFor-1)) || len(*asked) > 0 {
		t.Error("asked again at once")
	}
	if g.Known(at(pretender, unconfirmedFor)) || len(*asked) != 1 {
		t.Error("not asked again after a while")
	}
	// What was confirmed can be taken back, and the other way round.
	g.Confirm(ev.Source, []string{"example.com"}, today)
	g.Confirm(pretender.Source, []string{"a.google.com"}, today)
	if g.Known(ev) || !g.Known(pretender) {
		t.Error("the last word does not count")
	}
	if s := g.Stats(); s.Confirmed != 1 || s.Unconfirmed != 1 {
		t.Errorf("%+v", s)
	}
}

// TestRenewed: who comes at least twice a day is never forgotten.
func TestRenewed(t *testing.T) {
	g, asked := asking(t, engines)
	ev := from("66.249.66.1", googlebot)
	names := []string{"crawl.googlebot.com"}
	g.Confirm(ev.Source, names, today)
	if !g.Known(at(ev, confirmedFor/2-1)) || len(*asked) > 0 {
		t.Error("asked about in the first half of the day")
	}
	for i := 1; i < 20; i++ {
		now := time.Duration(i) * confirmedFor / 2
		if !g.Known(at(ev, now)) || !g.Known(at(ev, now+1)) || len(*asked) != i {
			t.Fatalf("half day %d: asked %d times", i, len(*asked))
		}
		g.Confirm(ev.Source, names, today.Add(now))
	}
}

func TestNotLookedUp(t *testing.T) {
	g, asked := asking(t, engines)
	for _, addr := range []string{"10.0.0.1", "172.16.0.1", "192.168.1.1", "127.0.0.1", "169.254.1.1", "100.64.0.1",
		"0.0.0.0", "224.0.0.1",
		"255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1", "ff02::1", "::ffff:10.0.0.1"} {
		ev := from(addr, googlebot)
		g.Known(ev)
		g.Confirm(ev.Source, []string{"crawl.googlebot.com"}, today)
		if g.Known(ev) {
			t.Errorf("%s is a bot", addr)
		}
	}
	g.Known(from("192.0.2.1", firefox)) // no bot, no question
	if len(*asked) > 0 || g.Stats() != (ExemptStats{}) {
		t.Errorf("asked about %v, %+v", *asked, g.Stats())
	}
	deaf := newExempt(t, engines, nil)
	if deaf.Known(from("66.249.66.1", googlebot)) || deaf.Stats().Pending > 0 {
		t.Error("waits for an answer that nobody was asked for")
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		name, domain string
		want         bool
	}{
		{"crawl-66-249-66-1.googlebot.com", "googlebot.com", true},
		{"crawl-66-249-66-1.googlebot.com.", "googlebot.com", true},
		{"CRAWL.GoogleBot.COM", "googlebot.com", true},
		{"a.b.c.googlebot.com", "googlebot.com", true},
		{"googlebot.com", "googlebot.com", true},
		{"googlebot.com.", "googlebot.com", true},
		{"evilgooglebot.com", "googlebot.com", false},
		{"xgooglebot.com", "googlebot.com", false},
		{"x.evilgooglebot.com", "googlebot.com", false},
		{"googlebot.com.evil.example", "googlebot.com", false},
		{"crawl.googlebot.com.evil", "googlebot.com", false},
		{"googlebot.comm", "googlebot.com", false},
		{".googlebot.com", "googlebot.com", false},
		{"a..googlebot.com", "googlebot.com", false},
		{"crawl.googlebot.com..", "googlebot.com", false},
		{"com", "googlebot.com", false},
		{"", "googlebot.com", false},
		{".", "googlebot.com", false},
		{"evil\x00.googlebot.com", "googlebot.com", false},
		{"evil/.googlebot.com", "googlebot.com", false},
		{"crawl.g\u00f6oglebot.com", "googlebot.com", false},
		{"crawl.googlebot\u3002com", "googlebot.com", false},
		{strings.Repeat("a.", 130) + "googlebot.com", "googlebot.com", false}, // longer than a name can be
	} {
		if got := within(c.name, c.domain); got != c.want {
			t.Errorf("%q within %s: %v", c.name, c.domain, got)
		}
	}
}

// FuzzWithin: what is below a domain ends with it, behind a dot.
func FuzzWithin(f *testing.F) {
	f.Add("crawl.googlebot.com.")
	f.Add("evilgooglebot.com")
	f.Fuzz(func(t *testing.T, name string) {
		plain := strings.ToLower(strings.TrimSuffix(name, "."))
		want := isDomain(name) && !strings.HasSuffix(name, "..") &&
			(plain == "googlebot.com" || strings.HasSuffix(plain, ".googlebot.com"))
		if within(name, "googlebot.com") != want {
			t.Errorf("%q: %v", name, !want)
		}
	})
}

// address returns the i-th public address.
func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(20 + i>>24), byte(i >> 16), byte(i >> 8), byte(i)})
}

// TestPendingBound: so many answers are awaited and no more, and what never comes does not block the way for ever.
func TestPendingBound(t *testing.T) {
	g, asked := asking(t, engines)
	ask := func(i int, after time.Duration) {
		g.Known(&weir.Event{Time: today.Add(after), Source: address(i), Agent: googlebot})
	}
	for i := range MaxUnsure + 1 {
		ask(i, 0)
	}
	if s := g.Stats(); len(*asked) != MaxUnsure || s.Pending != MaxUnsure || s.Crowded != 1 || s.Asked != MaxUnsure {
		t.Fatalf("asked about %d, %+v", len(*asked), s)
	}
	g.Confirm(address(0), nil, today)
	ask(MaxUnsure, 1)
	ask(MaxUnsure+1, 1)
	if s := g.Stats(); len(*asked) != MaxUnsure+1 || s.Pending != MaxUnsure || s.Crowded != 2 {
		t.Fatalf("asked about %d, %+v", len(*asked), s)
	}
	// A minute later the answers are not worth waiting for any more: the same may be asked about again, and others.
	ask(1, askAgain-1)
	if len(*asked) != MaxUnsure+1 {
		t.Error("asked again too soon")
	}
	ask(1, askAgain)
	ask(MaxUnsure+2, askAgain)
	if s := g.Stats(); len(*asked) != MaxUnsure+3 || s.Pending >= MaxUnsure {
		t.Errorf("asked about %d, %+v", len(*asked), s)
	}
	// A clock that is set back does not make it wait for the same hour to come again.
	ask(1, -time.Hour)
	if len(*asked) != MaxUnsure+4 {
		t.Errorf("asked about %d", len(*asked))
	}
}

// TestPendingNetworks: somebody with a /64 is asked about one address at a time.
func TestPendingNetworks(t *testing.T) {
	g, asked := asking(t, engines)
	for i := range 100 {
		g.Known(from(fmt.Sprintf("2001:4860:4801:10::%x", i+1), googlebot))
	}
	if !slices.Equal(*asked, []string{"2001:4860:4801:10::1"}) {
		t.Errorf("asked about %v", *asked)
	}
	g.Confirm(netip.MustParseAddr("2001:4860:4801:10::1"), []string{"crawl.googlebot.com"}, today)
	if !g.Known(from("2001:4860:4801:10::1", googlebot)) || g.Known(from("2001:4860:4801:10::2", googlebot)) {
		t.Error("what is said of one address holds for others")
	}
	if len(*asked) != 2 {
		t.Errorf("asked about %v", *asked)
	}
}

// TestAnswersBound: pretenders push out pretenders, and never a bot; bots push out bots.
func TestAnswersBound(t *testing.T) {
	const half = MaxAnswers / 2
	g, _ := asking(t, engines)
	names := []string{"crawl.googlebot.com"}
	bot := netip.MustParseAddr("66.249.66.1")
	g.Confirm(bot, names, today)
	for i := range half + 1 {
		g.Confirm(address(i), nil, today.Add(time.Duration(i)))
	}
	if s := g.Stats(); s.Confirmed != 1 || s.Unconfirmed != half || !g.Known(from("66.249.66.1", googlebot)) {
		t.Errorf("%+v", s)
	}
	for i := range half {
		g.Confirm(address(i), names, today.Add(time.Duration(i)))
	}
	if s := g.Stats(); s.Confirmed != half || s.Unconfirmed > 1 {
		t.Errorf("%+v", s)
	}
	// The newest is never the one that goes.
	if !g.Known(&weir.Event{Time: today, Source: address(half - 1), Agent: googlebot}) {
		t.Error("the newest is gone")
	}
	g.Confirm(address(0), names, today) // is known already, or takes the place of one
	if s := g.Stats(); s.Confirmed != half {
		t.Errorf("%+v", s)
	}
	many := slices.Repeat([]string{"a.example"}, maxNames)
	g.Confirm(bot, append(many, names...), today)
	if g.Known(from("66.249.66.1", googlebot)) {
		t.Error("more names are looked at than allowed")
	}
	g.Confirm(bot, append(many[1:], names...), today)
	if !g.Known(from("66.249.66.1", googlebot)) {
		t.Error("the last name is not looked at")
	}
}

func TestManyBots(t *testing.T) {
	var o ExemptOptions
	for i := range MaxBots {
		o.Bots = append(o.Bots, Bot{Name: fmt.Sprint(i), Agent: fmt.Sprintf("<bot%d>", i),
			Domains: []string{fmt.Sprintf("bot%d.example", i)}})
	}
	g, _ := asking(t, o)
	for i := range MaxBots {
		g.Confirm(address(i), []string{fmt.Sprintf("x.bot%d.example", i)}, today)
	}
	for i := range MaxBots {
		for j := range MaxBots {
			ev := &weir.Event{Time: today, Source: address(i), Agent: fmt.Sprintf("<bot%d>", j)}
			if g.Known(ev) != (i == j) {
				t.Fatalf("%d as %d", i, j)
			}
		}
	}
}

// TestUnanswered: where nobody had the time to ask DNS, nothing is forgotten, and the next request may ask.
func TestUnanswered(t *testing.T) {
	g, asked := asking(t, engines)
	ev := from("66.249.66.1", googlebot)
	g.Confirm(ev.Source, []string{"crawl.googlebot.com"}, today)
	for i := 1; i < 4; i++ {
		if !g.Known(at(ev, confirmedFor-2)) || !g.Known(at(ev, confirmedFor-1)) || len(*asked) != i {
			t.Fatalf("asked %d times", len(*asked))
		}
		g.Unanswered(netip.MustParseAddr("::ffff:66.249.66.1"))
	}
	if s := g.Stats(); s.Pending != 0 || s.Confirmed != 1 {
		t.Errorf("%+v", s)
	}
}

func TestInherit(t *testing.T) {
	old, asked := asking(t, engines)
	ev := from("66.249.66.1", googlebot)
	old.Known(ev)
	same := newExempt(t, engines, nil)
	same.Inherit(old)
	old.Confirm(ev.Source, []string{"crawl.googlebot.com"}, today) // an answer to what was asked before the reload
	if !same.Known(ev) {
		t.Error("forgotten over a reload")
	}
	for name, change := range map[string]func(*ExemptOptions){
		"domain": func(o *ExemptOptions) { o.Bots[1].Domains = []string{"example.com"} },
		"order":  func(o *ExemptOptions) { slices.Reverse(o.Bots) },
		"fewer":  func(o *ExemptOptions) { o.Bots = o.Bots[:1] },
	} {
		o := ExemptOptions{Bots: slices.Clone(engines.Bots)}
		change(&o)
		other := newExempt(t, o, nil)
		other.Inherit(old)
		if *asked = nil; other.Known(ev) || len(*asked) != 1 {
			t.Errorf("%s: answers about other bots are taken over, or nobody is asked", name)
		}
	}
	same.Inherit(nil)
}

// TestExemptTogether: many ask and few answer, and in the end each address is known as what it is.
func TestExemptTogether(t *testing.T) {
	g := newExempt(t, engines, nil)
	asked := make(chan netip.Addr, MaxUnsure)
	var twice atomic.Int64
	g.Unsure(func(addr netip.Addr) {
		select {
		case asked <- addr:
		default:
			twice.Add(1)
		}
	})
	const addresses = 500
	isBot := func(addr netip.Addr) bool { return addr.As4()[3]%2 == 0 }
	var people, resolvers sync.WaitGroup
	for range 2 {
		resolvers.Go(func() {
			for addr := range asked {
				var names []string
				if isBot(addr) {
					names = []string{"crawl.googlebot.com"}
				}
				g.Confirm(addr, names, today)
			}
		})
	}
	for n := range 4 {
		people.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for range 5000 {
				ev := weir.Event{Time: today, Source: address(r.IntN(addresses)), Agent: googlebot}
				if g.Known(&ev) && !isBot(ev.Source) {
					t.Errorf("%s is no bot", ev.Source)
				}
				g.Stats()
			}
			for i := range addresses {
				g.Known(&weir.Event{Time: today, Source: address(i), Agent: googlebot})
			}
		})
	}
	people.Wait()
	close(asked)
	resolvers.Wait()
	for i := range addresses {
		if addr := address(i); g.Known(&weir.Event{Time: today, Source: addr, Agent: googlebot}) != isBot(addr) {
			t.Errorf("%s is known wrongly", addr)
		}
	}
	if s := g.Stats(); s.Asked != addresses || s.Crowded != 0 || s.Pending != 0 || twice.Load() != 0 {
		t.Errorf("%+v, %d lost", s, twice.Load())
	}
}

func TestKnownAllocates(t *testing.T) {
	o := engines
	o.Paths = []string{"/healthz", "/webhooks/*"}
	o.Networks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	g := newExempt(t, o, nil)
	g.Unsure(func(netip.Addr) {})
	g.Confirm(netip.MustParseAddr("66.249.66.1"), []string{"crawl.googlebot.com"}, today)
	for _, ev := range []*weir.Event{from("10.0.0.1", firefox), from("192.0.2.1", firefox),
		from("66.249.66.1", googlebot),
		from("2001:db8::1", googlebot), {Route: weir.Route{Path: "/webhooks/x"}}} {
		if n := testing.AllocsPerRun(100, func() { g.Known(ev) }); n > 0 {
			t.Errorf("%s: %v allocations", ev.Source, n)
		}
	}
	i := 0
	if n := testing.AllocsPerRun(MaxUnsure-2, func() {
		i++
		g.Known(&weir.Event{Time: today, Source: address(i), Agent: googlebot})
	}); n > 0 {
		t.Errorf("%v allocations for each address that is asked about", n)
	}
}

// BenchmarkKnown has ten bots, one with a list of a thousand networks, and knows by each way.
func BenchmarkKnown(b *testing.B) {
	var list strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&list, "203.%d.%d.0/%d\n", i/256, i%256, 24+i%4)
	}
	o := ExemptOptions{Paths: []string{"/healthz", "/webhooks/*", "/feeds/*"},
		Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	o.Bots = append(o.Bots, engines.Bots...)
	for i := range 8 {
		o.Bots = append(o.Bots, Bot{Name: fmt.Sprint(i), Agent: fmt.Sprintf("listbot%d", i), Files: []string{"list"}})
	}
	g := newExempt(b, o, folder{"list": list.String()})
	g.Unsure(func(netip.Addr) {})
	g.Confirm(netip.MustParseAddr("66.249.66.1"), []string{"crawl.googlebot.com"}, today)
	g.Confirm(netip.MustParseAddr("192.0.2.66"), nil, today)
	path := from("192.0.2.1", firefox)
	path.Route.Path = "/webhooks/github"
	for _, c := range []struct {
		name string
		ev   *weir.Event
		want bool
	}{
		{"browser", from("192.0.2.1", firefox), false},
		{"path", path, true},
		{"network", from("10.0.0.1", firefox), true},
		{"list", from("203.3.200.1", "listbot7"), true},
		{"dns", from("66.249.66.1", googlebot), true},
		{"pretender", from("192.0.2.66", googlebot), false},
		{"long-agent", from("192.0.2.1", strings.Repeat("g", 4096)), false},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if g.Known(c.ev) != c.want {
					b.Fatal("wrong")
				}
			}
		})
	}
	b.Run("dns/parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			ev := from("66.249.66.1", googlebot)
			for pb.Next() {
				g.Known(ev)
			}
		})
	})
}

// BenchmarkConfirm stores answers about pretenders with the half for them full.
func BenchmarkConfirm(b *testing.B) {
	g := newExempt(b, engines, nil)
	for i := range MaxAnswers / 2 {
		g.Confirm(address(i), nil, today)
	}
	b.ReportAllocs()
	for i := MaxAnswers; b.Loop(); i++ {
		g.Confirm(address(i), nil, today)
	}
}
