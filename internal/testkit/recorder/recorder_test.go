package recorder

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// patience bounds how long a test waits for something that must happen.
const patience = time.Minute

// talk writes bytes on a connection of its own, and returns what comes back until the upstream closes it.
func talk(t *testing.T, u *Upstream, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", u.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	// The upstream may close before all of it has been written: the test looks at what it says of it.
	_, _ = io.WriteString(c, text)
	_ = c.(*net.TCPConn).CloseWrite()
	said, _ := io.ReadAll(c)
	return string(said)
}

// TestEveryByte: what came is kept as it came, on one connection after the other request.
func TestEveryByte(t *testing.T) {
	u := Start(t)
	first := "GET /a%2Fb/%C3%A4?q=a;b&x=%zz&empty= HTTP/1.1\r\nhost: a\r\nX-ODD:\t two  spaces \r\nx-odd: " +
		"\xc3\xa4\r\nCookie: a=\"1\"; b={\"c\":2}; a=3\r\n\r\n"
	second := "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12\r\n3"
	third := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
	chunks := "3;x=y\r\n123\r\n1\r\n4\r\n0\r\nX-Sum: 7\r\n\r\n"
	said := talk(t, u, first+second+third+chunks)
	answer := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nhello\n"
	if said != answer+answer+answer {
		t.Errorf("it said %q", said)
	}
	heads := u.Requests()
	got := u.Take()
	if len(got) != 3 || len(heads) != 3 || string(heads[0]) != first || len(u.Take()) != 0 {
		t.Fatalf("%q", heads)
	}
	r := got[0]
	if string(r.Head) != first || r.Body != nil || r.Method() != "GET" ||
		r.Target() != "/a%2Fb/%C3%A4?q=a;b&x=%zz&empty=" || r.Path() != "/a%2Fb/%C3%A4" {
		t.Errorf("%q %q %q", r.Head, r.Target(), r.Path())
	}
	want := []string{"host: a", "X-ODD:\t two  spaces ", "x-odd: \xc3\xa4", `Cookie: a="1"; b={"c":2}; a=3`}
	if lines := r.Lines(); !slices.Equal(lines, want) {
		t.Errorf("lines %q", lines)
	}
	if named := r.Named("X-Odd"); !slices.Equal(named, want[1:3]) {
		t.Errorf("named %q", named)
	}
	if values := r.Values("x-odd"); !slices.Equal(values, []string{"two  spaces", "\xc3\xa4"}) {
		t.Errorf("values %q", values)
	}
	if pairs := r.Pairs(); !slices.Equal(pairs, []string{`a="1"`, `b={"c":2}`, "a=3"}) {
		t.Errorf("pairs %q", pairs)
	}
	if b := got[1]; string(b.Body) != "12\r\n3" || string(b.Framed) != "12\r\n3" {
		t.Errorf("body %q, framed %q", b.Body, b.Framed)
	}
	if b := got[2]; string(b.Body) != "1234" || string(b.Framed) != chunks {
		t.Errorf("body %q, framed %q", b.Body, b.Framed)
	}
}

// TestAnswers: it says what it is told to, in the way that the request asks for.
func TestAnswers(t *testing.T) {
	u := Start(t)
	u.Answers(func(r Request) Answer {
		if r.Path() == "/none" {
			return Answer{Status: 204, Body: "never sent"}
		}
		return Answer{Status: 401, Header: []string{"Set-Cookie: a=1; Path=/", "Set-Cookie: a=2; Path=/app"},
			Body: r.Target()}
	})
	res, err := http.Get(u.URL() + "/login?x=1")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || res.StatusCode != 401 || string(body) != "/login?x=1" ||
		!slices.Equal(res.Header["Set-Cookie"], []string{"a=1; Path=/", "a=2; Path=/app"}) {
		t.Errorf("%v %q %v", res, body, err)
	}
	http.DefaultClient.CloseIdleConnections()
	if said := talk(t, u, "HEAD /h HTTP/1.0\r\n\r\nGET / HTTP/1.1\r\n\r\n"); !strings.HasSuffix(said,
		"Content-Length: 2\r\n\r\n") {
		t.Errorf("to HEAD: %q", said)
	}
	if said := talk(t, u,
		"GET /none HTTP/1.1\r\nConnection: close\r\n\r\n"); said != "HTTP/1.1 204 No Content\r\n\r\n" {
		t.Errorf("without content: %q", said)
	}
	u.Answers(nil)
	said := talk(t, u, "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1")
	if rest, found := strings.CutPrefix(said, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"); !found ||
		!strings.HasSuffix(rest, "hello\n") {
		t.Errorf("who asks first: %q", said)
	}
	if got := u.Take(); len(got) != 4 {
		t.Errorf("%d requests", len(got))
	}
}

// TestFaults: what cannot be read, and what is beyond a bound, is a fault and no request.
func TestFaults(t *testing.T) {
	u := Start(t)
	head := "POST / HTTP/1.1\r\n"
	long := func(n int) string { // a head of n bytes
		return "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", n-len("GET / HTTP/1.1\r\nX: \r\n\r\n")) + "\r\n\r\n"
	}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"leaves in the head":    {"GET / HT", io.ErrUnexpectedEOF},
		"leaves in the body":    {head + "Content-Length: 5\r\n\r\n1", io.ErrUnexpectedEOF},
		"leaves in the chunks":  {head + "Transfer-Encoding: chunked\r\n\r\n5\r\n1", io.ErrUnexpectedEOF},
		"leaves in the trailer": {head + "Transfer-Encoding: chunked\r\n\r\n0\r\n", io.ErrUnexpectedEOF},
		"bare LF":               {"GET / HTTP/1.1\nHost: a\n\n", ErrMalformed},
		"empty line first":      {"\r\nGET / HTTP/1.1\r\n\r\n", ErrMalformed},
		"request line":          {"GET  / HTTP/1.1\r\n\r\n", ErrMalformed},
		"another protocol":      {"PRI * HTTP/2.0\r\n\r\n", ErrMalformed},
		"no colon":              {"GET / HTTP/1.1\r\nX\r\n\r\n", ErrMalformed},
		"folded line":           {"GET / HTTP/1.1\r\nX: 1\r\n 2: 3\r\n\r\n", ErrMalformed},
		"two lengths":           {head + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n1", ErrMalformed},
		"length and chunks": {head + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			ErrMalformed},
		"no length":          {head + "Content-Length: +1\r\n\r\n1", ErrMalformed},
		"another coding":     {head + "Transfer-Encoding: gzip\r\n\r\n", ErrMalformed},
		"no size":            {head + "Transfer-Encoding: chunked\r\n\r\nx\r\n", ErrMalformed},
		"chunk too long":     {head + "Transfer-Encoding: chunked\r\n\r\n1\r\n123\r\n", ErrMalformed},
		"head, at the bound": {long(maxHead), nil},
		"head, one more":     {long(maxHead + 1), ErrHeadTooLarge},
		"body, at the bound": {head + fmt.Sprintf("Content-Length: %d\r\n\r\n", maxBody) + strings.Repeat("x", maxBody),
			nil},
		"body, one more":   {head + fmt.Sprintf("Content-Length: %d\r\n\r\n", maxBody+1), ErrBodyTooLarge},
		"chunk, too large": {head + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", maxBody), ErrBodyTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			said := talk(t, u, c.text)
			faults, requests := u.Faults(), u.Take()
			if c.want == nil {
				if len(faults) != 0 || len(requests) != 1 || !strings.HasPrefix(said, "HTTP/1.1 200 ") {
					t.Errorf("%v, %d requests, said %.40q", faults, len(requests), said)
				}
				return
			}
			if len(faults) != 1 || !errors.Is(faults[0], c.want) || len(requests) != 0 || said != "" {
				t.Errorf("%v, %d requests, said %q; want %v", faults, len(requests), said, c.want)
			}
		})
	}
}

// TestTooMany: one more request than are kept is a fault.
func TestTooMany(t *testing.T) {
	u := Start(t)
	c, err := net.Dial("tcp", u.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	u.mu.Lock()
	u.requests = make([]Request, maxRequests-1)
	u.mu.Unlock()
	for i := range 2 {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		_, err := http.ReadResponse(in, nil)
		if last := i == 1; (err != nil) != last {
			t.Errorf("request %d beyond: %v", i, err)
		}
		_, _ = in.Discard(len("hello\n"))
	}
	if faults := u.Faults(); len(faults) != 1 || !errors.Is(faults[0], ErrTooMany) || len(u.Take()) != maxRequests {
		t.Errorf("%v", faults)
	}
}
