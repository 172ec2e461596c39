package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/console"
	"weir/internal/testkit/needs"
	"weir/store"
	"weir/store/settings"
)

const threePerHour = `
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, account: ["header:X-Account"], throttles: [plans]}
throttles:
  plans:
    quota:
      policies: [{name: hourly, limit: 3, period: 1h}, {name: daily, limit: 1000, period: 1d}]
      overrides: {named: {hourly: {limit: 4}}}
console: {listen: "127.0.0.1:0"}
`

// served is how many requests of an account pass in a new hour, up to 20.
func (b *bench) served(account string) (n int) {
	b.t.Helper()
	b.clock.Leap(time.Hour)
	for n < 20 && b.get(0, account) == 200 {
		n++
	}
	return n
}

func (b *bench) limit(o console.LimitOrder) console.LimitResult {
	b.t.Helper()
	r, err := console.LimitSetCall.Ask(b.t.Context(), b.client, o)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func hourly(account, limit string) console.LimitOrder {
	return console.LimitOrder{Account: account, Policy: "hourly", Limit: limit, Note: "they paid"}
}

// TestALimitIsEditedLive: the limit of one account changes at once, and stays over a reload and a restart.
func TestALimitIsEditedLive(t *testing.T) {
	t.Parallel()
	b := start(t, threePerHour)
	b.wants("by the file", b.served("acme"), 3)
	r := b.limit(hourly("acme", "7"))
	if !r.Kept || r.Before != nil || r.Limit.Instead.Limit != "3" || r.Limit.By == "" || len(r.Warnings) != 0 {
		t.Errorf("%+v", r)
	}
	b.wants("at once, in the same hour", b.get(0, "acme"), 200)
	b.wants("by the operator", b.served("acme"), 7)
	b.wants("others are not concerned", b.served("other"), 3)
	b.limit(hourly("named", "6"))
	b.wants("it goes before the file's", b.served("named"), 6)

	if err := b.Reload(b.config(strings.Replace(threePerHour, "limit: 3", "limit: 2", 1))); err != nil {
		t.Fatal(err)
	}
	b.wants("after a reload", b.served("acme"), 7)
	b.wants("others after a reload", b.served("other"), 2)
	b.again(nil)
	b.wants("after a restart", b.served("acme"), 7)
	b.wants("the file's after a restart", b.served("named"), 6)

	// A throttle that goes and comes again has it from its first request on.
	without := strings.Replace(threePerHour, ", throttles: [plans]", "", 1)
	without = without[:strings.Index(without, "throttles:\n")] + `console: {listen: "127.0.0.1:0"}` + "\n"
	for _, text := range []string{without, threePerHour} {
		if err := b.Reload(b.config(text)); err != nil {
			t.Fatal(err)
		}
	}
	b.wants("a throttle that came back", b.served("acme"), 7)

	// Everybody who looks sees it.
	why, err := console.WhyAskCall.Ask(t.Context(), b.client, console.Question{Method: "GET", Path: "/", Account: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	var own []console.AccountLimit
	for _, s := range why.Steps {
		own = append(own, s.Limits...)
	}
	if len(own) != 1 || own[0].Limit != "7" || !own[0].Live || own[0].Note != "they paid" {
		t.Errorf("weir why shows %+v", own)
	}
	if a, err := console.AccountGetCall.Ask(t.Context(), b.client,
		console.Name{Name: "named"}); err != nil || len(a.Limits) != 2 || !a.Limits[0].Live ||
		a.Limits[1].Live || a.Limits[1].Limit != "4" {
		t.Errorf("weir account get shows %+v, %v", a.Limits, err)
	}
	page, err := console.LimitListCall.Ask(t.Context(), b.client, console.LimitQuery{Limit: 2})
	if err != nil || page.Total != 3 || len(page.Limits) != 2 || page.Next != 2 {
		t.Errorf("%+v, %v", page, err)
	}

	before, err := console.LimitRemoveCall.Ask(t.Context(), b.client, console.LimitOf{Account: "acme", Policy: "hourly"})
	if err != nil || before.Before.Limit != "7" || before.Limit.Limit != "3" || !before.Kept {
		t.Errorf("%+v, %v", before, err)
	}
	b.wants("removed", b.served("acme"), 3)
	b.again(nil)
	b.wants("removed, after a restart", b.served("acme"), 3)
	b.wants("the other one is not", b.served("named"), 6)
	b.audited("account-limit", "acme", `"limit":"3"`, `"limit":"7"`)
	b.audited("account-limit-remove", "acme", `"limit":"7"`, `"limit":"3"`)
}

// audited wants an entry of the audit log with what was before and after.
func (b *bench) audited(what, text, before, after string) {
	b.t.Helper()
	page, err := console.AuditListCall.Ask(b.t.Context(), b.client, console.AuditQuery{What: what})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range page.Entries {
		if e.By != "" && strings.Contains(e.User+e.Text, text) && strings.Contains(string(e.Before), before) &&
			strings.Contains(string(e.After), after) {
			return
		}
	}
	b.t.Errorf("the audit log has no %s of %s with %s and %s: %+v", what, text, before, after, page.Entries)
}

// TestALimitEnds: a limit for a while ends by itself, with weir up or down.
func TestALimitEnds(t *testing.T) {
	t.Parallel()
	b := start(t, threePerHour)
	o := hourly("acme", "7")
	o.For = weir.Duration(90 * time.Minute)
	b.limit(o)
	b.wants("while it holds", b.served("acme"), 7)
	b.clock.Advance(30 * time.Minute)
	b.wants("after its end", b.served("acme"), 3)
	b.limit(o)
	b.again(func() { b.clock.Advance(2 * time.Hour) })
	b.wants("it ended while weir was down", b.served("acme"), 3)
	if page, err := console.LimitListCall.Ask(t.Context(), b.client,
		console.LimitQuery{Account: "acme"}); err != nil || page.Total != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestLimitsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	b := start(t, threePerHour)
	for _, c := range []struct {
		order console.LimitOrder
		want  string
	}{
		{console.LimitOrder{Policy: "hourly", Limit: "5"}, "which account?"},
		{hourly(strings.Repeat("x", store.MaxAccount+1), "5"), "an account has at most 256 bytes"},
		{console.LimitOrder{Account: "a", Limit: "5"}, "which policy? One of hourly, daily"},
		{console.LimitOrder{Account: "a", Throttle: "plan", Limit: "5"},
			`there is no quota "plan"; one of plans`},
		{console.LimitOrder{Account: "a", Policy: "hourl", Limit: "5"},
			`policy: there is no policy "hourl" (did you mean "hourly"?)`},
		{hourly("a", ""), "no figure is given (give a limit, as in 50)"},
		{hourly("a", "5MB"), "limit: 5MB is a size; kind requests counts requests (leave the unit out, or write kind: volume)"},
		{hourly("a", "many"), `limit: "many" is neither a number nor a size (write 5, or 10MB for a volume)`},
		{console.LimitOrder{Account: "a", Policy: "hourly", Limit: "5",
			Note: strings.Repeat("x", store.MaxReason+1)}, "a note has at most 512 bytes"},
		{console.LimitOrder{Account: "a", Policy: "hourly", Limit: "5",
			For: weir.Duration(maxLimitFor + 1)}, "for: up to 3650d; leave it out for a limit without an end"},
	} {
		if _, err := console.LimitSetCall.Ask(t.Context(), b.client, c.order); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v, want %s", c.order, err, c.want)
		}
	}
	if _, err := console.LimitRemoveCall.Ask(t.Context(), b.client, console.LimitOf{Account: "named", Policy: "hourly"}); err == nil ||
		!strings.Contains(err.Error(), "the configuration has the others") {
		t.Errorf("one of the file was removed: %v", err)
	}
	if r := b.limit(hourly("192.0.2.1", "5")); len(r.Warnings) != 1 ||
		!strings.Contains(r.Warnings[0], "source:192.0.2.1") {
		t.Errorf("warnings: %q", r.Warnings)
	}
	b.current.Load().throttle("plans").link.Shadow.Store(true)
	if r := b.limit(hourly("acme", "5")); len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "in shadow") {
		t.Errorf("warnings: %q", r.Warnings)
	}
	b.wants("nothing else was set", len(b.settings.All(settingLimit, b.clock.Now())), 2)
	// The bound is that of all settings.
	for i := range settings.Max - 2 {
		v := store.Setting{SettingKey: store.SettingKey{Kind: "other", Name: fmt.Sprint(i)}, Value: "v"}
		if err := b.settings.Hear(fmt.Appendf(nil, `{"v":1,"w":[{"kind":"other","name":%q,"value":"v","at":%q}]}`, v.Name,
			b.clock.Now().Format(time.RFC3339Nano)), b.clock.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := console.LimitSetCall.Ask(t.Context(), b.client, hourly("one more", "5")); err == nil ||
		!strings.Contains(err.Error(), "10000 settings") {
		t.Errorf("one more than the bound: %v", err)
	}
	b.limit(hourly("acme", "6")) // one that is there is changed all the same
}

// TestFarmLimits: what an operator sets on one node holds on all: with every way in which nodes count, and on a node
// that was away.
func TestFarmLimits(t *testing.T) {
	t.Parallel()
	redis := newRedisEngine(t)
	redis.start()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hello")
	}))
	t.Cleanup(service.Close)
	var gates strings.Builder
	for _, name := range []string{"local", "broadcast", "exact"} {
		fmt.Fprintf(&gates, "- {listen: '127.0.0.1:0', upstream: %q, account: ['header:X-Account'], throttles: [%s]}\n",
			service.URL, name)
	}
	f := newFoldWith(t, func(int) string {
		return fmt.Sprintf(`
console: {listen: "off"}
http:
%sthrottles:
  local: {quota: {policies: [{name: daily, limit: 6, period: 3650d, farm: local}]}}
  broadcast: {quota: {policies: [{name: daily, limit: 6, period: 3650d}]}}
  exact: {quota: {policies: [{name: daily, limit: 6, period: 3650d, farm: exact}]}}
`, gates.String())
	}, fmt.Sprintf(", counters: %q", "redis://:"+enginePassword+"@"+redis.address))
	ask := func(node, gate int, account string) int {
		t.Helper()
		at := "http://" + f.nodes[node].Addr("http", gate).String()
		r, err := http.NewRequestWithContext(t.Context(), "GET", at, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Account", account)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	passes := func(node, gate int, account string) (n int) {
		for n < 50 && ask(node, gate, account) == 200 {
			n++
		}
		return n
	}
	knows := func(node int, account, limit string) bool {
		page, err := backend{f.nodes[node]}.Limits(console.LimitQuery{Account: account})
		return err == nil && page.Total == 3 && page.Limits[2].Limit == limit
	}
	set := func(node int, account, limit string) {
		t.Helper()
		for _, name := range []string{"local", "broadcast", "exact"} {
			o := console.LimitOrder{Account: account, Throttle: name, Limit: limit}
			if _, err := (backend{f.nodes[node]}).SetLimit(t.Context(), o, "ann"); err != nil {
				t.Fatal(err)
			}
		}
	}
	set(0, "acme", "12")
	for node := range f.nodes {
		needs.Wait(f.t, "all nodes know the limit", func() bool { return knows(node, "acme", "12") })
	}
	// What is heard of takes effect in a moment.
	lets := func(node, gate int, account string, want int) {
		t.Helper()
		n := 0
		needs.Wait(f.t, fmt.Sprintf("%d of %s pass gate %d of node %d", want, account, gate, node), func() bool {
			n += passes(node, gate, account)
			return n >= want
		})
		if n != want {
			t.Errorf("%d of %s pass gate %d of node %d, want %d", n, account, gate, node, want)
		}
	}
	lets(1, 0, "acme", 12)
	lets(2, 0, "acme", 12) // each node for itself
	lets(2, 1, "acme", 12)
	lets(2, 2, "acme", 12)
	if got := passes(0, 2, "acme") + passes(1, 2, "acme"); got != 0 {
		t.Errorf("counted exactly: %d more pass elsewhere", got)
	}
	if got := passes(1, 1, "somebody else"); got != 6 {
		t.Errorf("%d of somebody else pass, want 6", got)
	}

	// A node that was away learns what was set and what was removed meanwhile.
	if err := f.nodes[2].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	set(0, "late", "9")
	if _, err := (backend{f.nodes[1]}).RemoveLimit(t.Context(), console.LimitOf{Account: "acme", Throttle: "local"},
		"ann"); err != nil {
		t.Fatal(err)
	}
	f.start(2)
	needs.Wait(f.t, "a node that was away learns of it", func() bool {
		page, err := backend{f.nodes[2]}.Limits(console.LimitQuery{Account: "acme"})
		return knows(2, "late", "9") && err == nil && page.Total == 2
	})
	lets(2, 0, "late", 9)
	lets(2, 2, "late", 9)
}
