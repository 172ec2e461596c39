package httpgate

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/admission"
	"weir/internal/testkit/needs"
)

// patient is a service that never finishes: what it does before depends on the path.
func patient(t testing.TB) string {
	stop := make(chan bool)
	s := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		piece := make([]byte, 64<<10)
		switch {
		case r.URL.Path == "/unread": // it does not take the body
		case r.Method == "POST" && r.URL.Path != "/talk":
			_, _ = io.Copy(io.Discard, r.Body)
		}
		switch r.URL.Path {
		case "/early":
			w.WriteHeader(http.StatusEarlyHints)
		case "/talk", "/head": // the answer begins, and nothing follows
			_ = c.EnableFullDuplex()
			_ = c.Flush()
		case "/large":
			w.Header().Set("Content-Length", fmt.Sprint(1<<30))
			for {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		case "/upgrade", "/upgrade/large":
			up, _, err := c.Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer up.Close()
			_, _ = io.WriteString(up,
				"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			for err == nil && r.URL.Path == "/upgrade/large" {
				_, err = up.Write(piece)
			}
			_, _ = io.Copy(io.Discard, up)
			return
		}
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	})
	t.Cleanup(func() { close(stop) })
	return s.URL
}

// capacity returns lanes with so many places, and a throttle before them that tells who may have one.
func capacity(t testing.TB, places int) (lanes *admission.Lanes, holders chan weir.Holder, before weir.Throttle) {
	l, err := admission.New(admission.Options{Concurrent: places}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	holders = make(chan weir.Holder, 100)
	return l, holders, newThrottle(func(ev *weir.Event, _ *weir.Answer) error {
		holders <- ev.Holder
		return nil
	})
}

// TestWhoIsLate: an exchange waits for its client while that owes bytes of its body, or does not take the answer. While
// the service is silent, or does not take the body, or a meter pauses the flow, it does not.
func TestWhoIsLate(t *testing.T) {
	const (
		upload  = "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nthe beginning"
		chunked = "POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
		get     = "GET %s HTTP/1.1\r\nHost: a\r\n\r\n"
		upgrade = "GET %s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	)
	a, up := newAuthority(t, "ca"), patient(t)
	lanes, holders, before := capacity(t, 100)
	paused := false
	meters := &meter{newThrottle(nil), func(n int64, now time.Time) (until time.Time) {
		if paused {
			until = now.Add(time.Hour)
		}
		return until
	}}
	plain := start(t, Options{Upstream: to(up)}, before, lanes)
	secure := startTLS(t, a, Options{Upstream: to(up)}, before, lanes)
	metered := start(t, Options{Upstream: to(up)}, before, meters, lanes)
	over := func(g *rig, request, path string) func() io.ReadWriter {
		return func() io.ReadWriter {
			var c net.Conn
			if g == secure {
				c = g.dialTLS(a, "http/1.1")
			} else {
				c = g.dial()
			}
			g.send(c, fmt.Sprintf(request, path))
			return c
		}
	}
	streams := &http.Transport{Protocols: new(http.Protocols)}
	streams.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(streams.CloseIdleConnections)
	posted := func(path string, length int64) func() io.ReadWriter {
		return func() io.ReadWriter {
			body, in := io.Pipe()
			r := plain.request("POST", path, body)
			r.ContentLength = length
			r, leave := contextWithCancel(r)
			t.Cleanup(leave)
			go func() {
				if res, err := streams.RoundTrip(r); err == nil {
					_ = res.Body.Close()
				}
			}()
			_, _ = io.WriteString(in, "the beginning")
			return struct {
				io.Reader
				*io.PipeWriter
			}{nil, in}
		}
	}
	windowed := func(path string, window uint32) func() io.ReadWriter {
		return func() io.ReadWriter { plain.stream(path, window); return nil }
	}
	for _, test := range []struct {
		name  string
		ask   func() io.ReadWriter
		late  bool
		least int64 // of what has moved before
		reads bool  // the client then takes what comes
		rest  bool  // the client then sends the rest of 100000 bytes
	}{
		{name: "part of a body", ask: over(plain, upload, "/"), late: true, least: 13, rest: true},
		{name: "part of a body inside TLS", ask: over(secure, upload, "/"), late: true, least: 13, rest: true},
		{name: "part of a body over HTTP/2", ask: posted("/", 100000), late: true, least: 13, rest: true},
		{name: "a chunk", ask: over(plain, chunked, "/"), late: true, least: 5},
		{name: "a body of unknown length over HTTP/2", ask: posted("/", -1), late: true, least: 13},
		{name: "a chunk of a conversation", ask: over(plain, chunked, "/talk"), least: 5},
		{name: "a conversation over HTTP/2", ask: posted("/talk", -1), least: 13},
		{name: "a large body that the service does not take", ask: func() io.ReadWriter {
			c := over(plain, strings.Replace(upload, "100000", "100000000", 1), "/unread")()
			go func() { _, _ = c.Write(make([]byte, 100_000_000)) }()
			return nil
		}, least: 1 << 20},
		{name: "no answer", ask: over(plain, get, "/")},
		{name: "no answer over HTTP/2, and no room for one", ask: windowed("/", 0)},
		{name: "early hints", ask: over(plain, get, "/early")},
		{name: "the head of an answer", ask: over(plain, get, "/head")},
		{name: "an unread answer", ask: over(plain, get, "/large"), late: true, least: 64 << 10, reads: true},
		{name: "an unread answer inside TLS", ask: over(secure, get, "/large"), late: true, least: 64 << 10, reads: true},
		{name: "an unread answer over HTTP/2", ask: windowed("/large", 65535), late: true, least: 32 << 10},
		{name: "a silent WebSocket", ask: over(plain, upgrade, "/upgrade")},
		{name: "an unread WebSocket", ask: over(plain, upgrade, "/upgrade/large"), late: true, least: 64 << 10,
			reads: true},
		{name: "a meter that pauses a body", ask: func() io.ReadWriter {
			paused = true
			c := over(metered, upload, "/")()
			_, _ = c.Write(make([]byte, 50_000))
			return nil
		}, least: 13},
		{name: "a meter that pauses an answer", ask: over(metered, get, "/large"), least: maxBite},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := test.ask()
			h := receive(t, holders)
			defer h.Lose()
			// It stands still: nothing has moved for several looks.
			settled := func() int64 {
				var moved int64
				needs.Wait(t, fmt.Sprintf("late to be %v", test.late), func() bool {
					for range 3 {
						n, late := h.Moved()
						if late != test.late || n != moved || n < test.least {
							moved = n
							return false
						}
					}
					return true
				})
				return moved
			}
			before := settled()
			switch {
			case test.reads:
				if _, err := io.CopyN(io.Discard, client, 32<<20); err != nil {
					t.Fatal(err)
				}
				if after := settled(); after-before < 16<<20 {
					t.Errorf("%d bytes moved while the client read 32 MiB", after-before)
				}
			case test.rest:
				if _, err := client.Write(make([]byte, 100000-13)); err != nil {
					t.Fatal(err)
				}
				if stream, ok := client.(interface{ CloseWithError(err error) error }); ok {
					_ = stream.CloseWithError(io.EOF)
				}
				needs.Wait(t, "the service to be waited for", func() bool {
					n, late := h.Moved()
					return n == 100000 && !late
				})
			}
		})
	}
}

// TestLosesThePlace: whatever an exchange waits for, it ends when it has to give its place to another one, at a gate
// without stamps, too. A client that was not answered is told so.
func TestLosesThePlace(t *testing.T) {
	a, up := newAuthority(t, "ca"), patient(t)
	lanes, holders, before := capacity(t, 100)
	plain := start(t, Options{Upstream: to(up)}, before, lanes)
	secure := startTLS(t, a, Options{Upstream: to(up)}, before, lanes)
	for name, test := range map[string]struct {
		request, path string
		told          bool
	}{
		"no answer":            {"GET", "/", true},
		"a body that is late":  {"POST", "/", true},
		"a body not taken":     {"POST", "/unread", true},
		"an unread answer":     {"GET", "/large", false},
		"an answer that stops": {"GET", "/head", false},
		"a WebSocket":          {"UPGRADE", "/upgrade", false},
		"an unread WebSocket":  {"UPGRADE", "/upgrade/large", false},
	} {
		for over, g := range map[string]*rig{"plain": plain, "TLS": secure} {
			t.Run(name+" over "+over, func(t *testing.T) {
				var c net.Conn
				if g == secure {
					c = g.dialTLS(a, "http/1.1")
				} else {
					c = g.dial()
				}
				head := test.request + " " + test.path + " HTTP/1.1\r\nHost: a\r\n"
				switch test.request {
				case "POST":
					head += "Content-Length: 100000000\r\n"
				case "UPGRADE":
					head = "GET " + test.path + " HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
				}
				g.send(c, head+"\r\n")
				if test.path == "/unread" {
					go func() { _, _ = c.Write(make([]byte, 100_000_000)) }()
				}
				h := receive(t, holders)
				if strings.HasSuffix(test.path, "/large") {
					needs.Wait(t, "the client to be late", func() bool {
						_, late := h.Moved()
						return late
					})
				}
				if !test.told {
					res, err := http.ReadResponse(bufio.NewReader(c), nil)
					if err != nil || res.StatusCode >= 400 {
						t.Fatalf("%v %v", res, err)
					}
				}
				h.Lose()
				if test.told {
					res, text := g.answer(bufio.NewReader(c))
					if res.StatusCode != 503 || problemOf(t, text)["policy"] != "progress" {
						t.Errorf("%s %s", res.Status, text)
					}
				}
				needs.Wait(t, "the place to be free", func() bool { return lanes.Stats(epoch).InUse == 0 })
				_ = c.Close()
			})
		}
	}
	for _, path := range []string{"/", "/large"} {
		t.Run("HTTP/2 "+path, func(t *testing.T) {
			end := plain.stream(path, 65535)
			h := receive(t, holders)
			if path == "/large" {
				needs.Wait(t, "the client to be late", func() bool {
					_, late := h.Moved()
					return late
				})
			}
			h.Lose()
			if text, ended := end(); (ended == nil) != (path == "/") || ended == nil && !strings.Contains(text, "progress") {
				t.Errorf("%.100q %v", text, ended)
			}
			needs.Wait(t, "the place to be free", func() bool { return lanes.Stats(epoch).InUse == 0 })
		})
	}
}
