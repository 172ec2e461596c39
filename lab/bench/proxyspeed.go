//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weir/lab/machine"
	"weir/lab/peers"
)

// proxied is Q2: how many requests a second go through a proxy with one limit, and how many it refuses, with small
// bodies over 64 connections. weir serve, nginx with limit_req and proxy_pass, and net/http/httputil's ReverseProxy,
// which knows no limits, stand in front of the same service and are asked in turns by the same client, wrk.
func proxied(t *trial) []figure {
	ctx, wrk, folder := t.context(), program("wrk"), t.folder()
	service := t.startNginx(folder, "service", peers.NginxService, "")
	nginx := t.startNginx(folder, "proxy", peers.NginxProxy, service)
	reverse, binary := t.startReverseProxy(service), buildWeir(folder)
	var gates [2]string
	for i, limit := range [...]int{1_000_000_000, 1} {
		data := subfolder(folder, strconv.Itoa(i))
		gates[i] = t.runWeir(data, fmt.Sprintf(q2Config, data, service, limit), os.Stderr, binary).address
	}
	rounds, each := 9, 3*time.Second
	if t.quick {
		rounds, each = 1, time.Second
	}
	var rates [][]float64
	for range rounds + 1 {
		rates = append(rates, []float64{
			askMany(ctx, wrk, nginx+"/", each, false), askMany(ctx, wrk, reverse+"/", each, false),
			askMany(ctx, wrk, gates[0]+"/", each, false), askMany(ctx, wrk, nginx+"/refused", each, true),
			askMany(ctx, wrk, gates[1]+"/", each, true),
		})
	}
	rate := medians(rates[1:]) // the first round makes connections and memory
	compare := func(what string, ours, theirs int, least float64) figure {
		ratio := rate[ours] / rate[theirs]
		return figure{what, fmt.Sprintf("≥ %.1f ×", least),
			fmt.Sprintf("%.2f × (%.0f/s against %.0f/s)", ratio, rate[ours], rate[theirs]), ratio >= least}
	}
	return []figure{
		compare("proxied requests/s with one policy, 64 connections, small bodies, against nginx limit_req + "+
			"proxy_pass (2 workers)", 2, 0, 0.5),
		compare("… against httputil.ReverseProxy without limits", 2, 1, 1.5),
		compare("refused requests/s against nginx limit_req", 4, 3, 0.5),
	}
}

const q2Config = `
data: %s
http:
- listen: 127.0.0.1:0
  upstream: http://%s
  account: ["header:X-Api-Key"]
  throttles: [plans]
throttles:
  plans: {quota: {policies: [{name: hourly, limit: %d, period: 1h}]}}
console: {listen: "off"}
log: {access: "off"}
`

// askMany asks for a page over and over, over 64 connections, and returns how many answers came a second. None of the
// answers, or all but a few of them, must be refusals.
func askMany(ctx context.Context, wrk, page string, d time.Duration, refused bool) float64 {
	out := output(exec.CommandContext(ctx, wrk, "-t1", "-c64", "-d"+strconv.Itoa(int(d.Seconds()))+"s", "-H",
		"X-Api-Key: acme", "http://"+page))
	rate, total, bad := number(wrkRate, out), number(wrkTotal, out), number(wrkBad, out)
	if rate == 0 || !refused && bad > 0 || refused && bad < total-2 || strings.Contains(out, "Socket errors") {
		check(fmt.Errorf("%s did not answer as it should: %s", page, out))
	}
	return rate
}

// What wrk prints.
var (
	wrkRate  = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkTotal = regexp.MustCompile(`(\d+) requests in`)
	wrkBad   = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
)

func number(pattern *regexp.Regexp, text string) (n float64) {
	if found := pattern.FindStringSubmatch(text); found != nil {
		n, _ = strconv.ParseFloat(found[1], 64)
	}
	return n
}

// startNginx runs an nginx with a configuration, and returns its address when it listens.
func (t *trial) startNginx(folder, name, text, service string) string {
	address, file := try(machine.FreeAddress("127.0.0.1")), filepath.Join(folder, name+".conf")
	config := filled(text, map[string]string{"Folder": folder, "Listen": address, "Service": service})
	check(os.WriteFile(file, []byte(config), 0o600))
	p := try(machine.Start(machine.Task{Program: program("nginx"), Args: []string{"-c", file, "-p", folder},
		Log: os.Stderr, Quit: syscall.SIGQUIT}))
	t.cleanup(p.Stop)
	if err := p.Listens(context.Background(), "tcp", address); err != nil {
		check(fmt.Errorf("nginx: %w", err))
	}
	return address
}

// startReverseProxy runs httputil's proxy in this process, which has nothing else to do, with as many idle connections
// as it can use.
func (t *trial) startReverseProxy(service string) string {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost, transport.DisableCompression = 0, 1024, true
	to := &url.URL{Scheme: "http", Host: service}
	quiet := log.New(io.Discard, "", 0) // clients that stop are not errors
	server := &http.Server{ErrorLog: quiet, Handler: &httputil.ReverseProxy{Transport: transport, ErrorLog: quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.SetXForwarded()
		}}}
	l := try(net.Listen("tcp", "127.0.0.1:0"))
	go func() { _ = server.Serve(l) }()
	t.cleanup(func() {
		_ = server.Close()
		transport.CloseIdleConnections()
	})
	return l.Addr().String()
}
