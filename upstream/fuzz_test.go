package upstream

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// bytesConn is a connection from which bytes come, in pieces.
type bytesConn struct {
	nothing
	src   *bytes.Reader
	piece int
}

func (b *bytesConn) Read(p []byte) (int, error) { return b.src.Read(p[:min(len(p), b.piece)]) }

// FuzzAnswer compares our reader of answers with net/http's: what ours takes, theirs takes and understands in the same
// way.
func FuzzAnswer(f *testing.F) {
	for _, say := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.0 404 Not Found\r\nX: a\r\nx: b\r\n\r\nrest",
		"HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
	} {
		f.Add([]byte(say), uint8(3), false)
		f.Add([]byte(say), uint8(255), true)
	}
	p, err := New(To("http://127.0.0.1:1"), Env{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, say []byte, piece uint8, head bool) {
		method := "GET"
		if head {
			method = "HEAD"
		}
		r, _ := http.NewRequest(method, "http://a/", nil)
		c := newConn(p.servers()[0], &bytesConn{src: bytes.NewReader(say), piece: int(piece) + 1})
		p.servers()[0].active.Add(1)
		k := &Call{Request: r}
		if err := c.exchange(p, k, nil, time.Now()); err != nil {
			p.servers()[0].active.Add(-1)
			return
		}
		res := k.response()
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if p.servers()[0].active.Load() != 0 {
			t.Fatal("still under way")
		}
		var theirs *http.Response
		br := bufio.NewReader(bytes.NewReader(say))
		for {
			var theirErr error
			if theirs, theirErr = http.ReadResponse(br, r); theirErr != nil {
				t.Fatalf("%q: taken, and net/http says %v", say, theirErr)
			}
			if theirs.StatusCode >= 200 {
				break
			}
		}
		theirBody, theirErr := io.ReadAll(theirs.Body)
		if err == nil && theirErr != nil {
			if !strings.Contains(theirErr.Error(), "too large") && !strings.Contains(theirErr.Error(), "too many") {
				t.Fatalf("%q: whole, and net/http says %v", say, theirErr)
			}
			return
		}
		if err == nil && string(body) != string(theirBody) || !bytes.HasPrefix(theirBody, body) {
			t.Fatalf("%q: %q, and net/http says %q", say, body, theirBody)
		}
		if res.StatusCode != theirs.StatusCode || res.ContentLength != theirs.ContentLength && !head &&
			theirs.StatusCode != 304 {
			t.Fatalf("%q: %v %d, and net/http says %v %d", say, res.Status, res.ContentLength, theirs.Status,
				theirs.ContentLength)
		}
		theirs.Header.Del("Content-Length") // net/http keeps what it does not go by
		res.Header.Del("Content-Length")
		theirs.Header.Del("Connection") // and drops close
		res.Header.Del("Connection")
		theirs.Header.Del("Trailer")
		res.Header.Del("Trailer")
		if !reflect.DeepEqual(theirs.Header, res.Header) {
			t.Fatalf("%q: %v, and net/http says %v", say, res.Header, theirs.Header)
		}
		if err == nil && theirErr == nil && theirs.Close && !res.Close && res.StatusCode != 204 &&
			res.StatusCode != 304 && !head {
			t.Fatalf("%q: the connection would be used on", say)
		}
	})
}

// FuzzRequest writes requests and reads them with net/http: one request, the same one, and nothing behind it.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/a b", "x=1", "example.org", "X-A", "b", "")
	f.Add("POST", "/", "", "[::1]:80", "Connection", "close", "hello")
	f.Fuzz(func(t *testing.T, method, path, query, host, name, value, body string) {
		r, err := http.NewRequest("GET", "http://a/", strings.NewReader(body))
		if err != nil {
			t.Skip()
		}
		r.Method, r.URL.Path, r.URL.RawQuery, r.Host, r.Header = method, path, query, host, http.Header{name: {value}}
		k := &Call{Request: r}
		if k.Fields.AddHeader(r.Header); Sendable(k) != nil {
			return
		}
		if body == "" {
			r.Body = http.NoBody
		}
		out := appendRequest(nil, &target{host: "b"}, k)
		br := bufio.NewReader(bytes.NewReader(append(out, body...)))
		got, err := http.ReadRequest(br)
		if err != nil {
			return // net/http has rules of its own for methods and hosts
		}
		if text, err := io.ReadAll(got.Body); err != nil || string(text) != body {
			t.Fatalf("%q: a body of %q, %v", out, text, err)
		}
		if rest, _ := io.ReadAll(br); len(rest) > 0 {
			t.Fatalf("%q: %q is left over", out, rest)
		}
		if want := r.Method; want != "" && got.Method != want {
			t.Fatalf("%q: %s", out, got.Method)
		}
	})
}

// nothing is what a connection made of bytes does not do.
type nothing struct{}

func (nothing) Write(p []byte) (int, error)      { return len(p), nil }
func (nothing) Close() error                     { return nil }
func (nothing) LocalAddr() net.Addr              { return nil }
func (nothing) RemoteAddr() net.Addr             { return nil }
func (nothing) SetDeadline(time.Time) error      { return nil }
func (nothing) SetReadDeadline(time.Time) error  { return nil }
func (nothing) SetWriteDeadline(time.Time) error { return nil }

// FuzzRetryAfter: whatever a server says, it is left alone for a bounded time.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "0", "120", "-1", "4294967296", "Fri, 31 Dec 1999 23:59:59 GMT",
		"Fri, 31 Dec 9999 23:59:59 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", "1e9", " 5"} {
		f.Add(seed)
	}
	s := &server{env: Env{}.withDefaults()}
	f.Fuzz(func(t *testing.T, text string) {
		s.resting.Store(0)
		s.rest(text)
		if s.rests(time.Now().Add(maxRest)) {
			t.Errorf("%q: rests until %s", text, time.Unix(0, s.resting.Load()))
		}
	})
}
