package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	skeleton "weir/gate"
	"weir/store"
)

// guarded has a gate of every kind. Requests come by way of a proxy on this machine, which names who is behind it.
const guarded = `
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, trusted_proxies: [127.0.0.1/32], throttles: [plans]}
- {listen: "127.0.0.1:0", upstream: UPSTREAM}
tcp:
- {listen: "127.0.0.1:0", upstream: TCPUPSTREAM}
api:
  listen: 127.0.0.1:0
  tokens: [sesame-sesame-sesame]
  policies: {login: [plans]}
throttles:
  plans: {quota: {policies: [{name: per-second, limit: 1000, period: 1s}]}}
console: {listen: "127.0.0.1:0"}
`

// startGuarded runs it in front of a service that answers everything with what it was sent.
func startGuarded(t *testing.T, also string) *bench {
	t.Helper()
	return start(t, strings.ReplaceAll(guarded, "TCPUPSTREAM", echoServer(t))+also)
}

// from asks the first gate as somebody behind the proxy.
func (b *bench) from(source string) int {
	b.t.Helper()
	req, err := http.NewRequest("GET", "http://"+b.Addr("http", 0).String()+"/", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", source)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// connects reports whether the second gate, which trusts no proxy, answers this machine.
func (b *bench) connects() bool {
	b.t.Helper()
	code, err := ask(b.Addr("http", 1).String(), "any")
	return err == nil && code == 200
}

func (b *bench) ban(o console.BanOrder) console.BanResult {
	b.t.Helper()
	r, err := console.BanAddCall.Ask(b.t.Context(), b.client, o)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) unban(who string) console.BanResult {
	b.t.Helper()
	r, err := console.BanRemoveCall.Ask(b.t.Context(), b.client, console.BanWho{Who: who})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// who lists who is banned.
func (b *bench) who(filter string) string {
	b.t.Helper()
	page, err := console.BansCall.Ask(b.t.Context(), b.client, console.BanQuery{Filter: filter})
	if err != nil {
		b.t.Fatal(err)
	}
	var all []string
	for _, v := range page.Bans {
		all = append(all, v.Who)
	}
	return strings.Join(all, " ")
}

// TestBannedEverywhere: a banned network is refused by every gate: its connections, and its requests behind a proxy.
func TestBannedEverywhere(t *testing.T) {
	t.Parallel()
	b := startGuarded(t, "")
	served := func(when string, others, here bool) {
		t.Helper()
		b.wants(when+": behind a proxy", b.from("192.0.2.7") == 200, others)
		verdict, answer := b.decide(`{"policy":"login","source":"192.0.2.7","account":"a"}`)
		b.wants(when+": over the API", verdict == "admit", others)
		if !others {
			b.wants(when+": by", answer["by"], "bans")
			b.wants(when+": reason", answer["reason"], "banned")
			b.wants(when+": again in", answer["retry_after"], 3600)
		}
		b.wants(when+": a connection to HTTP", b.connects(), here)
		b.wants(when+": a connection to TCP", b.echoes(), here)
		b.wants(when+": somebody else", b.from("198.51.100.1"), 200)
	}
	served("at first", true, true)
	r := b.ban(console.BanOrder{Who: "192.0.2.0/24", For: weir.Duration(time.Hour), Reason: "a scraper"})
	own := slices.ContainsFunc(skeleton.OwnNetworks(), netip.MustParsePrefix("192.0.2.0/24").Overlaps)
	if !r.Kept || (len(r.Warnings) != 0) != own || r.Ban.Reason != "a scraper" || !r.Ban.Operator ||
		!r.Ban.Since.Equal(noon) || !r.Ban.Until.Equal(noon.Add(time.Hour)) {
		t.Errorf("%+v", r)
	}
	served("banned", false, true)
	r = b.ban(console.BanOrder{Who: "127.0.0.1"})
	if !r.Ban.Until.IsZero() || len(r.Warnings) != 2 || !strings.Contains(r.Warnings[0], "this machine itself") ||
		!strings.Contains(r.Warnings[1], "127.0.0.1/32 is a trusted proxy") {
		t.Errorf("%+v", r)
	}
	served("this machine, too", false, false)
	b.wants("listed", b.who(""), "127.0.0.1 192.0.2.0/24")

	e, err := console.WhyAskCall.Ask(t.Context(), b.client, console.Question{Gate: b.current.Load().gates[0].address(),
		Source: "192.0.2.9",
		Path:   "/", Method: "GET"})
	if err != nil || e.Verdict != weir.Refuse || e.By != "bans" || e.Steps[0].Throttle != "bans" ||
		e.Steps[0].Reason != weir.Banned {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := console.ShadowCall.Ask(t.Context(), b.client, console.Shadow{Throttles: []string{"bans"},
		On: true}); err != nil {
		t.Fatal(err)
	}
	served("in shadow", true, true)
	if r := b.ban(console.BanOrder{Who: "203.0.113.1", For: weir.Duration(time.Minute)}); len(r.Warnings) != 1 ||
		!strings.Contains(r.Warnings[0], "weir shadow off bans") {
		t.Errorf("%+v", r.Warnings)
	}
	if _, err := console.ShadowCall.Ask(t.Context(), b.client,
		console.Shadow{Throttles: []string{"bans"}}); err != nil {
		t.Fatal(err)
	}
	served("out of shadow", false, false)

	if r := b.unban("127.0.0.1"); !r.Kept || r.Ban.Who != "127.0.0.1" {
		t.Errorf("%+v", r)
	}
	served("this machine is free", false, true)
	b.clock.Advance(time.Hour - time.Second)
	b.wants("just before the end", b.from("192.0.2.7") == 200, false)
	b.clock.Advance(time.Second)
	served("an hour later", true, true)
	b.wants("listed", b.who(""), "")

	s, err := console.StatusCall.Ask(t.Context(), b.client, console.None{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Bans.Clients != 0 || s.Bans.Networks != 0 || s.Bans.Added != 3 || s.Bans.Removed != 1 || s.Bans.Expired != 2 ||
		s.Bans.Max != 100_000 {
		t.Errorf("%+v", s.Bans)
	}
	if got := s.Throttles[1]; got.Throttle != "bans" || got.Kind != "ban" || got.Verdicts["refuse"] == 0 ||
		got.Shadowed["refuse"] == 0 {
		t.Errorf("%+v", got)
	}
	_, body := b.page("/metrics")
	for _, want := range []string{`weir_bans_listed{kind="network"} 0`, `weir_bans_removed_total{reason="expired"} 2`,
		`weir_store_failures_total{part="bans"} 0`,
		`weir_bound_reached_total{bound="bans"} 0`, `weir_throttle_shadow{throttle="bans"} 0`,
		`weir_throttle_verdicts_total{mode="enforce",policy="client",throttle="bans",verdict="refuse"} 0`,
		`weir_throttle_verdicts_total{mode="enforce",policy="",throttle="bans",verdict="refuse"} 0`,
		fmt.Sprintf(`weir_throttle_verdicts_total{mode="enforce",policy="network",throttle="bans",verdict="refuse"} %d`,
			s.Throttles[1].Verdicts["refuse"])} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}

	for _, p := range skeleton.OwnNetworks() { // loopback, and what else the machine that runs the tests has
		r := b.ban(console.BanOrder{Who: p.String()})
		b.wants(p.String(), len(r.Warnings) > 0 && strings.Contains(r.Warnings[0], "this machine itself"), true)
		b.unban(p.String())
	}
}

// TestBannedWhileConnected: a connection that was open before its client was banned gets no further request through.
func TestBannedWhileConnected(t *testing.T) {
	t.Parallel()
	b := startGuarded(t, "")
	c, err := net.Dial("tcp", b.Addr("http", 1).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	in := bufio.NewReader(c)
	send := func() int {
		t.Helper()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	b.wants("before", send(), 200)
	b.ban(console.BanOrder{Who: "127.0.0.0/8"})
	b.wants("after", send() == 200, false)
}

// TestBansSurviveARestart: the list is on the disk when a command returns, and the next weir has it.
func TestBansSurviveARestart(t *testing.T) {
	t.Parallel()
	b := startGuarded(t, "")
	b.ban(console.BanOrder{Who: "192.0.2.0/24", Reason: "for good"})
	b.ban(console.BanOrder{Who: "2001:db8::/32", For: weir.Duration(time.Hour)})
	b.ban(console.BanOrder{Who: "client:abc", For: weir.Duration(time.Hour)})
	b.ban(console.BanOrder{Who: "198.51.100.7"})
	b.unban("198.51.100.7")
	b.offend(&weir.Event{Time: b.clock.Now(), Client: "forger"},
		&weir.Answer{Reason: weir.Forged, Figure: weir.Figure{By: "stamps"}})
	before, err := console.BansCall.Ask(t.Context(), b.client, console.BanQuery{})
	if err != nil || before.Total != 4 {
		t.Fatalf("%+v, %v", before, err)
	}

	b.again(nil)
	after, err := console.BansCall.Ask(t.Context(), b.client, console.BanQuery{})
	if err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%+v, want %+v, %v", after, before, err)
	}
	b.wants("refused", b.from("192.0.2.7") == 200, false)
	b.wants("removed", b.from("198.51.100.7"), 200)

	b.again(func() { b.clock.Advance(time.Hour) })
	b.wants("after an hour", b.who(""), "192.0.2.0/24")
	b.wants("still refused", b.from("192.0.2.7") == 200, false)
	b.unban("192.0.2.0/24")
	b.again(nil)
	b.wants("afterwards", b.who(""), "")
	b.wants("served", b.from("192.0.2.7"), 200)
}

// TestOffences: who forges is banned by its id, and its address only when there are several.
func TestOffences(t *testing.T) {
	t.Parallel()
	b := startGuarded(t, "bans: {ttl: 10m, address_from: 3, max: 4, exempt: [203.0.113.0/24]}\n")
	forge := func(client, source string) {
		ev := weir.Event{Time: b.clock.Now(), Client: client, Account: "acme"}
		if source != "" {
			ev.Source = netip.MustParseAddr(source)
		}
		b.offend(&ev, &weir.Answer{Reason: weir.Forged, Ban: true, Figure: weir.Figure{By: "stamps", Rule: "stamp"}})
	}
	forge("a", "192.0.2.7")
	forge("a", "192.0.2.7")
	forge("b", "192.0.2.7")
	forge("", "")
	b.wants("two clients", b.who(""), "client:a client:b")
	b.wants("the address", b.from("192.0.2.7"), 200)
	forge("c", "192.0.2.7")
	b.wants("three clients", b.who(""), "192.0.2.7 client:a client:b client:c")
	b.wants("the address", b.from("192.0.2.7") == 200, false)
	page, _ := console.BansCall.Ask(t.Context(), b.client, console.BanQuery{})
	if got := page.Bans[0]; got.By != "stamps" || got.Operator ||
		got.Reason != "3 clients: a forged or wrongly solved stamp" || !got.Until.Equal(noon.Add(10*time.Minute)) {
		t.Errorf("%+v", got)
	}
	e, err := console.WhyAskCall.Ask(t.Context(), b.client, console.Question{Gate: b.Addr("http", 1).String(),
		Client: "a", Path: "/",
		Method: "GET"})
	if err != nil || e.By != "bans" || e.Steps[0].Rule != "client" {
		t.Errorf("%+v, %v", e, err)
	}

	// One more pushes out the one that ends soonest; of operators' bans none.
	forge("d", "203.0.113.1")
	b.wants("a full list", len(strings.Fields(b.who(""))), 4)
	for _, who := range []string{"client:1", "client:2", "client:3", "client:4"} {
		b.ban(console.BanOrder{Who: who})
	}
	forge("e", "203.0.113.1")
	b.wants("a list full of operators' bans", b.who(""), "client:1 client:2 client:3 client:4")
	var full *console.Error
	if _, err := console.BanAddCall.Ask(t.Context(), b.client, console.BanOrder{Who: "client:5"}); !errors.As(err, &full) ||
		full.Code != 409 || !strings.Contains(full.Msg, "bans.max") {
		t.Errorf("one more: %v", err)
	}
	if _, body := b.page("/metrics"); !strings.Contains(body, `weir_bound_reached_total{bound="bans"} 2`) ||
		!strings.Contains(body, `weir_bans_refused_total 2`) {
		t.Error("what had no room was not counted")
	}
}

func TestBanMistakes(t *testing.T) {
	t.Parallel()
	b := startGuarded(t, "")
	b.ban(console.BanOrder{Who: "192.0.2.0/24"})
	b.ban(console.BanOrder{Who: "198.51.100.7"})
	for name, c := range map[string]struct {
		call func(context.Context) error
		code int
		want string
	}{
		"nobody":      {banning(b, console.BanOrder{}), 400, "neither an address nor a network (write 192.0.2.1"},
		"a word":      {banning(b, console.BanOrder{Who: "everybody"}), 400, `"everybody" is neither`},
		"no id":       {banning(b, console.BanOrder{Who: "client:"}), 400, "a ban of nobody"},
		"everybody":   {banning(b, console.BanOrder{Who: "0.0.0.0/0"}), 400, "a ban of everybody"},
		"everybody 6": {banning(b, console.BanOrder{Who: "::/0"}), 400, "a ban of everybody"},
		"below zero":  {banning(b, console.BanOrder{Who: "192.0.2.1", For: -1}), 400, "below zero"},
		"over": {func(ctx context.Context) error {
			_, err := backend{b.App}.Ban(ctx, console.BanOrder{Who: "192.0.2.1", For: -1}, "root")
			return err
		}, 400, "over at 2026-03-01T11:59:59Z already"},
		"too long": {banning(b, console.BanOrder{Who: "192.0.2.1", Reason: strings.Repeat("x", 513)}), 400,
			"the reason of a ban of 513 bytes, at most 512"},
		"an age": {banning(b, console.BanOrder{Who: "192.0.2.1", For: weir.Duration(290 * 365 * 24 * time.Hour)}),
			400, "2262"},
		"unknown": {unbanning(b, "203.0.113.1"), 404, "203.0.113.1 is not banned"},
		"a part":  {unbanning(b, "192.0.2.1"), 404, "192.0.2.1 is not banned by itself, but as a part of 192.0.2.0/24"},
		"a whole": {unbanning(b, "198.51.100.0/24"), 404,
			"198.51.100.0/24 is not banned as a whole; weir ban list --filter 198.51.100.0/24"},
		"no client": {unbanning(b, "client:x"), 404, "client:x is not banned"},
		"nonsense":  {unbanning(b, "nonsense"), 400, "neither an address"},
		"a cursor": {func(ctx context.Context) error {
			_, err := console.BansCall.Ask(ctx, b.client, console.BanQuery{After: "nonsense"})
			return err
		}, 400, "neither an address"},
	} {
		var e *console.Error
		if err := c.call(t.Context()); !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Msg, c.want) ||
			strings.Contains(e.Msg, "store") {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.wants("nothing has changed", b.who(""), "192.0.2.0/24 198.51.100.7")
	b.ban(console.BanOrder{Who: "192.0.2.1"})
	if r := b.unban("192.0.2.1"); len(r.Warnings) != 1 ||
		r.Warnings[0] != "192.0.2.1 is still banned, as a part of 192.0.2.0/24" {
		t.Errorf("%+v", r)
	}
}

func banning(b *bench, o console.BanOrder) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := console.BanAddCall.Ask(ctx, b.client, o)
		return err
	}
}

func unbanning(b *bench, who string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := console.BanRemoveCall.Ask(ctx, b.client, console.BanWho{Who: who})
		return err
	}
}

// TestBanPages: a long list comes in pages, in order, and each ban once.
func TestBanPages(t *testing.T) {
	t.Parallel()
	b := startGuarded(t, "")
	want := map[string]bool{}
	for i := range 100 {
		who := fmt.Sprintf("10.%d.0.0/16", i)
		if i%2 == 1 {
			who = fmt.Sprintf("client:%03d", i)
		}
		want[who] = true
		if err := b.bans.list.Add(store.Ban{BanKey: key(t, who), Reason: fmt.Sprint("Reason ", i%10), By: "root"},
			noon); err != nil {
			t.Fatal(err)
		}
	}
	seen, pages := map[string]bool{}, 0
	for q := (console.BanQuery{Limit: 7}); ; pages++ {
		page, err := console.BansCall.Ask(t.Context(), b.client, q)
		if err != nil || len(page.Bans) > 7 || page.Total != 100 {
			t.Fatalf("%+v, %v", page, err)
		}
		for _, v := range page.Bans {
			if seen[v.Who] || !want[v.Who] {
				t.Errorf("%s is there twice, or should not be", v.Who)
			}
			seen[v.Who] = true
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	b.wants("bans", len(seen), 100)
	b.wants("pages", pages, 14)
	b.wants("by address", b.who("10.4.3.2"), "10.4.0.0/16")
	b.wants("by network", b.who("10.4.0.0/14"), "10.4.0.0/16 10.6.0.0/16")
	b.wants("by id", b.who("client:00"), "client:001 client:003 client:005 client:007 client:009")
	b.wants("by reason", len(strings.Fields(b.who("reason 3"))), 10)
	b.wants("by whom", len(strings.Fields(b.who("ROOT"))), 100)
	b.wants("by nothing", b.who("nobody"), "")
}

// TestReloadOfBans: a reload changes the options of the list, and keeps who is on it.
func TestReloadOfBans(t *testing.T) {
	t.Parallel()
	b := startGuarded(t, "bans: {ttl: 10m}\n")
	b.ban(console.BanOrder{Who: "192.0.2.0/24"})
	text := strings.ReplaceAll(guarded, "TCPUPSTREAM", b.current.Load().cfg.TCP[0].Upstream)
	if err := b.Reload(b.config(text + "bans: {ttl: 20m, max: 7}\n")); err != nil {
		t.Fatal(err)
	}
	b.offend(&weir.Event{Time: b.clock.Now(), Client: "a"}, &weir.Answer{Reason: weir.NotPaying})
	page, err := console.BansCall.Ask(t.Context(), b.client, console.BanQuery{Filter: "client:a"})
	if err != nil || page.Total != 1 || !page.Bans[0].Until.Equal(noon.Add(20*time.Minute)) {
		t.Errorf("%+v, %v", page, err)
	}
	b.wants("most", backend{b.App}.BanStatus().Max, 7)
	b.wants("refused", b.from("192.0.2.7") == 200, false)
	for _, wrong := range []string{"bans: {ttl: 1ms}\n", "data: /elsewhere\n"} {
		bad := text + wrong
		if strings.HasPrefix(wrong, "data:") {
			bad = strings.Replace(text, "data: DATA\n", wrong, 1)
		}
		cfg, err := b.parse(bad)
		if err == nil {
			err = b.Reload(cfg)
		}
		if err == nil {
			t.Errorf("%s was taken", wrong)
		}
	}
	b.wants("status", strings.Contains(b.reloads.get().LastError, "data: a running weir cannot move from"), true)
	b.wants("most", backend{b.App}.BanStatus().Max, 7)
}

// echoServer is a service that sends back what it is sent. It returns where it is.
func echoServer(t *testing.T) string {
	t.Helper()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { echo.Close() })
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	return echo.Addr().String()
}

// again stops weir, and starts another one with the same configuration in the same folder.
func (b *bench) again(between func()) {
	b.t.Helper()
	cfg := b.current.Load().cfg
	if err := b.Stop(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	if between != nil {
		between()
	}
	b.run(cfg, slog.New(slog.DiscardHandler))
}

// run starts a weir in the place of one that has stopped.
func (b *bench) run(cfg *config.Config, log *slog.Logger) {
	b.t.Helper()
	a, err := New(cfg, Options{HashMemory: 8, Clock: b.clock, Version: "test", Log: log})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := a.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { a.Stop(ended()) })
	b.App, b.client = a, console.NewClient(a.ControlPath())
}

func (b *bench) parse(text string) (*config.Config, error) {
	return config.Parse("test.yaml", []byte(strings.NewReplacer("DATA", b.dir, "UPSTREAM", b.upstream).Replace(text)))
}
