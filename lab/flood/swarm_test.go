package flood

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/testkit/needs"
)

// floodFor lets a swarm flood a handler until enough was seen, and returns what was counted.
func floodFor(t *testing.T, h http.Handler, s swarm, enough func() bool, after func()) Figures {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	o := Options{For: time.Hour, Concurrent: 1, Work: time.Second} // without a warm-up
	s.wait = time.Minute                                           // nobody is late
	s.front, s.tally = strings.TrimPrefix(server.URL, "http://"), newTally(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run(ctx, time.Now(), func() {})
	}()
	needs.Wait(t, "enough was seen", enough)
	cancel()
	after()
	<-done
	return s.tally.report(o).Flood
}

// TestSwarm: what the flood counts is what the server saw, also when connections come and go.
func TestSwarm(t *testing.T) {
	const sources = 7
	var mu sync.Mutex
	seen, status := map[string]int{}, map[int]int64{}
	total := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, times := range seen {
			n += times
		}
		return n
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		from := r.Header.Get("X-Forwarded-For")
		seen[from]++
		code := http.StatusOK
		switch seen[from] % 4 {
		case 1:
			code = http.StatusTooManyRequests
		case 2:
			code = http.StatusServiceUnavailable
			w.Header().Set("Connection", "close")
		}
		status[code]++
		w.WriteHeader(code)
	})
	f := floodFor(t, h, swarm{rate: 2000, sources: sources, workers: 8}, func() bool { return total() >= 20*sources },
		func() {})
	if len(seen) != sources {
		t.Errorf("%d sources: %v", len(seen), seen)
	}
	for from := range seen {
		if !strings.HasPrefix(from, "10.0.0.") {
			t.Errorf("a source is %s", from)
		}
	}
	if f.Offered != f.Served+f.Refused+f.Failed+f.Unsent {
		t.Errorf("the sum is wrong: %+v", f)
	}
	if f.Failed != 0 || f.Served != status[200] || f.Refused != status[429]+status[503] {
		t.Errorf("counted %+v, the server saw %v", f, status)
	}
}

// TestSwarmAtItsBound: when every connection waits for an answer, what cannot be sent is counted.
func TestSwarmAtItsBound(t *testing.T) {
	const connections = 2
	var asked atomic.Int64
	release := make(chan struct{})
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		<-release
	})
	looks := 0
	f := floodFor(t, h, swarm{rate: 1000, sources: 3, workers: connections}, func() bool {
		n := asked.Load()
		if n > connections {
			t.Errorf("%d at a time", n)
		}
		if n == connections {
			looks++
		}
		return looks > 20
	}, func() { close(release) })
	// Those that were due when the answers came may have been sent after them.
	if f.Served > asked.Load() || f.Unsent == 0 || f.Offered != f.Served+f.Unsent {
		t.Errorf("%d asked: %+v", asked.Load(), f)
	}
}

func TestSwarmWithNobodyThere(t *testing.T) {
	address := needs.FreeAddress()
	c := connection{address: address, wait: swarmPatience}
	if got := c.get(floodSource(0), 0); got != failed {
		t.Errorf("got %d", got)
	}
}

func TestSources(t *testing.T) {
	all := map[string]bool{}
	for i := range 70_000 {
		all[floodSource(i).String()] = true
	}
	for i := range 1000 {
		all[visitorSource(people, i).String()] = true
		all[visitorSource(without, i).String()] = true
	}
	if len(all) != 72_000 {
		t.Errorf("%d addresses", len(all))
	}
	networks := map[netip.Prefix]bool{}
	for i := range spreadSources {
		networks[netip.PrefixFrom(payerSource(i), 24).Masked()] = true
	}
	if len(networks) != spreadSources {
		t.Errorf("a payer is in %d networks", len(networks))
	}
	o := Options{}.WithDefaults()
	if o.sources(Many) != 10_000 || o.sources(Few) != 20 {
		t.Errorf("%d and %d", o.sources(Many), o.sources(Few))
	}
}
