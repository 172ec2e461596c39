package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/clock"
	"weir/internal/testkit/dnstest"
	"weir/internal/testkit/needs"
)

// goOn lets requests for /hold go on.
var goOn = make(chan bool)

// at starts a server that answers with its address, at a port of several addresses; 0 for any that is free at all of
// them.
func at(t testing.TB, addr string, port int) (*http.Server, int) {
	t.Helper()
	if port == 0 {
		port = int(netip.MustParseAddrPort(needs.FreeAddress()).Port())
	}
	l, err := net.Listen("tcp", net.JoinHostPort(addr, fmt.Sprint(port)))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			w.(http.Flusher).Flush()
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
		}
		fmt.Fprintf(w, "%s %s", addr, r.Host)
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return s, l.Addr().(*net.TCPAddr).Port
}

// lookingUp is start with a resolver.
func lookingUp(t testing.TB, o Options, by Resolver) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewFake(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), seen: &seen{}}
	p, err := New(o, Env{Clock: r.clock, Observer: r.seen, Resolver: by})
	if err != nil {
		t.Fatal(err)
	}
	r.Pool = p
	t.Cleanup(p.Close)
	return r
}

// round lets the next lookup come, and waits until it is over. before is how many there were.
func (r *rig) round(before int, after time.Duration) {
	r.t.Helper()
	lookups := func(n int) func() bool {
		return func() bool { return strings.Count(r.seen.String(), " has ") == n }
	}
	needs.Wait(r.t, "the lookup before", lookups(before))
	r.clock.Advance(after)
	needs.Wait(r.t, "the next lookup", lookups(before+1))
}

// spread is who answers a number of requests.
func (r *rig) spread(n int) map[string]int {
	r.t.Helper()
	all := map[string]int{}
	for range n {
		_, body, err := r.get("/")
		if err != nil {
			r.t.Fatal(err)
		}
		addr, _, _ := strings.Cut(body, " ")
		all[addr]++
	}
	return all
}

// TestResolve follows a name: its addresses are servers, come and go, and stay while the name server fails. Both
// families are used.
func TestResolve(t *testing.T) {
	noneLeft(t)
	_, port := at(t, "127.0.0.1", 0)
	second, _ := at(t, "127.0.0.2", port)
	at(t, "::1", port)
	dns := dnstest.Start(t)
	dns.Set("app.example", "127.0.0.1")
	url := fmt.Sprintf("http://app.example:%d", port)
	p := lookingUp(t, Options{Servers: []string{url}, Balance: InTurn, Resolve: weir.Duration(30 * time.Second)},
		dns.Resolver())
	want := func(n int, addrs ...string) {
		t.Helper()
		got := p.spread(n)
		for _, a := range addrs {
			if got[a] != n/len(addrs) {
				t.Fatalf("%v, want %v", got, addrs)
			}
		}
	}
	if _, body, err := p.get("/"); err != nil || body != "127.0.0.1 service.example" {
		t.Fatalf("%q %v", body, err) // the first request waits for the first lookup
	}
	dns.Set("app.example", "127.0.0.2", "127.0.0.1", "::1", "0.0.0.0", "ff02::1")
	want(4, "127.0.0.1")
	p.round(1, 30*time.Second)
	want(12, "127.0.0.1", "127.0.0.2", "::1")
	if s := p.Stats(); s[0].Requests < 4 || s[0].Idle != 1 || s[1].Server != url+" (127.0.0.2)" || len(s) != 3 {
		t.Errorf("%+v", s)
	}

	// What is under way at an address that vanishes goes on. Its idle connections are closed.
	held, err := p.RoundTrip(request(t, "GET", "/hold", nil))
	if err != nil {
		t.Fatal(err)
	}
	gone := p.servers()
	dns.Set("app.example", "127.0.0.2")
	p.round(2, 30*time.Second)
	want(4, "127.0.0.2")
	for _, s := range gone {
		if stays := s.to.name == url+" (127.0.0.2)"; (s.stats().Idle > 0) != stays {
			t.Errorf("%+v", s.stats())
		}
	}
	goOn <- true
	if body, err := io.ReadAll(held.Body); err != nil || !strings.Contains(string(body), "service.example") {
		t.Errorf("%q %v", body, err)
	}
	_ = held.Body.Close()

	// A name server that fails, or does not know the name any more, changes nothing.
	dns.Fail(true)
	p.round(3, 30*time.Second)
	want(4, "127.0.0.2")
	dns.Fail(false)
	dns.Set("app.example")
	p.round(4, 30*time.Second)
	want(4, "127.0.0.2")
	if got := p.seen.String(); strings.Count(got, "has 1, true") != 2 || strings.Count(got, "left ") != 2 {
		t.Error(got)
	}

	// A connection that fails is a reason to look again.
	dns.Set("app.example", "127.0.0.1")
	_ = second.Close()
	p.clock.Advance(lookupPause)
	before := dns.Asked()
	for range 5 {
		if _, _, err := p.get("/"); err == nil {
			break
		}
	}
	needs.Wait(t, "it has moved", func() bool {
		_, body, err := p.get("/")
		return err == nil && strings.HasPrefix(body, "127.0.0.1")
	})
	if asked := dns.Asked() - before; asked > 4 { // one for each family, and perhaps again with a search domain
		t.Errorf("asked %d times", asked)
	}
}

// TestResolveBefore: a service whose name is not known yet does not keep weir from starting. Requests get an error at
// once, until it is known.
func TestResolveBefore(t *testing.T) {
	noneLeft(t)
	_, port := at(t, "127.0.0.1", 0)
	dns := dnstest.Start(t)
	p := lookingUp(t, Options{Servers: []string{fmt.Sprintf("http://later.example:%d", port)},
		Resolve: weir.Duration(time.Second)}, dns.Resolver())
	for range 3 {
		_, _, err := p.get("/")
		if none, ok := errors.AsType[*UnavailableError](err); !ok || none.Why != NoneResolved ||
			none.After != time.Second {
			t.Fatalf("%v", err)
		}
	}
	dns.Set("later.example", "127.0.0.1")
	p.round(1, time.Second)
	if _, _, err := p.get("/"); err != nil {
		t.Error(err)
	}
	// Another server may do meanwhile.
	q := lookingUp(t, Options{Servers: []string{"http://unknown.example", named(t, "good")},
		Resolve: weir.Duration(time.Second)}, dns.Resolver())
	if _, body, err := q.get("/"); body != "good" || err != nil {
		t.Errorf("%q %v", body, err)
	}
}

// TestResolveFamily: only the addresses of one family are used, if the operator says so.
func TestResolveFamily(t *testing.T) {
	_, port := at(t, "127.0.0.1", 0)
	at(t, "::1", port)
	dns := dnstest.Start(t)
	dns.Set("app.example", "127.0.0.1", "::1")
	for family, want := range map[Family]string{IPv4: "map[127.0.0.1:4]", IPv6: "map[::1:4]", AnyFamily: "map[127.0.0.1:2 ::1:2]"} {
		p := lookingUp(t, Options{Servers: []string{fmt.Sprintf("http://app.example:%d", port)}, Balance: InTurn,
			Resolve: weir.Duration(time.Minute), Family: family}, dns.Resolver())
		if got := fmt.Sprint(p.spread(4)); got != want {
			t.Errorf("%s: %s, want %s", family, got, want)
		}
	}
}

// TestResolveBound: a name may have as many addresses as there may be servers. One more is counted, and not used.
func TestResolveBound(t *testing.T) {
	dns := dnstest.Start(t)
	addrs := func(n int) (all []string) {
		for i := range n {
			all = append(all, netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)}).String())
		}
		return all
	}
	for _, c := range []struct {
		servers []string
		most    int
	}{
		{[]string{"http://many.example"}, MaxServers},
		{[]string{"http://many.example", "http://127.0.0.1"}, MaxServers - 1},
		{[]string{"http://many.example", "http://other.example", "http://127.0.0.1"}, (MaxServers - 1) / 2},
	} {
		for more := range 2 {
			dns.Set("many.example", addrs(c.most+more)...)
			p := lookingUp(t, Options{Servers: c.servers, Resolve: weir.Duration(time.Minute)}, dns.Resolver())
			needs.Wait(t, "looked up", func() bool { return strings.Contains(p.seen.String(), "many.example has") })
			<-p.ready
			others := len(c.servers) - 1 - strings.Count(fmt.Sprint(c.servers), "other")
			if n := len(p.Stats()); n != c.most+others {
				t.Errorf("%v: %d servers, want %d", c.servers, n, c.most+others)
			}
			if bounded := strings.Contains(p.seen.String(), "bound "+BoundAddresses); bounded != (more > 0) {
				t.Errorf("%v: %s", c.servers, p.seen)
			}
		}
	}
}

// TestResolveConfigure: a reload keeps addresses and connections, and asks for a name that is new.
func TestResolveConfigure(t *testing.T) {
	noneLeft(t)
	_, port := at(t, "127.0.0.1", 0)
	dns := dnstest.Start(t)
	dns.Set("app.example", "127.0.0.1")
	o := Options{Servers: []string{fmt.Sprintf("http://app.example:%d", port)}, Resolve: weir.Duration(time.Minute)}
	p := lookingUp(t, o, dns.Resolver())
	if _, _, err := p.get("/"); err != nil {
		t.Fatal(err)
	}
	dns.Fail(true)
	o.Servers = append(o.Servers, "http://unknown.example")
	next, err := p.Configure(o)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	p.Close()
	if s := next.Stats(); len(s) != 1 || s[0].Idle != 1 || s[0].Requests != 1 {
		t.Errorf("%+v", s)
	}
	if res, err := next.RoundTrip(request(t, "GET", "/", nil)); err != nil {
		t.Error(err)
	} else {
		_ = res.Body.Close()
	}
}

// TestResolveOptions: mistakes have a path and a hint; only names are looked up.
func TestResolveOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"resolve":              {Servers: []string{"http://a"}, Resolve: weir.Duration(time.Second - 1)},
		"resolve ":             {Servers: []string{"http://127.0.0.1", "unix:/a", "http://[::1]:80"}, Resolve: weir.Duration(time.Second)},
		"family":               {Servers: []string{"http://a"}, Resolve: weir.Duration(time.Second), Family: "ipv5"},
		"family ":              {Servers: []string{"http://a"}, Family: IPv4},
		"":                     {Servers: []string{"http://a", "http://127.0.0.1"}, Resolve: weir.Duration(time.Second), Family: IPv4},
		"resolve at its bound": {Servers: []string{"http://a"}, Resolve: weir.Duration(maxTime + 1)},
	} {
		all := weir.FieldErrors(o.Validate())
		path, _, _ := strings.Cut(want, " ")
		if want == "" && len(all) != 0 || want != "" && (len(all) != 1 || all[0].Path != path || all[0].Hint == "") {
			t.Errorf("%q: %v", want, all)
		}
	}
	got := (&Options{Servers: []string{"http://a:80/x", "http://127.0.0.1", "unix:/a", "https://b"}, Resolve: 1}).Names()
	if len(got) != 2 || got["http://a:80/x"] != "a" || got["https://b"] != "b" {
		t.Error(got)
	}
	if all := usable([]netip.Addr{netip.MustParseAddr("::ffff:10.0.0.2"), netip.MustParseAddr("10.0.0.1"),
		netip.MustParseAddr("10.0.0.2"), {}}); !slices.Equal(all, []netip.Addr{netip.MustParseAddr("10.0.0.1"),
		netip.MustParseAddr("10.0.0.2")}) {
		t.Error(all)
	}
}
