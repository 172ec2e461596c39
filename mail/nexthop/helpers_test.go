package nexthop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
)

// A scripted is a server that does as it is told, one script for each connection. A line of a script that begins with
// "> " is said (">" alone says it without a line end), with "< " expected to begin the next line of the client. "text"
// reads up to the final dot, "hang" waits for the client to hang up, "wait" for three seconds, "reset" ends the
// connection. At the end of a script the server hangs up.
type scripted struct {
	t       testing.TB
	address string
	mu      sync.Mutex
	scripts [][]string
	said    []string // by clients, in all connections
	texts   []string
	conns   int
}

// hello is the beginning of most scripts.
var (
	hello = []string{"> 220 here", "< EHLO me.example.org", "> 250-here", "> 250-PIPELINING", "> 250-8BITMIME",
		"> 250-DSN", "> 250 SIZE 10000000"}
	helloSlow = []string{"> 220 here", "< EHLO me.example.org", "> 250-here", "> 250 8BITMIME"} // without pipelining
	helloLMTP = []string{"> 220 here", "< LHLO me.example.org", "> 250-here", "> 250 PIPELINING"}
	oneMail   = []string{"< MAIL", "< RCPT", "< DATA", "> 250 2.1.0 sender ok", "> 250 2.1.5 recipient ok",
		"> 354 go ahead"}
	goodDot = []string{"text", "> 250 2.0.0 queued as 7"}
)

func script(parts ...any) []string {
	var all []string
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			all = append(all, p)
		case []string:
			all = append(all, p...)
		}
	}
	return all
}

func newScripted(t testing.TB, scripts ...[]string) *scripted {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{t: t, address: ln.Addr().String(), scripts: scripts}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return s
}

// dial is for clients that have no network.
func (s *scripted) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go s.serve(server)
	return client, nil
}

// dialBuffered is dial with a server that need not wait until it is heard.
func (s *scripted) dialBuffered(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	inner, outer := net.Pipe()
	go s.serve(outer)
	heard := make(chan []byte, 1000)
	go func() {
		defer close(heard)
		for {
			b := make([]byte, 4096)
			n, err := inner.Read(b)
			if err != nil {
				return
			}
			heard <- b[:n]
		}
	}()
	go func() {
		for b := range heard {
			server.Write(b)
		}
		server.Close()
	}()
	go func() {
		io.Copy(inner, server)
		inner.Close()
	}()
	return client, nil
}

func (s *scripted) serve(c net.Conn) {
	defer c.Close()
	s.mu.Lock()
	n := s.conns
	s.conns++
	if n >= len(s.scripts) {
		s.mu.Unlock()
		s.t.Errorf("connection %d has no script", n+1)
		return
	}
	lines := s.scripts[n]
	s.mu.Unlock()
	r := bufio.NewReader(c)
	read := func() (string, bool) {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", false
		}
		s.mu.Lock()
		s.said = append(s.said, strings.TrimSuffix(line, "\r\n"))
		s.mu.Unlock()
		return line, true
	}
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "> "):
			io.WriteString(c, line[2:]+"\r\n")
		case strings.HasPrefix(line, ">"):
			io.WriteString(c, line[1:])
		case strings.HasPrefix(line, "< "):
			if got, ok := read(); !ok || !strings.HasPrefix(got, line[2:]) {
				s.t.Errorf("connection %d, line %d: got %q, want %q", n+1, i+1, got, line)
				return
			}
		case line == "text":
			var text strings.Builder
			for {
				got, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if got == ".\r\n" {
					break
				}
				text.WriteString(got)
			}
			s.mu.Lock()
			s.texts = append(s.texts, text.String())
			s.mu.Unlock()
		case line == "hang":
			for {
				line, ok := read()
				if !ok {
					return
				}
				if line == "QUIT\r\n" {
					io.WriteString(c, "221 bye\r\n")
					return
				}
			}
		case line == "wait":
			time.Sleep(3 * time.Second) // for tests whose time is made up
		case line == "reset":
			if tcp, ok := c.(*net.TCPConn); ok {
				tcp.SetLinger(0)
			}
			return
		default:
			s.t.Errorf("the script has %q", line)
		}
	}
}

// seen returns what clients said, and how many connections they made.
func (s *scripted) seen() (said, texts []string, conns int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.said...), append([]string(nil), s.texts...), s.conns
}

// newClient returns a client of some servers. Deliveries of tests take less than a few seconds, and are never cut off.
func newClient(t testing.TB, env Env, change func(*Options), servers ...string) *Client {
	t.Helper()
	o := Options{Servers: servers, Hello: "me.example.org"}
	if change != nil {
		change(&o)
	}
	c, err := New(o, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

const text = "Subject: hello\r\n\r\nhow are you?\r\n"

// job is a small mail to some recipients.
func job(to ...string) *Job {
	j := &Job{ID: "1", Sender: "ann@example.org", Size: int64(len(text)), Open: open(text)}
	for _, address := range to {
		j.Recipients = append(j.Recipients, Recipient{Address: address})
	}
	return j
}

func open(text string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

// slowly gives a text out byte by byte, so that it has no short cut.
func slowly(text string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		return io.NopCloser(struct{ io.Reader }{bytes.NewReader([]byte(text))}), nil
	}
}

// want compares results, written as "later 421 4.3.2 part of the text".
func want(t testing.TB, got []Result, wanted ...string) {
	t.Helper()
	if len(got) != len(wanted) {
		t.Fatalf("%d results, want %d", len(got), len(wanted))
	}
	for i, r := range got {
		parts := strings.SplitN(wanted[i], " ", 3)
		outcome, status, text := parts[0], parts[1], ""
		if len(parts) > 2 {
			text = parts[2]
		}
		if r.Outcome.String() != outcome || r.Status != status || !strings.Contains(r.Text, text) {
			t.Errorf("recipient %d: %s %d %s %q, want %s", i, r.Outcome, r.Code, r.Status, r.Text, wanted[i])
		}
		if len(r.Text) > maxReplyText {
			t.Errorf("recipient %d: a text of %d bytes", i, len(r.Text))
		}
	}
}

func wantFields(t *testing.T, err error, paths ...string) {
	t.Helper()
	var got []string
	for _, fe := range weir.FieldErrors(err) {
		got = append(got, fe.Path)
	}
	if strings.Join(got, " ") != strings.Join(paths, " ") {
		t.Errorf("mistakes at %v, want %v: %v", got, paths, err)
	}
}

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

var errTest = errors.New("the disk is full")

// soon bounds what a test waits for that should happen at once.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
