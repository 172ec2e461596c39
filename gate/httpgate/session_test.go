package httpgate

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/http1"
	"weir/internal/testkit/needs"
)

// answers is an upstream that answers with what the path of the request names.
func answers(t testing.TB) string {
	return upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/sized":
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "hello")
		case "/chunks":
			for range 2 {
				_, _ = io.WriteString(w, "hello")
				w.(http.Flusher).Flush()
			}
		case "/large":
			_, _ = w.Write(bytes.Repeat([]byte("x"), 100_000))
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		case "/echo":
			_, _ = w.Write(body)
		}
	}).URL
}

// Requests on one connection, one behind the other, as old and new clients send them.
func TestSessionFraming(t *testing.T) {
	g := start(t, Options{Upstream: to(answers(t))})
	for name, c := range map[string]struct {
		say  string
		want []string // a status and a body for each answer
		last bool     // the last answer says so
	}{
		"pipelined": {"GET /sized HTTP/1.1\r\nHost: a\r\n\r\nGET /chunks HTTP/1.1\r\nHost: a\r\n\r\nHEAD /sized " +
			"HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\n",
			[]string{"200 hello", "200 hellohello", "200 ", "204 "}, false},
		"bodies": {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcPOST /echo HTTP/1.1\r\nHost: " +
			"a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ndef\r\n0\r\n\r\nGET /sized HTTP/1.1\r\nHost: a\r\n\r\n",
			[]string{"200 abc", "200 def", "200 hello"}, false},
		"HTTP/1.0": {"GET /sized HTTP/1.0\r\n\r\nGET /sized HTTP/1.0\r\n\r\n", []string{"200 hello"}, true},
		"HTTP/1.0, kept": {"GET /sized HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\nGET /sized HTTP/1.0\r\n\r\n",
			[]string{"200 hello", "200 hello"}, true},
		"HTTP/1.0, no length": {"GET /chunks HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", []string{"200 hellohello"},
			true},
		"close": {"GET /sized HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /sized HTTP/1.1\r\nHost: a\r\n\r\n",
			[]string{"200 hello"}, true},
		"large": {"GET /large HTTP/1.1\r\nHost: a\r\n\r\nGET /sized HTTP/1.1\r\nHost: a\r\n\r\n",
			[]string{"200 " + strings.Repeat("x", 100_000), "200 hello"}, false},
		"no host": {"GET / HTTP/1.1\r\n\r\n", []string{"400 400 Bad Request"}, true},
		"lines before": {"\r\nGET /sized HTTP/1.1\r\nHost: a\r\n\r\n\r\n\r\nPOST /echo HTTP/1.1\r\nHost: " +
			"a\r\nContent-Length: 3\r\n\r\nabc\r\nGET /sized HTTP/1.1\r\nHost: a\r\n\r\n",
			[]string{"200 hello", "200 abc", "200 hello"}, false},
		"a bare LF before": {"\nGET /sized HTTP/1.1\r\nHost: a\r\n\r\n", []string{"400 400 Bad Request"}, true},
		"odd port":         {"GET / HTTP/1.1\r\nHost: a:99999x\r\n\r\n", []string{"400 400 Bad Request"}, true},
		"two hosts":        {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", []string{"400 400 Bad Request"}, true},
		"odd host":         {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", []string{"400 400 Bad Request"}, true},
		"odd target":       {"GET a HTTP/1.1\r\nHost: a\r\n\r\n", []string{"400 400 Bad Request"}, true},
		"half a head":      {"GET / HTTP/1.1\r\nHost: a\r\n", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			conn := g.dial()
			g.send(conn, c.say)
			br := bufio.NewReader(conn)
			closes := false
			for _, want := range c.want {
				method := "GET"
				if want == "200 " {
					method = "HEAD"
				}
				res, err := http.ReadResponse(br, &http.Request{Method: method})
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				if got := fmt.Sprintf("%d %s", res.StatusCode, body); got != want || err != nil {
					t.Errorf("%.60q %v, want %.60q", got, err, want)
				}
				if res.Header.Get("Date") == "" && res.StatusCode != 400 {
					t.Error("no date")
				}
				closes = res.Close
			}
			_ = conn.(*net.TCPConn).CloseWrite() // not earlier: to the gate, that is a client who leaves
			if rest, _ := io.ReadAll(br); len(rest) > 0 || closes != c.last {
				t.Errorf("%.60q is left, closes %v", rest, closes)
			}
		})
	}
}

// A client that waits for 100 Continue gets it when the upstream wants its body, and not when it is refused.
func TestSessionContinue(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		admit := newThrottle(nil)
		if refuse {
			admit = newThrottle(overLimit)
		}
		g := start(t, Options{Upstream: to(answers(t))}, admit)
		c := g.dial()
		g.send(c, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
		br := bufio.NewReader(c)
		if refuse {
			if res, _ := g.answer(br); res.StatusCode != 429 || !res.Close {
				t.Errorf("%v", res)
			}
			continue
		}
		if line, _ := br.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("%q", line)
		}
		_, _ = br.ReadString('\n')
		g.send(c, "hello")
		if res, body := g.answer(br); res.StatusCode != 200 || body != "hello" || res.Close {
			t.Errorf("%v %q", res, body)
		}
	}
}

// A stop closes what is idle at once, lets answers under way go out, and closes their connections then.
func TestSessionStop(t *testing.T) {
	l := newLine()
	g := start(t, Options{Upstream: to(answers(t))}, l)
	idle, busy := g.dial(), g.dial()
	g.send(idle, "GET /sized HTTP/1.1\r\nHost: a\r\n\r\n")
	receive(t, l.Turns).Grant()
	br := bufio.NewReader(idle)
	if res, _ := g.answer(br); res.StatusCode != 200 {
		t.Fatal(res.Status)
	}
	g.send(busy, "GET /sized HTTP/1.1\r\nHost: a\r\n\r\n")
	turn := receive(t, l.Turns)
	stopped := make(chan error, 1)
	go func() { stopped <- g.Stop(context.Background()) }()
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("the idle one: %v", err)
	}
	turn.Grant()
	busyReader := bufio.NewReader(busy)
	if res, body := g.answer(busyReader); body != "hello" || !res.Close {
		t.Errorf("%v %q", res, body)
	}
	if _, err := busyReader.ReadByte(); err != io.EOF {
		t.Errorf("the busy one: %v", err)
	}
	if err := receive(t, stopped); err != nil {
		t.Error(err)
	}
}

// Who sends no head in time, or nothing at all, is sent away.
func TestSessionTimeouts(t *testing.T) {
	short := weir.Duration(30 * time.Millisecond)
	for name, say := range map[string]string{"nothing": "", "half a head": "GET / HT",
		"half a second head": "GET /sized HTTP/1.1\r\nHost: a\r\n\r\nGET / HT"} {
		g := start(t, Options{Upstream: to(answers(t)), Timeouts: Timeouts{Header: short, Idle: short}})
		c := g.dial()
		g.send(c, say)
		if _, err := io.ReadAll(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		needs.Wait(t, "closed", func() bool { return g.Open.Load() == 0 })
	}
}

// FuzzSession compares what a session makes of a head with what net/http makes of it: what is taken is taken by both,
// in the same way.
func FuzzSession(f *testing.F) {
	for _, head := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /a%2Fb//c?x=%zz;y HTTP/1.1\r\nHost: a:80\r\nContent-Length: 5\r\nX-A: b\r\nx-a: c\r\n\r\n",
		"PUT http://b/x? HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nTrailer: " +
			"X-Sum\r\n\r\n",
		"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close, x\r\n\r\n",
		"GET /?a?b HTTP/1.1\r\nHost: [::1]\r\nExpect: 100-continue\r\n\r\n",
	} {
		f.Add([]byte(head))
	}
	g, err := New(Options{Listen: "127.0.0.1:0", Upstream: to("http://127.0.0.1:1")}, nil, nil, Env{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s := &session{gate: g, conn: &conn{}, remote: "192.0.2.1:1", head: new(http1.Head)}
		s.head.Begin(http1.Request)
		if n, err := s.head.Read(in, http1.Bounds{Bytes: 32 << 10, Fields: maxFields}); n == 0 || err != nil {
			return
		}
		ours, mistake := s.parse()
		if mistake != nil {
			return
		}
		ours.Header = s.fields.Header()
		theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(bytes.TrimLeft(in, "\r\n"))))
		if err != nil {
			t.Fatalf("%q: taken, and net/http says %v", in, err)
		}
		if ours.Method != theirs.Method || ours.RequestURI != theirs.RequestURI || ours.Host != theirs.Host ||
			ours.ContentLength != theirs.ContentLength ||
			ours.Proto != theirs.Proto || ours.ProtoMinor != theirs.ProtoMinor ||
			!reflect.DeepEqual(ours.URL, theirs.URL) {
			t.Fatalf("%q:\n%+v\n%+v", in, ours, theirs)
		}
		if ours.Close != theirs.Close {
			t.Fatalf("%q: close %v", in, ours.Close)
		}
		if (ours.Body == http.NoBody) != (theirs.Body == http.NoBody) ||
			!reflect.DeepEqual(ours.TransferEncoding, theirs.TransferEncoding) {
			t.Fatalf("%q: a body for one of them", in)
		}
		if theirs.Header.Get("Pragma") == "no-cache" && ours.Header["Cache-Control"] == nil { // net/http makes one up
			delete(theirs.Header, "Cache-Control")
		}
		for _, h := range []http.Header{ours.Header, theirs.Header} {
			for _, name := range []string{"Trailer", "Connection"} { // handled by both, kept by one
				delete(h, name)
			}
		}
		if !reflect.DeepEqual(ours.Header, theirs.Header) {
			t.Fatalf("%q:\n%v\n%v", in, ours.Header, theirs.Header)
		}
		if len(ours.Trailer)+len(theirs.Trailer) > 0 && !reflect.DeepEqual(ours.Trailer, theirs.Trailer) {
			t.Fatalf("%q:\n%v\n%v", in, ours.Trailer, theirs.Trailer)
		}
	})
}

func TestValidHost(t *testing.T) {
	for host, want := range map[string]bool{
		"": true, "a": true, "a.example:80": true, "a:": true, "a:65535": true, "[::1]": true, "[::1]:8080": true,
		"127.0.0.1:1": true, "x_y.example": true,
		"a:65536": false, "a:99999x": false, "a:080808": false, "a:-1": false, "a:b": false, "a:1:2": false,
		"::1": false, "[::1": false, "[]": false,
		"[::1]x": false, "[::1]:": true, "a[b]": false, "[[::1]]": false, "a b": false, "a/b": false, "a@b": false,
	} {
		if got := validHost(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
}

// TestForget: nothing of a request is left for the next one on its connection, but the context.
func TestForget(t *testing.T) {
	t.Parallel()
	type key struct{}
	next := func(s *session) reflect.Value {
		s.remote, s.head = "192.0.2.1:1", new(http1.Head)
		s.head.Begin(http1.Request)
		_, err := s.head.Read([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), http1.Bounds{Bytes: 1000, Fields: 9})
		r, mistake := s.parse()
		if err != nil || mistake != nil {
			t.Fatal(err, mistake)
		}
		return reflect.ValueOf(r).Elem()
	}
	s, fresh := new(session), next(new(session))
	s.request = *s.request.WithContext(context.WithValue(t.Context(), key{}, "kept"))
	v := reflect.ValueOf(&s.request).Elem()
	fill := map[reflect.Kind]func(f reflect.Value){
		reflect.String:    func(f reflect.Value) { f.SetString("x") },
		reflect.Int:       func(f reflect.Value) { f.SetInt(1) },
		reflect.Int64:     func(f reflect.Value) { f.SetInt(1) },
		reflect.Bool:      func(f reflect.Value) { f.SetBool(true) },
		reflect.Pointer:   func(f reflect.Value) { f.Set(reflect.New(f.Type().Elem())) },
		reflect.Map:       func(f reflect.Value) { f.Set(reflect.MakeMap(f.Type())) },
		reflect.Slice:     func(f reflect.Value) { f.Set(reflect.MakeSlice(f.Type(), 1, 1)) },
		reflect.Interface: func(f reflect.Value) { f.Set(reflect.ValueOf(http.NoBody)) },
		reflect.Func: func(f reflect.Value) {
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { return nil }))
		},
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Name != "Cancel" { // which is obsolete: nobody sets it
			fill[f.Type.Kind()](v.Field(i))
		}
	}
	v = next(s)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !reflect.DeepEqual(v.Field(i).Interface(),
			fresh.Field(i).Interface()) {
			t.Errorf("%s is still there", f.Name)
		}
	}
	if s.request.Context().Value(key{}) != "kept" {
		t.Error("the context is gone")
	}
}
