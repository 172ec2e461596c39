package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/config"
	"weir/console"
	"weir/farm"
	"weir/farm/nats"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/throttle/stamp"
)

// A fold is three nodes on this machine, over the real bus and with the machine's clock.
type fold struct {
	t      *testing.T
	nodes  [3]*App
	ahead  [3]time.Duration
	config [3]string
}

func newFold(t *testing.T) *fold {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hello")
	}))
	t.Cleanup(service.Close)
	return newFoldOf(t, func(int) string {
		return fmt.Sprintf(`
console: {listen: "off"}
http: [{listen: "127.0.0.1:0", upstream: %q, capacity: {concurrent: 100, local: false}, throttles: [plans, stamps]}]
throttles:
  stamps: {stamp: {from_load: 0%%, first: 100, covers: 1}}
  plans: {quota: {policies: [{name: per-day, limit: 30000, period: 1d, on_loss: share},
    {name: here, limit: 60000, period: 1d, farm: local, on_loss: share}]}}
`, service.URL)
	})
}

// newFoldOf starts nodes that are configured like this, apart from their farm and their data.
func newFoldOf(t *testing.T, like func(node int) string) *fold {
	t.Helper()
	return newFoldWith(t, like, "")
}

// newFoldWith is newFoldOf with more in the farm's options.
func newFoldWith(t *testing.T, like func(node int) string, more string) *fold {
	t.Helper()
	f := &fold{t: t}
	var peers [3]string
	for i := range peers {
		peers[i] = needs.FreeAddress()
	}
	for i := range f.nodes {
		folder := t.TempDir()
		f.config[i] = filepath.Join(folder, "weir.yaml")
		text := like(i) + fmt.Sprintf(`
data: %s
farm: {node: %c, listen: %q, peers: [%q, %q, %q], secret: the same for all three%s}
`, folder, 'a'+i, peers[i], peers[0], peers[1], peers[2], more)
		if err := os.WriteFile(f.config[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.start(0, 1, 2)
	f.settled()
	return f
}

// start starts nodes at the same time, as each waits a moment for the others. The address of a node that starts anew
// may be taken for a moment: a program that another test starts has copies of all sockets until it is loaded.
func (f *fold) start(nodes ...int) {
	f.t.Helper()
	needs.Wait(f.t, "addresses are free", func() bool {
		started := make([]error, len(nodes))
		var all sync.WaitGroup
		for k, i := range nodes {
			a := f.build(i)
			all.Go(func() { started[k] = a.Start(f.t.Context()) })
		}
		all.Wait()
		var again []int
		for k, err := range started {
			if errors.Is(err, syscall.EADDRINUSE) {
				again = append(again, nodes[k])
			} else if err != nil {
				f.t.Fatal(err)
			}
		}
		nodes = again
		return len(nodes) == 0
	})
}

// build makes a node anew.
func (f *fold) build(i int) *App {
	f.t.Helper()
	cfg, err := config.Load(f.config[i])
	if err != nil {
		f.t.Fatal(err)
	}
	ahead := f.ahead[i] // it may be changed while old timers still ask
	own := clock.Shifted{Clock: clock.System, By: func() time.Duration { return ahead }}
	a, err := New(cfg, Options{Version: "test", Clock: own, HashMemory: 8})
	if err != nil {
		f.t.Fatal(err)
	}
	f.nodes[i] = a
	f.t.Cleanup(func() { a.Stop(context.Background()) })
	return a
}

// settled waits until all nodes see each other, and have their parts of the limits.
func (f *fold) settled() {
	f.t.Helper()
	for _, a := range f.nodes {
		needs.Wait(f.t, "the nodes see each other", func() bool {
			up := 0
			for _, who := range a.member.Load().Members(a.opts.Clock.Now()) {
				if who.State == farm.Up {
					up++
				}
			}
			m := a.member.Load()
			m.mu.Lock()
			defer m.mu.Unlock()
			return up == 2 && bits.OnesCount64(m.stands.Parts) == 3 && m.knew
		})
	}
}

// get asks a node for a page, with a stamp if there is one.
func (f *fold) get(i int, with, client string) *http.Response {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), "GET", "http://"+f.nodes[i].Addr("http", 0).String(), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	r.Host = "site.example"
	if with != "" {
		r.Header.Set("Stamp", with)
		r.AddCookie(&http.Cookie{Name: "weir-client", Value: client})
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// status reports whether a node answers to a stamp as it should. On a busy machine it may ask for another one instead:
// nodes take each other for lost, and the price rises.
func (f *fold) status(i int, with, client string, want int) bool {
	f.t.Helper()
	got := f.get(i, with, client).StatusCode
	if got != want && got != http.StatusServiceUnavailable {
		f.t.Fatalf("%c answers with %d to a stamp, want %d", 'a'+i, got, want)
	}
	return got == want
}

// pay pays what a node asks for.
func (f *fold) pay(i int) (paid, client string) {
	f.t.Helper()
	resp := f.get(i, "", "")
	paid, err := stamp.Solve(f.t.Context(), resp.Header.Get("Stamp-Challenge"), stamp.SolveOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		if c.Name == "weir-client" {
			client = c.Value
		}
	}
	return paid, client
}

// shares checks that three nodes are one, whatever they speak.
func (f *fold) shares() {
	f.t.Helper()
	for from := range f.nodes {
		at, again := (from+1)%3, (from+2)%3
		var paid, client string
		needs.Wait(f.t, fmt.Sprintf("a stamp of %c is good at %c", 'a'+from, 'a'+at), func() bool {
			paid, client = f.pay(from)
			return f.status(at, paid, client, http.StatusOK)
		})
		f.status(again, paid, client, http.StatusForbidden)
		who := fmt.Sprintf("192.0.2.%d", 10+from)
		b := backend{f.nodes[from]}
		if _, err := b.Ban(f.t.Context(), console.BanOrder{Who: who}, "test"); err != nil {
			f.t.Fatal(err)
		}
		for to := range f.nodes {
			needs.Wait(f.t, who+" is banned at all", func() bool {
				page, err := backend{f.nodes[to]}.Bans(console.BanQuery{Filter: who})
				return err == nil && page.Total == 1
			})
		}
		if _, err := (backend{f.nodes[at]}).Unban(f.t.Context(), who, "test"); err != nil {
			f.t.Fatal(err)
		}
		for to := range f.nodes {
			needs.Wait(f.t, who+" is banned nowhere", func() bool {
				page, err := backend{f.nodes[to]}.Bans(console.BanQuery{Filter: who})
				return err == nil && page.Total == 0
			})
		}
	}
}

// TestFarmWithAWrongClock: nodes act as one though the clock of one of them is wrong.
func TestFarmWithAWrongClock(t *testing.T) {
	t.Parallel()
	f := newFold(t)
	for _, ahead := range []time.Duration{5 * time.Second, -5 * time.Second} {
		if err := f.nodes[2].Stop(context.Background()); err != nil {
			t.Error(err)
		}
		f.ahead[2] = ahead
		f.start(2)
		f.settled()
		f.shares()
	}
}

// TestFarmShares: a policy that all nodes count together is whole on each, and one that each counts for itself is
// divided.
func TestFarmShares(t *testing.T) {
	t.Parallel()
	f := newFold(t)
	limits := func(a *App, want ...int64) bool {
		why, err := (backend{a}).Why(console.Question{Method: "GET", Path: "/", Account: "acme"})
		if err != nil || len(why.Steps) < 2 {
			return false
		}
		var got []int64
		for _, r := range why.Steps[1].Rules {
			got = append(got, r.Limit)
		}
		return slices.Equal(got, want)
	}
	for i, a := range f.nodes {
		needs.Wait(f.t, "the limit is divided by three", func() bool {
			return limits(a, 30_000, 20_000) && (backend{a}).Farm().Status().Share == 3
		})
		if s := (backend{a}).Farm().Status(); s.Node != string(rune('a'+i)) || len(s.Nodes) != 3 ||
			s.Nodes[0].State != "here" || s.Nodes[1].Differs {
			t.Errorf("%+v", s)
		}
	}
}

// TestFarmReloads: peers and secrets change by a reload; what needs a restart is refused, and nothing is changed.
func TestFarmReloads(t *testing.T) {
	t.Parallel()
	f := newFold(t)
	cfg, err := config.Load(f.config[0])
	if err != nil {
		t.Fatal(err)
	}
	for path, change := range map[string]func(*farm.Options){
		"farm.node": func(o *farm.Options) { o.Node = "z" }, "farm.listen": func(o *farm.Options) { o.Listen = "127.0.0.1:1" },
	} {
		next, o := *cfg, *cfg.Farm
		change(&o)
		next.Farm = &o
		if err := f.nodes[0].Reload(&next); err == nil || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	next := *cfg
	next.Farm = nil
	if err := f.nodes[0].Reload(&next); err == nil {
		t.Error("a node is alone by a reload")
	}
	for _, secrets := range []farm.Secrets{{"the same for all three", "and the next one of them"},
		{"and the next one of them", "the same for all three"}, {"and the next one of them"}} {
		for i, a := range f.nodes {
			cfg, err := config.Load(f.config[i])
			if err != nil {
				t.Fatal(err)
			}
			cfg.Farm.Secret = secrets
			if err := a.Reload(cfg); err != nil {
				t.Fatal(err)
			}
			f.settled()
		}
		f.shares()
	}
}

// TestOwnIsNoOtherConfiguration: what a node has of its own, such as the addresses of its gates, does not make its
// configuration another one.
func TestOwnIsNoOtherConfiguration(t *testing.T) {
	t.Parallel()
	print := func(text string) string {
		cfg, err := config.Parse("test", []byte(text+`
throttles: {Listen: {bloom: {rate: 10/s}}}
farm: {peers: ["192.0.2.1:7400"], secret: the same for all three}
`))
		if err != nil {
			t.Fatal(err)
		}
		return fingerprint(*cfg)
	}
	const here = `
data: /a
console: {listen: "127.0.0.5:9000"}
http: [{listen: "127.0.0.5:8080", upstream: "http://127.0.0.1:9"}]
tcp: [{listen: "127.0.0.5:25", upstream: "127.0.0.1:26"}]
`
	there := strings.NewReplacer("127.0.0.5", "127.0.0.6", "/a", "/b").Replace(here)
	if print(here) != print(there) {
		t.Error("addresses of nodes make another configuration")
	}
	if print(here) == print(strings.Replace(here, "127.0.0.1:9\"", "127.0.0.1:10\"", 1)) {
		t.Error("another upstream does not")
	}
}

// TestFarmShowsWhoWasNeverHeard: peers that are listed and do not answer are among the nodes.
func TestFarmShowsWhoWasNeverHeard(t *testing.T) {
	t.Parallel()
	here, silent := needs.FreeAddress(), needs.FreeAddress()
	cfg, err := config.Parse("test", fmt.Appendf(nil, `
data: %s
console: {listen: "off"}
tcp: [{listen: "127.0.0.1:0", upstream: "127.0.0.1:9"}]
farm: {node: a, listen: %q, peers: [%q, %q], secret: the same for both}
`, t.TempDir(), here, here, silent))
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg, Options{Version: "test", HashMemory: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Stop(context.Background()) })
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	needs.Wait(t, "the peer is shown", func() bool {
		nodes := farmOps{a.member.Load()}.Status().Nodes
		return len(nodes) == 2 && nodes[1].Name == silent && nodes[1].State == "unheard" && nodes[1].Why != ""
	})
}

// TestExpected: a node counts itself once, whether its own address is among the peers or not.
func TestExpected(t *testing.T) {
	t.Parallel()
	o := farm.Options{Node: "a", Listen: "0.0.0.0:0", Peers: []string{"192.0.2.2:7400"},
		Secret: farm.Secrets{"the same for all three"}}
	bus, err := nats.Open(nats.Options{Node: farm.Node{Name: "a", Boot: 1}, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close(t.Context())
	own := strings.Replace(bus.Addr().String(), "0.0.0.0", "127.0.0.1", 1)
	for _, c := range []struct {
		peers []string
		want  int
	}{
		{[]string{"192.0.2.2:7400", "192.0.2.3:7400"}, 3},
		{[]string{own, "192.0.2.2:7400", "192.0.2.3:7400", "[::ffff:192.0.2.3]:7400"}, 3},
		{[]string{own}, 1},
		{[]string{"weir.internal:7400", "192.0.2.2:7400"}, 0},
	} {
		if got := expected(bus, &farm.Options{Peers: c.peers}); got != c.want {
			t.Errorf("%v: %d, want %d", c.peers, got, c.want)
		}
	}
}
