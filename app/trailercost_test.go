package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"weir/console"
	"weir/internal/testkit/needs"
)

// pricedLate answers with a cost that is known when the body is written: in a trailer, announced or not.
func pricedLate(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Has("header") {
		w.Header().Set("X-Cost", q.Get("header"))
	}
	name := http.TrailerPrefix + "X-Cost"
	if q.Has("announced") {
		name = "X-Cost"
		w.Header().Set("Trailer", "X-Cost")
	}
	if q.Has("grpc") {
		w.Header().Set("Content-Type", "application/grpc")
	}
	_, _ = io.WriteString(w, "one")
	w.(http.Flusher).Flush()
	if q.Has("hold") {
		<-r.Context().Done()
		return
	}
	_, _ = io.WriteString(w, "two")
	if q.Has("trailer") {
		w.Header()[name] = q["trailer"]
		w.Header().Set(http.TrailerPrefix+"X-Other", "shown")
	}
}

// TestCostsInTrailers: a service that learns what an answer costs while it writes it says so after the body, over
// HTTP/1.1 and HTTP/2. The client sees no trailer whose header is removed.
func TestCostsInTrailers(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprint("h2 ", h2), func(t *testing.T) {
			t.Parallel()
			c := newJunction(t, costs)
			late := httptest.NewUnstartedServer(http.HandlerFunc(pricedLate))
			scheme := "http"
			if h2 {
				late.Config.Protocols = new(http.Protocols)
				late.Config.Protocols.SetUnencryptedHTTP2(true)
				scheme = "h2c"
			}
			late.Start()
			t.Cleanup(late.Close)
			c.upstream.URL = scheme + strings.TrimPrefix(late.URL, "http")
			if err := c.app.Reload(c.config(costs)); err != nil {
				t.Fatal(err)
			}
			for i, one := range []struct {
				query string
				want  int64
			}{
				{"trailer=20", 80},
				{"trailer=20&announced", 80},
				{"trailer=20&header=5", 80}, // the last word counts
				{"header=5", 95},
				{"announced", 99},
				{"trailer=51", 50}, // more than max
				{"trailer=0&announced", 100},
				{"trailer=many", 99},
				{"trailer=many&header=5", 95},
				{"trailer=5&trailer=6", 99},
				{"trailer=9&grpc", 91},
			} {
				account := fmt.Sprint("late", i)
				r, err := http.NewRequest("GET", "http://"+c.app.Addr("http", 0).String()+"/?"+one.query, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-Api-Key", account)
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(body) != "onetwo" {
					t.Errorf("%s: %q, %v", one.query, body, err)
				}
				if resp.Header.Get("X-Cost")+resp.Trailer.Get("X-Cost")+resp.Header.Get("Trailer") != "" {
					t.Errorf("%s: the client sees the cost: %v %v", one.query, resp.Header, resp.Trailer)
				}
				if other := resp.Trailer.Get("X-Other"); (other == "shown") != strings.Contains(one.query, "trailer=") {
					t.Errorf("%s: another trailer is %q", one.query, other)
				}
				if got := c.left(t, account); got != one.want {
					t.Errorf("%s: %d left, want %d", one.query, got, one.want)
				}
			}
			// Who leaves before the last word pays for an answer that was to have one.
			for account, one := range map[string]struct {
				query string
				want  int64
			}{"tired": {"hold&announced", 93}, "tired of gRPC": {"hold&grpc", 93}, "tired of a file": {"hold", 99}} {
				conn, err := net.Dial("tcp", c.app.Addr("http", 0).String())
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(conn, "GET /?%s HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n", one.query, account)
				if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
					t.Fatalf("%s: %q %v", account, line, err)
				}
				conn.Close()
				needs.Wait(t, account+" has left", func() bool { return under(t, c) == 0 })
				if got := c.left(t, account); got != one.want {
					t.Errorf("%s: %d left, want %d", account, got, one.want)
				}
			}
		})
	}
}

// under is how many requests are under way at the HTTP gate.
func under(t *testing.T, c *junction) int64 {
	t.Helper()
	s, err := console.StatusCall.Ask(context.Background(), c.control, console.None{})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range s.Gates {
		if g.Kind == "http" {
			return g.InFlight
		}
	}
	t.Fatal("there is no HTTP gate")
	return 0
}
