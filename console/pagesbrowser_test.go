package console

import (
	"cmp"
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/console/access"
	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/mail/spool"
	"weir/policy"
	"weir/store"
	"weir/throttle/ban"
	"weir/throttle/bloom"
)

// busyBackend has something to show on every page.
type busyBackend struct{ *mailed }

func (b busyBackend) Mail() Mail { return b }

func (b busyBackend) Status() Status {
	s := b.backend.Status()
	s.Gates = []GateStatus{{Gate: "127.0.0.1:8080", Kind: "http", Address: "127.0.0.1:8080"}}
	s.Mail = &MailStatus{Messages: 12, Recipients: map[store.State]int{store.Held: 12}, Stopped: 1, Flagged: 1}
	s.Bans = BanStatus{Stats: ban.Stats{Clients: 12, Networks: 13, Operators: 2, Max: 1000}}
	return s
}

func (b busyBackend) Users(ctx context.Context, _ UserQuery) (UserPage, error) {
	ann, err := b.User(ctx, "ann")
	return UserPage{Users: []UserView{ann}}, err
}

func (b busyBackend) UserHistory(_ context.Context, name string) (UserHistory, error) {
	rising := func(to float32) (v Values) {
		for i := range 60 {
			v = append(v, to*float32(i)/59)
		}
		return v
	}
	var at []int64
	for i := range 60 {
		at = append(at, busyTime.Add(time.Duration(i-59)*time.Minute).UnixMilli())
	}
	return UserHistory{User: name, At: busyTime, Since: busyTime.Add(-time.Hour), Throttles: []Series{
		{Name: "outgoing", Kind: "mail", Unit: "recipients", Seconds: 10, At: at, Columns: map[Measure]Values{
			Waiting: rising(12), Slack: rising(3), MSlack: rising(4), WorkingSet: rising(25), StopAbove: rising(20),
			UserStopped: rising(1)}},
		{Name: "contacts", Kind: "reach", Unit: "recipients", Seconds: 10, At: at, Columns: map[Measure]Values{
			NewInHour: rising(9), HourLimit: rising(30), NewInDay: rising(19), DayLimit: rising(60)}}}}, nil
}

func (b busyBackend) Track(context.Context, TrackQuery, int) ([]store.Queued, []MailStep, error) {
	return nil, []MailStep{{At: busyTime, Mail: 7, User: "ann", Address: "father@elsewhere.example", Result: "deferred",
		Status: "451 4.7.1 a server with a long answer asks to be tried again in an hour, or two"}}, nil
}

func (b busyBackend) Reach() Reach {
	return &reaching{backend: b.backend, users: []ReachView{{Throttle: "contacts", User: "ann", Flagged: true,
		Since: busyTime, Why: "61 new recipients within a day, more than 60", Windows: []ReachWindow{}}}}
}

func (b busyBackend) User(_ context.Context, name string) (UserView, error) {
	if name != "ann" {
		return UserView{}, store.ErrNotFound
	}
	return UserView{User: store.User{Name: "ann", Contact: "ann@private.example"}, LogIn: true,
		Throttles: []spool.Standing{{Throttle: "outgoing", Stopped: true, Since: busyTime, Waiting: 12, Slack: 3,
			MSlack:     4,
			WorkingSet: 25, Limits: "slack 10, stop 50, rate 1/s"}}}, nil
}

func (b busyBackend) Queue(context.Context, store.MessageQuery, int) ([]store.Queued, error) {
	return []store.Queued{busyMail()}, nil
}

func (b busyBackend) ShowMail(context.Context, store.MailID) (store.Queued, string, string, error) {
	return busyMail(), "Subject: <b>news</b>\r\nFrom: ann@example.org\r\n", "hello", nil
}

func busyMail() store.Queued {
	return store.Queued{Message: store.Message{ID: 7, User: "ann", Sender: "ann@example.org", Subject: "<b>news</b>",
		Received: busyTime}, To: []store.Addressee{{Mail: 7, Address: "bob@example.net", State: store.Held,
		Status: "451 later"}}}
}

var busyTime = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

func newBusy() busyBackend {
	b := busyBackend{&mailed{backend: newBackend()}}
	b.farm = &fakeFarm{}
	b.accounts = map[string]Account{"acme": {Account: "acme", Throttles: []AccountThrottle{{Throttle: "plans", Plan: "gold",
		Waiting: 2, Rules: []Rule{{Rule: "per-hour", Unit: "requests", Limit: 1000, Per: "1h", Reset: busyTime}}}}}}
	b.bans.page = BanPage{Total: 25, Bans: []Ban{{Who: "192.0.2.0/24", Reason: "scraping <b>", By: "ann", Since: busyTime,
		Until: busyTime.AddDate(0, 0, 1)}, {Who: "192.0.2.7", By: "stamps"}}}
	b.entries = []store.Entry{{ID: 9, At: busyTime, By: "ann", What: "ban-add", From: "198.51.100.7", User: "acme",
		Text: `{"who":"192.0.2.0/24","for":"1d"}`, After: `{"who":"192.0.2.0/24","reason":"scraping <b>"}`},
		{ID: 8, At: busyTime, By: "weir", What: "stopped", User: strings.Repeat("a-long-name.", 12) + "@example.org", Mail: 7},
		{ID: 7, At: busyTime, By: "ann", What: "login", From: "2001:db8::1234:5678:9abc:def0"}}
	b.overview = busy()
	b.limits.page = LimitPage{Total: 2, Limits: []AccountLimit{{Account: "acme", Throttle: "plans", Policy: "per-hour",
		Figures: Figures{Limit: "7"}, Live: true, By: "admin", At: busyTime, Note: "until the invoice is paid"},
		{Account: "acme", Throttle: "plans", Policy: "per-day", Figures: Figures{Exempt: true},
			Unused: "one of an operator"}}}
	b.throttles = append(b.throttles, Throttle{Link: policy.NewLink("edge", nil, policy.Closed), Kind: "bloom",
		Bloom: &Bloom{Stats: bloom.Stats{Bytes: 8 << 20, Drained: 0.398, Collateral: 0.01, Attackers: 51_234,
			Rotations: 3}}})
	b.xdp = []XDPStatus{{Interface: "eth0", Mode: "syn", Attach: "native", Bans: 12, LeftOut: 3,
		Packets: map[string]uint64{"pass": 123456789012, "drop": 98765}},
		{Interface: "eth1", Error: "no such interface"}}
	return b
}

// A played demo has a scene that a visitor floods, and one where nobody is.
type played struct{}

func (played) Flood(string) error     { return nil }
func (played) Pay(string, bool) error { return nil }
func (played) Stop(string) error      { return nil }

func (played) Scenes() []DemoScene {
	each := func(n int64) (all []int64) {
		for i := range int64(DemoSeconds) {
			all = append(all, n*i/DemoSeconds)
		}
		return all
	}
	side := func(gate string, refused, failed int64) DemoSide {
		return DemoSide{Gate: gate, At: busyTime.Unix(),
			People: DemoRole{Sent: 60, Served: 60 - failed, Failed: failed, Median: 12.3, Passed: each(3),
				NotPassed: each(1)},
			Flood: DemoRole{Sent: 12000, Served: 12000 - refused, Refused: refused, Passed: each(20),
				NotPassed: each(500)}}
	}
	return []DemoScene{{Name: "quota", Story: "an API is flooded", Rule: "10 requests a second of each client."},
		{Name: "stamps", Story: "a page is flooded", Rule: "Visitors pay with work.", Playing: DemoFlooded,
			Until: busyTime, Pays: true, Paying: true, Without: side("127.0.0.1:41234", 0, 31),
			With: side("127.0.0.1:41235", 11000, 0), Notes: []string{"the flood comes", "people <pay>"}}}
}

func demonstrated() Backend {
	b := newBackend()
	b.demo = played{}
	return b
}

// A pageCase is a page as somebody with a role sees it.
type pageCase struct {
	backend Backend
	path    string
	role    access.Role // by the proxy; none: nobody has logged in
	code    int
	words   []string
	not     []string
}

// open starts the console and returns the address of the page.
func (c *pageCase) open(t *testing.T) string {
	t.Helper()
	var o Options
	if c.role != "" {
		o = vouched(c.role)
	}
	site, _, _ := start(t, o, c.backend)
	if c.role != "" {
		site = vouching(t, site)
	}
	return site + c.path
}

// check holds what a page says against what it should.
func (c *pageCase) check(t *testing.T, at string, status int, text string) {
	t.Helper()
	if status != c.code {
		t.Errorf("%s: %d", at, status)
	}
	for _, want := range c.words {
		if !strings.Contains(text, want) {
			t.Errorf("%s: no %q in %q", at, want, text)
		}
	}
	for _, bad := range c.not {
		if strings.Contains(text, bad) {
			t.Errorf("%s: %q in %q", at, bad, text)
		}
	}
}

// TestPagesInBrowser: every page, busy and empty and wrong, on a phone and on a desk, in light and dark.
func TestPagesInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	cases := map[string]pageCase{
		"login":       {newBusy(), "/login", "", 200, []string{"Log in", "Password", "admin-password"}, []string{"Overview"}},
		"why-empty":   {newBusy(), "/why", access.Act, 200, []string{"Look up who is held back"}, nil},
		"why-account": {newBusy(), "/why?q=acme", access.Act, 200, []string{"plan gold", "Reset what it has used"}, nil},
		"why-address": {newBusy(), "/why?q=192.0.2.7", access.Act, 200,
			[]string{"Lift the ban", "scraping <b>", "And 23 more"}, []string{"Ban 192.0.2.7"}},
		"why-user": {newBusy(), "/why?q=ann", access.Act, 200,
			[]string{"Let ann send again", "stopped", "0000000000007"}, nil},
		"why-message": {newBusy(), "/why?q=0000000000007", access.Act, 200,
			[]string{"Release it", "Delete it", "<b>news</b>", "451 later"}, nil},
		"farm": {newBusy(), "/farm", access.Admin, 200,
			[]string{"2 of 4 nodes", "Forget", "another one", "no <answer> in time", "Take a out of the farm",
				"Reload the configuration"}, nil},
		"farm-none": {&backend{}, "/farm", access.Admin, 404, []string{"no such page"}, nil},
		"audit": {newBusy(), "/audit?by=ann&since=2024-05-01T00:00", access.View, 200,
			[]string{"ban-add", "198.51.100.7", "Show all", "weir audit --lines --limit 0 --by 'ann'",
				"who 192.0.2.0/24, for 1d"}, []string{`{"who"`}},
		"mail": {newBusy(), "/mail", access.Act, 200,
			[]string{"ann", "<b>news</b>", "Resume", "held", "61 new recipients", "Act on all messages"}, nil},
		"mail-none": {&mailed{backend: newBackend(), status: &MailStatus{}}, "/mail?state=pooled", access.Act, 200,
			[]string{"No message waits here.", "Nobody is stopped."}, nil},
		"mail-track": {newBusy(), "/mail?track=father", access.View, 200,
			[]string{"deferred", "father@elsewhere.example", "451 4.7.1"}, []string{"Resume"}},
		"mail-user": {newBusy(), "/mail-user?name=ann", access.Act, 200,
			[]string{"stopped since", "<b>news</b>", "ann@private.example", "The last hour", "Queue",
				"recipients that wait", "Slack", "Working set", "Reach in an hour", "new recipients in the hour before",
				"Reach in a day", "an hour ago", "of 20", "Clear the flag"}, nil},
		"mail-message": {newBusy(), "/mail-message?id=0000000000007", access.Act, 200,
			[]string{"hello", "Subject: <b>news</b>", "bob@example.net", "451 later"}, nil},
		"mail-wrong": {newBusy(), "/mail-message?id=x", access.Act, 400, []string{"not the id of a message"}, nil},
		"sources": {newBusy(), "/sources?filter=192.0.2.7", access.Act, 200,
			[]string{"scraping <b>", "2 of 25 shown", "39.8%", "no such interface", "123456789012"}, nil},
		"sources-empty": {&backend{}, "/sources", access.Act, 200, []string{"Nobody is banned."}, nil},
		"throttles": {newBusy(), "/throttles?filter=acme", access.Act, 200,
			[]string{"plans", "until the invoice is paid", "one of an operator", "818 of 5130", "show all"}, nil},
		"throttles-empty": {newBackend(), "/throttles", access.Act, 200,
			[]string{"No account has a limit of its own."}, nil},
		"demo": {demonstrated(), "/demo", access.Act, 200,
			[]string{"Nobody is here.", "Wait in line instead", "11000 refused by weir", "31 failed", "people <pay>"}, nil},
		"audit-empty": {&backend{}, "/audit", access.View, 200, []string{"Nothing has happened yet"}, nil},
	}
	urls := map[string]string{}
	for name, c := range cases {
		urls[name] = c.open(t)
	}
	p := browser.Open(t)
	for name, c := range cases {
		if c.code != 200 {
			p.Tolerate(fmt.Sprint(c.code))
		}
		p.Inspect("console-"+name, urls[name], func(at string, status int, _ http.Header) {
			c.check(t, at, status, p.Text("body"))
			for _, table := range browser.Eval[[]string](p, sticksOut) {
				t.Errorf("%s: wider than the page: %s", at, table)
			}
		})
	}
}

// TestEmergencyOnEveryPage: every page says that the emergency switch is on, and lets operators who may turn it off.
func TestEmergencyOnEveryPage(t *testing.T) {
	t.Parallel()
	const off = `action="./do/shadow-on"`
	for role, may := range map[access.Role]bool{access.Admin: true, access.View: false} {
		b := demoed{newBusy()}
		site, _, _ := start(t, vouched(role), b)
		at := vouching(t, site)
		for _, p := range consolePages() {
			code, body, _ := get(t, http.MethodGet, at+"/"+cmp.Or(pathWith[p.path], p.path), "")
			if !strings.Contains(body, "all throttles are in shadow</b> since <time") || strings.Contains(body, off) != may ||
				strings.Contains(body, "Emergency: let everything pass") {
				t.Errorf("%s, as %s: %d\n%s", p.name, role, code, body)
			}
		}
	}
}

// A demoed backend has every page, and the emergency switch on.
type demoed struct{ busyBackend }

func (demoed) Demo() Demo { return played{} }

func (b demoed) Status() Status {
	s := b.busyBackend.Status()
	s.ShadowAll = &ShadowAll{By: "ann", At: busyTime}
	return s
}

// pathWith are the paths of pages that need to be told what to show.
var pathWith = map[string]string{"mail-user": "mail-user?name=ann", "mail-message": "mail-message?id=0000000000007",
	"why": "why?q=acme"}

// TestPagesSay: pages that have no other parts than those of TestPagesInBrowser, but say something else.
func TestPagesSay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]pageCase{
		"why-unknown": {&backend{}, "/why?q=nobody", access.View, 200, []string{"Nothing is known of nobody"}, nil},
		"why-wrong":   {newBusy(), "/why?q=" + strings.Repeat("x", 257), access.View, 200, []string{"at most 256"}, nil},
		"why-viewer": {newBusy(), "/why?q=192.0.2.7", access.View, 200, []string{"scraping"},
			[]string{"Lift the ban", "Ban 192.0.2.7"}},
		"farm-viewer": {newBusy(), "/farm", access.View, 200, []string{"2 of 4 nodes"},
			[]string{"Forget", "Leave the farm", "Reload"}},
		"audit-nothing": {&backend{}, "/audit?text=x", access.View, 200, []string{"Nothing matches"}, nil},
		"audit-wrong":   {newBusy(), "/audit?since=soon", access.View, 200, []string{"is not a time"}, nil},
	} {
		code, body, _ := get(t, http.MethodGet, c.open(t), "")
		c.check(t, name, code, html.UnescapeString(tag.ReplaceAllString(body, "")))
	}
}

var tag = regexp.MustCompile(`<[^>]*>`)

// sticksOut lists the heads of tables that are wider than the page's own width, although the screen has room.
const sticksOut = `(() => {
	const main = document.querySelector('main'), pad = parseFloat(getComputedStyle(main).paddingRight);
	const end = main.getBoundingClientRect().right - pad;
	return [...main.querySelectorAll('table')].filter(t => t.getBoundingClientRect().right > end + 1)
		.map(t => t.tHead.innerText);
})()`

// TestOperatorsInBrowser: the pages of operators, who log in to see them, and the one that shows a token once.
func TestOperatorsInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	h := newHall(t, Options{})
	h.as("root") // a session elsewhere
	p := browser.Open(t)
	p.Visit(h.url + "/operators")
	p.Wait("!!document.querySelector('main [name=password]')")
	browser.Eval[bool](p, fmt.Sprintf(`document.querySelector('main [name=name]').value = 'root',
		document.querySelector('main [name=password]').value = %q, true`, testPassword))
	p.Click("main button")
	p.Wait("document.querySelector('h1')?.innerText === 'Operators'")
	look := func(words ...string) func(string, int, http.Header) {
		return func(at string, status int, _ http.Header) {
			text := p.Text("main")
			for _, want := range words {
				if status != http.StatusOK || !strings.Contains(text, want) {
					t.Errorf("%s: %d, no %q in %q", at, status, want, text)
				}
			}
			for _, table := range browser.Eval[[]string](p, sticksOut) {
				t.Errorf("%s: wider than the page: %s", at, table)
			}
		}
	}
	if text := p.Text("main"); !strings.Contains(text, "There are no tokens.") {
		t.Error(text)
	}
	browser.Eval[bool](p, "document.querySelector('[action$=token-add] [name=name]').value = 'ci', true")
	p.Click("[action$=token-add] button")
	p.Wait("document.querySelector('h1')?.innerText === 'Shown once'")
	p.Screenshot("console-token-once")
	for _, fault := range append(p.Faults(), p.Axe(browser.Contrast)...) {
		t.Errorf("shown once: %s", fault)
	}
	p.Inspect("console-operators", h.url+"/operators", look("this is you", "vera", "ci", "Revoke"))
	p.Inspect("console-account", h.url+"/account", look("this one", "End all other sessions"))
}

// counting counts looks at the status, which reads the counts of mail from the store.
type counting struct {
	busyBackend
	looks *atomic.Int64
}

func (b counting) Status() Status {
	b.looks.Add(1)
	return b.busyBackend.Status()
}

// TestPagesLookOnce: a page asks for the status once, whatever it shows of it.
func TestPagesLookOnce(t *testing.T) {
	b := counting{newBusy(), new(atomic.Int64)}
	site, _, _ := start(t, vouched(access.Admin), b)
	at := vouching(t, site)
	for _, p := range consolePages() {
		b.looks.Store(0)
		resp, err := http.Get(at + "/" + cmp.Or(pathWith[p.path], p.path))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if n := b.looks.Load(); n != 1 {
			t.Errorf("%s: %d looks at the status", p.name, n)
		}
	}
}

// vouched are the options of a console behind the proxy of vouching.
func vouched(role access.Role) Options {
	return Options{Proxy: Proxy{From: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Header: "X-Test-User",
		Role: role}}
}

// vouching is a proxy in front of a console that says who has logged in: always the same.
func vouching(t *testing.T, site string) string {
	t.Helper()
	to, err := url.Parse(site)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.SetXForwarded()
		r.Out.Header.Set("X-Test-User", "olga")
	}}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL
}
