package app

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/console"
	"weir/identify"
	"weir/internal/testkit/needs"
	"weir/policy"
)

// everything is a weir with gates of several kinds, none of them with a capacity.
const everything = `
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, account: ["header:X-Account"], throttles: [plans]}
tcp:
- {listen: "127.0.0.1:0", upstream: "127.0.0.1:1", throttles: [edge]}
throttles:
  plans: {quota: {policies: [{name: per-hour, limit: 2, period: 1h}]}}
  edge: {bloom: {rate: 1/h, burst: 5, v4: 24}}
console: {listen: "127.0.0.1:0"}
`

func (b *bench) overview(q console.OverviewQuery) console.Overview {
	b.t.Helper()
	o, err := console.OverviewGetCall.Ask(b.t.Context(), b.client, q)
	if err != nil {
		b.t.Fatal(err)
	}
	return o
}

func throttleOf(o console.Overview, name string) console.ThrottleWatch {
	for _, t := range o.Throttles {
		if t.Name == name {
			return t
		}
	}
	return console.ThrottleWatch{}
}

// TestOverviewWithoutCapacity: every gate and throttle has a past, by verdict, and whoever is held back is named as in
// the access log.
func TestOverviewWithoutCapacity(t *testing.T) {
	t.Parallel()
	b := start(t, everything)
	for i, want := range []int{200, 200, 429, 429, 429} {
		b.wants(fmt.Sprint("request ", i), b.get(0, "secret-key"), want)
	}
	b.wants("another account", b.get(0, "other"), 200)
	b.clock.Advance(console.HistoryEvery)
	o := b.overview(console.OverviewQuery{})
	if !o.Ready || o.State != "serving" || len(o.Gates) != 2 || len(o.Throttles) != 3 || !o.At.Equal(b.clock.Now()) {
		t.Fatalf("%+v", o)
	}
	g := o.Gates[0]
	for m, want := range map[console.Measure]float64{console.Admitted: 3, console.Refused: 3, console.Delayed: 0,
		console.TurnedAway: 0, console.InFlight: 0, console.Waiting: 0} {
		if got := g.Last(m); got != want {
			t.Errorf("%s: %v, want %v", m, got, want)
		}
	}
	if g.Hour.Events[console.Refused] != 3 || !g.Hour.Since.Equal(noon) || g.Last(console.Connections) < 1 {
		t.Errorf("in the last hour: %+v", g.Hour)
	}
	if got := g.Last(console.AddedMedian); !(got >= 0 && got < 0.001) { // the clock stands still
		t.Errorf("half add %v seconds", got)
	}
	if _, has := g.Columns[console.Load]; has || g.Unit != "requests" || o.Gates[1].Unit != "connections" {
		t.Errorf("%+v", g)
	}
	if s, err := console.StatusCall.Ask(t.Context(), b.client, console.None{}); err != nil ||
		!slices.ContainsFunc(s.Throttles,
			func(t console.ThrottleStatus) bool { return t.Bloom != nil && t.Bloom.AmpleBurst == 15 }) {
		t.Errorf("the burst of edge is too small: %+v, %v", s.Throttles, err)
	}
	plans := throttleOf(o, "plans")
	if plans.Last(console.Admitted) != 3 || plans.Last(console.Refused) != 3 || plans.Last(console.WouldRefuse) != 0 ||
		plans.Kind != "quota" || plans.Shadow || len(plans.Would) != 0 {
		t.Errorf("%+v", plans)
	}
	if len(plans.Held) != 1 || plans.Held[0].Name != identify.Mask("secret-key") || plans.Held[0].Total != 3 ||
		plans.Held[0].Kind != "account" || plans.Held[0].Throttle != "plans" {
		t.Errorf("held back: %+v", plans.Held)
	}
	if len(o.Refusals) != 3 {
		t.Fatalf("%+v", o.Refusals)
	}
	r := o.Refusals[0]
	if r.Throttle != "plans" || r.Rule != "per-hour" || r.Reason != weir.OverLimit || r.Gate != "127.0.0.1:0" ||
		r.Name != identify.Mask("secret-key") || r.Source != "127.0.0.1" || r.ID == "" || r.Figure.Limit != 2 ||
		r.Shadow || !strings.HasPrefix(r.Text, "refuse by plans/per-hour (over-limit): 0 of 2 requests left per 1h") {
		t.Errorf("%+v", r)
	}
	if text := fmt.Sprintf("%+v", o); strings.Contains(text, "secret-key") {
		t.Errorf("a secret is shown: %s", text)
	}

	// A request id leads to its refusal, and nothing else does.
	page, err := console.RefusalsListCall.Ask(t.Context(), b.client, console.RefusalQuery{ID: r.ID})
	if err != nil || len(page.Refusals) != 1 || page.Refusals[0].ID != r.ID || page.Left != 0 {
		t.Errorf("%+v %v", page, err)
	}
	for _, q := range []console.RefusalQuery{{ID: "unknown"}, {Throttle: "edge"}, {Who: "secret-key"}} {
		if page, err := console.RefusalsListCall.Ask(t.Context(), b.client, q); err != nil || len(page.Refusals) != 0 {
			t.Errorf("%+v: %+v %v", q, page, err)
		}
	}
	for _, who := range []string{r.Name, "127.0.0.1"} {
		page, err := console.RefusalsListCall.Ask(t.Context(), b.client, console.RefusalQuery{Who: who, Limit: 2})
		if err != nil || len(page.Refusals) != 2 {
			t.Errorf("%s: %+v %v", who, page, err)
		}
	}
}

// TestOverviewOfConnections: those of a TCP gate, by network, as the limiter counts it.
func TestOverviewOfConnections(t *testing.T) {
	t.Parallel()
	behind, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { behind.Close() })
	go func() {
		for {
			c, err := behind.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	b := start(t, strings.Replace(everything, "127.0.0.1:1\"", behind.Addr().String()+"\"", 1))
	for range 9 {
		c, err := net.Dial("tcp", b.Addr("tcp", 0).String())
		if err != nil { // it was reset at once
			continue
		}
		c.SetReadDeadline(time.Now().Add(time.Minute))
		c.Read(make([]byte, 1)) // it is closed or reset
		c.Close()
	}
	b.clock.Advance(console.HistoryEvery)
	o := b.overview(console.OverviewQuery{})
	g, edge := o.Gates[1], throttleOf(o, "edge")
	if g.Last(console.Connections) != 9 || g.Last(console.Admitted)+g.Last(console.Refused) != 9 ||
		g.Last(console.Refused) == 0 {
		t.Errorf("%+v", g)
	}
	if edge.Unit != "events" || len(edge.Held) != 1 || edge.Held[0].Name != "127.0.0.0/24" ||
		edge.Held[0].Kind != "network" || float64(edge.Held[0].Total) != g.Last(console.Refused) {
		t.Errorf("%+v", edge)
	}
}

// TestOverviewInShadow: what enforcing would have done, and to which account; nothing is done.
func TestOverviewInShadow(t *testing.T) {
	t.Parallel()
	b := start(t, everything)
	if _, err := console.ShadowCall.Ask(t.Context(), b.client, console.Shadow{Throttles: []string{"plans"},
		On: true}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		b.wants("in shadow", b.get(0, "acme"), 200)
	}
	b.clock.Advance(console.HistoryEvery)
	o := b.overview(console.OverviewQuery{})
	plans := throttleOf(o, "plans")
	if n, of := plans.Hour.WouldRefuse(); n != 3 || of != 5 || !plans.Shadow || len(plans.Held) != 0 {
		t.Errorf("%v of %v: %+v", n, of, plans)
	}
	if len(plans.Would) != 1 || plans.Would[0].Name != identify.Mask("acme") || plans.Would[0].Total != 3 {
		t.Errorf("%+v", plans.Would)
	}
	if g := o.Gates[0]; g.Last(console.Would) != 3 || g.Last(console.Admitted) != 5 || g.Last(console.Refused) != 0 {
		t.Errorf("%+v", g)
	}
	if len(o.Refusals) != 3 || !o.Refusals[0].Shadow {
		t.Errorf("%+v", o.Refusals)
	}
	// An hour later nothing of it is left, but the figures since the start in weir status.
	b.clock.Advance(time.Hour + console.HourEvery)
	plans = throttleOf(b.overview(console.OverviewQuery{}), "plans")
	if n, of := plans.Hour.WouldRefuse(); n != 0 || of != 0 || len(plans.Would) != 0 {
		t.Errorf("an hour later: %v of %v, %+v", n, of, plans.Would)
	}
}

// TestOverviewTiers: the last five minutes in seconds, the last hour in steps of ten, and only what is new.
func TestOverviewTiers(t *testing.T) {
	t.Parallel()
	b := start(t, everything)
	for range 3 {
		b.get(0, "acme")
	}
	b.clock.Advance(2 * time.Hour)
	for _, c := range []struct {
		q    console.OverviewQuery
		n    int
		step float64
	}{
		{console.OverviewQuery{}, console.HistoryLength, 1},
		{console.OverviewQuery{Window: console.OneHour}, console.HourLength, 10},
		{console.OverviewQuery{Since: b.clock.Now().Add(-3 * time.Second).UnixMilli()}, 3, 1},
		{console.OverviewQuery{Since: b.clock.Now().UnixMilli()}, 0, 1},
	} {
		o := b.overview(c.q)
		for _, s := range []console.Series{o.Gates[0].Series, o.Throttles[0].Series} {
			if len(s.At) != c.n || s.Seconds != c.step || len(s.Columns[console.Admitted]) != c.n {
				t.Errorf("%+v: %d samples of %v seconds", c.q, len(s.At), s.Seconds)
			}
			for i := 1; i < len(s.At); i++ {
				if s.At[i]-s.At[i-1] != int64(1000*c.step) {
					t.Fatalf("%+v: not even at %d: %v", c.q, i, s.At)
				}
			}
		}
	}
}

// TestHourInSteps: what came is in the right step, and the sum is exact.
func TestHourInSteps(t *testing.T) {
	t.Parallel()
	b := start(t, everything)
	b.clock.Advance(20 * time.Second)
	for range 7 {
		b.get(0, "acme")
	}
	b.clock.Advance(15 * time.Second)
	b.get(0, "acme") // in a step that is not over
	o := b.overview(console.OverviewQuery{Window: console.OneHour})
	s := throttleOf(o, "plans")
	if got := fmt.Sprint(s.Columns[console.Refused], s.Columns[console.Admitted]); got != "[0 0 0.5] [0 0 0.2]" {
		t.Errorf("%s", got)
	}
	if e := s.Hour.Events; e[console.Refused] != 6 || e[console.Admitted] != 2 {
		t.Errorf("%+v", e)
	}
}

// TestChanges: what was done is told, the latest first, and no more than there may be.
func TestChanges(t *testing.T) {
	t.Parallel()
	b := start(t, everything)
	ctx := t.Context()
	b.get(0, "secret-key")
	step := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		b.clock.Advance(time.Second)
	}
	b.clock.Advance(time.Second)
	_, err := console.ShadowCall.Ask(ctx, b.client, console.Shadow{All: true, On: true})
	step(err)
	_, err = console.BanAddCall.Ask(ctx, b.client, console.BanOrder{Who: "192.0.2.0/24", Reason: "scraping"})
	step(err)
	_, err = console.BanRemoveCall.Ask(ctx, b.client, console.BanWho{Who: "192.0.2.0/24"})
	step(err)
	_, err = console.AccountResetCall.Ask(ctx, b.client, console.Name{Name: "secret-key"})
	step(err)
	step(b.Reload(b.config(strings.Replace(everything, "limit: 2", "limit: 3", 1))))
	broken := b.config(everything)
	broken.HTTP[0].Throttles = []string{"nobody"}
	if b.Reload(broken) == nil {
		t.Fatal("a broken configuration was taken")
	}
	want := "reload-failed, reloaded, account-reset account " + identify.Mask("secret-key") +
		", ban-remove 192.0.2.0/24, ban-add 192.0.2.0/24, shadow-on all throttles, started, operator-add admin"
	needs.Wait(t, want, func() bool { // where the audit log takes its time, it is left out
		var got []string
		for _, c := range b.overview(console.OverviewQuery{}).Changes {
			got = append(got, strings.TrimSpace(c.What+" "+c.On))
		}
		return strings.Join(got, ", ") == want
	})
	for i := range console.MaxChanges + 1 {
		b.changes.note(noon, byWeir, "test", fmt.Sprint(i), strings.Repeat("x", 1000))
	}
	all := b.changes.all()
	if len(all) != console.MaxChanges || all[0].On != "256" || all[255].On != "1" || len(all[0].Text) > maxChangeText+3 {
		t.Errorf("%d, from %+v", len(all), all[0])
	}
}

// TestHistoryBytes: what is promised is what it takes.
func TestHistoryBytes(t *testing.T) {
	t.Parallel()
	b := start(t, everything)
	b.clock.Advance(2 * time.Hour)
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	var took int64
	for _, r := range recordsOf[*traffic](b) {
		took += r.bytes()
	}
	for _, r := range recordsOf[*policy.Counts](b) {
		took += r.bytes()
	}
	if most := HistoryBytes(2, 0, 3) - 3*policy.WatchBytes; took != most {
		t.Errorf("%d bytes, promised are %d", took, most)
	}
	t.Logf("a gate takes %d KiB, a throttle %d KiB", HistoryBytes(1, 0, 0)>>10, HistoryBytes(0, 0, 1)>>10)
}

func (r *record) bytes() (n int64) {
	for _, t := range []*tier{&r.fine, &r.coarse} {
		n += int64(8*cap(t.ring.ends) + 4*cap(t.ring.over) + 4*cap(t.ring.values))
	}
	return n
}

// TestOverviewInAHurry: whoever looks, is refused, reloads and stops at once.
func TestOverviewInAHurry(t *testing.T) {
	t.Parallel()
	b := start(t, everything)
	var all sync.WaitGroup
	for _, f := range []func(){
		func() { backend{b.App}.Overview(console.OverviewQuery{}) },
		func() { backend{b.App}.Refusals(console.RefusalQuery{}) },
		func() { b.clock.Advance(console.HistoryEvery) },
		func() { ask(b.Addr("http", 0).String(), "acme") },
		func() { b.Reload(b.config(everything)) },
		func() { b.changed("test", "") },
	} {
		all.Go(func() {
			for range 20 {
				f()
			}
		})
	}
	all.Wait()
	if got := b.overview(console.OverviewQuery{}); len(got.Gates) != 2 {
		t.Errorf("%+v", got)
	}
}

// BenchmarkOverview: what a look at the overview costs: the first one, and the next ones.
func BenchmarkOverview(b *testing.B) {
	a := start(b, everything)
	for i := range 300 {
		a.bans.link.Watch.Held(noon, policy.Party{Kind: policy.Account, Name: fmt.Sprint(i)}, i, false)
	}
	a.clock.Advance(5 * time.Minute)
	for name, q := range map[string]console.OverviewQuery{"first": {}, "hour": {Window: console.OneHour},
		"next": {Since: a.clock.Now().Add(-time.Second).UnixMilli()}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := json.Marshal((backend{a.App}).Overview(q)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("sample", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a.clock.Advance(console.HistoryEvery)
		}
	})
}
