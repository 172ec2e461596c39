//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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

// envoyService is Q8: questions of Envoy's rate limit service that are answered, against envoyproxy/ratelimit with a
// Redis of its own on the same machine. Both read the same configuration, and are asked the same by the same client in
// turns: one descriptor that matches a rule, and goes on.
func envoyService(o options) (_ []figure, err error) {
	rounds, each := 9, 1500*time.Millisecond
	if o.quick {
		rounds, each = 1, 200*time.Millisecond
	}
	folder, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	rules := filepath.Join(folder, "ratelimit", "config", "edge.yaml")
	if err := errors.Join(os.MkdirAll(filepath.Dir(rules), 0o700),
		os.WriteFile(rules, []byte(peers.Ratelimit), 0o600)); err != nil {
		return nil, err
	}
	peer, err := startRatelimit(folder)
	if err != nil {
		return nil, err
	}
	defer peer.stop()
	weir, err := startWeir(folder, fmt.Sprintf(envoyConfig, folder, rules))
	if err != nil {
		return nil, err
	}
	defer weir.Stop()

	var figures []figure
	for _, c := range []struct {
		streams int
		how     string
		targets [2]string
	}{
		{1, "one request at a time on each", [2]string{"≥ 3 ×", "≤ 0.33 ×"}},
		{8, "for comparison, 8 requests at a time on each", [2]string{"–", "–"}},
	} {
		var sides [2]*askers
		for i, address := range []string{weir.address, peer.address} {
			if sides[i], err = dialEnvoy(address, envoyConnections, c.streams, envoyKeys); err != nil {
				return nil, err
			}
			defer sides[i].close()
			if _, _, err := sides[i].run(each / 2); err != nil {
				return nil, err
			}
		}
		we, they, busy, err := askInTurns(sides, rounds, each, append(peer.pids(), weir.Pid, os.Getpid()))
		if err != nil {
			return nil, err
		}
		rate, late := we.rate/they.rate, we.p99/they.p99
		what := fmt.Sprintf("Envoy's rate limit service, %d connections, %d keys, %s, against envoyproxy/ratelimit "+
			"with Redis: ", envoyConnections, envoyKeys, c.how)
		figures = append(figures,
			figure{what + "requests/s", c.targets[0],
				fmt.Sprintf("%.2f × (%.0f/s against %.0f/s)%s", rate, we.rate, they.rate, busy), rate >= 3 ||
					c.streams > 1},
			figure{what + "p99", c.targets[1],
				fmt.Sprintf("%.2f × (%.2f ms against %.2f ms)%s", late, we.p99, they.p99, busy), late <= 1.0/3 ||
					c.streams > 1})
	}
	return figures, nil
}

// An asking is what came of a round: requests/s, and how long the slowest of a hundred took, in milliseconds.
type asking struct{ rate, p99 float64 }

// askInTurns returns the medians of both sides. A round counts only when all but the processes that take part had less
// than a twentieth of the machine: who is slowest is else decided by others. When there are not enough of these within
// a minute, all rounds count, and busy says so.
func askInTurns(sides [2]*askers, rounds int, each time.Duration, pids []int) (we, they asking, busy string,
	err error) {
	var good, all [2][]asking
	for end := time.Now().Add(time.Minute); len(good[0]) < rounds; {
		start, others := time.Now(), busyTime()-timeOf(pids)
		var round [2]asking
		for i, side := range sides {
			rate, p99, err := side.run(each)
			if err != nil {
				return we, they, "", err
			}
			round[i] = asking{rate, p99.Seconds() * 1000}
			all[i] = append(all[i], round[i])
		}
		if whole := time.Since(start) * time.Duration(runtime.NumCPU()); busyTime()-timeOf(pids)-others < whole/20 {
			good[0], good[1] = append(good[0], round[0]), append(good[1], round[1])
		}
		if len(all[0]) >= rounds && (rounds == 1 || time.Now().After(end)) {
			if len(good[0]) < rounds {
				good, busy = all, ", on a busy machine"
			}
			break
		}
	}
	medians := func(of []asking) asking {
		var rates, late []float64
		for _, a := range of {
			rates, late = append(rates, a.rate), append(late, a.p99)
		}
		return asking{median(rates), median(late)}
	}
	return medians(good[0]), medians(good[1]), busy, nil
}

// busyTime is how long the cores of this machine have worked for processes, together; proc_stat(5).
func busyTime() time.Duration {
	var user, nice, system int64
	if stat, err := os.ReadFile("/proc/stat"); err == nil {
		_, _ = fmt.Sscanf(string(stat), "cpu %d %d %d", &user, &nice, &system)
	}
	return time.Duration(user+nice+system) * 10 * time.Millisecond
}

// timeOf is how long processes have been running on any core, together; proc_pid_stat(5).
func timeOf(pids []int) (sum time.Duration) {
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(stat), ") ") // the name may have blanks
		if f := strings.Fields(after); len(f) > 12 {
			user, _ := strconv.ParseInt(f[11], 10, 64)
			system, _ := strconv.ParseInt(f[12], 10, 64)
			sum += time.Duration(user+system) * 10 * time.Millisecond
		}
	}
	return sum
}

// A ratelimit is envoyproxy/ratelimit and its Redis.
type ratelimit struct {
	address   string
	processes []*machine.Process
}

func (r *ratelimit) stop() {
	for _, p := range slices.Backward(r.processes) {
		p.Kill()
	}
}

func (r *ratelimit) pids() (all []int) {
	for _, p := range r.processes {
		all = append(all, p.Pid)
	}
	return all
}

// start starts a program and waits until it listens.
func (r *ratelimit) start(t machine.Task, network, address string) error {
	p, err := machine.Start(t)
	if err != nil {
		return err
	}
	r.processes = append(r.processes, p)
	if err := p.Listens(context.Background(), network, address); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(t.Program), err)
	}
	return nil
}

// startRatelimit starts a Redis, and envoyproxy/ratelimit on the configuration in the folder.
func startRatelimit(folder string) (_ *ratelimit, err error) {
	redis, err := program("redis-server")
	if err != nil {
		return nil, err
	}
	service, err := program("service_cmd")
	if err != nil {
		return nil, fmt.Errorf("%w (make setup installs envoyproxy/ratelimit)", err)
	}
	conf, socket := filepath.Join(folder, "redis.conf"), filepath.Join(folder, "redis.sock")
	if err := os.WriteFile(conf, []byte(peers.Redis), 0o600); err != nil {
		return nil, err
	}
	r := &ratelimit{}
	defer func() {
		if err != nil {
			r.stop()
		}
	}()
	if err := r.start(machine.Task{Program: redis, Args: []string{conf, "--unixsocket", socket, "--dir", folder}},
		"unix", socket); err != nil {
		return nil, err
	}
	var ports [3]string
	for i := range ports {
		free, err := machine.FreeAddress("127.0.0.1")
		if err != nil {
			return nil, err
		}
		_, ports[i], _ = net.SplitHostPort(free)
	}
	r.address = "127.0.0.1:" + ports[0]
	env := append(strings.Fields(peers.RatelimitEnv), "REDIS_URL="+socket, "RUNTIME_ROOT="+folder,
		"GRPC_PORT="+ports[0], "PORT="+ports[1], "DEBUG_PORT="+ports[2])
	return r, r.start(machine.Task{Program: service, Env: env}, "tcp", r.address)
}
