package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/internal/clock"
	"weir/store"
	"weir/throttle/quota"
)

const twoPerMonth = `
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, account: ["header:X-Account"], throttles: [plans]}
throttles:
  plans: {quota: {policies: [{name: monthly, limit: 2, period: month}, {name: hourly, limit: 3, period: 1h}]}}
console: {listen: "127.0.0.1:0"}
`

// saved reads what the store knows that accounts have used.
func (b *bench) saved() map[string]int64 {
	b.t.Helper()
	used := map[string]int64{}
	err := b.kept.Load().store.Counters().Load(b.t.Context(), b.clock.Now(), func(c store.Counter) error {
		if !quota.Accepted(&c) {
			used[fmt.Sprintf("%s %s %.7s", c.Throttle, c.Account, c.Rule)] += c.Used
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return used
}

// TestUseSurvivesARestart: what an account has used of a month is still used after a restart; what it has used of an
// hour is not kept.
func TestUseSurvivesARestart(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerMonth)
	b.get(0, "acme")
	b.get(0, "other")
	b.wants("before it is saved", b.saved(), map[string]int64{})
	b.clock.Advance(saveEvery)
	b.wants("saved", b.saved(), map[string]int64{"plans acme monthly": 1, "plans other monthly": 1})
	b.get(0, "acme")
	b.again(nil) // stopping saves
	b.wants("saved", b.saved(), map[string]int64{"plans acme monthly": 2, "plans other monthly": 1})
	b.wants("a third", b.get(0, "acme"), 429)
	b.wants("a second of another", b.get(0, "other"), 200)
	b.wants("and a third", b.get(0, "other"), 429)

	// What an operator has reset stays reset.
	if _, err := console.AccountResetCall.Ask(t.Context(), b.client, console.Name{Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	b.again(nil)
	b.wants("after a reset", b.get(0, "acme"), 200)
	b.wants("not reset", b.get(0, "other"), 429)

	// The next month is a new one, and what is over is forgotten.
	b.again(func() { b.clock.Advance(31 * 24 * time.Hour) })
	b.wants("the next month", b.get(0, "other"), 200)
	b.clock.Advance(saveEvery)
	b.wants("saved", b.saved(), map[string]int64{"plans other monthly": 1})
}

// TestFirstUseIsSavedSoon: a weir that does not live long has saved what was used in the first moments.
func TestFirstUseIsSavedSoon(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerMonth)
	b.get(0, "acme")
	b.clock.Advance(saveFirst)
	b.wants("at first", b.saved(), map[string]int64{"plans acme monthly": 1})
	for range 20 {
		b.clock.Advance(time.Second)
	}
	b.get(0, "acme")
	b.clock.Advance(saveFirst)
	b.wants("later there is time", b.saved(), map[string]int64{"plans acme monthly": 1})
	b.clock.Advance(saveEvery)
	b.wants("and then it is saved", b.saved(), map[string]int64{"plans acme monthly": 2})
}

// TestUseSurvivesReloads: a throttle that goes and comes again has forgotten nothing, and neither has one that comes
// after a restart.
func TestUseSurvivesReloads(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerMonth)
	without := strings.Replace(twoPerMonth, ", throttles: [plans]", "", 1)
	without = without[:strings.Index(without, "throttles:\n")] + `console: {listen: "127.0.0.1:0"}` + "\n"
	b.get(0, "acme")
	b.get(0, "acme")
	load := func(text string) {
		t.Helper()
		if err := b.Reload(b.config(text)); err != nil {
			t.Fatal(err)
		}
	}
	load(without)
	b.wants("without", b.get(0, "acme"), 200)
	load(twoPerMonth)
	b.wants("again", b.get(0, "acme"), 429)
	b.get(0, "other")
	load(without)
	b.again(nil)
	b.wants("without, after a restart", b.get(0, "acme"), 200)
	load(twoPerMonth)
	b.wants("after a restart", b.get(0, "acme"), 429)
	b.wants("other", b.get(0, "other"), 200)
	b.wants("other", b.get(0, "other"), 429)
	b.clock.Advance(saveEvery) // the new throttle is saved as well
	b.wants("saved", b.saved(), map[string]int64{"plans acme monthly": 2, "plans other monthly": 2})
	// A policy of another name is another one; a limit may change.
	load(strings.Replace(twoPerMonth, "name: monthly, limit: 2", "name: monthly, limit: 3", 1))
	b.again(nil)
	b.wants("of three", b.get(0, "acme"), 200)
	b.wants("of three", b.get(0, "acme"), 429)
	b.anew(strings.Replace(twoPerMonth, "name: monthly", "name: in-a-month", 1))
	b.wants("of another policy", b.get(0, "acme"), 200)
}

// anew starts weir again with another configuration.
func (b *bench) anew(text string) {
	b.t.Helper()
	if err := b.Stop(context.Background()); err != nil {
		b.t.Fatal(err)
	}
	b.run(b.config(text), nil)
}

// TestUseThatCannotBeSaved: weir goes on and catches up.
func TestUseThatCannotBeSaved(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerMonth)
	b.clock.Advance(time.Minute) // until it is saved at its usual pace
	b.get(0, "acme")
	tamper(t, b.dir, "ALTER TABLE counters RENAME TO away")
	b.clock.Advance(saveEvery)
	b.get(0, "acme")
	b.clock.Advance(3 * saveEvery)
	b.wants("served", b.get(0, "other"), 200)
	b.wants("limited", b.get(0, "acme"), 429)
	s := backend{b.App}.Status() // the counter, and that the account was accepted if that was known in time
	if p := s.Store.Parts[1]; p.Part != "counters" || p.Failures != 4 || p.Unsaved < 1 || p.Unsaved > 2 ||
		!strings.Contains(p.Error, "no such table") {
		t.Errorf("%+v", s.Store)
	}
	if _, body := b.page("/metrics"); !strings.Contains(body, `weir_store_failing{part="counters"} 1`) ||
		!strings.Contains(body, `weir_store_failures_total{part="counters"} 4`) {
		t.Error("the metrics do not show it")
	}
	// A reload takes all the same.
	if err := b.Reload(b.config(strings.ReplaceAll(twoPerMonth, "plans", "others"))); err != nil {
		t.Fatal(err)
	}
	b.wants("another throttle", b.get(0, "acme"), 200)
	tamper(t, b.dir, "ALTER TABLE away RENAME TO counters")
	b.clock.Advance(saveEvery)
	s = backend{b.App}.Status()
	if p := s.Store.Parts[1]; p.Error != "" || p.Unsaved != 0 {
		t.Errorf("%+v", s.Store)
	}
	if got := b.saved(); got["others acme monthly"] != 1 {
		t.Errorf("%v", got)
	}
	if err := b.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestManyAccountsAreSaved: more than fit into one batch.
func TestManyAccountsAreSaved(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerMonth)
	const n = store.MaxBatch + 7
	q := b.current.Load().throttle("plans").accounts()
	var a weir.Answer
	for i := range n {
		a.Clear()
		if err := q.Judge(t.Context(), &weir.Event{Time: noon, Account: fmt.Sprint("a", i)}, &a); err != nil {
			t.Fatal(err)
		}
		q.Settle(a.Hold, weir.Outcome{Time: noon, Done: true})
	}
	before := backend{b.App}.StoreStatus().Writes
	b.clock.Advance(saveEvery)
	if after := (backend{b.App}).StoreStatus(); after.Writes-before != 2 || after.Failures != 0 ||
		after.Parts[1].Unsaved != 0 {
		t.Errorf("%+v", after)
	}
}

// TestNothingToKeep: where no period is long, there is nothing to do every few seconds.
func TestNothingToKeep(t *testing.T) {
	t.Parallel()
	b := start(t, strings.Replace(twoPerMonth, "period: month", "period: 1m", 1))
	b.wants("timers", b.clock.Pending(), 1) // of the history
	if err := b.Reload(b.config(twoPerMonth)); err != nil {
		t.Fatal(err)
	}
	b.wants("timers", b.clock.Pending(), 2)
	if err := b.Reload(b.config(strings.Replace(twoPerMonth, "period: month", "period: 1m", 1))); err != nil {
		t.Fatal(err)
	}
	b.clock.Advance(saveEvery)
	b.wants("timers", b.clock.Pending(), 1)
	if err := b.Reload(b.config(twoPerMonth)); err != nil {
		t.Fatal(err)
	}
	b.Stop(context.Background())
	b.wants("timers of a weir that has stopped", b.clock.Pending(), 0)
}

// TestRestoreOnTheMachinesClock: timers run on goroutines of their own there.
func TestRestoreOnTheMachinesClock(t *testing.T) {
	t.Parallel()
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		io.WriteString(w, "hello")
	}))
	t.Cleanup(behind.Close)
	b := &bench{t: t, clock: clock.NewFake(noon), dir: filepath.Join(folder(t), "data"), upstream: behind.URL}
	cfg := b.config(twoPerMonth)
	for i, want := range []int{200, 200, 429} {
		b.onMachine(cfg, func() {
			b.wants(fmt.Sprint("request ", i), b.get(0, "acme"), want)
		})
	}
}

func (b *bench) onMachine(cfg *config.Config, f func()) {
	b.t.Helper()
	a, err := New(cfg, Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := a.Start(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.App = a
	f()
	if err := a.Stop(context.Background()); err != nil {
		b.t.Fatal(err)
	}
}
