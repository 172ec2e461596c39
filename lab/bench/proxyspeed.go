//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// traffic is a kind of request, and how it is asked for.
type traffic struct {
	what        string
	path        string
	connections int
	streams     int // at a time on a connection of HTTP/2; 0 for HTTP/1.1
	tls         bool
	refused     bool
	least       float64 // of nginx's requests a second
}

var loads = []traffic{
	{what: "proxied requests/s with one policy, 64 connections, small bodies", path: "/", connections: 64, least: 0.85},
	{what: "… 512 connections", path: "/", connections: 512, least: 0.85},
	{what: "refused requests/s, 64 connections", connections: 64, refused: true, least: 0.9},
	{what: "TLS with keep-alive, 64 connections, small bodies: requests/s", path: "/", connections: 64, tls: true,
		least: 1},
	{what: "HTTP/2 over TLS, 16 connections, 8 streams at a time on each, small bodies: requests/s", path: "/",
		connections: 16, streams: 8, tls: true, least: 0.9},
	{what: "bodies of 1 MiB, 64 connections: requests/s", path: "/large", connections: 64, least: 1.3},
}

// proxied is Q2: how many requests a second go through a proxy with one limit, how many it refuses, what a request
// costs the processors, and how late answers are at a constant rate. weir serve, nginx with limit_req and proxy_pass,
// HAProxy with a stick table, and net/http/httputil's ReverseProxy, which knows no limits, stand in front of the same
// service and are asked in turns by the same client: wrk, h2load, and callers at a constant rate.
func proxied(t *trial) (figures []figure) {
	rounds, each := pick(t, 5, 1), pick[time.Duration](t, 3000, 250)*time.Millisecond
	folder := t.folder()
	client := newClient(t.context(), each)
	service, pids, proxies := t.startProxies(folder, buildWeir(folder))
	for _, p := range proxies {
		pids = append(pids, p.pids...)
	}
	reverse := &proxy{name: "httputil.ReverseProxy", plain: t.startReverseProxy(service), pids: []int{os.Getpid()}}

	first := true // it makes connections and memory
	all, busy := quietRounds(rounds, 7*time.Minute, pids, func() (round [][]score) {
		if first && !t.quick {
			first = false
			client.play(proxies, reverse)
		}
		return client.play(proxies, reverse)
	})
	middle := func(load, by int) score {
		return medianOf(all, func(round [][]score) score { return round[load][by] })
	}
	compare := func(what string, ours, theirs score, target float64) figure {
		ratio := beside(ours.rate/theirs.rate, "%.2f ×")
		if target > 0 {
			ratio = least(target, ours.rate/theirs.rate, "%.2f ×")
		}
		return figure{what, []value{ratio}, fmt.Sprintf("%.0f/s against %.0f/s; %.1f µs of a processor for each against "+
			"%.1f µs%s", ours.rate, theirs.rate, ours.cost(), theirs.cost(), busy)}
	}
	for i, l := range loads {
		nginx, ours := middle(i, byNginx), middle(i, byWeir)
		figures = append(figures,
			compare(l.what+", against nginx limit_req + proxy_pass (2 workers)", ours, nginx, l.least),
			compare("… HAProxy with a stick table (2 threads) against nginx", middle(i, byHAProxy), nginx, 0))
		if i == 0 {
			figures = append(figures, compare("… weir against httputil.ReverseProxy without limits", ours,
				middle(i, len(proxies)), 3))
		}
	}
	return append(figures, t.tails(proxies, middle(0, byNginx).rate, pids)...)
}

// A score is how a proxy did under a load.
type score struct {
	rate  float64 // requests a second
	total float64 // requests
	spent time.Duration
}

// cost is what a request takes of the processors, in microseconds.
func (a score) cost() float64 { return float64(a.spent.Microseconds()) / a.total }

// medianOf returns the value of the round that is in the middle by its rate, so that rate and cost are of the same
// round.
func medianOf[T any](rounds []T, of func(T) score) score {
	var all []score
	for _, round := range rounds {
		all = append(all, of(round))
	}
	slices.SortFunc(all, func(a, b score) int { return cmp.Compare(a.rate, b.rate) })
	return all[len(all)/2]
}

// A client asks proxies with wrk and h2load.
type client struct {
	ctx         context.Context
	wrk, h2load string
	each        time.Duration // how long it asks at a time
	turns       int           // how many rounds there were
}

func newClient(ctx context.Context, each time.Duration) *client {
	return &client{ctx: ctx, wrk: program("wrk"), h2load: program("h2load"), each: each}
}

// play puts every load on every proxy, and the first load also on the last one. Each round begins with another proxy,
// so that none of them always follows the same one.
func (c *client) play(proxies []*proxy, reverse *proxy) (round [][]score) {
	c.turns++
	for i, l := range loads {
		sides := proxies
		if i == 0 {
			sides = append(slices.Clone(proxies), reverse)
		}
		scores := make([]score, len(sides))
		for turn := range sides {
			at := (turn + c.turns) % len(sides)
			scores[at] = c.ask(sides[at], l)
		}
		round = append(round, scores)
	}
	return round
}

// ask puts a load on a proxy.
func (c *client) ask(p *proxy, l traffic) (s score) {
	page := "http://" + p.plain + l.path
	if l.tls {
		page = "https://" + p.secure + l.path
	} else if l.refused {
		page = "http://" + p.refusing
	}
	before := p.spent()
	if l.streams > 0 {
		s.rate, s.total = askStreams(c.ctx, c.h2load, page, l.connections, l.streams, c.each)
	} else {
		s.rate, s.total = askOver(c.ctx, c.wrk, page, l.connections, c.each, l.refused)
	}
	s.spent = p.spent() - before
	return s
}

// askMany asks for a page over and over, over 64 connections, and returns how many answers came a second. None of the
// answers, or all but a few of them, must be refusals.
func askMany(ctx context.Context, wrk, page string, d time.Duration, refused bool) (rate float64) {
	rate, _ = askOver(ctx, wrk, "http://"+page, 64, d, refused)
	return rate
}

// askOver also returns how many answers came.
func askOver(ctx context.Context, wrk, url string, connections int, d time.Duration, refused bool) (rate,
	total float64) {
	whole := (d + time.Second - 1).Truncate(time.Second)
	cmd := exec.CommandContext(ctx, wrk, "-t1", "-c"+strconv.Itoa(connections),
		"-d"+strconv.Itoa(int(whole.Seconds()))+"s", "-H", "X-Api-Key: acme", url)
	if d < whole { // wrk knows whole seconds, but ends early and reports when it is interrupted
		defer time.AfterFunc(d, func() { _ = cmd.Process.Signal(syscall.SIGINT) }).Stop()
	}
	out := output(cmd)
	rate, total = number(wrkRate, out), number(wrkTotal, out)
	bad := number(wrkBad, out)
	if total == 0 && d < time.Second { // the machine had no time for it
		return askOver(ctx, wrk, url, connections, 2*d, refused)
	}
	if rate == 0 || !refused && bad > 0 || refused && bad < total-2 || strings.Contains(out, "Socket errors") {
		check(fmt.Errorf("%s did not answer as it should: %s", url, out))
	}
	return rate, total
}

// What wrk prints.
var (
	wrkRate  = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkTotal = regexp.MustCompile(`(\d+) requests in`)
	wrkBad   = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
)

// askStreams asks over HTTP/2.
func askStreams(ctx context.Context, h2load, url string, connections, streams int, d time.Duration) (rate,
	total float64) {
	out := output(exec.CommandContext(ctx, h2load, "-t1", "-c"+strconv.Itoa(connections), "-m"+strconv.Itoa(streams),
		"-D"+strconv.FormatInt(d.Milliseconds(), 10)+"ms", "-H", "X-Api-Key: acme", url))
	rate, total = number(h2loadRate, out), number(h2loadGood, out)
	if bad := h2loadBad.FindStringSubmatch(out); rate == 0 || bad == nil || bad[1] != "0" || bad[2] != "0" ||
		!strings.Contains(out, "Application protocol: h2\n") {
		check(fmt.Errorf("%s did not answer as it should: %s", url, out))
	}
	return rate, total
}

// What h2load prints.
var (
	h2loadRate = regexp.MustCompile(`finished in [^,]+, ([\d.]+) req/s`)
	h2loadGood = regexp.MustCompile(`status codes: (\d+) 2xx`)
	h2loadBad  = regexp.MustCompile(`, (\d+) 4xx, (\d+) 5xx`)
)

func number(pattern *regexp.Regexp, text string) (n float64) {
	if found := pattern.FindStringSubmatch(text); found != nil {
		n, _ = strconv.ParseFloat(found[1], 64)
	}
	return n
}
