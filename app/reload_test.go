package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/config"
	"weir/console"
	"weir/internal/testkit/needs"
)

func TestReloadKeepsCounters(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	addr := b.Addr("http", 0)
	b.get(0, "acme")
	b.get(0, "acme")
	if err := b.Reload(b.config(strings.Replace(twoPerHour, "limit: 2", "limit: 3", 1))); err != nil {
		t.Fatal(err)
	}
	b.wants("address", b.Addr("http", 0), addr)
	b.wants("third", b.get(0, "acme"), 200)
	b.wants("fourth", b.get(0, "acme"), 429)
	s := backend{b.App}.Status()
	b.wants("admitted over both", s.Throttles[0].Verdicts["admit"], 3)
	b.wants("reloads", s.Config.Reloads, 1)
	if _, body := b.page("/metrics"); !strings.Contains(body, `weir_reloads_total{result="ok"} 1`) {
		t.Error("the reload was not counted")
	}
}

// TestReloadRenamesAPolicy: a rule that a reload brings is counted apart, and what the old one refused stays in the
// totals.
func TestReloadRenamesAPolicy(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	for range 3 {
		b.get(0, "acme")
	}
	if err := b.Reload(b.config(strings.Replace(twoPerHour, "name: per-hour", "name: hourly", 1))); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		b.get(0, "other")
	}
	b.wants("refused over both", backend{b.App}.Status().Throttles[0].Verdicts["refuse"], 2)
	_, body := b.page("/metrics")
	const series = `weir_throttle_verdicts_total{mode="enforce",policy="hourly",throttle="plans",verdict="refuse"} 1`
	if !strings.Contains(body, series) || strings.Contains(body, `policy="per-hour"`) {
		t.Error(body)
	}
}

func TestFailedReloadChangesNothing(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	b := start(t, twoPerHour)
	gate, page, control := b.Addr("http", 0), b.ConsoleAddr(), b.ControlPath()
	b.get(0, "acme")
	// Everything else in it could be done.
	broken := fmt.Sprintf(`
data: DATA
control: DATA/other.sock
http:
- {listen: "127.0.0.1:0", upstream: "http://127.0.0.1:1", throttles: []}
- {listen: %q, upstream: UPSTREAM, throttles: [plans]}
throttles:
  plans: {quota: {policies: [{name: per-hour, limit: 100, period: 1h}]}, shadow: true}
  more:  {quota: {policies: [{name: per-hour, limit: 100, period: 1h}]}}
console: {listen: "127.0.0.2:0"}
`, taken.Addr())
	if err := b.Reload(b.config(broken)); err == nil || !strings.Contains(err.Error(), "http[1]") {
		t.Fatalf("reload: %v", err)
	}
	b.wants("gate", b.Addr("http", 0), gate)
	b.wants("console", b.ConsoleAddr(), page)
	b.wants("control", b.ControlPath(), control)
	b.wants("second", b.get(0, "acme"), 200)
	b.wants("third", b.get(0, "acme"), 429)
	s, err := console.StatusCall.Ask(t.Context(), b.client, console.None{})
	if err != nil {
		t.Fatal(err)
	}
	b.wants("throttles", len(s.Throttles), 2) // with the block list
	b.wants("shadow", s.Throttles[0].Shadow, false)
	b.wants("failed", s.Config.Failed, 1)
	if s.Config.LastError == "" {
		t.Error("status says nothing of the failed reload")
	}
	if _, err := console.StatusCall.Ask(t.Context(), console.NewClient(b.dir+"/other.sock"),
		console.None{}); !errors.Is(err, console.ErrNotRunning) {
		t.Errorf("the other control socket: %v", err)
	}
	if _, body := b.page("/metrics"); !strings.Contains(body, `weir_reloads_total{result="failed"} 1`) {
		t.Error("the reload was not counted")
	}
}

func TestReloadThatAGateCannotTake(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	taken := b.Addr("http", 0).String()
	if err := b.Reload(b.config(strings.Replace(twoPerHour, "127.0.0.1:0", taken, 1))); err == nil ||
		!strings.Contains(err.Error(), "http[0].listen") {
		t.Errorf("its own address: %v", err)
	}
	b.wants("afterwards", b.get(0, "acme"), 200)
}

func TestReloadGatesComeAndGo(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	first := b.Addr("http", 0).String()
	more := strings.Replace(twoPerHour, "throttles:\n",
		`- {listen: "127.0.0.2:0", upstream: UPSTREAM}`+"\nthrottles:\n", 1)
	if err := b.Reload(b.config(more)); err != nil {
		t.Fatal(err)
	}
	b.wants("first", b.Addr("http", 0), first)
	second := b.Addr("http", 1).String()
	for range 5 {
		b.wants("second", b.get(1, "acme"), 200)
	}
	less := strings.Replace(more,
		`- {listen: "127.0.0.1:0", upstream: UPSTREAM, account: ["header:X-Account"], throttles: [plans]}`, "", 1)
	if err := b.Reload(b.config(less)); err != nil {
		t.Fatal(err)
	}
	b.wants("second", b.Addr("http", 0), second)
	b.background.Wait()
	closed(t, first)
	if _, body := b.page("/metrics"); strings.Contains(body, `gate="127.0.0.1:0"`) {
		t.Error("the removed gate still has series")
	}
}

// A request that waits in a throttle which a reload removes goes on.
func TestReloadLetsGoWhoWaitsInARemovedThrottle(t *testing.T) {
	t.Parallel()
	waiting := strings.Replace(twoPerHour, "period: 1h}", "period: 1h, over: delay, delay: {max_wait: 1h}}", 1)
	for name, next := range map[string]string{
		"its gate stays": `
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, account: ["header:X-Account"]}
console: {listen: "127.0.0.1:0"}
`,
		"another throttle takes its place": strings.ReplaceAll(waiting, "plans", "other"),
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, waiting)
			b.get(0, "acme")
			b.get(0, "acme")
			answered := b.later("acme")
			b.until(1)
			if err := b.Reload(b.config(next)); err != nil {
				t.Fatal(err)
			}
			b.wants("the one that waited", <-answered, 200)
		})
	}
}

func TestReloadDoesNotDisturbWhoWaits(t *testing.T) {
	t.Parallel()
	waiting := strings.Replace(twoPerHour, "period: 1h}", "period: 1h, over: delay, delay: {max_wait: 1h}}", 1)
	b := start(t, waiting)
	b.get(0, "acme")
	b.get(0, "acme")
	answered := b.later("acme")
	b.until(1)
	if err := b.Reload(b.config(strings.Replace(waiting, "limit: 2", "limit: 1", 1))); err != nil {
		t.Fatal(err)
	}
	b.until(1)
	b.clock.Advance(time.Hour)
	b.wants("the one that waited", <-answered, 200)
	b.clock.Advance(time.Hour)
	b.wants("an hour later", b.get(0, "acme"), 200)
}

// later sends a request that is expected to wait.
func (b *bench) later(account string) <-chan int {
	answered := make(chan int, 1)
	addr := b.Addr("http", 0).String()
	go func() {
		code, _ := ask(addr, account)
		answered <- code
	}()
	return answered
}

// until returns when so many wait in the first throttle.
func (b *bench) until(n int) {
	b.t.Helper()
	needs.Wait(b.t, fmt.Sprintf("%d wait", n),
		func() bool { return (backend{b.App}).Throttles()[0].Table.Waiting == n })
}

func TestReloadAndShadow(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	inShadow := strings.Replace(twoPerHour, "1h}]}}", "1h}]}, shadow: true}", 1)
	state := func() bool { return backend{b.App}.Throttles()[0].Link.Shadow.Load() }
	reload := func(text string) {
		t.Helper()
		if err := b.Reload(b.config(text)); err != nil {
			t.Fatal(err)
		}
	}
	shadow := func(on bool) {
		t.Helper()
		if _, err := console.ShadowCall.Ask(t.Context(), b.client, console.Shadow{Throttles: []string{"plans"},
			On: on}); err != nil {
			t.Fatal(err)
		}
	}
	shadow(true)
	reload(twoPerHour)
	b.wants("the operator's, over a reload that says nothing new", state(), true)
	reload(inShadow)
	b.wants("configured", state(), true)
	shadow(false)
	reload(inShadow)
	b.wants("the operator's again", state(), false)
	reload(twoPerHour)
	reload(inShadow)
	b.wants("a change of the configuration", state(), true)
	for range 4 {
		b.wants("in shadow", b.get(0, "acme"), 200)
	}
}

func TestReloadMovesConsoleAndControl(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	old := b.ConsoleAddr().String()
	next := strings.Replace(twoPerHour, `console: {listen: "127.0.0.1:0"}`, `console: {listen: "127.0.0.2:0"}`, 1) +
		"control: DATA/other.sock\n"
	// The reload itself comes by the socket that is closed.
	b.opts.Load = func() (*config.Config, error) { return b.config(next), nil }
	if _, err := console.ReloadCall.Ask(t.Context(), b.client, console.None{}); err != nil {
		t.Fatal(err)
	}
	b.background.Wait()
	closed(t, old)
	if _, err := console.StatusCall.Ask(t.Context(), b.client, console.None{}); !errors.Is(err, console.ErrNotRunning) {
		t.Errorf("the old control: %v", err)
	}
	if _, err := console.StatusCall.Ask(t.Context(), console.NewClient(b.ControlPath()), console.None{}); err != nil {
		t.Errorf("the new control: %v", err)
	}
	if code, _ := b.page("/healthz"); code != 200 {
		t.Errorf("the new console: %d", code)
	}
	off := strings.Replace(next, `"127.0.0.2:0"`, `"off"`, 1)
	if err := b.Reload(b.config(off)); err != nil {
		t.Fatal(err)
	}
	if b.ConsoleAddr() != nil {
		t.Error("the console is not off")
	}
}

func TestReread(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	if err := b.Reread(); err == nil {
		t.Error("nothing to read, and no error")
	}
	b.opts.Load = func() (*config.Config, error) { return config.Parse("weir.yaml", []byte("data: x\nhtp: []\n")) }
	_, err := console.ReloadCall.Ask(t.Context(), b.client, console.None{})
	if err == nil || !strings.Contains(err.Error(), "weir.yaml:2:1") || !strings.Contains(err.Error(), "^") {
		t.Errorf("a broken file: %v", err)
	}
	b.opts.Load = func() (*config.Config, error) { return b.config(twoPerHour), nil }
	if _, err := console.ReloadCall.Ask(t.Context(), b.client, console.None{}); err != nil {
		t.Error(err)
	}
	b.wants("failed", backend{b.App}.Status().Config.Failed, 1)
}

func TestReloadsWaitForEachOther(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	results := make(chan error)
	for i := range 8 {
		go func() {
			results <- b.Reload(b.config(strings.Replace(twoPerHour, "limit: 2", fmt.Sprint("limit: ", i+1), 1)))
		}()
	}
	for range 8 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	b.wants("reloads", backend{b.App}.Status().Config.Reloads, 8)
}

func TestRequestsUnderWayOutliveAReload(t *testing.T) {
	t.Parallel()
	arrived, finish := make(chan struct{}), make(chan struct{})
	b := startBefore(t, twoPerHour, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-finish
	})
	answered := b.later("acme")
	<-arrived
	less := strings.Replace(twoPerHour, `"127.0.0.1:0", upstream`, `"127.0.0.2:0", upstream`, 1)
	if err := b.Reload(b.config(less)); err != nil {
		t.Fatal(err)
	}
	close(finish)
	b.wants("the request under way", <-answered, 200)
	b.background.Wait()
	if err := b.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}
