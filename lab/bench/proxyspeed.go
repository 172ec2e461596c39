//go:build linux

package main

import (
	"bytes"
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
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"text/template"
	"time"

	"weir/lab/machine"
	"weir/lab/peers"
)

// proxied is Q2: how many requests a second go through a proxy with one limit, and how many it refuses, with small
// bodies over 64 connections. weir serve, nginx with limit_req and proxy_pass, and net/http/httputil's ReverseProxy,
// which knows no limits, stand in front of the same service and are asked in turns by the same client, wrk.
func proxied(o options) (_ []figure, err error) {
	// what was started is stopped first
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	wrk, err := program("wrk")
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	service, stop, err := startNginx(folder, "service", peers.NginxService, "")
	if err != nil {
		return nil, err
	}
	defer stop()
	nginx, stop, err := startNginx(folder, "proxy", peers.NginxProxy, service)
	if err != nil {
		return nil, err
	}
	defer stop()
	reverse, stop, err := startReverseProxy(service)
	if err != nil {
		return nil, err
	}
	defer stop()
	binary, err := buildWeir(folder)
	if err != nil {
		return nil, err
	}
	var gates [2]*running
	for i, limit := range [...]int{1_000_000_000, 1} {
		data := filepath.Join(folder, strconv.Itoa(i))
		if err := os.Mkdir(data, 0o700); err != nil {
			return nil, err
		}
		if gates[i], err = runWeir(data, fmt.Sprintf(q2Config, data, service, limit), os.Stderr, binary); err != nil {
			return nil, err
		}
		defer gates[i].Stop()
	}

	rounds, each := 9, 3*time.Second
	if o.quick {
		rounds, each = 1, time.Second
	}
	sides := []struct {
		url     string
		refused bool
	}{{"http://" + nginx + "/", false}, {reverse, false}, {"http://" + gates[0].address + "/", false},
		{"http://" + nginx + "/refused", true}, {"http://" + gates[1].address + "/", true}}
	rates := make([][]float64, len(sides))
	for round := range rounds + 1 {
		for i, side := range sides {
			rate, err := askMany(ctx, wrk, side.url, each, side.refused)
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first one makes connections and memory
				rates[i] = append(rates[i], rate)
			}
		}
	}
	compare := func(what string, ours, theirs int, least float64) figure {
		we, they := median(rates[ours]), median(rates[theirs])
		ratio := we / they
		return figure{what: what, target: fmt.Sprintf("≥ %.1f ×", least), met: ratio >= least,
			got: fmt.Sprintf("%.2f × (%.0f/s against %.0f/s)", ratio, we, they)}
	}
	return []figure{
		compare("proxied requests/s with one policy, 64 connections, small bodies, against nginx limit_req + "+
			"proxy_pass (2 workers)", 2, 0, 0.5),
		compare("… against httputil.ReverseProxy without limits", 2, 1, 1.5),
		compare("refused requests/s against nginx limit_req", 4, 3, 0.5),
	}, nil
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

// askMany asks for something over and over, over 64 connections, and returns how many answers came a second. All of
// them, or but a few of them, must be refusals.
func askMany(ctx context.Context, wrk, url string, d time.Duration, refused bool) (float64, error) {
	out, err := exec.CommandContext(ctx, wrk, "-t1", "-c64", "-d"+strconv.Itoa(int(d.Seconds()))+"s", "-H",
		"X-Api-Key: acme", url).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("wrk: %w: %s", err, out)
	}
	rate, total, bad := number(wrkRate, out), number(wrkTotal, out), number(wrkBad, out)
	if rate == 0 || !refused && bad > 0 || refused && bad < total-2 || wrkErrors.Match(out) {
		return 0, fmt.Errorf("%s did not answer as it should: %s", url, out)
	}
	return rate, nil
}

// What wrk prints.
var (
	wrkRate   = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkTotal  = regexp.MustCompile(`(\d+) requests in`)
	wrkBad    = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	wrkErrors = regexp.MustCompile(`Socket errors`)
)

func number(pattern *regexp.Regexp, text []byte) float64 {
	found := pattern.FindSubmatch(text)
	if found == nil {
		return 0
	}
	n, _ := strconv.ParseFloat(string(found[1]), 64)
	return n
}

// startNginx runs an nginx with a configuration, and returns where it listens when it does.
func startNginx(folder, name, text, service string) (address string, stop func(), err error) {
	nginx, err := program("nginx")
	if err != nil {
		return "", nil, err
	}
	if address, err = machine.FreeAddress("127.0.0.1"); err != nil {
		return "", nil, err
	}
	var config bytes.Buffer
	if err := template.Must(template.New(name).Parse(text)).Execute(&config,
		map[string]string{"Folder": folder, "Listen": address, "Service": service}); err != nil {
		return "", nil, err
	}
	file := filepath.Join(folder, name+".conf")
	if err := os.WriteFile(file, config.Bytes(), 0o600); err != nil {
		return "", nil, err
	}
	p, err := machine.Start(machine.Task{Program: nginx, Args: []string{"-c", file, "-p", folder}, Log: os.Stderr,
		Quit: syscall.SIGQUIT})
	if err != nil {
		return "", nil, err
	}
	if err := p.Listens(context.Background(), "tcp", address); err != nil {
		p.Stop()
		return "", nil, fmt.Errorf("nginx: %w", err)
	}
	return address, p.Stop, nil
}

// startReverseProxy runs httputil's proxy in this process, which has nothing else to do, with as many idle connections
// as it can use.
func startReverseProxy(service string) (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost, transport.DisableCompression = 0, 1024, true
	to := &url.URL{Scheme: "http", Host: service}
	quiet := log.New(io.Discard, "", 0) // a client that stops is no news
	server := &http.Server{ErrorLog: quiet, Handler: &httputil.ReverseProxy{Transport: transport, ErrorLog: quiet,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.SetXForwarded()
		}}}
	go func() { _ = server.Serve(l) }()
	return "http://" + l.Addr().String() + "/", func() {
		_ = server.Close()
		transport.CloseIdleConnections()
	}, nil
}
