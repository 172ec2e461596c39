package httpgate

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// begins sends the head of a request with a body of a known length, and the beginning of that.
func (r *rig) begins(length int, body string, header ...string) (net.Conn, *bufio.Reader) {
	r.t.Helper()
	c := r.dial()
	header = append(header, fmt.Sprintf("Content-Length: %d\r\n\r\n", length))
	r.send(c, "POST / HTTP/1.1\r\nHost: a\r\n"+strings.Join(header, "\r\n")+body)
	return c, bufio.NewReader(c)
}

func (o *observer) bodies() int { o.mu.Lock(); defer o.mu.Unlock(); return o.reading }

// TestSlowBodiesTakeNoPlace: one client sends eight bodies slowly, where the upstream can do eight requests at once.
// The others are served as if it were not there, and the slow ones too in the end.
func TestSlowBodiesTakeNoPlace(t *testing.T) {
	up := echo(t)
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("HTTP/2 %v", h2), func(t *testing.T) {
			lanes, _, _ := capacity(t, 8)
			g := start(t, Options{Upstream: to(up.URL)}, lanes)
			whole := strings.Repeat("x", maxKept)
			var finish []func() string
			for range 8 {
				if !h2 {
					c, br := g.begins(maxKept, whole[:100])
					finish = append(finish, func() string {
						g.send(c, whole[100:])
						_, text := g.answer(br)
						return text
					})
					continue
				}
				streams := &http.Transport{Protocols: new(http.Protocols)}
				streams.Protocols.SetUnencryptedHTTP2(true)
				t.Cleanup(streams.CloseIdleConnections)
				body, in := io.Pipe()
				r := g.request("POST", "/", body)
				r.ContentLength = maxKept
				answer := make(chan string, 1)
				go func() {
					res, err := streams.RoundTrip(r)
					if err != nil {
						answer <- err.Error()
						return
					}
					text, _ := io.ReadAll(res.Body)
					answer <- string(text)
				}()
				_, _ = io.WriteString(in, whole[:100])
				finish = append(finish, func() string {
					_, _ = io.WriteString(in, whole[100:])
					_ = in.Close()
					return receive(t, answer)
				})
			}
			needs.Wait(t, "eight bodies to be read", func() bool { return g.seen.bodies() == 8 })
			if n := lanes.Stats(epoch).InUse; n != 0 {
				t.Errorf("%d places are taken", n)
			}
			for range 12 {
				if res, _ := g.do(g.request("GET", "/", nil)); res.StatusCode != 200 {
					t.Error(res.Status)
				}
				if res, text := g.do(g.request("POST", "/", strings.NewReader("hello"))); text != "hello" {
					t.Error(res.Status, text)
				}
			}
			for _, f := range finish {
				if text := f(); text != whole {
					t.Errorf("%d bytes came back: %.100q", len(text), text)
				}
			}
			needs.Wait(t, "the room to be free", func() bool {
				g.bodies.mu.Lock()
				defer g.bodies.mu.Unlock()
				return g.bodies.sum == 0 && len(g.bodies.clients) == 0 && g.seen.bodies() == 0
			})
		})
	}
}

// TestBodiesOfOneClient: at the bound the client is told so, and others are not.
func TestBodiesOfOneClient(t *testing.T) {
	up := echo(t)
	lanes, _, _ := capacity(t, 8)
	g := start(t, Options{Upstream: to(up.URL), Bounds: Bounds{ClientBodies: 2 * firstRead}}, lanes)
	g.begins(firstRead, "a")
	g.begins(firstRead, "b")
	needs.Wait(t, "two bodies to be read", func() bool {
		g.bodies.mu.Lock()
		defer g.bodies.mu.Unlock()
		return g.bodies.sum == 2*firstRead
	})
	_, br := g.begins(firstRead, "c")
	res, text := g.answer(br)
	if res.StatusCode != 429 || res.Header.Get("Retry-After") == "" ||
		problemOf(t, text)["policy"] != "bounds.client_bodies" {
		t.Errorf("%s %v %s", res.Status, res.Header, text)
	}
	if n := g.seen.bounds(BoundClientBodies); n != 1 {
		t.Errorf("%d counted", n)
	}
}

// TestOldestBodyGoes: at the bound on all bodies a newcomer is read, and the one that takes longest goes. Where the
// room is full of whole bodies, one more is read when it has its place.
func TestOldestBodyGoes(t *testing.T) {
	stop := make(chan bool)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/stay" {
			<-stop
		}
		_, _ = w.Write(body)
	})
	lanes, _, _ := capacity(t, 8)
	g := start(t, Options{Upstream: to(up.URL), Bounds: Bounds{Bodies: 2 * firstRead}}, lanes)
	var old []*bufio.Reader
	for i := range 2 {
		_, br := g.begins(firstRead, "a")
		needs.Wait(t, "it to be read", func() bool {
			g.bodies.mu.Lock()
			defer g.bodies.mu.Unlock()
			return g.bodies.sum == int64(i+1)*firstRead
		})
		old = append(old, br)
	}
	fresh := bytes.Repeat([]byte("f"), firstRead)
	c, br := g.begins(firstRead, "f")
	res, text := g.answer(old[0])
	if res.StatusCode != 503 || problemOf(t, text)["policy"] != "bounds.bodies" {
		t.Errorf("%s %s", res.Status, text)
	}
	g.send(c, string(fresh[1:]))
	if _, text := g.answer(br); text != string(fresh) {
		t.Errorf("%.100q", text)
	}
	for range 2 {
		r := g.request("POST", "/stay", io.MultiReader(bytes.NewReader(fresh)))
		r.ContentLength = firstRead
		go func() {
			if res, err := client().Do(r); err == nil {
				_ = res.Body.Close()
			}
		}()
	}
	defer close(stop)
	needs.Wait(t, "both to have a place", func() bool { return lanes.Stats(epoch).InUse == 2 })
}

// TestBodiesThatAreNotReadFirst: a request that is refused anyway, a call of gRPC, and a body that is too large or of
// unknown length.
func TestBodiesThatAreNotReadFirst(t *testing.T) {
	lanes, holders, before := capacity(t, 100)
	g := start(t, Options{Upstream: to(patient(t))}, before, newThrottle(func(ev *weir.Event, a *weir.Answer) error {
		if ev.Route.Path == "/over" {
			return overLimit(ev, a)
		}
		return nil
	}), lanes)
	for i, head := range []string{"Content-Length: 100\r\nContent-Type: application/grpc", "Content-Length: 65537",
		"Transfer-Encoding: chunked"} {
		c := g.dial()
		g.send(c, "POST / HTTP/1.1\r\nHost: a\r\n"+head+"\r\n\r\n")
		h := receive(t, holders)
		defer h.Lose()
		needs.Wait(t, "it to have a place", func() bool { return lanes.Stats(epoch).InUse == i+1 })
	}
	c := g.dial()
	g.send(c, "POST /over HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
	if res, _ := g.answer(bufio.NewReader(c)); res.StatusCode != 429 {
		t.Error(res.Status)
	}
	if n := g.seen.bodies(); n != 0 {
		t.Errorf("%d are read", n)
	}
}

// TestBodyThatNeverComes: a body that is slower than the least rate is not waited for.
func TestBodyThatNeverComes(t *testing.T) {
	lanes, _, _ := capacity(t, 8)
	short := Timeouts{Progress: weir.Duration(50 * time.Millisecond)}
	g := start(t, Options{Upstream: to(echo(t).URL), Timeouts: short}, lanes)
	_, br := g.begins(10, "a")
	if res, _ := g.answer(br); res.StatusCode != 408 {
		t.Error(res.Status)
	}
	g = start(t, Options{Upstream: to(echo(t).URL)}, lanes)
	c, br := g.begins(5, "", "Expect: 100-continue")
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != 100 {
		t.Fatal(res, err)
	}
	g.send(c, "hello")
	if res, text := g.answer(br); text != "hello" {
		t.Error(res.Status, text)
	}
}
