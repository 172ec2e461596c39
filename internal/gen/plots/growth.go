package main

import (
	"io"

	"weir/internal/plot"
	"weir/internal/tabular"
)

// A growth is a plot of what a request costs, or requests that wait, by something that grows.
type growth struct {
	card
	by     string   // the column of the horizontal axis
	title  string   // of the horizontal axis
	of     []string // the columns of the series
	names  []string // of the series
	spread bool     // the horizontal axis is logarithmic
}

// The three series have the same looks in all plots. A plot may have fewer.
var proxies = [3]string{"nginx", "haproxy", "weir"}

var byConnections = &growth{by: "connections", title: "connections of clients", spread: true,
	of: []string{"nginx_us", "haproxy_us", "weir_us"}, names: []string{"nginx", "HAProxy", "weir"}, card: card{
		from: "proxyconnections.csv", title: "What a small request costs, by connections", classes: proxies,
		says: "Processor time that nginx, HAProxy and weir take for a small request, in microseconds, against how many " +
			"connections clients have open and use.",
		heading: "Processor time of a small request, in µs, by connections",
		small:   "user and system time of the proxy's processes; one limit, as many requests as the machine can do"}}

var byAccounts = &growth{by: "accounts", title: "accounts that take turns", spread: true, of: []string{"weir_us"},
	names: []string{"weir"}, card: card{from: "proxyaccounts.csv", title: "What a small request costs, by accounts",
		classes: proxies,
		says: "Processor time that weir takes for a small request, in microseconds, against how many accounts take turns: " +
			"each request is of another account than the one before it.",
		heading: "Processor time of a small request, in µs, by accounts",
		small:   "user and system time of weir serve; 64 connections, one limit for each account"}}

var byThrottles = &growth{by: "throttles", title: "throttles in the chain", of: []string{"weir_us"},
	names: []string{"weir"}, card: card{from: "proxythrottles.csv", title: "What a small request costs, by throttles", classes: proxies,
		says: "Processor time that weir takes for a small request, in microseconds, against how many quotas are asked in " +
			"turn.",
		heading: "Processor time of a small request, in µs, by throttles",
		small:   "user and system time of weir serve; 64 connections, each throttle a quota with one policy"}}

var byWaiting = &growth{by: "waiting", title: "requests of another account that wait", of: []string{"weir_us"},
	names: []string{"weir"}, card: card{from: "proxywaiting.csv", title: "What a small request costs while others wait",
		classes: proxies,
		says: "Processor time that weir takes for a small request that passes, in microseconds, against how many requests " +
			"of another account wait in line.",
		heading: "Processor time of a small request, in µs, while others wait",
		small:   "user and system time of weir serve; 64 connections, one quota"}}

var memoryByWaiting = &growth{by: "waiting", title: "requests that wait", of: []string{"memory_mb"},
	names: []string{"weir"}, card: card{from: "proxywaiting.csv", title: "The memory of requests that wait", classes: proxies,
		says:    "Resident memory of weir serve in megabytes against how many requests wait in line.",
		heading: "Resident memory of weir serve, in MB, by requests that wait",
		small:   "each on a connection of its own"}}

func (g *growth) draw(r io.Reader) ([]byte, error) {
	rows, err := columns(r, 0, append([]string{g.by}, g.of...)...)
	if err != nil {
		return nil, err
	}
	p := &plot.Plot{Says: g.card.title,
		X: plot.Axis{Title: g.title, Lo: rows[0][0], Hi: rows[len(rows)-1][0], Log: g.spread, Grid: true}}
	for i, name := range g.names {
		// The last series is weir's, also where it is alone.
		look := len(proxies) - len(g.names) + i
		s := plot.Series{Name: name, Class: proxies[look], Sign: look + 1}
		for _, row := range rows {
			s.Points = append(s.Points, plot.Point{X: row[0], Y: row[1+i]})
		}
		p.Series = append(p.Series, s)
	}
	for _, row := range rows {
		p.X.Ticks = append(p.X.Ticks, plot.Tick{Value: row[0], Text: tabular.Grouped(int64(row[0]))})
	}
	// The curves begin at the foot and are flat or rise slowly, so that the corner at the bottom is free.
	const step, legend = 26, 110
	return g.around(p, p.Series, left+plotWidth-legend, top+plotHeight-13-step*len(g.names))
}
