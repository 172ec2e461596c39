package httpgate

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// An answerProbe is what an upstream writes in one piece when it is asked, and what the client gets.
type answerProbe struct {
	name string
	say  string
	gets string // as got has it; with "kept" where the next request comes on the same connection
	ask  string // get() where it is empty
	late string // what the upstream writes when the client has its answer
	on   bool   // the upstream does not close the connection behind what it says
}

// An oddServer answers a request for /x with what a probe says, and all others properly.
type oddServer struct {
	net.Listener
	probe atomic.Pointer[answerProbe]
	later chan chan struct{} // says that the client has its answer; is closed when the late words are written
	// on which connection a request came; where it is for /x, when all but the late words are said
	asked chan int
}

// startOdd starts one, with TLS where there is a configuration for it.
func startOdd(t testing.TB, config *tls.Config) *oddServer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	s := &oddServer{Listener: l, later: make(chan chan struct{}), asked: make(chan int, 100)}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(c, n)
		}
	}()
	return s
}

func (s *oddServer) serve(c net.Conn, n int) {
	defer c.Close()
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if r.URL.Path != "/x" {
			s.asked <- n
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext")
			continue
		}
		p := s.probe.Load()
		_, _ = io.WriteString(c, p.say)
		if !p.on {
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
		}
		s.asked <- n
		if p.late != "" {
			written := <-s.later
			_, _ = io.WriteString(c, p.late)
			close(written)
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

// by returns the connection on which the request came that has been answered, or -1 where none came.
func (s *oddServer) by() int {
	select {
	case n := <-s.asked:
		for len(s.asked) > 0 { // a peer of weir may have asked again
			n = <-s.asked
		}
		return n
	case <-time.After(probePatience()):
		return -1
	}
}

// quietly are headers that a client gets in any case, or that frame what it gets.
var quietly = strings.Fields("Connection Content-Length Content-Type Date Keep-Alive Server Trailer " +
	"Transfer-Encoding X-Request-Id")

// got asks through the gate, and shows the answer: status codes with their headers, three early
// ones at most, the body, the trailers, and whether it was cut.
func got(t *testing.T, addr, ask string) string {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(probePatience()))
	if _, err := io.WriteString(c, ask); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	br, early := bufio.NewReader(c), 0
	for {
		r := &http.Request{Method: http.MethodGet}
		if strings.HasPrefix(ask, "HEAD ") {
			r.Method = http.MethodHead
		}
		res, err := http.ReadResponse(br, r)
		if timedOut(err) {
			return text.String() + "stuck"
		}
		if err != nil {
			return text.String() + "cut"
		}
		if early++; res.StatusCode < 200 && early > 3 {
			continue
		}
		text.WriteString(strconv.Itoa(res.StatusCode))
		if res.StatusCode >= 500 && (strings.Contains(res.Header.Get("Content-Type"), "problem") ||
			res.Header.Get("Server") != "") {
			return text.String() // the gate's own words
		}
		fields(&text, " +", res.Header)
		if res.StatusCode < 200 && res.StatusCode != http.StatusSwitchingProtocols {
			text.WriteString(" ")
			continue
		}
		from := io.Reader(res.Body)
		if res.StatusCode == http.StatusSwitchingProtocols {
			from = br
		}
		body, err := io.ReadAll(from)
		fmt.Fprintf(&text, " %+q", short(string(body)))
		fields(&text, " ~", res.Trailer)
		if timedOut(err) {
			text.WriteString(" stuck")
		} else if err != nil {
			text.WriteString(" cut")
		}
		return text.String()
	}
}

func fields(text *strings.Builder, mark string, h http.Header) {
	var lines []string
	for name, values := range h {
		if !slices.Contains(quietly, name) {
			for _, v := range values {
				lines = append(lines, mark+name+": "+short(v))
			}
		}
	}
	slices.Sort(lines)
	text.WriteString(strings.Join(lines, ""))
}

func short(s string) string {
	if len(s) > 60 {
		return fmt.Sprintf("%s... of %d", s[:5], len(s))
	}
	return s
}

// TestAnswerProbes: raw answers of an upstream over real sockets. Behind each of them another client asks for something
// else, and must get that and nothing that was left over. It prints a table with -v, and takes WEIR_PROBE=nginx, as
// TestProbes does.
func TestAnswerProbes(t *testing.T) {
	t.Parallel()
	switch instead := os.Getenv("WEIR_PROBE"); instead {
	case "":
		t.Run("http", func(t *testing.T) {
			odd := startOdd(t, nil)
			probeAnswers(t, odd, start(t, Options{Upstream: to("http://" + odd.Addr().String())}).addr)
		})
		t.Run("https", func(t *testing.T) {
			a := newAuthority(t, "ca")
			files := a.server("localhost")
			pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
			if err != nil {
				t.Fatal(err)
			}
			odd := startOdd(t, &tls.Config{Certificates: []tls.Certificate{pair}})
			_, port, _ := net.SplitHostPort(odd.Addr().String())
			probeAnswers(t, odd, startIn(t, Env{Roots: a.Pool},
				Options{Upstream: to("https://localhost:" + port)}).addr)
		})
	case "nginx":
		odd := startOdd(t, nil)
		probeAnswers(t, odd, startNginx(t, odd.Addr().String()))
	default:
		t.Skip("nobody knows where " + instead + " takes its answers from")
	}
}

func probeAnswers(t *testing.T, odd *oddServer, addr string) {
	instead := os.Getenv("WEIR_PROBE")
	all := answerProbes()
	if len(all) < 40 {
		t.Errorf("%d probes are too few", len(all))
	}
	var table strings.Builder
	for _, p := range all {
		if p.ask == "" {
			p.ask = get()
		}
		odd.probe.Store(&p)
		says := got(t, addr, p.ask)
		first := odd.by()
		if first < 0 {
			says += " unasked"
		}
		if p.late != "" {
			written := make(chan struct{})
			odd.later <- written
			<-written
		}
		note := "as it should be"
		for i := range 2 {
			next := got(t, addr, "GET /next HTTP/1.1\r\nHost: b\r\n\r\n")
			switch by := odd.by(); {
			case by < 0:
				next += " unasked"
			case by == first && i == 0:
				says += " kept"
			}
			if next != `200 "next"` {
				note = "next: " + next
				if instead == "" {
					t.Errorf("%s: the next client gets %s", p.name, next)
				}
			}
		}
		if says != p.gets {
			if note == "as it should be" {
				note = "weir: " + p.gets
			}
			if instead == "" {
				t.Errorf("%s: %.300q is passed on as %s, want %s", p.name, p.say, says, p.gets)
			}
		}
		fmt.Fprintf(&table, "%-40s %-70.70s %-45s %s\n", p.name, oneLiner.Replace(p.say), says, note)
	}
	t.Logf("%d answers\n%s", len(all), table.String())
}
