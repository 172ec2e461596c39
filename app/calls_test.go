package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/app"
	"weir/config"
	"weir/console"
	"weir/console/access"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/store"
)

// A callCase is a call with something that it takes, and something that it refuses.
type callCase struct {
	call      string // the name
	good, bad string // a body, or a query
	code      int    // of the bad one; 0: 400
	before    func() // makes the good one possible
	acts      string // what the audit log says of it; empty: the name of the call
	elsewhere bool   // another test has the good one
}

// tight lets one mail pass, and the others wait.
const tight = "max_mslack: 1, max_slack: 1, stop: 100, rate: 1/1h"

// newEverything starts a weir with everything that can be asked for: gates for HTTP and mail, and a farm of one node.
func newEverything(t *testing.T, c clock.Clock) *post {
	t.Helper()
	p := &post{t: t, sink: newSink(t), folder: t.TempDir()}
	if fake, ok := c.(*clock.Fake); ok {
		p.clock = fake
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(upstream.Close)
	peer := needs.FreeAddress()
	p.extra = reachOf("known-only") + fmt.Sprintf(`
  plans: {quota: {policies: [{name: per-year, limit: 5, period: 365d}]}}
http: [{listen: "127.0.0.1:0", upstream: %q, account: ["header:X-Api-Key"], throttles: [plans]}]
farm: {node: a, listen: %q, peers: [%q], secret: of this test alone}
notify: [{webhook: {url: %q, secret: a secret of sixteen}}]
`, upstream.URL, peer, peer, upstream.URL)
	a, err := app.New(p.config(tight, reachGate), app.Options{Clock: c, HashMemory: 8, Version: "test",
		Load: func() (*config.Config, error) { return p.config(tight, reachGate), nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.app, p.control = a, console.NewClient(a.ControlPath())
	t.Cleanup(p.stop)
	return p
}

// TestEveryCall makes every call of a real weir over the network, with something that it takes and something that it
// refuses, and looks into the audit log. A call without a case fails.
func TestEveryCall(t *testing.T) {
	t.Parallel()
	p := newEverything(t, clock.NewFake(noon))
	a := p.app
	made, err := console.TokenAddCall.Ask(t.Context(), p.control, console.NewToken{Name: "test", Role: access.Admin})
	if err != nil {
		t.Fatal(err)
	}
	socket := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", a.ControlPath())
		}}}
	send := func(c *console.Call, what string) (int, string) {
		t.Helper()
		at, via, body := "http://"+a.ConsoleAddr().String()+console.Prefix+c.Path, http.DefaultClient, ""
		if c.Local {
			at, via = "http://weir"+console.Prefix+c.Path, socket
		}
		if c.Method == http.MethodPost {
			body = what
		} else if what != "" {
			at += "?" + what
		}
		req, err := http.NewRequestWithContext(t.Context(), c.Method, at, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true
		if req.Header.Set("Content-Type", "application/json"); !c.Local {
			req.Header.Set("Authorization", "Bearer "+made.Secret)
		}
		resp, err := via.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	held := func() string {
		t.Helper()
		page, err := console.QueueListCall.Ask(t.Context(), p.control,
			console.MailQuery{MailFilter: console.MailFilter{State: store.Held}, Limit: 10})
		if err != nil || len(page.Mails) == 0 {
			t.Fatalf("no mail is held: %v", err)
		}
		return page.Mails[0].ID.String()
	}
	const name, noName = `{"name":"ann"}`, `{"name":""}`
	calls := console.Calls()
	cases := []callCase{
		{call: "status", bad: "x=1"},
		{call: "top", good: "window=1h&top=3&last=4&since=5", bad: "window=2h"},
		{call: "capacity", good: "window=1h&top=3", bad: "top=257"},
		{call: "refusals", good: "throttle=plans&limit=9", bad: "limit=4097"},
		{call: "why", good: `{"gate":"127.0.0.1:0","method":"GET","path":"/","account":"acme"}`, bad: `{"gate":"x"}`,
			code: 404},
		{call: "account-get", good: "name=acme", bad: "name=nobody", code: 404, before: func() {
			req, err := http.NewRequest("GET", "http://"+a.Addr("http", 0).String()+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-Api-Key", "acme")
			req.Close = true
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
		}},
		{call: "account-reset", good: "name=acme", bad: "name="},
		{call: "shadow-on", good: `{"throttles":["plans"],"on":true}`, bad: `{"throttles":["nothing"]}`, code: 404},
		{call: "reload", good: "{}", bad: "[]"},
		{call: "account-limit", good: `{"account":"acme","limit":"9","for":"1h","note":"test"}`,
			bad: `{"account":"acme","limit":"many"}`},
		{call: "account-limits", good: "account=acme", bad: "skip=-1"},
		{call: "account-limit-remove", good: "account=acme", bad: "account=acme", code: 404},
		{call: "ban-import", good: `{"name":"drop","text":"203.0.113.0/24\n","reason":"test"}`,
			bad: `{"name":"drop","text":"nowhere\n"}`},
		{call: "ban-lists", bad: "x=1"},
		{call: "ban-list", good: "filter=x&limit=10", bad: "limit=10001"},
		{call: "ban-add", good: `{"who":"192.0.2.7","for":"1h","reason":"test"}`, bad: `{"who":"nowhere"}`},
		{call: "ban-remove", good: "who=192.0.2.7", bad: "who=192.0.2.8", code: 404},
		{call: "user-add", good: `{"name":"ann","password":"correct horse","contact":"ann@private.example"}`, bad: name,
			code: 409, acts: "added"},
		{call: "user-list", good: "limit=10", bad: "limit=-1"},
		{call: "user-history", good: "name=ann", bad: "name=nobody", code: 404},
		{call: "user-show", good: "name=ann", bad: "name=nobody", code: 404},
		{call: "user-set", good: `{"name":"ann","senders":["ann@example.org"]}`, bad: `{"name":"ann","contact":"x"}`,
			acts: "changed"},
		{call: "user-passwd", good: `{"name":"ann","password":"correct horse"}`, bad: `{"name":"ann","password":"short"}`,
			acts: "changed"},
		{call: "user-stop", good: `{"name":"ann","why":"test"}`, bad: noName, acts: "stopped", before: func() {
			ann := p.mailer("ann")
			for i, to := range crowd("friend", 5) {
				if err := ann.send(fmt.Sprint("number ", i), to); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{call: "queue-list", good: "state=held&user=ann", bad: "state=lost"},
		{call: "queue-show", good: "id=HELD", bad: "id=0000000000001", code: 404},
		{call: "queue-release", good: `{"messages":["HELD"]}`, bad: `{"user":"ann"}`, acts: "released"},
		{call: "queue-delete", good: `{"messages":["HELD"]}`, bad: `{}`, acts: "deleted"},
		{call: "queue-retry", good: `{"messages":["HELD"]}`, bad: `{"all":true,"user":"ann"}`},
		{call: "user-resume", good: name, bad: `{"name":"nobody"}`, code: 404, acts: "resumed"},
		{call: "queue-release-all", good: `{"act":"release","user":"ann"}`, bad: `{"act":"burn","user":"ann"}`},
		{call: "queue-track", good: "recipient=friend", bad: "recipient=x&id=0000000000001"},
		{call: "reach-list", good: "limit=1", bad: "limit=1001"},
		{call: "reach-show", good: "name=ann", bad: "name="},
		{call: "reach-flag", good: `{"user":"ann"}`, bad: `{"user":"ann","throttle":"nothing"}`, code: 404,
			acts: "flagged"},
		{call: "reach-clear", good: `{"user":"ann"}`, bad: `{"user":""}`, acts: "unflagged"},
		{call: "reach-usual", good: "", bad: "throttle=nothing", code: 404},
		{call: "user-remove", good: "name=ann", bad: "name=ann", code: 404, acts: "removed"},
		{call: "backup", good: fmt.Sprintf("{%q:%q}", "folder", filepath.Join(t.TempDir(), "copy")),
			bad: `{"folder":"copy"}`},
		{call: "reload-farm", good: "{}", bad: "[]"},
		{call: "shadow-on-farm", good: `{"all":true,"on":false}`, bad: `{"on":true}`},
		{call: "notify-list", bad: "x=1"},
		{call: "notify-test", good: "{}", bad: `{"who":"x"}`},
		{call: "audit", good: "by=token+test&since=2026-03-02T12:00:00Z", bad: "before=-1"},
		{call: "operator-list", bad: "name=x"},
		{call: "operator-add", good: `{"name":"bob","role":"act","password":"correct horse"}`,
			bad: `{"name":"bob","role":"god","password":"correct horse"}`},
		{call: "operator-password", good: `{"name":"bob","password":"correct horse 2"}`,
			bad: `{"name":"eve","password":"correct horse"}`, code: 404},
		{call: "operator-role", good: `{"name":"bob","role":"view"}`, bad: `{"name":"admin","role":"act"}`, code: 409},
		{call: "operator-sessions", good: "name=admin", bad: "name=eve", code: 404},
		{call: "operator-logout", good: "name=bob", bad: "name=bob&id=x&others=true"},
		{call: "operator-remove", good: "name=bob", bad: "name=admin", code: 409},
		{call: "token-list", bad: "x="},
		{call: "token-add", good: `{"name":"ci","role":"view","for":"1d"}`, bad: `{"name":"ci","role":"view","for":"1s"}`},
		{call: "token-revoke", good: "name=ci", bad: "name=ci", code: 404},
		// A lost node needs a farm that has lost one: TestFarmOrders in package console has the good case.
		{call: "farm-forget", bad: `{"node":""}`, elsewhere: true},
		// This weir is no demo: TestVisitors in package demo has the good cases.
		{call: "demo-show", bad: "", code: 404, elsewhere: true},
		{call: "demo-flood", bad: `{"scene":"quota"}`, code: 404, elsewhere: true},
		{call: "demo-pay", bad: `{"scene":"stamps","on":true}`, code: 404, elsewhere: true},
		{call: "demo-stop", bad: `{"scene":"quota"}`, code: 404, elsewhere: true},
		{call: "farm-leave", good: "{}", bad: "x"},
	}
	seen := map[string]bool{}
	for _, test := range cases {
		at := slices.IndexFunc(calls, func(c *console.Call) bool { return c.Name() == test.call })
		if at < 0 {
			t.Errorf("there is no call %s", test.call)
			continue
		}
		c := calls[at]
		seen[test.call] = true
		if test.before != nil {
			test.before()
		}
		if strings.Contains(test.good, "HELD") {
			test.good = strings.ReplaceAll(test.good, "HELD", held())
		}
		if !test.elsewhere {
			code, body := send(c, test.good)
			if code != http.StatusOK {
				t.Errorf("%s %s: %d %s", test.call, test.good, code, body)
			}
			for line := range strings.Lines(body) {
				if !json.Valid([]byte(line)) {
					t.Errorf("%s: not JSON: %s", test.call, line)
				}
			}
			if c.Acts() || test.call == "operator-password" || test.call == "operator-logout" {
				p.noted(c, test.acts)
			}
		}
		want := test.code
		if want == 0 {
			want = http.StatusBadRequest
		}
		code, body := send(c, test.bad)
		var e console.Error
		if code != want || json.Unmarshal([]byte(body), &e) != nil || e.Msg == "" {
			t.Errorf("%s %s: %d %s, want %d", test.call, test.bad, code, body, want)
		}
	}
	for _, c := range calls {
		if !seen[c.Name()] {
			t.Errorf("the call %s has no case", c.Name())
		}
	}
	if _, err := os.Stat(filepath.Join(p.folder, "admin-password")); err != nil {
		t.Errorf("the first password: %v", err)
	}
}

// noted looks for a call in the audit log: who, and from where.
func (p *post) noted(c *console.Call, what string) {
	p.t.Helper()
	by, from := "token test", "127.0.0.1"
	if c.Local {
		by, from = "", "control socket"
	}
	if what == "" {
		what = c.Name()
	}
	page, err := console.AuditListCall.Ask(context.Background(), p.control, console.AuditQuery{By: by, What: what})
	if err != nil || len(page.Entries) == 0 || page.Entries[0].From != from {
		p.t.Errorf("%s: the audit log has no %s by %s from %s: %+v, %v", c.Name(), what, by, from, page.Entries, err)
	}
}
