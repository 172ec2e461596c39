package upstream

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir"
	"weir/gate/gatetest"
	"weir/internal/readfile"
)

// demands is a server of https that knows one authority of clients, and tells who came.
func demands(t testing.TB, a, clients *gatetest.Authority, http2 bool, name string) *httptest.Server {
	t.Helper()
	cert, key := a.Server(name)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s", r.Proto, r.TLS.PeerCertificates[0].Subject.CommonName, r.TLS.ServerName)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients.Pool,
		ClientAuth: tls.RequireAndVerifyClientCert}
	s.EnableHTTP2, s.Config.ErrorLog = http2, slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// TestTLSOutwards: a server with a certificate of an own authority, which demands one of ours, over HTTP/1.1 and
// HTTP/2.
func TestTLSOutwards(t *testing.T) {
	ours, clients, strangers := gatetest.NewAuthority(t, "ours"), gatetest.NewAuthority(t, "clients"),
		gatetest.NewAuthority(t, "strangers")
	cert, key := clients.Server("weir.example")
	wrongCert, wrongKey := strangers.Server("weir.example")
	for _, http2 := range []bool{false, true} {
		proto := "HTTP/1.1"
		if http2 {
			proto = "HTTP/2.0"
		}
		s := demands(t, ours, clients, http2, "app.example")
		for name, c := range map[string]struct {
			tls  *TLS
			want string // empty for an error
		}{
			"all":           {&TLS{CA: ours.File, Cert: cert, Key: key, ServerName: "app.example"}, proto + " weir.example app.example"},
			"no authority":  {&TLS{Cert: cert, Key: key, ServerName: "app.example"}, ""},
			"another one":   {&TLS{CA: strangers.File, Cert: cert, Key: key, ServerName: "app.example"}, ""},
			"another name":  {&TLS{CA: ours.File, Cert: cert, Key: key, ServerName: "other.example"}, ""},
			"its own name":  {&TLS{CA: ours.File, Cert: cert, Key: key}, ""}, // it is 127.0.0.1
			"nothing shown": {&TLS{CA: ours.File, ServerName: "app.example"}, ""},
			"a stranger":    {&TLS{CA: ours.File, Cert: wrongCert, Key: wrongKey, ServerName: "app.example"}, ""},
			"nothing":       {nil, ""},
		} {
			p := start(t, Options{Servers: []string{s.URL}, TLS: c.tls})
			for range 2 {
				_, body, err := p.get("/")
				if (err == nil) != (c.want != "") || body != c.want {
					t.Errorf("%s, %s: %q %v", proto, name, body, err)
				}
			}
			if c.want != "" && !p.ask(t.Context(), p.servers()[0]) {
				t.Errorf("%s, %s: the check fails", proto, name)
			}
		}
	}
}

// TestTLSOwnCertificate: a certificate that nobody signed can be trusted by itself, so that nobody needs a switch that
// trusts everybody.
func TestTLSOwnCertificate(t *testing.T) {
	s, _ := secure(t, nil, true, who)
	file := filepath.Join(t.TempDir(), "own.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, Options{Servers: []string{s.URL}, TLS: &TLS{CA: file}})
	if _, body, err := p.get("/"); err != nil || !strings.HasPrefix(body, "HTTP/2.0") {
		t.Errorf("%q %v", body, err)
	}
}

// TestTLSFilesAgain: files are read again when the pool is configured again; if they are of no use, nothing changes.
func TestTLSFilesAgain(t *testing.T) {
	ours, clients := gatetest.NewAuthority(t, "ours"), gatetest.NewAuthority(t, "clients")
	s := demands(t, ours, clients, false, "app.example")
	cert, key := clients.Server("first.example")
	o := Options{Servers: []string{s.URL, named(t, "plain")}, Balance: First,
		TLS: &TLS{CA: ours.File, Cert: cert, Key: key, ServerName: "app.example"}}
	p := start(t, o)
	ask := func(p *Pool, want string) {
		t.Helper()
		_, body, err := (&rig{Pool: p, t: t}).get("/")
		if err != nil || body != want {
			t.Fatalf("%q %v, want %s", body, err, want)
		}
	}
	ask(p.Pool, "HTTP/1.1 first.example app.example")
	if stale, err := p.Stale(); stale || err != nil {
		t.Error(stale, err)
	}
	same, err := p.Configure(o)
	if err != nil {
		t.Fatal(err)
	}
	defer same.Close()
	if same.servers()[0] != p.servers()[0] {
		t.Error("nothing changed, and the connections are lost")
	}
	another, anotherKey := clients.Server("second.example")
	for from, to := range map[string]string{another: cert, anotherKey: key} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		clients.Write(to, text)
	}
	if stale, err := p.Stale(); !stale || err != nil {
		t.Error(stale, err)
	}
	next, err := p.Configure(o)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	ask(next, "HTTP/1.1 second.example app.example")
	ask(p.Pool, "HTTP/1.1 first.example app.example") // what began with the old one goes on so
	if next.servers()[0] == p.servers()[0] || next.servers()[1] != p.servers()[1] {
		t.Error("the server without TLS changed, or the one with TLS did not")
	}
	clients.Write(key, []byte("no key"))
	if _, err := next.Configure(o); err == nil || !strings.Contains(err.Error(), "tls.cert") {
		t.Error(err)
	}
	if stale, err := next.Stale(); !stale || err == nil {
		t.Error("a file that is of no use was not noticed")
	}
	ask(next, "HTTP/1.1 second.example app.example")
}

// TestTLSMistakes: mistakes have a path and a hint, and no secret.
func TestTLSMistakes(t *testing.T) {
	a := gatetest.NewAuthority(t, "ours")
	cert, key := a.Server("a.example")
	other, _ := a.Server("b.example")
	secret, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	empty, large := filepath.Join(a.Dir, "empty"), filepath.Join(a.Dir, "large")
	a.Write(empty, nil)
	a.Write(large, bytes.Repeat([]byte("x"), int(readfile.MaxPEM)+1))
	for name, c := range map[string]struct {
		server string
		tls    TLS
		paths  string
	}{
		"no https":              {"http://a", TLS{CA: a.File}, "tls"},
		"no key":                {"https://a", TLS{Cert: cert}, "tls.key"},
		"no certificate":        {"https://a", TLS{Key: key}, "tls.cert"},
		"no name":               {"https://a", TLS{ServerName: "a b"}, "tls.server_name"},
		"a long name":           {"https://a", TLS{ServerName: strings.Repeat("a", 64) + ".example"}, "tls.server_name"},
		"all":                   {"http://a", TLS{Cert: cert, ServerName: "."}, "tls tls.key tls.server_name"},
		"no such file":          {"https://a", TLS{CA: a.File + "x"}, "tls.ca"},
		"a folder":              {"https://a", TLS{CA: a.Dir}, "tls.ca"},
		"an empty file":         {"https://a", TLS{CA: empty}, "tls.ca"},
		"a large file":          {"https://a", TLS{CA: large}, "tls.ca"},
		"no such files":         {"https://a", TLS{CA: "/none", Cert: "/none", Key: "/none"}, "tls.ca tls.cert tls.key"},
		"another key":           {"https://a", TLS{Cert: other, Key: key}, "tls.cert"},
		"mixed up":              {"https://a", TLS{Cert: key, Key: cert}, "tls.cert"},
		"the key as authority":  {"https://a", TLS{CA: key}, "tls.ca"},
		"an address as a name":  {"https://a", TLS{ServerName: "192.0.2.1"}, ""},
		"a name of the longest": {"https://a", TLS{ServerName: strings.Repeat("a", 63) + ".example"}, ""},
	} {
		p, err := New(Options{Servers: []string{c.server}, TLS: &c.tls}, Env{})
		if p != nil {
			p.Close()
		}
		var paths []string
		for _, fe := range weir.FieldErrors(err) {
			paths = append(paths, fe.Path)
			if fe.Hint == "" || strings.Contains(fe.Error(), "PRIVATE") ||
				strings.Contains(fe.Error(), strings.Split(string(secret), "\n")[1]) {
				t.Errorf("%s: %v", name, fe)
			}
		}
		if got := strings.Join(paths, " "); got != c.paths {
			t.Errorf("%s: %v", name, err)
		}
	}
	if failure, ok := errors.AsType[*weir.FieldError](func() error {
		_, err := New(Options{Servers: []string{"https://a"}, TLS: &TLS{CA: "/none"}}, Env{})
		return err
	}()); !ok || failure.Msg != "cannot be read: /none: no such file or directory" {
		t.Error(failure)
	}
}
