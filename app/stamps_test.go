package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"weir/app"
	"weir/config"
	"weir/console"
	"weir/throttle/stamp"
)

// always asks for a stamp that costs nothing worth noticing, whatever the load.
const always = "schedule: [{load: 0%, work: 64}]"

// stamped starts a weir whose gate has a throttle named stamps. Clients may say where they come from.
func stamped(t *testing.T, gate, options string) *site {
	t.Helper()
	return stampedBy(t, func(s *site) *config.Config { return s.stampConfig(gate, options) })
}

func (s *site) stampConfig(gate, options string) *config.Config {
	s.t.Helper()
	cfg, err := config.Parse("weir.yaml", []byte(fmt.Sprintf(`
data: %s
http:
- {listen: "127.0.0.1:0", upstream: %q, trusted_proxies: [127.0.0.0/8], account: ["header:X-Api-Key"], %s}
console: {listen: "127.0.0.1:0"}
bans: {address_from: 3}
throttles:
  stamps: {stamp: {%s}}
  plan: {quota: {policies: [{name: few, kind: requests, limit: 2, period: 1h, over: stamp}]}}
`, s.folder, s.server.URL, gate, options)))
	if err != nil {
		s.t.Fatal(err)
	}
	return cfg
}

// begin starts a weir on the site's folder.
func (s *site) begin(gate, options string) {
	s.t.Helper()
	s.beginBy(s.stampConfig(gate, options))
}

func (s *site) beginBy(cfg *config.Config) {
	s.t.Helper()
	a, err := app.New(cfg, app.Options{Clock: s.clock, HashMemory: 8})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := a.Start(context.Background()); err != nil {
		s.t.Fatal(err)
	}
	s.app, s.control = a, console.NewClient(a.ControlPath())
	s.t.Cleanup(func() { s.end(a) })
}

func (s *site) end(a *app.App) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := a.Stop(ctx); err != nil {
		s.t.Error(err)
	}
}

// stamps is the state of the throttle of that name.
func (s *site) stamps() console.ThrottleStatus {
	s.t.Helper()
	st, err := console.StatusCall.Ask(context.Background(), s.control, console.None{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, th := range st.Throttles {
		if th.Throttle == "stamps" {
			return th
		}
	}
	s.t.Fatal("no stamps")
	return console.ThrottleStatus{}
}

// A person is somebody with a browser's cookies, at an address.
type person struct {
	s       *site
	address string
	client  *http.Client
}

func (s *site) person(address string) *person {
	jar, _ := cookiejar.New(nil)
	return &person{s, address, &http.Client{Jar: jar, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// program is somebody without cookies.
func (s *site) program(address string) *person {
	p := s.person(address)
	p.client.Jar = nil
	return p
}

// A reply is what somebody got.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

func (p *person) do(method, path, body string, header ...string) *reply {
	p.s.t.Helper()
	r := p.try(method, path, body, header...)
	if r == nil {
		p.s.t.Fatalf("no answer to %s %s", method, path)
	}
	return r
}

// try asks, and returns nil when the connection broke.
func (p *person) try(method, path, body string, header ...string) *reply {
	p.s.t.Helper()
	r, err := http.NewRequest(method, "http://"+p.s.app.Addr("http", 0).String()+path, strings.NewReader(body))
	if err != nil {
		p.s.t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", p.address)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := p.client.Do(r)
	if err != nil {
		p.s.t.Log(err)
		return nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.s.t.Log(err)
		return nil
	}
	return &reply{p.s.t, resp.StatusCode, resp.Header, string(b)}
}

// get asks as a program does, look as a browser that shows a page.
func (p *person) get(path string, header ...string) *reply {
	p.s.t.Helper()
	return p.do("GET", path, "", header...)
}

func (p *person) look(path string) *reply {
	p.s.t.Helper()
	return p.do("GET", path, "", "Accept", "text/html", "Sec-Fetch-Mode", "navigate")
}

// pays gets something and pays for it.
func (p *person) pays(path string) (stamp string) {
	p.s.t.Helper()
	stamp = solve(p.s.t, p.get(path).want(503, "unpaid").header.Get("Stamp-Challenge"))
	p.get(path, "Stamp", stamp).want(200, "")
	return stamp
}

func solve(t *testing.T, challenge string) string {
	t.Helper()
	s, err := stamp.Solve(context.Background(), challenge, stamp.SolveOptions{})
	if err != nil {
		t.Fatalf("%q: %v", challenge, err)
	}
	return s
}

// want checks the status, and the reason where there is one.
func (r *reply) want(status int, reason string) *reply {
	r.t.Helper()
	var doc struct{ Reason string }
	if strings.Contains(r.header.Get("Content-Type"), "json") {
		_ = json.Unmarshal([]byte(r.body), &doc)
	}
	if r.status != status || doc.Reason != reason {
		r.t.Fatalf("%d %q, want %d %q: %s", r.status, doc.Reason, status, reason, r.body)
	}
	return r
}

// turn changes one bit of a stamp's challenge, well inside.
func turn(stamp string, at int) string {
	b := []byte(stamp)
	if b[at] == 'A' {
		b[at] = 'B'
	} else {
		b[at] = 'A'
	}
	return string(b)
}

// TestTheFlowOfTheDocument has a test for each arrow of the source's figure, and for its variants.
func TestTheFlowOfTheDocument(t *testing.T) {
	t.Parallel()
	const gate = "capacity: {concurrent: 10}, throttles: [stamps]"
	classic := "classic: true, schedule: [{load: 0%, work: 16}]"

	t.Run("new client: into the general pool, and here is the challenge", func(t *testing.T) {
		s := stamped(t, gate, classic)
		r := s.program("192.0.2.1").get("/a").want(503, "unpaid")
		if r.header.Get("Stamp-Challenge") == "" || r.header.Get("Stamp-Ticket") == "" {
			t.Errorf("no challenge, or no ticket: %v", r.header)
		}
		s.quiet()
	})
	t.Run("valid stamp: processed at once", func(t *testing.T) {
		s := stamped(t, gate, classic)
		s.program("192.0.2.1").pays("/a")
		s.arrives("/a")
	})
	t.Run("replay: dropped", func(t *testing.T) {
		s := stamped(t, gate, classic)
		p := s.program("192.0.2.1")
		used := p.pays("/a")
		s.arrives("/a")
		p.get("/a", "Stamp", used).want(403, "replayed")
		s.quiet()
		p.pays("/a") // it is not on the block list
	})
	t.Run("replay, variant: general pool", func(t *testing.T) {
		s := stamped(t, gate, classic+", on_replay: pool")
		p := s.program("192.0.2.1")
		used := p.pays("/a")
		p.get("/a", "Stamp", used).want(503, "unpaid")
	})
	t.Run("invalid stamp: dropped, and on the block list", func(t *testing.T) {
		s := stamped(t, gate, classic)
		p := s.program("192.0.2.1")
		good := solve(t, p.get("/a").want(503, "unpaid").header.Get("Stamp-Challenge"))
		p.get("/a", "Stamp", turn(good, 30)).want(403, "forged")
		s.quiet()
		p.get("/a", "Stamp", good).want(200, "") // one offence does not ban the address
	})
	t.Run("client on the block list: dropped, whatever it brings", func(t *testing.T) {
		s := stamped(t, gate, classic)
		p := s.program("192.0.2.1")
		good := solve(t, p.get("/a").want(503, "unpaid").header.Get("Stamp-Challenge"))
		for range 3 { // bans: {address_from: 3}
			p.get("/a", "Stamp", turn(good, 30)).want(403, "forged")
		}
		p.get("/a", "Stamp", good).want(403, "banned")
		p.get("/a").want(403, "banned")
		s.program("192.0.2.2").pays("/a")
	})
	t.Run("invalid stamp, variant: general pool", func(t *testing.T) {
		s := stamped(t, gate, classic+", on_invalid: pool, patience: 5")
		p := s.program("192.0.2.1")
		good := solve(t, p.get("/a").want(503, "unpaid").header.Get("Stamp-Challenge"))
		p.get("/a", "Stamp", turn(good, 30)).want(503, "unpaid")
	})
	t.Run("old client without a stamp: dropped, and on the block list", func(t *testing.T) {
		s := stamped(t, gate, classic)
		s.program("192.0.2.1").get("/a").want(503, "unpaid")
		for range 3 {
			s.program("192.0.2.1").get("/a").want(429, "not-paying")
		}
		s.program("192.0.2.1").get("/a").want(403, "banned")
	})
	t.Run("old client with a ticket: keeps its place", func(t *testing.T) {
		s := stamped(t, gate, classic)
		p := s.program("192.0.2.1")
		ticket := p.get("/a").want(503, "unpaid").header.Get("Stamp-Ticket")
		p.get("/a", "Stamp-Ticket", ticket).want(200, "") // there is room: it is its turn
	})
	t.Run("a space more is another message", func(t *testing.T) {
		s := stamped(t, gate, classic+", on_invalid: pool, patience: 5")
		p := s.program("192.0.2.1")
		good := solve(t, p.do("POST", "/a", "x y").want(503, "unpaid").header.Get("Stamp-Challenge"))
		p.do("POST", "/a", "x  y", "Stamp", good).want(503, "unpaid")
		p.do("POST", "/a", "x y", "Stamp", good).want(200, "")
	})
}

func TestBelowTheLoadNothingIsAsked(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", "covers: 50")
	s.person("192.0.2.1").get("/a").want(200, "")
	if c := s.person("192.0.2.1").look("/a").header.Values("Set-Cookie"); len(c) > 0 {
		t.Errorf("cookies for nothing: %q", c)
	}
}

// TestLoadAwakens fills an upstream up until stamps are asked for, pays, goes first, and sees it all end.
func TestLoadAwakens(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 2, max_wait: 10m, pool_wait: 1ms}, throttles: [stamps]",
		"first: 64, from_load: 90%")
	release := s.holding()
	var calls []*call
	for i := range 2 {
		calls = append(calls,
			s.send(fmt.Sprintf("GET /busy/%d HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.9\r\n\r\n", i)))
		s.arrives(fmt.Sprintf("/busy/%d", i))
	}
	p := s.person("192.0.2.1")
	var challenge string
	for range 50 { // a second or so passes until the load counts
		s.clock.Advance(100 * time.Millisecond)
		if s.stamps().Stamp.Most() > 0 {
			challenge = p.get("/a").want(503, "unpaid").header.Get("Stamp-Challenge")
			break
		}
	}
	if challenge == "" {
		t.Fatal("nothing was asked")
	}
	good := solve(t, challenge)
	paid := s.send("GET /paid HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\nStamp: " + good + "\r\n\r\n")
	s.until("the paid request to wait", func() bool {
		st, _ := console.StatusCall.Ask(context.Background(), s.control, console.None{})
		return st.Gates[0].Capacity.Stamped == 1
	})
	release()
	for _, c := range calls {
		c.want(200)
	}
	paid.want(200)
	s.arrives("/paid")
	for range 600 {
		s.clock.Advance(100 * time.Millisecond)
		if s.stamps().Stamp.Most() == 0 {
			s.person("192.0.2.2").get("/b").want(200, "")
			return
		}
	}
	t.Fatal("a minute later it still asks")
}

func TestAStampCoversAPageAndWhatItLoads(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", always+", covers: 3")
	p := s.person("192.0.2.1")
	p.client.Jar = nil // nor a ticket
	good := p.pays("/page")
	p.get("/style.css", "Stamp", good).want(200, "")
	p.get("/script.js", "Stamp", good).want(200, "")
	p.get("/image.png", "Stamp", good).want(503, "unpaid") // used up, and no offence
	p.pays("/image.png")
}

// TestAChangeOfNetwork: who has a cookie may come from elsewhere; who has none is known by the address.
func TestAChangeOfNetwork(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", always+", covers: 3")
	p := s.person("192.0.2.1")
	page := p.look("/")
	if page.status != 503 {
		t.Fatal(page.status)
	}
	good := solve(t, page.header.Get("Stamp-Challenge"))
	p.address = "198.51.100.7"
	p.get("/", "Stamp", good).want(200, "")

	thief := s.person("198.51.100.7")
	thief.get("/", "Stamp", good).want(503, "unpaid")

	program := s.person("192.0.2.1")
	program.client.Jar = nil
	bound := solve(t, program.get("/").want(503, "unpaid").header.Get("Stamp-Challenge"))
	program.get("/", "Stamp", bound).want(200, "")
	program.address = "198.51.100.8"
	program.get("/", "Stamp", bound).want(503, "unpaid")
}

func TestAForgedStampBans(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", always)
	p := s.person("192.0.2.1")
	good := solve(t, p.look("/").header.Get("Stamp-Challenge"))
	p.get("/", "Stamp", turn(good, 40)).want(403, "forged")
	p.get("/").want(403, "banned")
	s.person("192.0.2.1").get("/").want(503, "unpaid") // a neighbour at the same address
}

func TestNothingIsAskedOf(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]",
		always+`, never_ask: {paths: ["/healthz", "/hooks/*"], networks: [203.0.113.0/24]}`)
	s.person("192.0.2.1").get("/healthz").want(200, "")
	s.person("192.0.2.1").get("/hooks/mail").want(200, "")
	s.person("192.0.2.1").get("/healthz/../private").want(503, "unpaid")
	s.person("192.0.2.1").get("/private/../healthz").want(503, "unpaid")
	s.person("192.0.2.1").get("/hooks/..;/private").want(503, "unpaid")
	s.person("192.0.2.1").get("/HEALTHZ").want(503, "unpaid")
	s.person("192.0.2.1").get("/healthz", "X-Original-URL", "/private").want(503, "unpaid")
	s.person("192.0.2.1").get("/healthz", "X-Original-URL", "/healthz").want(200, "")
	s.person("203.0.113.9").get("/private").want(200, "")
	s.person("192.0.2.1").get("/private", "User-Agent", "Googlebot/2.1").want(503, "unpaid")
}

func TestPayInsteadOfBeingRefused(t *testing.T) {
	t.Parallel()
	s := stamped(t, "throttles: [plan, stamps]", "covers: 2")
	p := s.person("192.0.2.1")
	for range 2 {
		p.get("/", "X-Api-Key", "acme").want(200, "")
	}
	r := p.get("/", "X-Api-Key", "acme").want(429, "unpaid")
	if r.header.Get("Stamp-Ticket") != "" {
		t.Error("waiting does not help against a limit of one's own")
	}
	good := solve(t, r.header.Get("Stamp-Challenge"))
	p.get("/", "X-Api-Key", "acme", "Stamp", good).want(200, "")
	p.get("/", "X-Api-Key", "acme", "Stamp", good).want(200, "")
	p.get("/", "X-Api-Key", "acme", "Stamp", good).want(429, "unpaid")
	p.get("/", "X-Api-Key", "other").want(200, "")
}

func TestShadowAsksNobody(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", always)
	if _, err := console.ShadowCall.Ask(context.Background(), s.control, console.Shadow{All: true,
		On: true}); err != nil {
		t.Fatal(err)
	}
	p := s.person("192.0.2.1")
	p.get("/").want(200, "")
	p.get("/", "Stamp", "nonsense").want(200, "")
	if n := s.stamps().Shadowed["challenge"]; n != 2 {
		t.Errorf("%d challenges counted in shadow, want 2", n)
	}
	const series = `weir_throttle_verdicts_total{mode="shadow",policy="stamp",throttle="stamps",verdict="challenge"} 2`
	if body := scraped(t, s.app); !strings.Contains(body, series) {
		t.Errorf("no %s", series)
	}
}

// TestTheUpstreamSeesNothingOfIt: stamps, tickets and ids are between the client and the gate.
func TestTheUpstreamSeesNothingOfIt(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", always+", covers: 9")
	var seen http.Header
	s.does(func(w http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() })
	p := s.person("192.0.2.1")
	good := solve(t, p.look("/").header.Get("Stamp-Challenge"))
	u, _ := url.Parse("http://" + s.app.Addr("http", 0).String())
	p.client.Jar.SetCookies(u, []*http.Cookie{{Name: "session", Value: "mine"}, {Name: "weir-stamp", Value: good},
		{Name: "weirdo", Value: "yes"}})
	p.get("/").want(200, "")
	if c := seen.Get("Cookie"); strings.Contains(c, "weir-") || !strings.Contains(c, "session=mine") ||
		!strings.Contains(c, "weirdo=yes") {
		t.Errorf("cookies %q", c)
	}
	p.get("/", "Stamp", good, "Stamp-Ticket", "x").want(200, "")
	if seen.Get("Stamp") != "" || seen.Get("Stamp-Ticket") != "" {
		t.Errorf("%v", seen)
	}
}

// TestTheWaitingRoom: without JavaScript a person waits, is called, and gets the page with what it loads.
func TestTheWaitingRoom(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 1, max_wait: 10m}, throttles: [stamps]", always+", covers: 3")
	release := s.holding()
	busy := s.send("GET /busy HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.9\r\nStamp: " +
		solve(t, s.person("192.0.2.9").get("/busy").header.Get("Stamp-Challenge")) + "\r\n\r\n")
	s.arrives("/busy")
	s.clock.Advance(time.Second)
	first, second := s.person("192.0.2.1"), s.person("192.0.2.2")
	for _, p := range []*person{first, second} {
		if r := p.look("/page"); r.status != 503 || r.header.Get("Retry-After") == "" ||
			r.header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %v", r.status, r.header)
		}
	}
	release()
	busy.want(200)
	s.clock.Advance(5 * time.Second)
	let := 0
	for range 12 { // both reload until they are in
		for _, p := range []*person{first, second} {
			if p != nil && p.look("/page").status == 200 {
				let++
			}
		}
		if let >= 2 {
			break
		}
		s.clock.Advance(5 * time.Second)
	}
	if let < 2 {
		t.Fatal("somebody did not get in")
	}
	first.get("/style.css").want(200, "")
	outsider := s.person("192.0.2.3")
	outsider.get("/style.css").want(503, "unpaid")
}

// TestARestartForgetsNothing: stamps that are out, ids and tickets stay good; bans stay.
func TestARestartForgetsNothing(t *testing.T) {
	t.Parallel()
	const gate = "capacity: {concurrent: 10}, throttles: [stamps]"
	s := stamped(t, gate, always+", covers: 3")
	forger, p := s.person("192.0.2.1"), s.person("192.0.2.2")
	forger.get("/", "Stamp", turn(solve(t, forger.look("/").header.Get("Stamp-Challenge")), 40)).want(403, "forged")
	page := p.look("/")
	s.end(s.app)
	s.clock.Advance(time.Second)
	s.begin(gate, always+", covers: 3")
	rehost := func(p *person, cookies []string) {
		for _, c := range cookies {
			name, value, _ := strings.Cut(strings.SplitN(c, ";", 2)[0], "=")
			u, _ := url.Parse("http://" + s.app.Addr("http", 0).String())
			p.client.Jar.SetCookies(u, []*http.Cookie{{Name: name, Value: value}})
		}
	}
	rehost(p, page.header.Values("Set-Cookie"))
	forger.get("/").want(403, "banned")
	// What was spent before is not known any more, so that a challenge from before is asked for anew; the client is the
	// same.
	p.get("/", "Stamp", solve(t, page.header.Get("Stamp-Challenge"))).want(200, "") // by its place in line
	p.client.Jar, _ = cookiejar.New(nil)
	rehost(p, page.header.Values("Set-Cookie")[:1])
	p.get("/", "Stamp", solve(t, page.header.Get("Stamp-Challenge"))).want(503, "unpaid")
}

// cookieOf returns the name of the cookie that a page puts its stamp into.
func cookieOf(t *testing.T, page string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, `data-cookie="`)
	name, _, _ := strings.Cut(rest, `"`)
	if !found || name == "" {
		t.Fatalf("no cookie in %s", page)
	}
	return name
}

func (p *person) keeps(name, value string) {
	u, _ := url.Parse("http://" + p.s.app.Addr("http", 0).String())
	p.client.Jar.SetCookies(u, []*http.Cookie{{Name: name, Value: value, Path: "/"}})
}

func (p *person) drops(name string) {
	u, _ := url.Parse("http://" + p.s.app.Addr("http", 0).String())
	p.client.Jar.SetCookies(u, []*http.Cookie{{Name: name, Path: "/", MaxAge: -1}})
}

// TestTwoTabs: where a stamp pays for one request, each tab has a cookie of its own, and it is gone when it is used.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", always+", covers: 1")
	p := s.person("192.0.2.1")
	one := p.look("/one")
	p.drops("weir-ticket") // there is room, and with it nothing would be asked
	two := p.look("/two")
	if cookieOf(t, one.body) == cookieOf(t, two.body) {
		t.Fatal("both tabs use one cookie")
	}
	p.keeps(cookieOf(t, one.body), solve(t, one.header.Get("Stamp-Challenge")))
	p.keeps(cookieOf(t, two.body), solve(t, two.header.Get("Stamp-Challenge")))
	p.drops("weir-ticket")
	for _, path := range []string{"/two", "/one"} {
		if r := p.look(path); r.status != 200 ||
			!strings.Contains(strings.Join(r.header.Values("Set-Cookie"), " "), "weir-stamp-") {
			t.Errorf("%s: %d %v", path, r.status, r.header)
		}
	}
	if r := p.look("/one"); r.status != 503 { // a reload later is no replay
		t.Errorf("again: %d", r.status)
	}
}

// TestAForm: what was sent comes back with the page, and goes on as it was.
func TestAForm(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", always+", covers: 1")
	var got string
	s.does(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = string(b)
	})
	p := s.person("192.0.2.1")
	send := func(kind, body string, header ...string) *reply {
		p.drops("weir-ticket") // there is room, and with it nothing would be asked
		p.drops("weir-ticket-cross")
		return p.do("POST", "/send?x=1", body,
			append(header, "Content-Type", kind, "Accept", "text/html", "Sec-Fetch-Mode", "navigate")...)
	}
	const form = "application/x-www-form-urlencoded"
	page := send(form, "a=1&a=%22%3Cb%3E%22&text=one%0D%0Atwo+three&%C3%BC=%E2%82%AC")
	for _, want := range []string{`action="/send?x=1"`, `name="a" value="1"`, `name="a" value="&#34;&lt;b&gt;&#34;"`,
		`accept-charset="windows-1252"`,
		`name="Ã¼" value="â‚¬"`} {
		if !strings.Contains(page.body, want) {
			t.Errorf("no %s in %s", want, page.body)
		}
	}
	p.keeps(cookieOf(t, page.body), solve(t, page.header.Get("Stamp-Challenge")))
	// A browser may escape in its own way; it is the same form.
	if r := send(form, "a=1&a=%22%3cb%3e%22&text=one%0d%0atwo%20three&%c3%bc=%e2%82%ac"); r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if got != "a=1&a=%22%3cb%3e%22&text=one%0d%0atwo%20three&%c3%bc=%e2%82%ac" {
		t.Errorf("the upstream got %q", got)
	}
	for name, c := range map[string][2]string{
		"a file": {"multipart/form-data; boundary=x",
			"--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\ndata\r\n--x--\r\n"},
		"too large":      {form, "a=" + strings.Repeat("x", 64<<10)},
		"a zero":         {form, "a=%00"},
		"not line ends":  {form, "a=%0A"},
		"something else": {"application/json", "{}"},
	} {
		if r := send(c[0], c[1]); r.status != 503 || !strings.Contains(r.body, "send it again") ||
			strings.Contains(r.body, `type="hidden"`) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if r := send(form, "a="+strings.Repeat("x", 64<<10-2)); r.status != 503 ||
		!strings.Contains(r.body, `type="hidden"`) {
		t.Errorf("just small enough: %d", r.status)
	}
	// What another site sends must not come from this one the next time.
	home := "http://" + s.app.Addr("http", 0).String()
	for _, c := range []struct {
		header []string
		own    bool
	}{
		{[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://other.example"}, false},
		{[]string{"Sec-Fetch-Site", "same-site", "Origin", home}, false},
		{[]string{"Origin", "https://other.example"}, false}, {[]string{"Origin", "null"}, false},
		{[]string{"Sec-Fetch-Site", "same-origin", "Origin", "null"}, true}, {[]string{"Sec-Fetch-Site", "none"}, true},
		{[]string{"Origin", home}, true},
	} {
		for _, body := range []string{"b=1", ""} {
			r := send(form, body, c.header...)
			if kept := strings.Contains(r.body, `id="again"`); r.status != 503 || kept != c.own ||
				strings.Contains(r.body, "came from another site") == c.own {
				t.Errorf("%q with %q: %d %s", c.header, body, r.status, r.body)
			}
		}
	}
}

// TestALargeBodyGoesOnWhole: of a body that is too large to be kept, the beginning was read, and nothing is lost.
func TestALargeBodyGoesOnWhole(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", always+", covers: 1")
	var got string
	s.does(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = string(b)
	})
	p := s.program("192.0.2.1")
	for _, size := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20} {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, "%d ", i)
		}
		body := b.String()[:size]
		var asked *reply
		// it comes before the body is through, and a client may see its connection close first
		s.until("the challenge to be read", func() bool {
			asked = p.try("PUT", "/", body)
			return asked != nil
		})
		good := solve(t, asked.want(503, "unpaid").header.Get("Stamp-Challenge"))
		p.do("PUT", "/", body, "Stamp", good).want(200, "")
		if got != body {
			t.Errorf("%d bytes: the upstream got %d", size, len(got))
		}
	}
}
