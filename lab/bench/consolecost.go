//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/app"
	"weir/config"
	"weir/console"
	"weir/lab/peers"
)

// watching is C1: what the console costs for each request. Two weirs in this process stand in front of the same
// service: one that remembers nothing for an overview, and one as it is. They are asked in turns by the same client,
// wrk, for a million accounts, of which a few send a fifth of the requests and are refused. The second one is asked
// once while nobody looks, and once while ten look at the overview each second. What is compared is the CPU time of
// this process for each request; that of whoever looks is in it, too.
func watching(t *trial) []figure {
	ctx, wrk, folder := t.context(), program("wrk"), t.folder()
	service := t.startNginx(folder, "service", peers.NginxService, "")
	script := filepath.Join(folder, "accounts.lua")
	check(os.WriteFile(script, []byte(c1Script), 0o600))
	blind, seeing := t.startApp(subfolder(folder, "blind"), service, true),
		t.startApp(subfolder(folder, "seeing"), service, false)
	rounds, each, warm := 15, 4*time.Second, 30*time.Second
	if t.quick {
		rounds, each, warm = 1, time.Second, time.Second
	}
	seed := 0
	cost := func(a *app.App, d time.Duration) float64 {
		seed++
		before := processTime()
		out := output(exec.CommandContext(ctx, wrk, "-t1", "-c64", "-d"+strconv.Itoa(int(d.Seconds()))+"s", "-s", script,
			"http://"+a.Addr("http", 0).String()+"/", "--", strconv.Itoa(seed)))
		total := number(wrkTotal, out)
		if total == 0 || strings.Contains(out, "Socket errors") {
			check(fmt.Errorf("the gate did not answer as it should: %s", out))
		}
		return float64(processTime()-before) / total
	}
	for _, a := range []*app.App{blind, seeing} { // makes accounts, connections and memory
		cost(a, warm)
	}
	polled := 0
	all, busy := quietRounds(rounds, 10*time.Minute, nil, func() []float64 {
		costs := []float64{cost(blind, each), cost(seeing, each)}
		stop := viewers(ctx, seeing.ControlPath(), 10)
		costs = append(costs, cost(seeing, each))
		polled += stop()
		return costs
	})
	c := medians(all)
	status := try(console.NewClient(seeing.ControlPath()).Status(ctx))
	compare := func(what string, side int, most float64) figure {
		more := c[side]/c[0] - 1
		return figure{fmt.Sprintf(what, status.Throttles[1].Accounts), fmt.Sprintf("≤ %.0f %%", 100*most),
			fmt.Sprintf("%+.1f %% (%.2f µs against %.2f µs)%s", 100*more, c[side]/1000, c[0]/1000, busy), more <= most}
	}
	return []figure{
		compare("CPU of a request more than without a history and names of those held back, %d accounts, a fifth "+
			"refused, nobody looks", 1, 0.01),
		compare(fmt.Sprintf("… and ten look at the overview each second (%d looks), %%d accounts", polled), 2, 0.03),
	}
}

const c1Config = `
data: %s
http:
- listen: 127.0.0.1:0
  upstream: http://%s
  account: ["header:X-Api-Key"]
  throttles: [edge, plans]
throttles:
  edge: {bloom: {rate: 300000/s, burst: 300000, attackers: 100000}}
  plans: {quota: {max_accounts: 1100000, policies: [{name: hourly, limit: 1000, period: 1h}]}}
console: {listen: "off"}
log: {access: "off"}
`

// c1Script makes every fifth request one of sixteen accounts that are over their limit, and the others of a million.
const c1Script = `
function init(args) math.randomseed(tonumber(args[1])) end
function request()
	local key
	if math.random(5) == 1 then key = "hot" .. math.random(16) else key = "account" .. math.random(1000000) end
	return wrk.format("GET", "/", {["X-Api-Key"] = key})
end
`

// startApp runs a weir in this process, which remembers nothing for an overview if it is blind.
func (t *trial) startApp(folder, service string, blind bool) *app.App {
	cfg := try(config.Parse("weir.yaml", []byte(fmt.Sprintf(c1Config, folder, service))))
	a := try(app.New(cfg, app.Options{Unwatched: blind}))
	check(a.Start(context.Background()))
	t.cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = a.Stop(ctx)
	})
	return a
}

// viewers look at what is new in the overview each second, so many of them, until the function that it returns is
// called. That says how often they did.
func viewers(ctx context.Context, control string, count int) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	looks := make([]int, count)
	for i := range count {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "unix", control)
				}}}
			defer client.CloseIdleConnections()
			since := int64(0)
			for tick := time.NewTicker(time.Second); ; {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet,
					fmt.Sprintf("http://weir/api/v1/overview?since=%d", since), nil)
				if err != nil {
					return
				}
				r, err := client.Do(req)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				_ = r.Body.Close()
				since = time.Now().Add(-time.Second).UnixMilli()
				looks[i]++
				select {
				case <-tick.C:
				case <-ctx.Done():
					tick.Stop()
					return
				}
			}
		})
	}
	return func() (n int) {
		cancel()
		all.Wait()
		for _, l := range looks {
			n += l
		}
		return n
	}
}
