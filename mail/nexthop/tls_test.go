package nexthop

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/emersion/go-sasl"

	"weir/internal/turns"
)

// TestTLS: who is talked to, and who reads along.
func TestTLS(t *testing.T) {
	config, ca := certificate(t, "mx.example.org")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Servers: []string{"mx.example.org:25"}, CA: empty}, Env{}); err == nil ||
		!strings.Contains(err.Error(), "ca: there is no certificate") {
		t.Error(err)
	}
	if _, err := New(Options{Servers: []string{"mx.example.org:25"}, CA: empty + "x"}, Env{}); err == nil ||
		!strings.Contains(err.Error(), "ca: the file") {
		t.Error(err)
	}
	yes, no := true, false
	for name, c := range map[string]struct {
		server string
		tls    bool // the server offers it
		o      Options
		want   string
		secure bool
	}{
		"opportunistic":            {"mx.example.org:25", true, Options{}, "done 2.0.0", true},
		"opportunistic, not there": {"mx.example.org:25", false, Options{}, "done 2.0.0", false},
		"opportunistic, verified": {"mx.example.org:25", true, Options{Verify: &yes}, "later 4.7.0 certificate",
			false},
		"off":      {"mx.example.org:25", true, Options{TLS: TLSOff}, "done 2.0.0", false},
		"required": {"mx.example.org:25", true, Options{TLS: TLSRequire, CA: ca}, "done 2.0.0", true},
		"required, not there": {"mx.example.org:25", false, Options{TLS: TLSRequire, CA: ca},
			"later 4.7.0 no TLS", false},
		"required, unknown CA": {"mx.example.org:25", true, Options{TLS: TLSRequire}, "later 4.7.0 certificate",
			false},
		"required, another name": {"mail.example.org:25", true, Options{TLS: TLSRequire, CA: ca},
			"later 4.7.0 certificate", false},
		"required, not verified": {"mail.example.org:25", true, Options{TLS: TLSRequire, Verify: &no}, "done 2.0.0",
			true},
		"log-in": {"mx.example.org:25", true, Options{User: "weir", Password: "pass word", CA: ca},
			"done 2.0.0", true},
		"log-in, not there": {"mx.example.org:25", false, Options{User: "weir", Password: "pass word"},
			"later 4.7.0 no TLS", false},
		"log-in, perhaps": {"mx.example.org:25", false,
			Options{User: "weir", Password: "pass word", TLS: TLSOpportunistic}, "later 4.7.0 the password is sent only over TLS",
			false},
		"log-in, wrong": {"mx.example.org:25", true, Options{User: "weir", Password: "guess", CA: ca},
			"later 4.7.8 refuses the login", true},
		"log-in, unknown": {"mx.example.org:25", true, Options{User: "weir", Password: "pass word"},
			"later 4.7.0 certificate", false},
		"log-in, on this machine": {"127.0.0.1:25", false, Options{User: "weir", Password: "pass word"}, "done 2.0.0",
			false},
		"this machine, by its wish": {"localhost:25", true, Options{TLS: TLSRequire, Verify: &no}, "done 2.0.0", true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mech := range []string{sasl.Plain, sasl.Login} {
				r := newReal(t, func(r *real) {
					r.AllowInsecureAuth, r.mechs = true, []string{mech}
					if c.tls {
						r.TLSConfig = config
					}
				})
				client := newClient(t, Env{Dial: r.dial}, func(o *Options) {
					*o = c.o
					o.Servers = []string{c.server}
				})
				want(t, client.Deliver(soon(t), job(bob)), c.want)
				got := r.seen()
				if done := strings.HasPrefix(c.want, "done"); done != (len(got) == 1) || done &&
					got[0].secure != c.secure {
					t.Errorf("%+v", got)
				}
				if tried := c.o.User != "" &&
					!strings.HasPrefix(c.want, "later 4.7.0"); tried != (len(r.logIn) == 1 && r.logIn[0] == mech) {
					t.Errorf("logged in by %v", r.logIn)
				}
			}
		})
	}
}

// TestImplicitTLS: smtps is encrypted before anything is said.
func TestImplicitTLS(t *testing.T) {
	config, ca := certificate(t, "mx.example.org")
	ln, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	r := newReal(t, func(*real) {})
	done := make(chan struct{})
	go func() {
		r.Serve(ln)
		close(done)
	}()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, ln.Addr().String())
	}
	client := newClient(t, Env{Dial: dial}, func(o *Options) { o.CA = ca }, "smtps://mx.example.org")
	for range 2 {
		want(t, client.Deliver(soon(t), job(bob)), "done 2.0.0")
	}
	if got := r.seen(); len(got) != 2 || !got[0].secure || client.Stats().Dials != 1 {
		t.Errorf("%+v", got)
	}
	r.Close()
	<-done
}

// TestNoLogIn: a server that offers no log-in, or another one, gets no password.
func TestNoLogIn(t *testing.T) {
	for _, offers := range []string{"> 250 here", "> 250-here\r\n250 AUTH CRAM-MD5"} {
		s := newScripted(t, script("> 220 here", "< EHLO", offers, "hang"))
		client := newClient(t, Env{}, func(o *Options) { o.User, o.Password = "weir", "secret" }, s.address)
		want(t, client.Deliver(soon(t), job(bob)), "later 4.7.0 neither AUTH PLAIN nor AUTH LOGIN")
	}
	s := newScripted(t, script("> 220 here", "< EHLO", "> 250-here\r\n250 AUTH=LOGIN", "< AUTH LOGIN",
		"> 334 VXNlcm5hbWU6", "< d2Vpcg==", "> 535 no", "hang"))
	client := newClient(t, Env{}, func(o *Options) { o.User, o.Password = "weir", "secret" }, s.address)
	want(t, client.Deliver(soon(t), job(bob)), "later 4.0.0 refuses the login: no")
	if said, _, _ := s.seen(); strings.Contains(strings.Join(said, " "), "c2VjcmV0") {
		t.Error("the password was sent all the same")
	}
}

// TestInjectedTLS: what was said in clear is not taken for what is said under TLS.
func TestInjectedTLS(t *testing.T) {
	s := newScripted(t, script("> 220 here", "< EHLO", "> 250-here\r\n250 STARTTLS", "< STARTTLS",
		"> 220 go\r\n250 AUTH PLAIN", "hang"),
		script("> 220 here", "< EHLO", "> 250-here\r\n250 STARTTLS", "< STARTTLS", "> 454 4.7.0 not now", "hang"),
		script("> 220 here", "< EHLO", "> 250-here\r\n250 STARTTLS", "< STARTTLS", "> 454 4.7.0 not now", "< MAIL",
			"> 250 ok", "< RCPT", "> 250 ok", "< DATA", "> 354 go", goodDot, "hang"),
		script("> 220 here", "< EHLO", "> 250-here\r\n250 STARTTLS", "< STARTTLS", "> 220 go"))
	for _, c := range []struct {
		tls  TLS
		want string
	}{{TLSOpportunistic, "later 4.7.0 more before TLS begins"}, {TLSRequire, "later 4.7.0 begins no TLS: not now"},
		{TLSOpportunistic, "done 2.0.0"},
		{TLSOpportunistic, "later 4.7.0 TLS: "}} {
		client := newClient(t, Env{}, func(o *Options) { o.TLS = c.tls }, s.address)
		want(t, client.Deliver(soon(t), job(bob)), c.want)
	}
}

// TestAuth: the next hop is asked about the passwords of others, and nobody else hears them.
func TestAuth(t *testing.T) {
	config, ca := certificate(t, "mx.example.org")
	for name, c := range map[string]struct {
		server string
		tls    bool
		o      Options
		user   string
		pass   string
		want   string // nothing for right
		asked  bool
	}{
		"right": {"mx.example.org:25", true, Options{CA: ca}, "weir", "pass word", "", true},
		"wrong": {"mx.example.org:25", true, Options{CA: ca}, "weir", "password",
			"wrong name or password", true},
		"right, here": {"127.0.0.1:25", false, Options{}, "weir", "pass word", "", true},
		"with a NUL": {"127.0.0.1:25", false, Options{}, "x\x00weir", "pass word", "wrong name or password",
			false},
		"too long": {"127.0.0.1:25", false, Options{}, "weir", strings.Repeat("x", maxLogIn+1),
			"wrong name or password", false},
		"nobody": {"127.0.0.1:25", false, Options{}, "", "", "wrong name or password", false},
		"no TLS": {"mx.example.org:25", false, Options{}, "weir", "pass word",
			"mx.example.org:25: the server offers no TLS", false},
		"no TLS, by our wish": {"mx.example.org:25", true, Options{TLS: TLSOff}, "weir", "pass word",
			"sent only over TLS", false},
		"opportunistic": {"mx.example.org:25", true, Options{TLS: TLSOpportunistic}, "weir", "pass word", "certificate",
			false},
		"unknown": {"mx.example.org:25", true, Options{}, "weir", "pass word", "certificate", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReal(t, func(r *real) {
				r.AllowInsecureAuth = true
				if c.tls {
					r.TLSConfig = config
				}
			})
			client := newClient(t, Env{Dial: r.dial}, func(o *Options) {
				*o = c.o
				o.Servers = []string{c.server}
			})
			err := client.Auth(soon(t), turns.Last, c.user, c.pass)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if errors.Is(err, ErrWrong) != strings.HasPrefix(c.want, "wrong") || c.asked != (len(r.logIn) == 1) {
				t.Errorf("%v, asked %v", err, r.logIn)
			}
			if got := client.Stats(); !got.Servers[0].Up || got.Connections != 0 || got.LogIns != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestAuthFailOver: where one server cannot be asked, the next one is; and not every log-in waits for the first.
func TestAuthFailOver(t *testing.T) {
	r := newReal(t, func(r *real) { r.AllowInsecureAuth = true })
	var dials []string
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dials = append(dials, address)
		if address == "127.0.0.1:1" {
			return nil, errTest
		}
		return r.dial(ctx, network, address)
	}
	client := newClient(t, Env{Dial: dial}, nil, "127.0.0.1:1", "127.0.0.1:2")
	for range 2 {
		if err := client.Auth(soon(t), turns.Last, "weir", "pass word"); err != nil {
			t.Error(err)
		}
	}
	if strings.Join(dials, " ") != "127.0.0.1:1 127.0.0.1:2 127.0.0.1:2" {
		t.Error(dials)
	}
	alone := newClient(t, Env{Dial: dial}, nil, "127.0.0.1:1")
	for range 2 {
		if err := alone.Auth(soon(t), turns.Last, "weir", "x"); err == nil ||
			!strings.Contains(err.Error(), "127.0.0.1:1: no connection: the disk is full") {
			t.Error(err)
		}
	}
}

// TestAuthBusy: so many log-ins are under way and wait, and one more is turned away.
func TestAuthBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{t: t, scripts: [][]string{script("hang"), script("hang")}}
		client := newClient(t, Env{Dial: s.dial}, func(o *Options) { o.Connections = 2 }, "127.0.0.1:25")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		for range 2 * (1 + logInsPerSlot) {
			wg.Go(func() {
				if err := client.Auth(ctx, turns.Last, "weir", "x"); !errors.Is(err, errStopped) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if got := client.Stats(); got.LogIns != 22 || got.Dials != 2 {
			t.Errorf("%+v", got)
		}
		if err := client.Auth(ctx, turns.Last, "weir", "x"); !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
		cancel()
		wg.Wait()
		client.Close(t.Context())
		if err := client.Auth(t.Context(), turns.Last, "weir", "x"); !errors.Is(err, errClosed) {
			t.Error(err)
		}
	})
}

// TestNoSecretsInResults: the password is nowhere in what is told.
func TestNoSecretsInResults(t *testing.T) {
	s := newScripted(t, script("> 220 here", "< EHLO", "> 250-here\r\n250 AUTH PLAIN", "< AUTH PLAIN", "> 535 5.7.8 no",
		"hang"))
	var logged bytes.Buffer
	client := newClient(t, Env{Log: textLog(&logged)}, func(o *Options) { o.User, o.Password = "weir", "hunter22" },
		s.address)
	got := client.Deliver(soon(t), job(bob))
	want(t, got, "later 4.7.8 refuses the login")
	if all := got[0].Text + logged.String() + client.Stats().Servers[0].Reason; strings.Contains(all, "hunter22") ||
		logged.Len() == 0 {
		t.Error(all)
	}
}
