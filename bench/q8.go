//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/bench/peers"
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

// envoyService is Q8: questions of Envoy's rate limit service that are answered, against envoyproxy/ratelimit with a Redis of its own on the same
// machine. Both read the same configuration, and are asked the same by the same client in turns: one descriptor that matches a rule, and goes on.
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
	if err := errors.Join(os.MkdirAll(filepath.Dir(rules), 0o700), os.WriteFile(rules, []byte(peers.Ratelimit), 0o600)); err != nil {
		return nil, err
	}
	peer, stop, err := startRatelimit(folder)
	if err != nil {
		return nil, err
	}
	defer stop()
	weir, err := startWeir(folder, fmt.Sprintf(envoyConfig, folder, rules))
	if err != nil {
		return nil, err
	}
	defer weir.stop()

	var figures []figure
	for _, c := range []struct {
		streams int
		how     string
		targets bool
	}{
		{1, "one request at a time on each", true},
		{8, "for comparison, 8 requests at a time on each", false},
	} {
		var rates, worst [2][]float64
		var sides [2]*askers
		for i, address := range []string{weir.address, peer} {
			if sides[i], err = dialEnvoy(address, envoyConnections, c.streams, envoyKeys); err != nil {
				return nil, err
			}
			defer sides[i].close()
			if _, _, err := sides[i].run(each / 2); err != nil {
				return nil, err
			}
		}
		for range rounds {
			for i, side := range sides {
				rate, p99, err := side.run(each)
				if err != nil {
					return nil, err
				}
				rates[i], worst[i] = append(rates[i], rate), append(worst[i], p99.Seconds()*1000)
			}
		}
		rate, late := median(rates[0])/median(rates[1]), median(worst[0])/median(worst[1])
		what := fmt.Sprintf("Envoy's rate limit service, %d connections, %d keys, %s, against envoyproxy/ratelimit with Redis: ", envoyConnections, envoyKeys, c.how)
		target := [2]string{"≥ 3 ×", "≤ 0.33 ×"}
		if !c.targets {
			target = [2]string{"–", "–"}
		}
		figures = append(figures,
			figure{what + "requests/s", target[0], fmt.Sprintf("%.2f × (%.0f/s against %.0f/s)", rate, median(rates[0]), median(rates[1])), rate >= 3 || !c.targets},
			figure{what + "p99", target[1], fmt.Sprintf("%.2f × (%.2f ms against %.2f ms)", late, median(worst[0]), median(worst[1])), late <= 1.0/3 || !c.targets})
	}
	return figures, nil
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// startRatelimit starts a Redis, and envoyproxy/ratelimit on the configuration in the folder.
func startRatelimit(folder string) (address string, stop func(), err error) {
	redis, err := program("redis-server")
	if err != nil {
		return "", nil, err
	}
	service, err := program("service_cmd")
	if err != nil {
		return "", nil, fmt.Errorf("%w (make setup installs envoyproxy/ratelimit)", err)
	}
	conf, socket := filepath.Join(folder, "redis.conf"), filepath.Join(folder, "redis.sock")
	if err := os.WriteFile(conf, []byte(peers.Redis), 0o600); err != nil {
		return "", nil, err
	}
	var stops []func()
	stop = func() {
		for _, f := range slices.Backward(stops) {
			f()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	end, err := background(exec.Command(redis, conf, "--unixsocket", socket, "--dir", folder))
	if err != nil {
		return "", nil, err
	}
	stops = append(stops, end)
	if err := reachable("unix", socket); err != nil {
		return "", nil, fmt.Errorf("redis-server: %w", err)
	}
	var ports [3]string
	for i := range ports {
		free, err := freeAddress("127.0.0.1")
		if err != nil {
			return "", nil, err
		}
		_, ports[i], _ = net.SplitHostPort(free)
	}
	cmd := exec.Command(service)
	cmd.Env = append(append(os.Environ(), strings.Fields(peers.RatelimitEnv)...), "REDIS_URL="+socket, "RUNTIME_ROOT="+folder, "GRPC_PORT="+ports[0],
		"PORT="+ports[1], "DEBUG_PORT="+ports[2])
	log, err := os.Create(filepath.Join(folder, "ratelimit.log"))
	if err != nil {
		return "", nil, err
	}
	defer log.Close()
	cmd.Stderr = log
	if end, err = background(cmd); err != nil {
		return "", nil, err
	}
	stops = append(stops, end)
	address = "127.0.0.1:" + ports[0]
	if err := reachable("tcp", address); err != nil {
		said, _ := os.ReadFile(log.Name())
		return "", nil, fmt.Errorf("envoyproxy/ratelimit: %w: %s", err, said)
	}
	return address, stop, nil
}

// background starts a program, and returns what ends it.
func background(cmd *exec.Cmd) (stop func(), err error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}, nil
}

// reachable waits until somebody listens.
func reachable(network, address string) error {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial(network, address)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			return err
		}
	}
}
