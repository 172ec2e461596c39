package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/console"
)

// guardedSite bans sources that are far over 2 a second. Requests come by way of a proxy on this machine.
const guardedSite = `
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, account: ["header:X-Account"], trusted_proxies: [127.0.0.1/32],
  throttles: [edge]}
- {listen: "127.0.0.1:0", upstream: UPSTREAM, throttles: [edge]}
throttles:
  edge: {quota: {policies: [{name: per-second, limit: 2, period: 1s}]}}
bans: {exempt: [198.51.100.0/24], auto: {after: 5, within: 10s, times: 2, for: 1m, enforce: true}}
console: {listen: "127.0.0.1:0"}
`

// visit sends n requests to a gate through a proxy that says where they come from, and returns the last status.
func (b *bench) visit(gate int, n int, header ...string) (code int) {
	b.t.Helper()
	for range n {
		req, err := http.NewRequest("GET", "http://"+b.Addr("http", gate).String()+"/", nil)
		if err != nil {
			b.t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Add(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.t.Fatal(err)
		}
		resp.Body.Close()
		code = resp.StatusCode
	}
	return code
}

// TestWhoStaysOverALimitIsBanned: by network, for a while, and nobody else.
func TestWhoStaysOverALimitIsBanned(t *testing.T) {
	t.Parallel()
	b := start(t, guardedSite)
	const attacker, neighbour, victim = "203.0.113.66", "203.0.113.67", "192.0.2.1"
	code := 0
	for range 10 {
		b.wants("a neighbour", b.visit(0, 1, "X-Forwarded-For", neighbour), 200)
		// The attacker names the victim in front: the proxy has added the true address behind it.
		code = b.visit(0, 12, "X-Forwarded-For", victim+", "+attacker)
		b.visit(0, 12, "X-Forwarded-For", "198.51.100.7")                                    // exempt
		b.visit(0, 12, "X-Forwarded-For", "10.1.2.3")                                        // of no meaning elsewhere
		b.visit(0, 12, "X-Forwarded-For", "192.0.2.9", "X-Account", "stolen")                // counted by its account
		b.visit(1, 12, "X-Forwarded-For", "192.0.2.77")                                      // not from a proxy of this gate
		b.visit(0, 12, "X-Forwarded-For", "not an address, 192.0.2.78, also not an address") // breaks off
		b.clock.Advance(time.Second)
	}
	b.wants("the attacker", code, 403)
	b.wants("the victim", b.visit(0, 1, "X-Forwarded-For", victim), 200)
	b.wants("the neighbour", b.visit(0, 1, "X-Forwarded-For", neighbour), 200)
	b.wants("an exempt network", b.visit(0, 1, "X-Forwarded-For", "198.51.100.7"), 200)
	b.wants("a private network", b.visit(0, 1, "X-Forwarded-For", "10.1.2.3"), 200)
	b.wants("whoever uses an account", b.visit(0, 1, "X-Forwarded-For", "192.0.2.9"), 200)
	b.wants("this machine", b.visit(1, 1), 200)
	page, err := console.BansCall.Ask(t.Context(), b.client, console.BanQuery{})
	if err != nil || page.Total != 1 || page.Bans[0].Who != attacker || page.Bans[0].By != "auto: throttle edge" ||
		page.Bans[0].Operator || page.Bans[0].Until.IsZero() {
		t.Errorf("%+v, %v", page, err)
	}
	if latest := b.changes.all()[0]; latest.By != byWeir || latest.What != autoBanned || latest.On != attacker ||
		latest.Text != "stayed over a limit of throttle edge" {
		t.Errorf("what changed: %+v", latest)
	}
	b.again(nil)
	b.wants("after a restart", b.visit(0, 1, "X-Forwarded-For", attacker), 403)
	b.clock.Advance(2 * time.Minute)
	b.wants("after its end", b.visit(0, 1, "X-Forwarded-For", attacker), 200)

	// In shadow nobody is banned, and status says who would be.
	if err := b.Reload(b.config(strings.Replace(guardedSite, ", enforce: true", "", 1))); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		code = b.visit(0, 12, "X-Forwarded-For", attacker)
		b.clock.Advance(time.Second)
	}
	s := (backend{b.App}).BanStatus()
	if code != 429 || s.Networks != 0 || s.AutoWould != 1 || s.Auto != "shadow" {
		t.Errorf("in shadow: %d, %+v", code, s)
	}
	// A throttle in shadow bans nobody.
	if err := b.Reload(b.config(guardedSite)); err != nil {
		t.Fatal(err)
	}
	b.current.Load().throttle("edge").link.Shadow.Store(true)
	for range 10 {
		code = b.visit(0, 12, "X-Forwarded-For", attacker)
		b.clock.Advance(time.Second)
	}
	b.wants("with the throttle in shadow", code, 200)
}

// TestBansOfAFloodAreOneChange: they do not hide what else has changed.
func TestBansOfAFloodAreOneChange(t *testing.T) {
	t.Parallel()
	var c changes
	at := noon
	c.noteBan(at, "192.0.2.1", "first")
	c.note(at, "ann", "reloaded", "", "")
	for range 3 * console.MaxChanges {
		at = at.Add(sameFlood)
		c.noteBan(at, "192.0.2.2", "over")
	}
	all := c.all()
	if len(all) != 3 || all[1].What != "reloaded" || all[2].On != "192.0.2.1" {
		t.Fatalf("%+v", all)
	}
	if want := fmt.Sprintf("over; and %d more just before", 3*console.MaxChanges-1); all[0].Text != want || all[0].At != at {
		t.Errorf("%+v, want %s", all[0], want)
	}
	c.noteBan(at.Add(sameFlood+1), "192.0.2.3", "later")
	if all = c.all(); len(all) != 4 || all[0].Text != "later" {
		t.Errorf("a while later: %+v", all[0])
	}
}

// TestTheNeighbourIsNotBanned: somebody comes again and again while neighbours use up a limit that they share. Nobody
// but the flooder is banned, if it can be told who that is.
func TestTheNeighbourIsNotBanned(t *testing.T) {
	t.Parallel()
	const policies = "policies: [{name: few, limit: 2, period: 1s}]"
	for name, edge := range map[string]string{
		"a Bloom limiter":                  "bloom: {rate: 2/s, burst: 5, v6: [48]}",
		"a group of a Bloom limiter":       "bloom: {rate: 2/s, burst: 5, groups: {all: [203.0.113.0/24, 2001:db8::/32]}}",
		"a quota of a wide network":        "quota: {source_v4: 24, source_v6: 48, " + policies + "}",
		"a quota by a part of the request": `quota: {key: ["header:X-Tenant"], ` + policies + "}",
	} {
		for _, who := range [][]string{{"203.0.113.66", "203.0.113.67", "203.0.113.68", "203.0.113.69"},
			{"2001:db8:1:1::1", "2001:db8:1:2::1", "2001:db8:1:3::1", "2001:db8:1:4::1"}} {
			t.Run(name+" "+who[0], func(t *testing.T) {
				t.Parallel()
				b := start(t, strings.Replace(guardedSite, "quota: {policies: [{name: per-second, limit: 2, period: 1s}]}",
					edge, 1))
				flooder, innocent := who[0], who[1]
				asks := func(source string, n int) int {
					return b.visit(0, n, "X-Forwarded-For", source, "X-Tenant", "acme")
				}
				// They take turns at being first, so that none of them takes most of it.
				for second := range 30 {
					for i := range 3 {
						asks(who[[]int{0, 2, 3}[(second+i)%3]], 12)
					}
					b.wants("the innocent", asks(innocent, 12), 429)
					b.clock.Advance(time.Second)
				}
				seconds := 0
				for ; asks(flooder, 12) != 403 && seconds < 30; seconds++ {
					b.wants("the innocent, beside one who takes all", asks(innocent, 12), 429)
					b.clock.Advance(time.Second)
				}
				b.wants("the flooder", asks(flooder, 1), 403)
				b.clock.Advance(3 * time.Second)
				b.wants("the innocent, afterwards", asks(innocent, 1), 200)
				page, err := console.BansCall.Ask(t.Context(), b.client, console.BanQuery{})
				if err != nil || page.Total != 1 {
					t.Errorf("after %d seconds: %+v, %v", seconds, page.Bans, err)
				}
			})
		}
	}
}
