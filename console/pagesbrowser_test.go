package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/console/access"
	"weir/internal/browser"
	"weir/store"
)

// busyBackend has something to show on every page.
type busyBackend struct{ *mailed }

func (b busyBackend) Mail() Mail { return b }

func (b busyBackend) Status() Status {
	s := b.backend.Status()
	s.Gates = []GateStatus{{Gate: "127.0.0.1:8080", Kind: "http", Address: "127.0.0.1:8080"}}
	return s
}

func (b busyBackend) User(_ context.Context, name string) (UserView, error) {
	if name != "ann" {
		return UserView{}, store.ErrNotFound
	}
	return UserView{User: store.User{Name: "ann", Contact: "ann@private.example"}, LogIn: true,
		Throttles: []Standing{{Throttle: "outgoing", Stopped: true, Since: busyTime, Waiting: 12, Slack: 3, MSlack: 4,
			WorkingSet: 25, Limits: "slack 10, stop 50, rate 1/s"}}}, nil
}

func (b busyBackend) Queue(context.Context, store.LetterQuery, int) ([]store.Queued, error) {
	return []store.Queued{busyMail()}, nil
}

func (b busyBackend) ShowMail(context.Context, store.MailID) (store.Queued, string, string, error) {
	return busyMail(), "Subject: <b>news</b>\r\nFrom: ann@example.org\r\n", "hello", nil
}

func busyMail() store.Queued {
	return store.Queued{Letter: store.Letter{ID: 7, User: "ann", Sender: "ann@example.org", Subject: "<b>news</b>",
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
	return b
}

// TestPagesInBrowser: every page, busy and empty and wrong, on a phone and on a desk, in light and dark.
func TestPagesInBrowser(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		backend Backend
		path    string
		role    access.Role // by the proxy; none: nobody has logged in
		code    int
		words   []string
		not     []string
	}{
		"login":       {newBusy(), "/login", "", 200, []string{"Log in", "Password", "admin-password"}, []string{"Overview"}},
		"why-empty":   {newBusy(), "/why", access.Act, 200, []string{"Look up who is held back"}, nil},
		"why-account": {newBusy(), "/why?q=acme", access.Act, 200, []string{"plan gold", "Reset what it has used"}, nil},
		"why-address": {newBusy(), "/why?q=192.0.2.7", access.Act, 200,
			[]string{"Lift the ban", "scraping <b>", "And 23 more"}, []string{"Ban 192.0.2.7"}},
		"why-user": {newBusy(), "/why?q=ann", access.Act, 200,
			[]string{"Let ann send again", "stopped", "0000000000007"}, nil},
		"why-message": {newBusy(), "/why?q=0000000000007", access.Act, 200,
			[]string{"Release it", "Delete it", "<b>news</b>", "451 later"}, nil},
		"why-unknown": {&backend{}, "/why?q=nobody", access.View, 200, []string{"Nothing is known of nobody"}, nil},
		"why-wrong":   {newBusy(), "/why?q=" + strings.Repeat("x", 257), access.View, 200, []string{"at most 256"}, nil},
		"why-viewer": {newBusy(), "/why?q=192.0.2.7", access.View, 200, []string{"scraping"},
			[]string{"Lift the ban", "Ban 192.0.2.7"}},
		"farm": {newBusy(), "/farm", access.Admin, 200,
			[]string{"2 of 4 nodes", "Forget", "another one", "no <answer> in time", "Take a out of the farm",
				"Reload the configuration"}, nil},
		"farm-viewer": {newBusy(), "/farm", access.View, 200, []string{"2 of 4 nodes"},
			[]string{"Forget", "Leave the farm", "Reload"}},
		"farm-none": {&backend{}, "/farm", access.Admin, 404, []string{"no such page"}, nil},
		"audit": {newBusy(), "/audit?by=ann&since=2024-05-01T00:00", access.View, 200,
			[]string{"ban-add", "198.51.100.7", "Show all", "weir audit --lines --limit 0 --by 'ann'",
				"who 192.0.2.0/24, for 1d"}, []string{`{"who"`}},
		"audit-empty":   {&backend{}, "/audit", access.View, 200, []string{"Nothing has happened yet"}, nil},
		"audit-nothing": {&backend{}, "/audit?text=x", access.View, 200, []string{"Nothing matches"}, nil},
		"audit-wrong":   {newBusy(), "/audit?since=soon", access.View, 200, []string{"is not a time"}, nil},
	}
	urls := map[string]string{}
	for name, c := range cases {
		var o Options
		if c.role != "" {
			o = vouched(c.role)
		}
		site, _, _ := start(t, o, c.backend)
		if c.role != "" {
			site = vouching(t, site)
		}
		urls[name] = site + c.path
	}
	p := browser.Open(t)
	for name, c := range cases {
		if c.code != 200 {
			p.Tolerate(fmt.Sprint(c.code))
		}
		p.Inspect("console-"+name, urls[name], func(at string, status int, _ http.Header) {
			text := p.Text("body")
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
		})
	}
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
		path := map[string]string{"mail-user": "mail-user?name=ann", "mail-message": "mail-message?id=0000000000007",
			"why": "why?q=acme"}[p.path]
		b.looks.Store(0)
		resp, err := http.Get(at + "/" + cmp.Or(path, p.path))
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
