package httpgate

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir/gate/httpgate/keys"
	recording "weir/internal/testkit/recorder"
)

// TestRouteHTTP2Raw: fields of HTTP/2 that no client library sends. One name is not asked for by :authority and another
// one by Host, and no path leads past the limits of its route.
func TestRouteHTTP2Raw(t *testing.T) {
	seen := make(chan string, 10)
	tell := func(name string) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			seen <- fmt.Sprint(name, " ", r.Host, " ", r.RequestURI, " ", r.Header.Get("X-Forwarded-Host"))
		}
	}
	one, two := upstream(t, tell("one")), upstream(t, tell("two"))
	a := newAuthority(t, "routes")
	c := a.server("www.example.com", "one.example", "two.example")
	strict := newThrottle(overLimit)
	g := startRouted(t, Options{TLS: &keys.TLS{Cert: c.Cert, Key: c.Key}, Routes: []Route{
		{Host: Hosts{"one.example"}, Upstream: new(to(one.URL)), Throttles: []string{"strict"}},
		{Host: Hosts{"*.one.example", "two.example"}, Upstream: new(to(one.URL))},
		{Path: "/any", Upstream: new(to(one.URL))},
		{Host: Hosts{"two.example"}, Path: "/cut", StripPrefix: true, Upstream: new(to(two.URL))},
	}}, nil, chainOf(t, strict), nil, nil, nil)
	for _, c := range []struct{ authority, host, path, want string }{
		{"two.example", "", "/x", "200 one two.example /x two.example"},
		{"two.example", "", "/cut/x?y", "200 two two.example /x?y two.example"},
		{"TWO.example:443", "", "/cut", "200 two TWO.example:443 / TWO.example:443"},
		{"one.example", "", "/", "429"},
		{"One.Example.:8443", "", "/", "429"},
		{"one.example", "two.example", "/", "429"}, // what the upstream gets is :authority
		{"two.example", "one.example", "/", "200 one two.example / two.example"},
		{"", "one.example", "/", "429"},
		{"", "two.example", "/", "200 one two.example / two.example"},
		{"", "", "/", "4"},
		{"one.example..", "", "/", "400"},
		{".one.example", "", "/", "400"},
		{"one.example,two.example", "", "/", "400"},
		{"one.example@two.example", "", "/", "4"},
		{"two.example/", "", "/", "4"},
		{"two.example", "", "http://one.example/", "400"}, // the upstream, or a server behind it, could go by this host
		{"two.example", "", "https://two.example/x", "400"},
		{"", "", "http://one.example/any", "400"},
		{"three.example", "", "http://one.example/any", "400"},
		{"two.example", "", "one.example/", "4"},
		{"two.example", "", "*", "4"},
		{"two.example", "", "", "4"},
		{"two.example", "", "/x/../cut/y", "400"},
		{"two.example", "", "/cut/..;/cut/y", "400"},
		{"two.example", "", "/cut%2fy", "400"},
		{"two.example", "", "/CUT/y", "400"},
		{"two.example", "", "//one.example/cut", "400"},
		{"two.example", "", "/cut/\\y", "400"},
	} {
		got := ask2Raw(g, a, c.authority, c.host, c.path)
		select {
		case said := <-seen:
			got += " " + said
		default:
		}
		if !strings.HasPrefix(got, c.want) && (c.want != "4" || got != "0") {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestHTTP2Paths: the path of a request is not a URL, whatever that says, and is * only for OPTIONS (RFC 9113, section
// 8.3.1). Nothing of it reaches the upstream.
func TestHTTP2Paths(t *testing.T) {
	up := recording.Start(t)
	a := newAuthority(t, "ca")
	g := startTLS(t, a, Options{Upstream: to(up.URL())})
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/", "200"},
		{"GET", "//", "200"},
		{"GET", "/http://www.example.com/", "200"},
		{"GET", "http://www.example.com/", "400"},
		{"GET", "https://www.example.com/", "400"},
		{"OPTIONS", "https://www.example.com/", "400"},
		{"GET", "http://other.example/", "400"},
		{"GET", "HTTP://other.example", "400"},
		{"GET", "ftp://other.example/", "400"},
		{"GET", "file:///etc/passwd", "400"},
		{"GET", "mailto:a", "400"},
		{"GET", "*", "400"},
		{"OPTIONS", "*", "405"},
		{"OPTIONS", "/*", "200"},
	} {
		if got := ask2By(g, a, c.method, "www.example.com", "", c.path); got != c.want {
			t.Errorf("%s %s: %s, not %s", c.method, c.path, got, c.want)
		}
		if taken := up.Take(); (len(taken) > 0) != (c.want == "200") {
			t.Errorf("%s %s: the upstream got %d requests", c.method, c.path, len(taken))
		}
	}
}

// ask2Raw asks by HTTP/2, with an empty field left out, and returns the status; 0 if the stream or the connection was
// ended.
func ask2Raw(r *rig, a *authority, authority, host, path string) string {
	r.t.Helper()
	return ask2By(r, a, "GET", authority, host, path)
}

func ask2By(r *rig, a *authority, method, authority, host, path string) string {
	t := r.t
	t.Helper()
	c := r.dialTLS(a, "h2")
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings()
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, p := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", authority}, {":path", path},
		{"host", host}} {
		if p[1] != "" {
			_ = e.WriteField(hpack.HeaderField{Name: p[0], Value: p[1]})
		}
	}
	if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true,
		EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return "0"
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			return frame.PseudoValue("status")
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return "0"
		}
	}
}
