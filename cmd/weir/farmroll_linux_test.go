package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/needs"
)

// balancer starts HAProxy in front of the farm, in the clients' namespace, and returns its address there.
func (g *grange) balancer() string {
	g.t.Helper()
	haproxy, err := exec.LookPath("haproxy")
	if err != nil {
		needs.Skip(g.t, "HAProxy is not installed")
	}
	var servers strings.Builder
	for i := range g.nodes {
		fmt.Fprintf(&servers, "  server %c %s:8080 check port 9000 inter 100ms fall 1 rise 1\n", 'a'+i, g.Address(i))
	}
	path := filepath.Join(g.t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(path, []byte(`
defaults
  mode http
  timeout connect 2s
  timeout client 30s
  timeout server 30s
frontend in
  bind 127.0.0.1:8000
  default_backend weirs
backend weirs
  balance roundrobin
  option httpchk GET /readyz
  option redispatch 1
  retries 3
  retry-on conn-failure empty-response
`+servers.String()), 0o600); err != nil {
		g.t.Fatal(err)
	}
	cmd := exec.Command(haproxy, "-db", "-f", path)
	if err := g.Ends[clients].Do(cmd.Start); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	g.eventually("HAProxy listens", func() bool {
		c, err := g.dialer()(context.Background(), "tcp", "127.0.0.1:8000")
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "127.0.0.1:8000"
}

// A customer fetches pages through the balancer, pays for each, and then tries to use the stamp again.
type customer struct {
	g      *grange
	at     string
	served atomic.Int64
}

// run goes on until stop is closed.
func (c *customer) run(t *testing.T, number int, stop <-chan struct{}) {
	base := &http.Transport{DialContext: c.g.dialer()}
	defer base.CloseIdleConnections()
	for round := 0; ; round++ {
		select {
		case <-stop:
			return
		default:
		}
		var with paid
		resp, err := c.ask(t, base, number, round, with)
		for tries := 0; err == nil && resp.StatusCode == http.StatusServiceUnavailable && tries < 5; tries++ {
			if with, err = pay(resp); err == nil {
				resp, err = c.ask(t, base, number, round, with)
			}
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("a request failed: %v, %v", resp, err)
			return
		}
		c.served.Add(1)
		for range 2 {
			if resp, err := c.ask(t, base, number, round, with); err != nil || resp.StatusCode == http.StatusOK {
				t.Errorf("a spent stamp: %v, %v", resp, err)
				return
			}
		}
	}
}

// ask asks for a page, and reads the answer.
func (c *customer) ask(t *testing.T, via http.RoundTripper, number, round int, with paid) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.at+"/", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", number*60+round%60))
	with.put(r)
	resp, err := via.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

// TestFarmRolls: nodes behind a balancer are started anew, one after the other. No request fails for it, and no stamp
// is accepted twice.
func TestFarmRolls(t *testing.T) {
	t.Parallel()
	g := growFarm(t, false, true)
	rollUnderLoad(t, g, func(i int) {
		g.nodes[i].stop(t)
		g.start(i)
	})
}

// rollUnderLoad does something to each node of a farm while customers pay.
func rollUnderLoad(t *testing.T, g *grange, roll func(node int)) {
	t.Helper()
	c := &customer{g: g, at: g.balancer()}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() { c.run(t, i, stop) })
	}
	more := func() { // so that every step is seen under load
		before := c.served.Load()
		g.eventually("customers are served", func() bool { return c.served.Load() >= before+20 || t.Failed() })
	}
	more()
	for i := range g.nodes {
		roll(i)
		g.settled(0, 1, 2)
		more()
	}
	close(stop)
	all.Wait()
	t.Logf("%d requests", c.served.Load())
}
