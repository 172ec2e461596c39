package httpgate

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"weir/identify/token"
	"weir/internal/testkit/needs"
)

// A provider is an identity provider that serves a set of keys by HTTPS, and counts who asks.
type provider struct {
	*httptest.Server
	asked  atomic.Int64
	answer atomic.Pointer[http.HandlerFunc]
}

func (a *authority) provider() *provider {
	a.T.Helper()
	p := &provider{}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		(*p.answer.Load())(w, r)
	}))
	files := a.server("www.example.com", "localhost")
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		a.T.Fatal(err)
	}
	p.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	p.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	p.StartTLS()
	a.T.Cleanup(p.Close)
	return p
}

// at is an address of the provider, by the name that its certificate is for.
func (p *provider) at(path string) string {
	return strings.Replace(p.URL, "127.0.0.1", "localhost", 1) + path
}

func (p *provider) answers(h http.HandlerFunc) { p.answer.Store(&h) }

func (p *provider) has(t testing.TB, keys map[string]*ecdsa.PrivateKey) {
	t.Helper()
	text := setOf(t, keys)
	p.answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) })
}

func (p *provider) fails(status int) {
	p.answers(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not now", status) })
}

func setOf(t testing.TB, keys map[string]*ecdsa.PrivateKey) []byte {
	t.Helper()
	all := []map[string]string{}
	for kid, k := range keys {
		point, err := k.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		encode := base64.RawURLEncoding.EncodeToString
		all = append(all, map[string]string{"kty": "EC", "kid": kid, "crv": "P-256", "x": encode(point[1:33]),
			"y": encode(point[33:])})
	}
	text, err := json.Marshal(map[string]any{"keys": all})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A tokenRig is a gate that fetches keys, and a client with tokens.
type tokenRig struct {
	*rig
	judge *throttle
	asked chan string
}

func startRemote(t testing.TB, a *authority, o token.Options) *tokenRig {
	t.Helper()
	judge, asked := accountant()
	return &tokenRig{startIn(t, Env{Roots: a.Pool},
		Options{Upstream: to(echo(t).URL), Account: []string{"jwt:sub"}, JWT: &o}, judge), judge, asked}
}

func (r *tokenRig) swap(o Options) {
	r.t.Helper()
	r.reload(o, r.judge)
}

func publicKeyPEM(t testing.TB, k *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func (r *tokenRig) status(token string) (int, string) {
	r.t.Helper()
	res, _ := r.do(r.request("GET", "/", nil, "Authorization", "Bearer "+token))
	return res.StatusCode, receive(r.t, r.asked)
}

func (r *tokenRig) good(token, account string) {
	r.t.Helper()
	if status, got := r.status(token); status != 200 || got != account+"/" {
		r.t.Errorf("%d, %q", status, got)
	}
}

func (r *tokenRig) bad(token string) {
	r.t.Helper()
	if status, _ := r.status(token); status != 401 {
		r.t.Errorf("%d", status)
	}
}

// fetched waits until nothing is being fetched, and so many fetches in all have come to the provider.
func (r *tokenRig) fetched(p *provider, want int64) {
	r.t.Helper()
	needs.Wait(r.t, fmt.Sprintf("%d fetches", want), func() bool { return p.asked.Load() >= want })
	r.Setup.Load().keys.Await()
	if n := p.asked.Load(); n != want {
		r.t.Errorf("fetched %d times, want %d", n, want)
	}
}

func about(name string) jwt.MapClaims {
	return jwt.MapClaims{"sub": name, "exp": epoch.Add(1000 * time.Hour).Unix()}
}

// Keys that the provider has changed are good as soon as a token names one, and old ones end with the next set.
func TestKeysAreFetched(t *testing.T) {
	a := newAuthority(t, "ca")
	p := a.provider()
	one, two, three := newKey(t), newKey(t), newKey(t)
	p.has(t, map[string]*ecdsa.PrivateKey{"1": one})
	g := startRemote(t, a, token.Options{JWKS: p.at("/keys")})
	first, second, third := tokenBy(t, "1", one, about("ann")), tokenBy(t, "2", two, about("bob")),
		tokenBy(t, "3", three, about("eve"))
	g.good(first, "ann") // the very first request: the gate has waited for the keys
	g.fetched(p, 1)

	// A key that is not known is asked for, though not sooner than 30 s after the last time, and not by the request
	// that brings it.
	p.has(t, map[string]*ecdsa.PrivateKey{"1": one, "2": two})
	g.bad(second)
	g.fetched(p, 1)
	g.clock.Advance(fetchSoonest)
	g.bad(second)
	g.fetched(p, 2)
	g.good(second, "bob")
	g.good(first, "ann")

	// A storm of invented keys asks once in 30 s.
	for round := range 3 {
		g.clock.Advance(fetchSoonest)
		for i := range 20 {
			g.bad(tokenBy(t, fmt.Sprint("invented-", i), three, about("mallory")))
		}
		g.fetched(p, int64(3+round))
	}

	// Nobody comes, and the set is fetched all the same. What the provider has dropped is not good any more, although
	// it is remembered.
	p.has(t, map[string]*ecdsa.PrivateKey{"2": two, "3": three})
	g.clock.Advance(fetchEvery)
	g.fetched(p, 6)
	g.bad(first)
	g.good(second, "bob")
	g.good(third, "eve")
	if n := g.seen.bounds(BoundCertificate); n != 0 {
		t.Errorf("%d failures are counted", n)
	}

	// Without a failure and without strangers it is once in ten minutes.
	for i := range 3 {
		g.clock.Advance(fetchEvery - 1)
		g.fetched(p, int64(6+i))
		g.clock.Advance(1)
		g.fetched(p, int64(7+i))
	}
}

// A request with a key that nobody knows has the keys fetched, and neither it nor any other one waits for that.
func TestNoRequestWaitsForKeys(t *testing.T) {
	a := newAuthority(t, "ca")
	p := a.provider()
	one, two := newKey(t), newKey(t)
	p.has(t, map[string]*ecdsa.PrivateKey{"1": one})
	g := startRemote(t, a, token.Options{JWKS: p.at("/keys")})
	first, second := tokenBy(t, "1", one, about("ann")), tokenBy(t, "2", two, about("bob"))
	g.good(first, "ann")
	asked, answer, both := make(chan bool), make(chan bool), setOf(t, map[string]*ecdsa.PrivateKey{"1": one, "2": two})
	p.answers(func(w http.ResponseWriter, r *http.Request) {
		asked <- true
		select {
		case <-answer:
			_, _ = w.Write(both)
		case <-r.Context().Done():
			t.Error("the gate has given up")
		}
	})
	g.clock.Advance(fetchSoonest)
	g.bad(second)
	receive(t, asked)
	g.bad(second)
	g.good(first, "ann")
	answer <- true
	g.fetched(p, 2)
	g.good(second, "bob")
}

// The last good set stays while the provider fails, in whatever way; each failure is counted, and a new one logged.
func TestOldKeysStayWhileTheProviderFails(t *testing.T) {
	a := newAuthority(t, "ca")
	p, other := a.provider(), a.provider()
	one, two := newKey(t), newKey(t)
	p.has(t, map[string]*ecdsa.PrivateKey{"1": one})
	evil := map[string]*ecdsa.PrivateKey{"2": two}
	other.has(t, evil)
	g := startRemote(t, a, token.Options{JWKS: p.at("/keys")})
	good, forged := tokenBy(t, "1", one, about("ann")), tokenBy(t, "2", two, about("ann"))
	fetches := int64(1)
	text := setOf(t, evil)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		says   string
		asked  int64
	}{
		"an error": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) },
			"500 Internal Server Error", 1},
		"nothing": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "204 No Content", 1},
		"no set": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>log in</html>") },
			"not a set of keys", 1},
		"an empty set": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"keys":[]}`) }, "no key in it",
			1},
		"a secret": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"kty":"oct","k":"%0999d"}`, 0) },
			"no key in it", 1},
		"a broken end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99999")
			_, _ = w.Write(text)
		}, "unexpected EOF", 1},
		"too much": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "%s%s", text, strings.Repeat(" ", maxSet+1-len(text)))
		}, "larger than", 1},
		"another server": {func(w http.ResponseWriter,
			r *http.Request) {
			http.Redirect(w, r, other.at("/keys"), http.StatusFound)
		}, "redirects to another server", 1},
		"another scheme": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+r.Host+"/keys", http.StatusFound)
		}, "redirects to another server", 1},
		"round and round": {func(w http.ResponseWriter,
			r *http.Request) {
			http.Redirect(w, r, "/keys", http.StatusFound)
		}, "in a circle",
			maxRedirects + 1},
	} {
		t.Run(name, func(t *testing.T) {
			g.t = t
			failures := g.seen.bounds(BoundCertificate)
			p.answers(c.answer)
			g.clock.Advance(fetchEvery)
			fetches += c.asked
			g.fetched(p, fetches)
			g.good(good, "ann")
			if n := g.seen.bounds(BoundCertificate) - failures; n != 1 {
				t.Errorf("%d failures are counted", n)
			}
			if !strings.Contains(g.log.String(), c.says) {
				t.Errorf("the log does not say %q", c.says)
			}
			// It is tried again soon, and said once.
			lines := strings.Count(g.log.String(), "the old ones stay")
			g.clock.Advance(fetchSoonest)
			fetches += c.asked
			g.fetched(p, fetches)
			if n := strings.Count(g.log.String(), "the old ones stay"); n != lines ||
				g.seen.bounds(BoundCertificate)-failures != 2 {
				t.Errorf("%d lines, %d before", n, lines)
			}
			p.has(t, map[string]*ecdsa.PrivateKey{"1": one})
			g.clock.Advance(fetchSoonest)
			fetches++
			g.fetched(p, fetches)
			g.bad(forged)
		})
	}
	g.t = t
	if other.asked.Load() != 0 {
		t.Error("another server was asked")
	}
	// The largest set that is taken, by way of as many others as there may be.
	text = setOf(t, map[string]*ecdsa.PrivateKey{"1": one, "2": two})
	p.answers(func(w http.ResponseWriter, r *http.Request) {
		if hops := len(r.URL.Query().Get("hops")); hops < maxRedirects {
			http.Redirect(w, r, "/keys?hops="+strings.Repeat("x", hops+1), http.StatusFound)
			return
		}
		fmt.Fprintf(w, "%s%s", text, strings.Repeat(" ", maxSet-len(text)))
	})
	g.clock.Advance(fetchEvery)
	g.fetched(p, fetches+maxRedirects+1)
	g.good(forged, "ann") // forged no longer
}

// A gate starts while the provider is down, says so, and takes no token until it is back. A reload with a provider
// that is down fails.
func TestProviderIsDown(t *testing.T) {
	a := newAuthority(t, "ca")
	p := a.provider()
	one := newKey(t)
	p.fails(503)
	g := startRemote(t, a, token.Options{JWKS: p.at("/keys")})
	text := tokenBy(t, "1", one, about("ann"))
	g.bad(text)
	if log := g.log.String(); !strings.Contains(log, "until then, tokens signed with them count as none") ||
		!strings.Contains(log, "503") || g.seen.bounds(BoundCertificate) != 1 {
		t.Errorf("%d failures, log: %s", g.seen.bounds(BoundCertificate), log)
	}
	// Other options can be changed meanwhile.
	o := g.Setup.Load().opts
	with := func(change func(*token.Options)) Options {
		next, jwt := o, *o.JWT
		change(&jwt)
		next.JWT = &jwt
		return next
	}
	g.swap(with(func(o *token.Options) { o.Leeway *= 2 }))
	g.fetched(p, 2)
	g.bad(text)
	p.has(t, map[string]*ecdsa.PrivateKey{"1": one})
	g.clock.Advance(fetchSoonest)
	g.fetched(p, 3)
	g.good(text, "ann")

	// The same provider and other options: what was fetched is used, and the time goes on.
	g.clock.Advance(fetchEvery / 2)
	g.swap(with(func(o *token.Options) { o.Leeway *= 3 }))
	g.good(text, "ann")
	g.fetched(p, 3)
	g.clock.Advance(fetchEvery / 2)
	g.fetched(p, 4)
	if _, _, err := g.Prepare(with(func(o *token.Options) { o.Algorithms = []string{"RS256"} }), nil, nil); err == nil {
		t.Error("a reload with keys for no algorithm")
	}

	// Another provider must be there.
	down := a.provider()
	down.fails(500)
	if _, _, err := g.Prepare(with(func(o *token.Options) { o.JWKS = down.at("/keys") }), nil, nil); err == nil ||
		!strings.Contains(err.Error(), "500") {
		t.Errorf("a reload without keys: %v", err)
	}
	g.good(text, "ann")
	g.clock.Advance(fetchEvery)
	g.fetched(p, 5)
	if down.asked.Load() != 1 {
		t.Errorf("asked %d times after the reload failed", down.asked.Load())
	}
	two := newKey(t)
	down.has(t, map[string]*ecdsa.PrivateKey{"1": two})
	g.swap(with(func(o *token.Options) { o.JWKS = down.at("/keys") }))
	g.bad(text)
	g.good(tokenBy(t, "1", two, about("bob")), "bob")
	g.clock.Advance(fetchEvery)
	g.fetched(down, 3)
	if p.asked.Load() != 5 {
		t.Error("the old provider is still asked")
	}
}

// A certificate that nobody vouches for, and a name that it is not for, are no provider.
func TestProviderMustBeGenuine(t *testing.T) {
	a, b := newAuthority(t, "ca"), newAuthority(t, "another")
	one := newKey(t)
	for name, address := range map[string]func() string{
		"another's": func() string {
			p := b.provider()
			p.has(t,
				map[string]*ecdsa.PrivateKey{"1": one})
			return p.at("/")
		},
		"another name": func() string {
			p := a.provider()
			p.has(t,
				map[string]*ecdsa.PrivateKey{"1": one})
			return p.URL
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := startRemote(t, a, token.Options{JWKS: address()})
			g.bad(tokenBy(t, "1", one, about("ann")))
			if !strings.Contains(g.log.String(), "x509: ") {
				t.Errorf("log: %s", g.log)
			}
		})
	}
}

// By http a provider is asked on this machine. keys.TestNoOtherMachine shows that no other is.
func TestProviderOnThisMachine(t *testing.T) {
	one := newKey(t)
	set := setOf(t, map[string]*ecdsa.PrivateKey{"1": one})
	p := upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(set) })
	g := startRemote(t, newAuthority(t, "ca"), token.Options{JWKS: p.URL + "/keys"})
	g.good(tokenBy(t, "1", one, about("ann")), "ann")
}

// A key in a file and a set that is fetched are good beside each other, and each changes by itself.
func TestKeyBesideFetchedSet(t *testing.T) {
	a := newAuthority(t, "ca")
	p := a.provider()
	one, two, three := newKey(t), newKey(t), newKey(t)
	p.fails(500)
	path := filepath.Join(t.TempDir(), "key.json")
	write := func(k *ecdsa.PrivateKey, at time.Time) {
		t.Helper()
		if err := os.WriteFile(path, publicKeyPEM(t, k), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write(one, epoch)
	g := startRemote(t, a, token.Options{Key: path, JWKS: p.at("/")})
	first, second, third := tokenBy(t, "", one, about("ann")), tokenBy(t, "2", two, about("bob")),
		tokenBy(t, "", three, about("eve"))
	g.good(first, "ann")
	g.bad(second)
	p.has(t, map[string]*ecdsa.PrivateKey{"2": two})
	g.clock.Advance(fetchSoonest)
	g.fetched(p, 2)
	g.good(first, "ann")
	g.good(second, "bob")
	write(three, epoch.Add(time.Minute))
	g.clock.Advance(fileEvery)
	g.good(third, "eve")
	g.good(second, "bob")
	g.bad(first)
}

// What is being fetched when the gate stops, or is reloaded, is broken off; nothing is left behind.
func TestFetchingEndsWithTheGate(t *testing.T) {
	a := newAuthority(t, "ca")
	p := a.provider()
	one := newKey(t)
	p.has(t, map[string]*ecdsa.PrivateKey{"1": one})
	hang := func() (under, over chan struct{}) { // what is fetched next
		under, over = make(chan struct{}), make(chan struct{})
		p.answers(func(_ http.ResponseWriter, r *http.Request) {
			close(under)
			<-r.Context().Done() // the client has gone
			close(over)
		})
		return under, over
	}
	g := startRemote(t, a, token.Options{JWKS: p.at("/")})
	under, over := hang()
	g.clock.Advance(fetchEvery)
	receive(t, under)
	without := g.Setup.Load().opts
	without.JWT, without.Account = nil, nil
	g.swap(without)
	receive(t, over)
	if n := g.clock.Pending(); n != 0 {
		t.Errorf("%d timers after tokens were turned off", n)
	}

	p.has(t, map[string]*ecdsa.PrivateKey{"1": one})
	g = startRemote(t, a, token.Options{JWKS: p.at("/")})
	under, over = hang()
	g.clock.Advance(fetchEvery)
	receive(t, under)
	if err := g.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	receive(t, over)
	if n := g.clock.Pending(); n != 0 {
		t.Errorf("%d timers after the stop", n)
	}
	unknown := http.Header{"Authorization": {"Bearer " + tokenBy(t, "2", newKey(t), about("bob"))}}
	if _, _, err := g.Setup.Load().keys.Claims(unknown, g.clock.Now().Add(time.Hour)); !errors.Is(err,
		token.ErrUnknownKey) {
		t.Error(err)
	}
	if n := p.asked.Load(); n != 4 || g.clock.Pending() != 0 {
		t.Errorf("%d fetches", n)
	}
}
