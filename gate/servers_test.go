package gate

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// patience bounds how long a test waits for something that must happen.
const patience = time.Minute

// serve opens a socket whose connections go to servers.
func serve(t *testing.T, first *http.Server) (*servers, net.Listener) {
	t.Helper()
	l, err := Listen("127.0.0.1:0", Socket{})
	if err != nil {
		t.Fatal(err)
	}
	s := newServers(l.Addr())
	s.put(first)
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		Accept(l.Accept, stop, slog.New(slog.DiscardHandler), s.hand)
	}()
	t.Cleanup(func() {
		close(stop)
		_ = l.Close()
		s.shut()
		<-over
		s.close()
	})
	return s, l
}

// says is a server that answers with a word.
func says(word string) *http.Server {
	return &http.Server{ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, word) })}
}

// A client is one connection.
type client struct {
	net.Conn
	br *bufio.Reader
}

func dial(t *testing.T, l net.Listener) *client {
	t.Helper()
	c, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return &client{c, bufio.NewReader(c)}
}

// get asks and returns the word.
func (c *client) get(t *testing.T) string {
	t.Helper()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	return c.read(t)
}

func (c *client) read(t *testing.T) string {
	t.Helper()
	res, err := http.ReadResponse(c.br, nil)
	if err != nil {
		t.Fatal(err)
	}
	word, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(word)
}

func TestServers(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := &http.Server{ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				close(arrived)
				<-release
			}
			_, _ = io.WriteString(w, "one")
		})}
	s, l := serve(t, slow)
	idle, fresh, under := dial(t, l), dial(t, l), dial(t, l)
	if word := idle.get(t); word != "one" {
		t.Error(word)
	}
	_, _ = io.WriteString(fresh, "GET / HT")
	_, _ = io.WriteString(under, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	<-arrived
	s.put(says("two"))
	if word := dial(t, l).get(t); word != "two" {
		t.Error("a new connection gets", word)
	}
	if _, err := idle.br.ReadByte(); err == nil {
		t.Error("an idle connection stays with the old server")
	}
	_, _ = io.WriteString(fresh, "TP/1.1\r\nHost: a\r\n\r\n")
	if word := fresh.read(t); word != "one" {
		t.Error("what had begun gets", word)
	}
	close(release)
	if word := under.read(t); word != "one" {
		t.Error("what was under way gets", word)
	}
}

func TestServersEnd(t *testing.T) {
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	s, l := serve(t, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})})
	under := dial(t, l)
	_, _ = io.WriteString(under, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-arrived
	s.shut()
	s.shut()
	s.put(says("too late"))
	late, there := net.Pipe()
	defer there.Close()
	s.hand(late)
	if _, err := late.Write([]byte("x")); err == nil {
		t.Error("a connection is taken after the end")
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.shutdown(gone); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.close() // what is under way is cut off
	if _, err := under.br.ReadByte(); err == nil {
		t.Error("answered")
	}
	if err := s.shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}
