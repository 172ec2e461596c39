package app_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"weir/app"
	"weir/config"
)

// weirOf starts a weir on this configuration, with the machine's clock.
func weirOf(t *testing.T, text string) *app.App {
	t.Helper()
	cfg, err := config.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(cfg, app.Options{HashMemory: 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return a
}

// TestSilenceIsNoLackOfProgress: over HTTP/2, an event stream, a long poll, an answer after early hints, a download and
// an upload that a limit pauses, and calls of gRPC with a quiet client last longer than timeouts.progress. A client
// that does not take what it is offered is cut off by that, which shows the others that the time is over.
func TestSilenceIsNoLackOfProgress(t *testing.T) {
	t.Parallel()
	cut := make(chan struct{}) // closed when the client that takes nothing was cut off
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		switch r.URL.Path {
		case "/endless":
			defer close(cut)
			for piece := make([]byte, 32<<10); ; {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		case "/download":
			w.Write(make([]byte, 600<<10))
			return
		case "/upload":
			if n, err := io.Copy(io.Discard, r.Body); n != 600<<10 || err != nil {
				t.Errorf("an upload that a limit pauses: %d bytes, %v", n, err)
			}
			io.WriteString(w, "last")
			return
		case "/events":
			io.WriteString(w, "first ")
			c.Flush()
		case "/hints":
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
		case "/call", "/answered":
			w.Header().Set("Content-Type", "application/grpc")
			if r.URL.Path == "/answered" {
				c.Flush()
			}
			if body, err := io.ReadAll(r.Body); err != nil || string(body) != "late" {
				t.Errorf("%s: the service got %q, %v", r.URL.Path, body, err)
			}
		}
		select {
		case <-cut:
		case <-r.Context().Done():
			t.Errorf("%s ends in silence", r.URL.Path)
		}
		io.WriteString(w, "last")
	}))
	service.Config.Protocols = new(http.Protocols)
	service.Config.Protocols.SetUnencryptedHTTP2(true)
	service.Start()
	t.Cleanup(service.Close)
	a := weirOf(t, fmt.Sprintf(`
data: %s
http:
- {listen: "127.0.0.1:0", upstream: %q, timeouts: {progress: 2s}}
- {listen: "127.0.0.1:0", upstream: %[2]q, throttles: [bytes], account: [source], timeouts: {progress: 2s}}
console: {listen: "off"}
throttles:
  bytes: {quota: {policies: [{name: traffic, kind: volume, limit: 400KB, period: 1s, over: delay}]}}
`, t.TempDir(), strings.Replace(service.URL, "http:", "h2c:", 1)))
	client := func() *http.Transport {
		c := &http.Transport{Protocols: new(http.Protocols),
			HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 64 << 10}}
		c.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(c.CloseIdleConnections)
		return c
	}
	gate := func(i int) string { return "http://" + a.Addr("http", i).String() }
	type result struct {
		path, body string
		err        error
	}
	results := make(chan result)
	by := client()
	ask := func(gate, path string, body io.Reader, trace *httptrace.ClientTrace) {
		method := "GET"
		if body != nil {
			method = "POST"
		}
		r, err := http.NewRequest(method, gate+path, body)
		if err != nil {
			t.Fatal(err)
		}
		if body != nil {
			r.Header.Set("Content-Type", "application/grpc")
		}
		if trace != nil {
			r = r.WithContext(httptrace.WithClientTrace(r.Context(), trace))
		}
		go func() {
			res, err := by.RoundTrip(r)
			if err != nil {
				results <- result{path, "", err}
				return
			}
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			results <- result{path, string(text), err}
		}()
	}
	hinted := make(chan struct{})
	ask(gate(0), "/events", nil, nil)
	ask(gate(0), "/poll", nil, nil)
	ask(gate(0), "/hints", nil, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
		close(hinted)
		return nil
	}})
	ask(gate(1), "/download", nil, nil)
	ask(gate(1), "/upload", bytes.NewReader(make([]byte, 600<<10)), nil)
	for _, path := range []string{"/call", "/answered"} {
		ask(gate(0), path, io.MultiReader(readerFunc(func([]byte) (int, error) {
			<-cut
			return 0, io.EOF
		}), strings.NewReader("late")), nil)
	}
	select {
	case <-hinted:
	case <-time.After(patience):
		t.Fatal("no early hints")
	}
	r, err := http.NewRequest("GET", gate(0)+"/endless", nil)
	if err != nil {
		t.Fatal(err)
	}
	greedy, err := client().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-cut:
	case <-time.After(patience):
		t.Fatal("a client that takes nothing is not cut off")
	}
	if n, err := io.Copy(io.Discard, greedy.Body); err == nil {
		t.Errorf("the client that takes nothing gets %d bytes and a proper end", n)
	}
	greedy.Body.Close()
	for range 7 {
		select {
		case got := <-results:
			want := map[string]string{"/events": "first last", "/download": string(bytes.Repeat([]byte{0}, 600<<10))}[got.path]
			if want == "" {
				want = "last"
			}
			if got.err != nil || got.body != want {
				t.Errorf("%s: %d bytes, %.40q, %v", got.path, len(got.body), got.body, got.err)
			}
		case <-time.After(patience):
			t.Fatal("no answer")
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
