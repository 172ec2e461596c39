//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weir/lab/machine"
	"weir/lab/peers"
)

// What Envoys ask in Q8.
const (
	envoyConnections = 16
	envoyKeys        = 1000
)

// envoyConfig is a weir that reads the configuration of its peer.
const envoyConfig = `
data: %s
rls:
- listen: 127.0.0.1:0
  config: %s
console: {listen: "off"}
`

// envoyService is Q8: requests of Envoy's rate limit service that are answered, against envoyproxy/ratelimit with a
// Redis of its own on the same machine. Both read the same configuration, and the same client asks them the same in
// turns: one descriptor that matches a rule and is within its limit.
func envoyService(t *trial) (figures []figure) {
	rounds, each := 9, 1500*time.Millisecond
	if t.quick {
		rounds, each = 1, 200*time.Millisecond
	}
	folder := t.folder()
	rules := filepath.Join(folder, "ratelimit", "config", "edge.yaml")
	check(os.MkdirAll(filepath.Dir(rules), 0o700))
	check(os.WriteFile(rules, []byte(peers.Ratelimit), 0o600))
	peer, pids := t.startRatelimit(folder)
	weir := t.startWeir(folder, fmt.Sprintf(envoyConfig, folder, rules))
	for _, c := range []struct {
		streams int
		how     string
		targets [2]string
	}{
		{1, "one request at a time on each", [2]string{"≥ 3 ×", "≤ 0.33 ×"}},
		{8, "for comparison, 8 requests at a time on each", [2]string{"–", "–"}},
	} {
		var sides [2]*askers
		for i, address := range []string{weir.address, peer} {
			sides[i] = t.dialEnvoy(address, envoyConnections, c.streams, envoyKeys)
			sides[i].run(each / 2)
		}
		all, busy := quietRounds(rounds, time.Minute, append(pids, weir.Pid), func() (round []float64) {
			for _, side := range sides {
				rate, p99 := side.run(each)
				round = append(round, rate, p99.Seconds()*1000)
			}
			return round
		})
		got := medians(all) // our rate and p99 in milliseconds, and theirs
		rate, late := got[0]/got[2], got[1]/got[3]
		what := fmt.Sprintf("Envoy's rate limit service, %d connections, %d keys, %s, against envoyproxy/ratelimit "+
			"with Redis: ", envoyConnections, envoyKeys, c.how)
		figures = append(figures,
			figure{what + "requests/s", c.targets[0],
				fmt.Sprintf("%.2f × (%.0f/s against %.0f/s)%s", rate, got[0], got[2], busy), rate >= 3 ||
					c.streams > 1},
			figure{what + "p99", c.targets[1],
				fmt.Sprintf("%.2f × (%.2f ms against %.2f ms)%s", late, got[1], got[3], busy), late <= 1.0/3 ||
					c.streams > 1})
	}
	return figures
}

// startRatelimit starts a Redis, and envoyproxy/ratelimit on the configuration in the folder. It returns the address of
// the service, and the ids of both processes.
func (t *trial) startRatelimit(folder string) (address string, pids []int) {
	start := func(task machine.Task, network, address string) {
		p := try(machine.Start(task))
		t.cleanup(p.Kill)
		if err := p.Listens(context.Background(), network, address); err != nil {
			check(fmt.Errorf("%s: %w", filepath.Base(task.Program), err))
		}
		pids = append(pids, p.Pid)
	}
	redis, service := program("redis-server"), ""
	if err := attempt(func() { service = program("service_cmd") }); err != nil {
		check(fmt.Errorf("%w (make setup installs envoyproxy/ratelimit)", err))
	}
	conf, socket := filepath.Join(folder, "redis.conf"), filepath.Join(folder, "redis.sock")
	check(os.WriteFile(conf, []byte(peers.Redis), 0o600))
	start(machine.Task{Program: redis, Args: []string{conf, "--unixsocket", socket, "--dir", folder}}, "unix", socket)
	var ports [3]string
	for i := range ports {
		_, ports[i], _ = net.SplitHostPort(try(machine.FreeAddress("127.0.0.1")))
	}
	address = "127.0.0.1:" + ports[0]
	start(machine.Task{Program: service, Env: append(strings.Fields(peers.RatelimitEnv), "REDIS_URL="+socket,
		"RUNTIME_ROOT="+folder, "GRPC_PORT="+ports[0], "PORT="+ports[1], "DEBUG_PORT="+ports[2])}, "tcp", address)
	return address, pids
}
