package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/console"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/netlab"
	"weir/throttle/stamp/payer"
)

// A grange is a farm of weirs, each a process in a network namespace of its own, and clients in one more.
type grange struct {
	*netlab.Switch
	t      testing.TB
	nodes  []*served
	config []string
	pins   []string // of the limiters in the kernel; empty where there is none
	trust  string   // a proxy in front of the nodes
	engine string   // where exact limits are counted; empty for nowhere
	serves string   // what stands in the configurations besides the farm, the console and the log
}

// clients is the namespace of those who ask.
func (g *grange) clients() int { return len(g.nodes) }

// everyone is the numbers of all nodes.
func (g *grange) everyone() (nodes []int) {
	for i := range g.nodes {
		nodes = append(nodes, i)
	}
	return nodes
}

// newGrange makes room for a farm.
func newGrange(t testing.TB, nodes int) *grange {
	t.Helper()
	return &grange{Switch: netlab.NewSwitch(t, nodes+1), t: t, nodes: make([]*served, nodes),
		config: make([]string, nodes), pins: make([]string, nodes)}
}

// growFarm starts three nodes, with a limiter in the kernel and behind a proxy if that is wanted.
func growFarm(t testing.TB, xdp, proxy bool) *grange {
	t.Helper()
	return growFarmWith(t, xdp, proxy, "")
}

// growFarmWith is growFarm with more in the configurations.
func growFarmWith(t testing.TB, xdp, proxy bool, more string) *grange {
	t.Helper()
	g := newGrange(t, 3)
	if proxy {
		g.trust = g.Address(g.clients())
	}
	g.serves = fmt.Sprintf(`
http:
- listen: ":8080"
  upstream: http://127.0.0.1:3000
  trusted_proxies: [%s]
  capacity: {concurrent: 100}
  throttles: [stamps]
throttles:
  stamps: {stamp: {from_load: 0%%, first: 1000, covers: 1, expires: 5m}}
`, g.trust)
	for i := range g.nodes {
		g.upstream(i)
		g.write(i, xdp, more)
	}
	g.start(0, 1, 2)
	g.settled(0, 1, 2)
	return g
}

// write writes the configuration of a node. more is added to it.
func (g *grange) write(i int, xdp bool, more string) {
	g.t.Helper()
	if g.config[i] == "" {
		folder, err := os.MkdirTemp("", "weir")
		if err != nil {
			g.t.Fatal(err)
		}
		g.t.Cleanup(func() { os.RemoveAll(folder) })
		g.config[i] = filepath.Join(folder, "weir.yaml")
	}
	var peers []string
	for i := range g.nodes {
		peers = append(peers, strconv.Quote(g.Address(i)+":7400"))
	}
	text := fmt.Sprintf(`
data: %s
console: {listen: "%s:9000", allow: [198.18.0.0/15]}
log: {format: json, access: off}
farm:
  node: %c
  listen: "%s:7400"
  peers: [%s]
  secret: only these nodes know it
  counters: %q
%s
%s
`, filepath.Dir(g.config[i]), g.Address(i), 'a'+i, g.Address(i), strings.Join(peers, ", "), g.engine, g.serves, more)
	if xdp {
		if g.pins[i] == "" {
			g.pins[i] = filepath.Join(netlab.BPF(g.t), "weir")
		}
		text += fmt.Sprintf("xdp: [{interface: %s, mode: syn, ports: [8080], pin: %s, bloom: {rate: 100000/s}}]\n",
			netlab.Host, g.pins[i])
	}
	if err := os.WriteFile(g.config[i], []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// upstream is the service behind a node.
func (g *grange) upstream(i int) {
	g.t.Helper()
	var l net.Listener
	if err := g.Ends[i].Do(func() (err error) { l, err = net.Listen("tcp", "127.0.0.1:3000"); return err }); err != nil {
		g.t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })}
	go s.Serve(l)
	g.t.Cleanup(func() { s.Close() })
}

// start starts nodes at the same time, as each waits a moment for the others, and returns when all are ready.
func (g *grange) start(nodes ...int) {
	g.t.Helper()
	for _, i := range nodes {
		g.nodes[i] = newServed(g.t, g.config[i])
		g.nodes[i].launch(g.t, g.Ends[i])
	}
	for _, i := range nodes {
		g.nodes[i].await(g.t)
	}
}

// weir runs a command at a node.
func (g *grange) weir(i int, args ...string) (said string, code int) {
	g.t.Helper()
	var out strings.Builder
	if err := g.Ends[i].Do(func() error {
		code = run(append(args, "-c", g.config[i]), &terminal{out: &out, err: &out})
		return nil
	}); err != nil {
		g.t.Fatal(err)
	}
	return out.String(), code
}

func (g *grange) must(i int, args ...string) string {
	g.t.Helper()
	said, code := g.weir(i, args...)
	if code != exitOK {
		g.t.Fatalf("%c: weir %s: %d: %s", 'a'+i, strings.Join(args, " "), code, said)
	}
	return said
}

// status is what a node tells of its farm.
func (g *grange) status(i int) *console.FarmStatus {
	g.t.Helper()
	s, err := console.StatusCall.Ask(g.t.Context(), g.control(i), console.None{})
	if err != nil || s.Farm == nil {
		g.t.Fatalf("no farm: %v", err)
	}
	return s.Farm
}

// sees reports whether a node knows another one like this.
func (g *grange) sees(i int, like func(console.NodeStatus) bool) bool {
	g.t.Helper()
	return slices.ContainsFunc(g.status(i).Nodes, like)
}

// eventually waits until something is so.
func (g *grange) eventually(what string, so func() bool) {
	g.t.Helper()
	needs.Wait(g.t, what, so)
}

// banned reports whether a node has a ban of somebody.
func (g *grange) banned(i int, who string) bool {
	g.t.Helper()
	page, err := console.BansCall.Ask(g.t.Context(), g.control(i), console.BanQuery{Filter: who})
	if err != nil {
		g.t.Fatal(err)
	}
	return page.Total > 0
}

// settled waits until nodes see each other and nobody else.
func (g *grange) settled(nodes ...int) {
	g.t.Helper()
	for _, i := range nodes {
		g.eventually("the nodes see each other", func() bool {
			up := 0
			for _, n := range g.status(i).Nodes {
				if n.State == "up" || n.State == "here" {
					up++
				}
			}
			return up == len(nodes)
		})
	}
}

// dialer connects from the clients' namespace.
func (g *grange) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = g.Ends[g.clients()].Do(func() (err error) {
			c, err = (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}
}

// A paid stamp, and the client that it is good for.
type paid struct{ stamp, client string }

func (p paid) put(r *http.Request) {
	if p.stamp != "" {
		r.Header.Set(payer.StampHeader, p.stamp)
		r.AddCookie(&http.Cookie{Name: payer.ClientCookie, Value: p.client})
	}
}

// pay pays what an answer asks for.
func pay(resp *http.Response) (p paid, err error) {
	for _, c := range resp.Cookies() {
		if c.Name == payer.ClientCookie {
			p.client = c.Value
		}
	}
	challenge, said := resp.Header.Get(payer.ChallengeHeader), &strings.Builder{}
	if run([]string{"stamp", "solve", challenge}, &terminal{out: said, err: said}) != exitOK {
		return p, fmt.Errorf("%s: %q: %s", resp.Status, challenge, said)
	}
	p.stamp = strings.TrimSpace(said.String())
	return p, nil
}

// get asks a node for a page, with a stamp if there is one.
func (g *grange) get(i int, with paid) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+g.Address(i)+":8080/", nil)
	if err != nil {
		return nil, err
	}
	req.Host = "site.example" // a stamp pays for a page of a site, at whatever node
	with.put(req)
	c := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: g.dialer(),
		DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err == nil {
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
	}
	return resp, err
}

// code is the status that a node answers with; 0 where it does not.
func (g *grange) code(i int, with paid) int {
	resp, err := g.get(i, with)
	if err != nil {
		return 0
	}
	return resp.StatusCode
}

// stamp pays what a node asks for.
func (g *grange) stamp(i int) paid {
	g.t.Helper()
	resp, err := g.get(i, paid{})
	if err != nil {
		g.t.Fatal(err)
	}
	p, err := pay(resp)
	if err != nil {
		g.t.Fatal(err)
	}
	return p
}

// TestFarmSharesBans: a ban at one node is one at all, in the kernel too, and after a cut.
func TestFarmSharesBans(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	g := growFarm(t, true, false)
	who := g.Address(g.clients())
	banned := func(i int) bool { // refused by the kernel, so nobody answers; or by weir
		before := packetsAt(t, g.Ends[i], g.pins[i])
		_ = g.Ends[g.clients()].Do(func() error {
			c, err := net.DialTimeout("tcp", g.Address(i)+":8080", 200*time.Millisecond)
			if err == nil {
				c.Close()
			}
			return nil
		})
		return packetsAt(t, g.Ends[i], g.pins[i]).Banned > before.Banned
	}
	if g.code(2, paid{}) != http.StatusServiceUnavailable {
		t.Fatal("nobody is asked for a stamp")
	}
	g.must(0, "ban", "add", who, "--reason", "test")
	g.eventually("banned at c, in the kernel", func() bool { return banned(2) })
	if said := g.must(2, "ban", "list"); !strings.Contains(said, who) {
		t.Error(said)
	}
	g.must(1, "ban", "remove", who)
	g.eventually("not banned at c", func() bool { return !banned(2) && g.code(2, paid{}) == http.StatusServiceUnavailable })

	g.Plug(t, 2, false)
	g.settled(0, 1)
	g.must(0, "ban", "add", who)
	g.Plug(t, 2, true)
	g.eventually("c has caught up", func() bool { return g.banned(2, who) })
	g.settled(0, 1, 2)

	// A lift that a restart comes after, while one node is away.
	g.Plug(t, 2, false)
	g.must(0, "ban", "remove", who)
	g.nodes[0].stop(t)
	g.nodes[1].stop(t)
	g.start(0, 1)
	g.Plug(t, 2, true)
	g.settled(0, 1, 2)
	for i := range g.nodes {
		g.eventually("the lift has come to all", func() bool { return !g.banned(i, who) })
	}
}

// TestFarmSpendsStampsOnce: a stamp that one node asked for is paid at another, and is spent at all.
func TestFarmSpendsStampsOnce(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	g := growFarm(t, false, false)
	// answers reports whether a node answers to a stamp as it should. On a busy machine it may ask for another one
	// instead: the issuer has not answered in time.
	answers := func(i int, stamp paid, want int) bool {
		got := g.code(i, stamp)
		if got != want && got != http.StatusServiceUnavailable {
			t.Fatalf("%c answers with %d to a stamp, want %d", 'a'+i, got, want)
		}
		return got == want
	}
	restarted := func() {
		g.start(1)
		g.settled(0, 1, 2)
	}
	g.eventually("a stamp of a is good at b, and spent at all", func() bool {
		g.nodes[1].stop(t) // b is started anew between question and answer
		stamp := g.stamp(0)
		restarted()
		if !answers(1, stamp, http.StatusOK) || !answers(2, stamp, http.StatusForbidden) {
			return false
		}
		g.nodes[1].stop(t)
		restarted()
		return answers(1, stamp, http.StatusForbidden)
	})
	// The issuer is gone: a new challenge, no pass, no ban.
	stamp := g.stamp(0)
	g.nodes[0].stop(t)
	for _, i := range []int{1, 2} {
		if resp, err := g.get(i, stamp); err != nil || resp.StatusCode != http.StatusServiceUnavailable ||
			resp.Header.Get(payer.ChallengeHeader) == "" {
			t.Errorf("%c, without the issuer: %v, %v", 'a'+i, resp, err)
		}
	}
	g.eventually("stamps are taken", func() bool { return answers(2, g.stamp(1), http.StatusOK) })
}

// TestFarmObeysOneOperator: shadow and reload for all nodes, and a node with another configuration.
func TestFarmObeysOneOperator(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	g := growFarm(t, false, false)
	g.must(1, "shadow", "on", "--all", "--farm")
	for i := range g.nodes {
		if got := g.code(i, paid{}); got != http.StatusOK {
			t.Errorf("%c in shadow: %d", 'a'+i, got)
		}
	}
	g.must(2, "shadow", "off", "--all", "--farm")
	g.must(1, "shadow", "on", "stamps") // one node alone
	if g.code(0, paid{}) != http.StatusServiceUnavailable || g.code(1, paid{}) != http.StatusOK {
		t.Error("shadow is not of the node alone")
	}
	g.must(1, "shadow", "off", "stamps")

	for i := range g.nodes {
		g.write(i, false, "bans: {ttl: 2h}")
	}
	g.must(0, "reload")
	g.eventually("another configuration is seen", func() bool {
		return g.sees(1, func(n console.NodeStatus) bool { return n.Name == "a" && n.Differs })
	})
	g.must(1, "reload", "--farm")
	g.eventually("all have the same", func() bool {
		return !g.sees(1, func(n console.NodeStatus) bool { return n.Differs })
	})
	g.write(2, false, "bans: {ttl: -1h}")
	if said, code := g.weir(0, "reload", "--farm"); code == exitOK || !strings.Contains(said, "bans.ttl") &&
		!strings.Contains(said, "ttl") {
		t.Errorf("%d: %s", code, said)
	}
	g.write(2, false, "bans: {ttl: 2h}")
	g.must(2, "farm", "leave")
	g.eventually("c has left", func() bool {
		return g.sees(0, func(n console.NodeStatus) bool { return n.Name == "c" && n.State == "left" })
	})
	if g.sees(2, func(n console.NodeStatus) bool { return n.State == "up" }) {
		t.Error("c has left, and shows others as up")
	}
	if got := g.code(2, paid{}); got != http.StatusServiceUnavailable {
		t.Errorf("c alone: %d", got)
	}
}

// TestFarmWakesUp: a node that was stopped for a while has missed nothing, and does no harm.
func TestFarmWakesUp(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	g := growFarm(t, false, false)
	sleeper := g.nodes[2].Process
	if err := sleeper.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	g.eventually("c is lost", func() bool {
		return g.sees(0, func(n console.NodeStatus) bool { return n.Name == "c" && n.State == "lost" })
	})
	g.must(0, "ban", "add", "192.0.2.7")
	g.must(0, "ban", "add", "192.0.2.8")
	g.must(1, "ban", "remove", "192.0.2.8")
	if err := sleeper.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	g.eventually("c has caught up", func() bool {
		return g.banned(2, "192.0.2.7") && !g.banned(2, "192.0.2.8")
	})
	g.settled(0, 1, 2)
	for i := range g.nodes {
		if said := g.must(i, "ban", "list"); strings.Contains(said, "192.0.2.8") {
			t.Errorf("%c: who was let go is banned again:\n%s", 'a'+i, said)
		}
	}
}

// TestFarmRefusesStrangers: who does not belong to the farm is told why, and gets nothing.
func TestFarmRefusesStrangers(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	g := growFarm(t, false, false)
	g.nodes[2].stop(t)
	text, err := os.ReadFile(g.config[2])
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(text), "only these nodes know it", "another one than the others", 1)
	if err := os.WriteFile(g.config[2], []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	g.start(2)
	g.eventually("both say why", func() bool {
		return strings.Contains(g.must(0, "status"), "another farm.secret") &&
			strings.Contains(g.must(2, "status"), "another farm.secret")
	})
	g.must(0, "ban", "add", "192.0.2.9")
	if said := g.must(2, "ban", "list"); strings.Contains(said, "192.0.2.9") {
		t.Errorf("a stranger was told:\n%s", said)
	}
	g.nodes[2].stop(t)
	if err := os.WriteFile(g.config[2], []byte(strings.Replace(string(text), "node: c", "node: a", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	g.start(2)
	g.eventually("the name is taken", func() bool { return strings.Contains(g.must(2, "status"), "farm.node") })
	g.nodes[2].stop(t)
	if err := os.WriteFile(g.config[2], text, 0o600); err != nil {
		t.Fatal(err)
	}
	g.start(2)
	g.settled(0, 1, 2)
	g.eventually("it knows the ban", func() bool { return g.banned(2, "192.0.2.9") })
}

// TestExampleOfFarm runs examples/farm.yaml three times, each with its own name and addresses.
func TestExampleOfFarm(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	text, err := os.ReadFile("../../examples/farm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ns := netlab.New(t)
	g := &grange{Switch: &netlab.Switch{Ends: []netlab.Namespace{ns, ns, ns}}, t: t, nodes: make([]*served, 3),
		config: make([]string, 3)}
	for i := range g.nodes {
		folder := t.TempDir()
		g.config[i] = filepath.Join(folder, "weir.yaml")
		own := strings.NewReplacer("./weir-data", folder, "node: a", fmt.Sprintf("node: %c", 'a'+i),
			"listen: 127.0.0.1:7401", fmt.Sprintf("listen: 127.0.0.1:740%d", i+1), ":8080", fmt.Sprintf(":808%d", i),
			":9000", fmt.Sprintf(":900%d", i)).Replace(string(text)) + "log: {format: json}\n"
		if err := os.WriteFile(g.config[i], []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g.start(0, 1, 2)
	g.settled(0, 1, 2)
	g.eventually("limits are divided by three", func() bool { return g.status(1).Share == 3 })
	g.must(2, "ban", "add", "192.0.2.7")
	g.eventually("a has the ban of c", func() bool { return g.banned(0, "192.0.2.7") })
}

// BenchmarkFarmBan measures how long it takes from weir ban add at one node until another refuses the client.
func BenchmarkFarmBan(b *testing.B) {
	g := growFarm(b, false, false)
	who, took := g.Address(g.clients()), []time.Duration{}
	banned := func() bool { // the connection is reset, or the answer says so
		code := g.code(2, paid{})
		return code == 0 || code == http.StatusForbidden
	}
	for b.Loop() {
		start := time.Now()
		g.must(0, "ban", "add", who)
		for !banned() {
		}
		took = append(took, time.Since(start))
		g.must(0, "ban", "remove", who)
		for banned() {
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[(len(took)*99+99)/100-1].Microseconds())/1000, "p99-ms")
}

// BenchmarkFarmWakesUp measures how long a node that was stopped for ten seconds needs to catch up, in short for two.
func BenchmarkFarmWakesUp(b *testing.B) {
	g := growFarm(b, false, false)
	stopped := 10 * time.Second
	if testing.Short() {
		stopped = 2 * time.Second
	}
	var took time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		who := fmt.Sprintf("192.0.2.%d", rounds)
		if err := g.nodes[2].Process.Signal(syscall.SIGSTOP); err != nil {
			b.Fatal(err)
		}
		g.must(0, "ban", "add", who)
		time.Sleep(stopped)
		start := time.Now()
		if err := g.nodes[2].Process.Signal(syscall.SIGCONT); err != nil {
			b.Fatal(err)
		}
		g.eventually("caught up", func() bool { return strings.Contains(g.must(2, "ban", "list"), who) })
		g.settled(0, 1, 2)
		took = max(took, time.Since(start))
	}
	b.ReportMetric(float64(took.Milliseconds()), "most-ms")
}
