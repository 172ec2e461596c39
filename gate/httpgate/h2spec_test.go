package httpgate

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"

	"weir/gate/httpgate/keys"
)

// The cases of h2spec that net/http's server fails, each on purpose or because RFC 9113 has changed what RFC 7540 asked
// for.
var theirFailures = []string{
	"http2/4.2/3",     // a HEADERS frame above the maximum size: it is taken, up to a bound
	"http2/6.5.3/1",   // a setting twice: the connection ends
	"http2/8.1.2.2/1", // a header of the connection: 400 instead of a reset
	"http2/8.1.2.2/2", // TE: 400 instead of a reset
	"http2/8.1.2.6/1", // a length that is wrong: the handler answers before it knows. weir reads the body first
}

// A h2case is a case of h2spec. It is what h2spec's own program would run, without what that prints.
type h2case struct {
	name string
	what *spec.TestCase
}

func h2cases() (all []h2case) {
	var walk func(g *spec.TestGroup)
	walk = func(g *spec.TestGroup) {
		if g.Strict {
			return
		}
		for i, c := range g.Tests {
			all = append(all, h2case{fmt.Sprintf("%s/%d", g.ID(), i+1), c})
		}
		for _, sub := range g.Groups {
			walk(sub)
		}
	}
	for _, s := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		walk(s)
	}
	return all
}

// run runs the case on a connection of its own. A server may be slow, or be done with a stream sooner than the case
// expects: it has failed when it fails again and again, and is given more time. One that is known to fail is tried
// once.
func (c *h2case) run(addr string) (err error) {
	host, port, _ := net.SplitHostPort(addr)
	tries := []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second}
	if slices.Contains(theirFailures, c.name) {
		tries = tries[:1]
	}
	for _, patience := range tries {
		o := &config.Config{Host: host, Path: "/", Timeout: patience, MaxHeaderLen: 4000, TLS: true, Insecure: true}
		o.Port, _ = strconv.Atoi(port)
		var conn *spec.Conn
		if conn, err = spec.Dial(o); err == nil {
			err = c.what.Run(o, conn)
			_ = conn.Close()
		}
		if err == nil || errors.Is(err, spec.ErrSkipped) {
			return nil
		}
	}
	return fmt.Errorf("%s: %s: %s", c.name, c.what.Desc, strings.ReplaceAll(err.Error(), "\n", "; "))
}

// TestH2Spec runs h2spec against the gate, over TLS. What the gate fails, net/http's own server fails too.
func TestH2Spec(t *testing.T) {
	t.Parallel()
	hello := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }
	theirs := httptest.NewUnstartedServer(http.HandlerFunc(hello))
	theirs.EnableHTTP2, theirs.Config.ErrorLog = true, slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	theirs.StartTLS()
	defer theirs.Close()
	certificates := []keys.Certificate{newAuthority(t, "authority").server("localhost")}
	g := start(t, Options{Upstream: to(upstream(t, hello).URL), TLS: &keys.TLS{Certificates: certificates}})
	var all sync.WaitGroup
	few := make(chan struct{}, 8) // most of the time goes by with waiting for what must not come
	cases := h2cases()
	if len(cases) < 140 {
		t.Errorf("%d cases are too few", len(cases))
	}
	for _, c := range cases {
		all.Go(func() {
			few <- struct{}{}
			defer func() { <-few }()
			err := c.run(g.addr)
			if err == nil {
				return
			}
			if t.Log(err); !slices.Contains(theirFailures, c.name) {
				t.Errorf("not one of those of net/http: %v", err)
			}
			if c.run(theirs.Listener.Addr().String()) == nil {
				t.Errorf("net/http does not fail: %v", err)
			}
		})
	}
	all.Wait()
}
