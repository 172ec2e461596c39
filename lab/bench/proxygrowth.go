//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/lab/peers"
)

// A growth is how the cost of a request grows with something, as points for a plot.
type growth struct {
	with  string // what grows, and the first column
	sides []string
	file  string
	rows  [][]float64
}

// growing is Q2g: how the processor time of a small request, and the memory of requests that wait, grow with
// connections, accounts, throttles, and requests that wait. The client sends as fast as it gets answers.
func growing(t *trial) (figures []figure) {
	service := t.startNginx(t.folder(), "service", peers.NginxService, "")
	binary := buildWeir(t.folder())
	for _, g := range []*growth{t.withConnections(binary), t.withAccounts(service, binary),
		t.withThrottles(service, binary), t.withWaiting(service, binary)} {
		t.points(g.file, g.csv())
		first, last := g.rows[0], g.rows[len(g.rows)-1]
		for i, side := range g.sides {
			name, unit, _ := strings.Cut(side, "_")
			figures = append(figures, figure{fmt.Sprintf("growth with %s: %s", g.with, name), []value{{
				text: fmt.Sprintf("%s with %.0f, %s with %.0f", grown(first[i+1], unit), first[0], grown(last[i+1], unit),
					last[0])}}, ""})
		}
	}
	return figures
}

// grown writes a value of a column by the unit in the column's name.
func grown(value float64, unit string) string {
	if unit == "mb" {
		return fmt.Sprintf("%.0f MB", value)
	}
	return fmt.Sprintf("%.1f µs of a processor for each request", value)
}

func (g *growth) csv() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s,%s\n", g.with, strings.Join(g.sides, ","))
	for _, row := range g.rows {
		b.WriteString(strconv.Itoa(int(row[0])))
		for _, value := range row[1:] {
			fmt.Fprintf(&b, ",%.1f", value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// bulk is how many requests are sent to see what one costs, and how often.
func (t *trial) bulk() (requests, times int) {
	return pick(t, 60_000, 300), pick(t, 3, 1)
}

// costOf sends requests over the connections, and returns what one of them costs the proxy, in microseconds.
func (t *trial) costOf(p *proxy, c *callers) float64 {
	requests, _ := t.bulk()
	before := p.spent()
	c.run(newPace(0, requests))
	return float64((p.spent() - before).Microseconds()) / float64(requests)
}

// withConnections: the peers as well.
func (t *trial) withConnections(binary string) *growth {
	g := &growth{with: "connections", sides: []string{"nginx_us", "haproxy_us", "weir_us"}, file: "proxyconnections.csv"}
	_, times := t.bulk()
	counts := pick(t, []int{4, 16, 64, 256, 512, 1024}, []int{4, 64})
	_, _, proxies := t.startProxies(t.folder(), binary)
	for _, n := range counts {
		var sides []*callers
		for _, p := range proxies {
			c := t.dialCallers(p.plain, n, 1)
			c.run(newPace(0, 2*n))
			sides = append(sides, c)
		}
		var all [][]float64
		for range times {
			var round []float64
			for i, p := range proxies {
				round = append(round, t.costOf(p, sides[i]))
			}
			all = append(all, round)
		}
		for _, c := range sides {
			c.hangUp()
		}
		g.rows = append(g.rows, append([]float64{float64(n)}, medians(all)...))
	}
	return g
}

// growConfig is a weir whose throttles are given.
const growConfig = `
data: %s
http:
- listen: 127.0.0.1:0
  upstream: http://%s
  account: ["header:X-Api-Key"]
  throttles: [%s]
  bounds: {waiting: 50000, requests: 50000, connections: 50000}
throttles:
%sconsole: {listen: "off"}
log: {access: "off"}
`

func (t *trial) growWeir(service, binary, names, throttles string) (*running, *proxy) {
	folder := t.folder()
	r := t.runWeir(folder, fmt.Sprintf(growConfig, folder, service, names, throttles), os.Stderr, binary)
	return r, &proxy{name: "weir", plain: r.address, pids: []int{r.Pid}}
}

const growConnections = 64

// withAccounts: every request is of another account than the one before it. All of them are known when it counts.
func (t *trial) withAccounts(service, binary string) *growth {
	g := &growth{with: "accounts", sides: []string{"weir_us"}, file: "proxyaccounts.csv"}
	counts := pick(t, []int{1, 100, 10_000, 100_000, 500_000}, []int{1, 100})
	_, p := t.growWeir(service, binary, "plans", "  plans: {quota: {max_accounts: 2000000, "+
		"policies: [{name: hourly, limit: 1000000000, period: 1h}]}}\n")
	for _, n := range counts {
		c := t.dialCallers(p.plain, growConnections, n)
		c.run(newPace(0, max(n, 1000)))
		g.add(t, n, func() []float64 { return []float64{t.costOf(p, c)} })
		c.hangUp()
	}
	return g
}

// add measures as often as it should, and keeps the medians.
func (g *growth) add(t *trial, n int, measure func() []float64) {
	_, times := t.bulk()
	var all [][]float64
	for range times {
		all = append(all, measure())
	}
	g.rows = append(g.rows, append([]float64{float64(n)}, medians(all)...))
}

// withThrottles: each is a quota with one policy.
func (t *trial) withThrottles(service, binary string) *growth {
	g := &growth{with: "throttles", sides: []string{"weir_us"}, file: "proxythrottles.csv"}
	counts := pick(t, []int{1, 2, 4, 8, 16}, []int{1, 4})
	type side struct {
		p *proxy
		c *callers
	}
	var sides []side
	for _, n := range counts {
		var names []string
		var throttles strings.Builder
		for i := range n {
			names = append(names, fmt.Sprintf("plan%d", i))
			fmt.Fprintf(&throttles, "  plan%d: {quota: {policies: [{name: hourly%d, limit: %d, period: 1h}]}}\n", i, i,
				unlimited)
		}
		_, p := t.growWeir(service, binary, strings.Join(names, ", "), throttles.String())
		c := t.dialCallers(p.plain, growConnections, 100)
		c.run(newPace(0, 1000))
		sides = append(sides, side{p, c})
	}
	for i, n := range counts {
		g.add(t, n, func() []float64 { return []float64{t.costOf(sides[i].p, sides[i].c)} })
	}
	return g
}

// withWaiting: requests of one account wait, while others pass. Where they waited too briefly to be measured, all is
// done again.
func (t *trial) withWaiting(service, binary string) *growth {
	g := &growth{with: "waiting", sides: []string{"weir_us", "memory_mb"}, file: "proxywaiting.csv"}
	counts := pick(t, []int{0, 1000, 2500, 5000, 10_000}, []int{0, 100})
	period := pick(t, time.Minute, 10*time.Second)
	most := slices.Max(counts)
	weir, p := t.growWeir(service, binary, "plans", fmt.Sprintf("  plans: {quota: {policies: [{name: period, limit: %d, "+
		"period: %s, over: delay, delay: {max: %d, max_wait: 5m}}], overrides: {acme: {period: {limit: %d}}}}}\n",
		unlimited, period, most, most))
	c := t.dialCallers(p.plain, growConnections, 100)
	c.run(newPace(0, 1000))
	for range 3 {
		g.rows = nil
		// Begin with a period, so that there is time before the next one, in which all go.
		time.Sleep(time.Until(time.Now().Truncate(period).Add(period)))
		end := time.Now().Truncate(period).Add(period)
		weir.useUp(most)
		var held []net.Conn
		for _, n := range counts {
			for len(held) < n {
				held = append(held, weir.get("/"))
			}
			weir.waiting(n, 100*time.Millisecond)
			g.add(t, n, func() []float64 {
				return []float64{t.costOf(p, c), float64(memoryKB(weir.Pid, "VmRSS")) / 1024}
			})
		}
		intime := time.Now().Before(end)
		for _, conn := range held {
			_ = conn.Close()
		}
		weir.waiting(0, 100*time.Millisecond)
		if intime {
			return g
		}
	}
	panic(failure{fmt.Errorf("this machine is too slow to measure within %s", period)})
}
