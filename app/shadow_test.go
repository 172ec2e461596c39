package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/console"
	"weir/farm"
	"weir/internal/testkit/needs"
	"weir/store"
)

// twoThrottles has one that is in shadow, and one that is not.
const twoThrottles = `
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, account: ["header:X-Account"], throttles: [plans]}
- {listen: "127.0.0.1:0", upstream: UPSTREAM, account: ["header:X-Account"], throttles: [quiet]}
throttles:
  plans: {quota: {policies: [{name: hourly, limit: 1, period: 1h}]}}
  quiet: {shadow: true, quota: {policies: [{name: hourly, limit: 1, period: 1h}]}}
console: {listen: "127.0.0.1:0"}
`

func (b *bench) shadow(s console.Shadow) console.ShadowResult {
	b.t.Helper()
	r, err := console.ShadowCall.Ask(b.t.Context(), b.client, s)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// shadows are the modes of the throttles and the block list, in order.
func (b *bench) shadowed() string {
	var all []string
	for _, t := range b.switches(b.current.Load()) {
		all = append(all, fmt.Sprint(t.name, "=", t.link.Shadow.Load()))
	}
	return strings.Join(all, " ")
}

// TestEmergencySwitch: all in shadow by one call, over restarts and reloads; and then each as it was.
func TestEmergencySwitch(t *testing.T) {
	t.Parallel()
	b := start(t, twoThrottles)
	b.get(0, "acme")
	b.wants("over the limit", b.get(0, "acme"), 429)
	r := b.shadow(console.Shadow{All: true, On: true, Note: "the shop is down"})
	if r.All == nil || r.All.Note != "the shop is down" || r.All.By == "" || len(r.Warnings) > 0 {
		t.Errorf("%+v", r)
	}
	const everything = "plans=true quiet=true bans=true"
	b.wants("all", b.shadowed(), everything)
	b.wants("in the emergency", b.get(0, "acme"), 200)
	b.again(nil)
	b.wants("after a restart", b.shadowed(), everything)
	if s := (backend{b.App}).Status().ShadowAll; s == nil || s.Note != "the shop is down" || s.At.IsZero() || s.Farm {
		t.Errorf("status: %+v", s)
	}

	// A throttle that comes in the emergency is in shadow too. What the file says meanwhile counts later.
	more := strings.Replace(twoThrottles, "throttles:\n", "throttles:\n  new: {quota: {policies: [{name: hourly, limit: 1, "+
		"period: 1h}]}}\n", 1)
	more = strings.Replace(more, "[quiet]", "[quiet, new]", 1)
	more = strings.Replace(more, "shadow: true, ", "", 1)
	if err := b.Reload(b.config(more)); err != nil {
		t.Fatal(err)
	}
	b.wants("after a reload", b.shadowed(), "new=true "+everything)
	if _, err := console.ShadowCall.Ask(t.Context(), b.client,
		console.Shadow{Throttles: []string{"plans"}}); err == nil ||
		!strings.Contains(err.Error(), "weir shadow off --all turns it off") {
		t.Errorf("one throttle out of the emergency: %v", err)
	}
	b.shadow(console.Shadow{Throttles: []string{"new"}, On: true})
	b.shadow(console.Shadow{All: true})
	b.wants("over", b.shadowed(), "new=true plans=false quiet=false bans=false")
	b.again(nil)
	b.wants("nothing is left of it", (backend{b.App}).Status().ShadowAll == nil, true)

	// Each gets back what it had, what an operator had switched included.
	if err := b.Reload(b.config(twoThrottles)); err != nil {
		t.Fatal(err)
	}
	b.shadow(console.Shadow{Throttles: []string{"bans"}, On: true})
	b.wants("before", b.shadowed(), "plans=false quiet=true bans=true")
	b.shadow(console.Shadow{All: true, On: true})
	b.shadow(console.Shadow{All: true, On: true, Note: "again"}) // twice is as good as once
	b.shadow(console.Shadow{All: true})
	b.wants("after", b.shadowed(), "plans=false quiet=true bans=true")
	for _, wrong := range []console.Shadow{{All: true, On: true, Note: strings.Repeat("x", store.MaxReason+1)},
		{Throttles: []string{"plans"}, Note: "why"}} {
		if _, err := console.ShadowCall.Ask(t.Context(), b.client, wrong); err == nil {
			t.Errorf("%.60v was taken", wrong)
		}
	}
}

// TestEmergencyIsSeen: while the switch is on, every page says so, and the metrics do. What a capacity would have held
// back is counted as that, and as load, and not as turned away; what waited for a place when the switch was turned goes
// on.
func TestEmergencyIsSeen(t *testing.T) {
	t.Parallel()
	arrived, finish := make(chan struct{}), make(chan struct{})
	b := startBefore(t, `
data: DATA
http: [{listen: "127.0.0.1:0", upstream: UPSTREAM, capacity: {concurrent: 1}}]
console: {listen: "127.0.0.1:0", without_login: view}
`, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-finish
	})
	_, body := b.page("/metrics")
	for _, want := range []string{"weir_shadow_all 0", `weir_throttle_shadow{throttle="capacity of 127.0.0.1:0"} 0`} {
		b.wants("before: "+want, strings.Contains(body, want), true)
	}
	answers := make(chan int, 4)
	asks := func() {
		go func() {
			code, _ := ask(b.Addr("http", 0).String(), "acme")
			answers <- code
		}()
	}
	asks()
	<-arrived
	asks()
	needs.Wait(t, "the second waits", func() bool { return (backend{b.App}).Status().Gates[0].Waiting == 1 })
	b.clock.Advance(console.HistoryEvery)
	_, body = b.page("/")
	b.wants("who waits", strings.Contains(body, "Waiting at 127.0.0.1:0: 1 request. The load is "), true)
	b.shadow(console.Shadow{All: true, On: true, Note: "the shop is down"})
	<-arrived
	for range 2 {
		asks()
		<-arrived // although there is only one place
	}
	_, body = b.page("/metrics")
	for _, want := range []string{"weir_shadow_all 1", `weir_throttle_shadow{throttle="capacity of 127.0.0.1:0"} 1`,
		`weir_throttle_verdicts_total{mode="shadow",policy="",throttle="capacity of 127.0.0.1:0",verdict="wait"} 2`} {
		b.wants("metrics: "+want, strings.Contains(body, want), true)
	}
	b.clock.Advance(console.HistoryEvery)
	for _, path := range []string{"/", "/why", "/throttles", "/capacity", "/sources", "/audit", "/no-such-page"} {
		_, body := b.page(path)
		b.wants(path, strings.Contains(body, "all throttles are in shadow</b> since") &&
			strings.Contains(body, ": the shop is down. Nothing is refused or delayed;"), true)
	}
	_, body = b.page("/")
	b.wants("the overview", strings.Contains(body, "Nothing is turned away") || strings.Contains(body, ">serving</b>"), false)
	b.wants("what would be held back", strings.Contains(body, "would be held back at 127.0.0.1:0."), true)
	b.clock.Advance(2 * time.Second)
	r, err := console.CapacityCall.Ask(t.Context(), b.client, console.CapacityQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Gates[0].Capacity; c.InUse != 3 || c.Load != 3 || c.Pool+c.Stamped+c.InLine > 0 || c.TurnedAway > 0 ||
		c.Refused["full"]+c.Refused["expired"]+c.Refused["too-many"] > 0 {
		t.Errorf("in shadow: %+v", c)
	}
	close(finish)
	for range 4 {
		b.wants("let pass", <-answers, 200)
	}
}

// TestFarmEmergencySwitch: for one node, or for all of them, those that are away included.
func TestFarmEmergencySwitch(t *testing.T) {
	t.Parallel()
	f := newFold(t)
	on := func(node int) bool { return (backend{f.nodes[node]}).Status().ShadowAll != nil }
	inShadow := func(node int) bool { return f.nodes[node].current.Load().throttle("plans").link.Shadow.Load() }
	set := func(node int, s console.Shadow) error {
		_, err := (backend{f.nodes[node]}).SetShadow(t.Context(), s, "ann")
		return err
	}
	setFarm := func(node int, s console.Shadow) {
		t.Helper()
		all, err := (backend{f.nodes[node]}).Farm().Shadow(t.Context(), s, "ann")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if r.Error != "" && !strings.Contains(r.Error, "it is ") {
				t.Errorf("%+v", r)
			}
		}
	}
	if err := set(1, console.Shadow{All: true, On: true}); err != nil {
		t.Fatal(err)
	}
	for node, want := range []bool{false, true, false} {
		if on(node) != want || inShadow(node) != want {
			t.Errorf("node %d is in shadow: %v", node, inShadow(node))
		}
	}
	if err := f.nodes[2].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	needs.Wait(f.t, "the others know that c is away", func() bool {
		a := f.nodes[0]
		return !slices.ContainsFunc(a.member.Load().Members(a.opts.Clock.Now()), func(who farm.Member) bool {
			return who.Name == "c" && who.State == farm.Up
		})
	})
	setFarm(0, console.Shadow{All: true, On: true, Note: "the shop is down"})
	for node := range 2 {
		if !on(node) || !inShadow(node) {
			t.Errorf("node %d is not in shadow after it was told", node)
		}
	}
	f.start(2)
	needs.Wait(f.t, "a node that was away is in shadow", func() bool { return on(2) && inShadow(2) })
	if err := set(2, console.Shadow{All: true}); err == nil || !strings.Contains(err.Error(), "--farm") {
		t.Errorf("one node out of the farm's emergency: %v", err)
	}
	f.settled()
	setFarm(2, console.Shadow{All: true})
	for node := range f.nodes {
		needs.Wait(f.t, "all are out of shadow", func() bool { return !on(node) && !inShadow(node) })
	}
}
