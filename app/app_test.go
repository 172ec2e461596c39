package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"weir/config"
	"weir/console"
	"weir/internal/testkit/needs"
)

// TestSeriesOfUsersBegin: what alerts count has a series before it happens, so that the first time is an increase.
func TestSeriesOfUsersBegin(t *testing.T) {
	t.Parallel()
	b := start(t, `
data: DATA
smtp:
- {listen: "127.0.0.1:0", hostname: mail.example.org, next_hop: "127.0.0.1:1", throttles: [contacts, outgoing]}
throttles:
  outgoing: {mail: {}}
  contacts: {reach: {}}
console: {listen: "127.0.0.1:0"}
`)
	_, body := b.page("/metrics")
	for _, want := range []string{`weir_mail_stops_total{throttle="outgoing"} 0`,
		`weir_mail_untold_total{throttle="outgoing"} 0`, `weir_reach_flags_total{throttle="contacts"} 0`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	for i, want := range []int{200, 200, 429} {
		b.wants(fmt.Sprint("request ", i), b.get(0, "acme"), want)
	}
	b.wants("another account", b.get(0, "other"), 200)
	b.clock.Advance(time.Hour)
	b.wants("an hour later", b.get(0, "acme"), 200)

	code, body := b.page("/metrics")
	for _, want := range []string{
		`weir_throttle_verdicts_total{mode="enforce",policy="",throttle="plans",verdict="admit"} 4`,
		`weir_throttle_verdicts_total{mode="enforce",policy="per-hour",throttle="plans",verdict="refuse"} 1`,
		`weir_quota_accounts{throttle="plans"} 2`,
		`weir_http_requests_total{code="4xx",gate="127.0.0.1:0",verdict="refuse"} 1`,
		`weir_http_requests_total{code="2xx",gate="127.0.0.1:0",verdict="admit"} 4`,
		`weir_http_throttle_delay_seconds_count{gate="127.0.0.1:0"} 5`,
		`weir_build_info{goversion=`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics (%d) have no %s", code, want)
		}
	}
	if strings.Contains(body, "acme") {
		t.Error("an account is in the metrics")
	}
	if info, err := os.Stat(b.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data folder: %v %v", info, err)
	}
}

func TestReadyAndStop(t *testing.T) {
	t.Parallel()
	arrived, finish := make(chan struct{}), make(chan struct{})
	b := startBefore(t, twoPerHour, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-finish
	})
	code, body := b.page("/readyz")
	b.wants("ready", fmt.Sprint(code, body), "200{\"ready\":true}\n")

	answered := make(chan int, 1)
	addr := b.Addr("http", 0).String()
	go func() {
		code, _ := ask(addr, "acme")
		answered <- code
	}()
	<-arrived
	stopped := make(chan error, 1)
	go func() { stopped <- b.Stop(context.Background()) }()
	// The gate's port is closed once it drains; the console still answers.
	closed(t, addr)
	code, body = b.page("/readyz")
	b.wants("ready while draining", fmt.Sprint(code, body), "503{\"ready\":false,\"reason\":\"stopping\"}\n")
	if code, _ := b.page("/healthz"); code != 200 {
		t.Errorf("health while draining: %d", code)
	}
	if err := b.Reload(b.config(twoPerHour)); !errors.Is(err, ErrNotServing) {
		t.Errorf("reload while draining: %v", err)
	}
	close(finish)
	b.wants("the request under way", <-answered, 200)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := b.Stop(context.Background()); err != nil {
		t.Errorf("second stop: %v", err)
	}
	if err := b.Start(context.Background()); !errors.Is(err, ErrStarted) {
		t.Errorf("start after stop: %v", err)
	}
	if _, err := os.Stat(b.ControlPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the control socket is still there: %v", err)
	}
	closed(t, b.ConsoleAddr().String())
}

func TestStopWithoutPatience(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	b := startBefore(t, twoPerHour, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	addr := b.Addr("http", 0).String()
	answered := make(chan error, 1)
	go func() {
		_, err := ask(addr, "acme")
		answered <- err
	}()
	<-arrived
	if err := b.Stop(ended()); err == nil {
		t.Error("a request was cut off, and nobody was told")
	}
	<-answered
}

func TestStopBeforeStart(t *testing.T) {
	t.Parallel()
	b := &bench{t: t, dir: folder(t), upstream: "http://127.0.0.1:1"}
	a, err := New(b.config(twoPerHour), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := a.Start(t.Context()); !errors.Is(err, ErrStarted) {
		t.Errorf("start after stop: %v", err)
	}
}

func TestFailedStartRollsBack(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	first := needs.FreeAddress()
	b := &bench{t: t, dir: folder(t), upstream: "http://127.0.0.1:1"}
	a, err := New(b.config(fmt.Sprintf(`
data: DATA
http:
- {listen: %q, upstream: UPSTREAM}
- {listen: %q, upstream: UPSTREAM}
console: {listen: %q}
`, first, taken.Addr(), needs.FreeAddress())), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Fatalf("start: %v", err)
	}
	if _, err := os.Stat(a.ControlPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the control socket is still there: %v", err)
	}
	closed(t, first)
	closed(t, a.ConsoleAddr().String())
	if err := a.Stop(t.Context()); err != nil {
		t.Errorf("stop after a failed start: %v", err)
	}
}

func TestNewRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	if _, err := New(&config.Config{}, Options{}); err == nil {
		t.Error("a configuration without a gate was taken")
	}
}

func TestTwoWeirsInOneFolder(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	second, err := New(b.config(twoPerHour), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(t.Context()); !errors.Is(err, console.ErrRunning) {
		t.Errorf("second: %v", err)
	}
	if _, err := console.StatusCall.Ask(t.Context(), b.client, console.None{}); err != nil {
		t.Errorf("first: %v", err)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	b := start(t, twoPerHour)
	b.get(0, "acme")
	s, err := console.StatusCall.Ask(t.Context(), b.client, console.None{})
	if err != nil {
		t.Fatal(err)
	}
	b.wants("state", s.State, "serving")
	b.wants("gate", s.Gates[0].Address, b.Addr("http", 0))
	b.wants("throttles", s.Gates[0].Throttles, []string{"plans"})
	b.wants("admitted", s.Throttles[0].Verdicts["admit"], 1)
	b.wants("accounts", s.Throttles[0].Accounts, 1)
	b.wants("console", s.Console, b.ConsoleAddr())
	b.wants("loaded", s.Config.Loaded, noon)
	if text, _ := json.Marshal(s); strings.Contains(string(text), "acme") {
		t.Errorf("an account is in the status: %s", text)
	}
}
