//go:build linux

package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"weir/lab/machine"
)

// exactFarm is a node that counts two policies exactly, by path: one as weir chooses, one with a question for each
// decision.
const exactFarm = `  counters: redis://%[1]s
http:
- listen: 127.0.0.1:0
  upstream: http://%[2]s
  account: ["header:X-Api-Key"]
  throttles: [plans]
throttles:
  plans:
    quota:
      policies:
      - {name: ahead, limit: %[3]d, period: year, farm: exact, match: {paths: [/ahead]}}
      - {name: single, limit: %[3]d, period: year, farm: exact, ahead: 0, match: {paths: [/single]}}
`

// startRedis runs a Redis on the loopback, empty. A trial may have stopped it: so it is killed in the end.
func (t *trial) startRedis() (address string, p *machine.Process) {
	address = try(machine.FreeAddress("127.0.0.1"))
	host, port, _ := net.SplitHostPort(address)
	return address, t.launch(machine.Task{Program: program("redis-server"), Quit: syscall.SIGKILL, Args: []string{"--bind",
		host, "--port", port, "--save", "", "--appendonly", "no", "--dir", t.folder()}}, "tcp", address)
}

// A serviceLog is a service that many nodes stand in front of. What it saw decides about over and used.
type serviceLog struct {
	mu   sync.Mutex
	seen map[string]int // requests by account
}

func (l *serviceLog) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[r.Header.Get("X-Api-Key")]++
}

func (l *serviceLog) of(account string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[account]
}

// neverOver is Q4: six processes, one account, and six times its limit at once.
func neverOver(t *trial) (figures []figure) {
	const nodes = 6
	runs, limit := pick(t, 5, 1), pick(t, 1000, 200)
	service := &serviceLog{seen: map[string]int{}}
	upstream, stop, err := machine.Serve(service)
	check(err)
	t.cleanup(stop)
	redis, _ := t.startRedis()
	var gates []string
	for _, r := range t.startFarm(nodes, fmt.Sprintf(exactFarm, redis, upstream, limit)) {
		gates = append(gates, r.address)
	}
	evenly := func() int { return rand.IntN(nodes) }
	mostly := func() int {
		if rand.IntN(100) < 95 {
			return 0
		}
		return 1 + rand.IntN(nodes-1)
	}
	for i, c := range []struct {
		how, page string
		node      func() int
	}{
		{"to all nodes alike", "/ahead", evenly},
		{"95 % of them to one node", "/ahead", mostly},
		{"to all nodes alike, ahead: 0", "/single", evenly},
	} {
		over, used := 0, 1.
		for run := range runs {
			account := fmt.Sprintf("account-%d-%d", i, run)
			rush(gates, 6*limit, account, c.page, c.node)
			seen := service.of(account)
			over, used = max(over, seen-limit), min(used, float64(seen)/float64(limit))
		}
		figures = append(figures, figure{fmt.Sprintf("farm of %d processes, farm: exact, one account, limit %d, %d requests "+
			"at once, %s: over the limit / used of it, as the service saw it, worst of %d", nodes, limit, 6*limit, c.how, runs),
			[]value{none(max(0, over)), least(99, 100*min(1, used), "%.1f %%")}, ""})
	}
	return figures
}

// rush sends requests of an account at once. Where a node has lost the engine they come again, as clients do.
func rush(gates []string, requests int, account, page string, node func() int) {
	way := &http.Transport{MaxConnsPerHost: 100, MaxIdleConnsPerHost: 100}
	defer way.CloseIdleConnections()
	to := make([]int, requests)
	for i := range to {
		to[i] = node()
	}
	together(requests, func(i int) error {
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			req, err := http.NewRequest(http.MethodGet, "http://"+gates[to[i]]+page, nil)
			if err != nil {
				return err
			}
			req.Header.Set("X-Api-Key", account)
			status, _, _, err := machine.Ask(way.RoundTrip, req)
			switch {
			case err != nil:
				return err
			case status == http.StatusOK || status == http.StatusTooManyRequests:
				return nil
			case status != http.StatusServiceUnavailable:
				return fmt.Errorf("a node answers %d", status)
			}
		}
		return errors.New("the engine was lost all the time")
	})
}

// writeRules writes the configuration of envoyproxy/ratelimit to where it looks for it.
func writeRules(folder, text string) (file string) {
	file = filepath.Join(folder, "ratelimit", "config", "edge.yaml")
	check(os.MkdirAll(filepath.Dir(file), 0o700))
	check(os.WriteFile(file, []byte(text), 0o600))
	return file
}
