package upstream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A touchy body tells whether somebody has read it, or closed it.
type touchy struct {
	io.Reader
	touched atomic.Bool
}

func (b *touchy) Read(p []byte) (int, error) {
	b.touched.Store(true)
	return b.Reader.Read(p)
}

func (b *touchy) Close() error {
	b.touched.Store(true)
	return nil
}

// A try that has failed leaves the body to the next one: its sender, which still waits for the server's word, must not
// take a piece of it.
func TestSenderCalledOff(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	p, err := New(Options{Servers: []string{"http://127.0.0.1:1"}}, Env{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.expect = time.Minute
	body := &touchy{Reader: strings.NewReader("hello")}
	k := &Call{Request: request(t, "PUT", "/x", body)}
	k.Fields.Add("Expect", "100-continue")
	s := startSender(&conn{nc: here, pool: p, server: p.servers()[0]}, k)
	if !s.callOff() {
		t.Error("it had begun before the server said that it wants the body")
	}
	<-s.done
	if body.touched.Load() || s.whole {
		t.Error("the body of a try that was called off was touched")
	}
	b := &watchedBody{src: body}
	if !b.callOff() || b.callOff() {
		t.Error("called off twice")
	}
	if _, err := b.Read(make([]byte, 1)); err != errCalledOff || b.Close() != nil || body.touched.Load() {
		t.Errorf("%v", err)
	}
}

// The second try sends all of it.
func TestRetryHasTheWholeBody(t *testing.T) {
	// reads the head, and hangs up
	dead := script(t, func(_ net.Conn, br *bufio.Reader) { _, _ = http.ReadRequest(br) })
	got := make(chan string, 1)
	good := script(t, func(c net.Conn, br *bufio.Reader) {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		b, err := io.ReadAll(r.Body)
		if err != nil {
			b = []byte(err.Error())
		}
		got <- string(b)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	})
	g := start(t, Options{Servers: []string{dead, good}, Balance: First})
	g.expect = time.Minute
	r := request(t, "PUT", "/x", io.NopCloser(io.MultiReader(strings.NewReader("one "), strings.NewReader("two"))))
	r.ContentLength = -1
	r.Header.Set("Expect", "100-continue")
	res, err := g.Do(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if body := <-got; body != "one two" {
		t.Errorf("the server got %q", body)
	}
}

// A server that switches before it has all of the request would take the rest of the body for the other protocol.
func TestUpgradeBeforeTheBody(t *testing.T) {
	noneLeft(t)
	url := script(t, func(c net.Conn, br *bufio.Reader) {
		_, _ = http.ReadRequest(br)
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(io.Discard, br)
	})
	p := start(t, To(url))
	src, body := io.Pipe() // and no end
	defer body.Close()
	r := request(t, "POST", "/", src)
	r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade"}, []string{"echo"}
	if res, err := p.RoundTrip(r); err == nil {
		t.Errorf("switched: %v", res.Status)
		_ = res.Body.Close()
	}
}
