package httpgate

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"weir/internal/testkit/needs"
)

// from returns a client at 127.0.0.host that speaks a version of HTTP.
func (r *rig) from(host byte, http2 bool) *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!http2)
	tr.Protocols.SetUnencryptedHTTP2(http2)
	tr.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}).DialContext
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

// TestNoSourceTakesAllRequests: one source has as many slow requests as it can. Others are served, each in turn and
// several at once, up to the bound; and when it is over, all has been given back.
func TestNoSourceTakesAllRequests(t *testing.T) {
	const most, part = 40, 36 // a tenth is left to others
	for name, c := range map[string]struct {
		http2, upgrade, waits bool
		sources               string
	}{
		"HTTP/1":         {},
		"HTTP/2":         {http2: true},
		"WebSocket":      {upgrade: true},
		"of one IPv6/64": {http2: true, sources: "2001:db8::%x"},
		"waiting":        {http2: true, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" && !c.waits {
					if c.upgrade {
						w.Header().Set("Connection", "Upgrade")
						w.Header().Set("Upgrade", "websocket")
						w.WriteHeader(http.StatusSwitchingProtocols)
						client, _, err := http.NewResponseController(w).Hijack()
						if err != nil {
							t.Error(err)
							return
						}
						defer client.Close()
					}
					<-over
				}
			})
			o := Options{Upstream: to(u.URL), Bounds: Bounds{Requests: most},
				TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}}
			bound, line := BoundRequests, newLine()
			g := start(t, o)
			if c.waits {
				bound = BoundWaiting
				o.Bounds = Bounds{Waiting: most}
				g = start(t, o, line)
			}
			tally := &g.requests
			if c.waits {
				tally = &g.waiting
			}
			ended := make(chan int, 2*most)
			ask := func(client *http.Client, n int) {
				req := g.request("GET", "/slow", nil)
				if c.upgrade {
					req.Header.Set("Connection", "Upgrade")
					req.Header.Set("Upgrade", "websocket")
				}
				if c.sources != "" {
					req.Header.Set("X-Forwarded-For", fmt.Sprintf(c.sources, n+1))
				}
				ctx, cancel := context.WithCancel(context.Background())
				t.Cleanup(cancel)
				go func() {
					res, err := client.Do(req.WithContext(ctx))
					if err != nil {
						ended <- 0
						return
					}
					defer res.Body.Close()
					if c.upgrade && res.StatusCode == http.StatusSwitchingProtocols {
						<-over
					}
					_, _ = io.Copy(io.Discard, res.Body)
					ended <- res.StatusCode
				}()
			}
			host := byte(2)
			if c.sources != "" {
				host = 9
			}
			greedy := g.from(host, c.http2)
			for n := range part {
				ask(greedy, n)
			}
			needs.Wait(t, "all that it can have", func() bool { return tally.Len() == part })
			for n := range 4 {
				ask(greedy, part+n)
				if status := receive(t, ended); status != http.StatusServiceUnavailable {
					t.Error("one more than its part:", status)
				}
			}
			if g.seen.bounds(bound) != 4 {
				t.Errorf("%d counted", g.seen.bounds(bound))
			}
			if !c.waits {
				for range 3 * most { // whoever comes and goes
					if res, err := g.from(3, c.http2).Get(g.url); err != nil || res.StatusCode != http.StatusOK {
						t.Fatal(res, err)
					} else {
						_ = res.Body.Close()
					}
				}
			}
			c.sources = ""
			for i := range most - part { // up to the bound
				ask(g.from(byte(11+i), c.http2), 0)
				needs.Wait(t, "another one", func() bool { return tally.Len() == part+i+1 })
			}
			ask(g.from(20, c.http2), 0)
			if status := receive(t, ended); status != http.StatusServiceUnavailable {
				t.Error("one more than the bound:", status)
			}
			close(over)
			for len(line.Turns) > 0 { // also those of the refused
				receive(t, line.Turns).Grant()
			}
			want := http.StatusOK
			if c.upgrade {
				want = http.StatusSwitchingProtocols
			}
			for range most {
				if status := receive(t, ended); status != want {
					t.Error(status)
				}
			}
			needs.Wait(t, "all are over", func() bool { return tally.Len() == 0 })
		})
	}
}
