package httpgate

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"weir/gate/httpgate/keys"
	"weir/internal/testkit/h2test"
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
	cases := slices.DeleteFunc(h2test.Cases(), func(c h2test.Case) bool { return c.Odd })
	if len(cases) < 140 {
		t.Errorf("%d cases are too few", len(cases))
	}
	h2test.Each(cases, func(c *h2test.Case) {
		known := slices.Contains(theirFailures, c.Name)
		err := c.Run(g.addr, true, known)
		if err == nil {
			return
		}
		if t.Log(err); !known {
			t.Errorf("not one of those of net/http: %v", err)
		}
		if c.Run(theirs.Listener.Addr().String(), true, known) == nil {
			t.Errorf("net/http does not fail: %v", err)
		}
	})
}
