package app_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/app"
	"weir/config"
	"weir/console"
	"weir/internal/clock"
	"weir/internal/testkit/recorder"
)

// few is the limit of each account in the tests of innocent clients.
const few = 2

// A shop is a weir with several gates in front of an upstream that keeps every byte. Each account may do few things
// below /app.
type shop struct {
	t        *testing.T
	app      *app.App
	control  *console.Client
	upstream *recorder.Upstream
	folder   string // has cert.pem, by which clients know the gates
	roots    *x509.CertPool
}

// openShop starts a weir with these gates: YAML without the braces. UPSTREAM stands for the address of the upstream,
// and TLS for a certificate. After the gates may come what else the configuration has.
func openShop(t *testing.T, gates []string, more string) *shop {
	t.Helper()
	s := &shop{t: t, upstream: recorder.Start(t), folder: t.TempDir()}
	s.roots = certificate(t, s.folder)
	var b strings.Builder
	fmt.Fprintf(&b, "data: %s/data\nconsole: {listen: \"off\"}\n", s.folder)
	if len(gates) > 0 {
		b.WriteString("http:\n")
	}
	for _, gate := range gates {
		fmt.Fprintf(&b, "- {listen: \"127.0.0.1:0\", %s}\n", gate)
	}
	// Who has no account yet may log in, and may do nothing else at the gates with plans.
	fmt.Fprintf(&b, `throttles:
  plans: {quota: {policies: [{name: few, limit: %[1]d, period: 1h, match: {paths: ["/app/**"]}}], on_missing: refuse}}
  sessions: {quota: {policies: [{name: few, limit: %[1]d, period: 1h, match: {paths: ["/app/**"]}}]}}
%[2]s`, few, more)
	text := strings.NewReplacer("UPSTREAM", s.upstream.URL(), "TLS",
		fmt.Sprintf("tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem}", s.folder)).Replace(b.String())
	cfg, err := config.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	// The clock stands still, so that no period ends in the middle of a test.
	if s.app, err = app.New(cfg, app.Options{Clock: clock.NewFake(noon), HashMemory: 8}); err != nil {
		t.Fatal(err)
	}
	if err := s.app.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.control = console.NewClient(s.app.ControlPath())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.app.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

// left is how much an account has left, or few where nobody knows it.
func (s *shop) left(t *testing.T, account string) int64 {
	t.Helper()
	a, err := console.AccountGetCall.Ask(context.Background(), s.control, console.Name{Name: account})
	if known, ok := errors.AsType[*console.Error](err); ok && known.Code == http.StatusNotFound {
		return few
	}
	if err != nil {
		t.Fatal(err)
	}
	return a.Throttles[0].Rules[0].Remaining
}

// A way is how a client gets to the upstream: directly, through a gate, or through a gate with TLS.
type way struct {
	t      *testing.T
	base   string // http://127.0.0.1:1234
	direct bool
	folder string
	roots  *x509.CertPool
}

func (w *way) secure() bool { return strings.HasPrefix(w.base, "https:") }
func (w *way) cert() string { return filepath.Join(w.folder, "cert.pem") }

// client is a program in Go. It has no cookies of others, and no connections.
func (w *way) client() *http.Client {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.roots}, ForceAttemptHTTP2: w.secure()}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

func (s *shop) direct(t *testing.T) *way {
	return &way{t: t, base: s.upstream.URL(), direct: true, folder: s.folder, roots: s.roots}
}

func (s *shop) gate(t *testing.T, i int, secure bool) *way {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	return &way{t: t, base: scheme + s.app.Addr("http", i).String(), folder: s.folder, roots: s.roots}
}

// gateAdds are the header lines that a gate writes itself.
var gateAdds = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Request-Id",
	"Weir-Hops"}

// lines are the header lines of a request that concern both ends, by name, with names as Go writes them: their case
// means nothing (RFC 9110, 5.1). Lines of one name keep their order. Host is left out: it says which way was taken.
func lines(r recorder.Request, without ...string) (all []string) {
	drop := append([]string{"Host", "Connection", "Keep-Alive", "Upgrade", "Transfer-Encoding"}, without...)
	for _, list := range r.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			drop = append(drop, strings.TrimSpace(name))
		}
	}
	for _, line := range r.Lines() {
		name, value, _ := strings.Cut(line, ":")
		if slices.ContainsFunc(drop, func(d string) bool { return strings.EqualFold(d, name) }) {
			continue
		}
		all = append(all, textproto.CanonicalMIMEHeaderKey(name)+": "+strings.Trim(value, " \t"))
	}
	slices.SortStableFunc(all, func(a, b string) int {
		one, _, _ := strings.Cut(a, ":")
		two, _, _ := strings.Cut(b, ":")
		return strings.Compare(one, two)
	})
	return all
}

// unchanged checks that the upstream got a request as it was sent: its target, its header lines and its body, byte by
// byte.
func unchanged(t *testing.T, what string, sent, got recorder.Request, host string) {
	t.Helper()
	if got.Line() != sent.Line() {
		t.Errorf("%s: the upstream got %q, sent was %q", what, got.Line(), sent.Line())
	}
	if want, have := lines(sent, gateAdds...), lines(got, gateAdds...); !slices.Equal(have, want) {
		t.Errorf("%s: the upstream got\n%s\nsent was\n%s", what, strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	if !bytes.Equal(got.Body, sent.Body) {
		t.Errorf("%s: the upstream got the body %q, sent was %q", what, got.Body, sent.Body)
	}
	if have := got.Values("Host"); !slices.Equal(have, []string{host}) {
		t.Errorf("%s: the host is %q, want %q", what, have, host)
	}
}

// host is what a URL names.
func host(t *testing.T, base string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// An innocent is a client that names its account once. It sends one request to /app/… for the account, and returns the
// answer's status. It may log in before.
type innocent struct {
	name string
	send func(w *way, account string) int
	// what its head must have, so that the test is about something; ACCOUNT stands for the account as it is
	says []string
}

// behaves puts a client through a gate: what it sends arrives as it was sent, counts for the account that it named, and
// is refused when that is used up. Another account is not.
func (s *shop) behaves(t *testing.T, through *way, place string, c innocent) {
	t.Helper()
	// Keys often are base64, and whoever writes them into a query has to escape them.
	base := place + "/" + strings.ReplaceAll(c.name, " ", "-")
	if through.secure() {
		base += "+tls"
	}
	account, other := base+"==", base+"==2"
	s.upstream.Take()
	if status := c.send(s.direct(t), account); status != http.StatusOK {
		t.Fatalf("without weir: %d", status)
	}
	sent := s.upstream.Take()
	if len(sent) == 0 {
		t.Fatal("without weir: nothing came")
	}
	for _, says := range c.says {
		says = strings.ReplaceAll(says, "ACCOUNT", account)
		if head := string(sent[len(sent)-1].Head); !strings.Contains(head, says) {
			t.Errorf("it does not send %q:\n%s", says, head)
		}
	}
	for i := range few {
		if status := c.send(through, account); status != http.StatusOK {
			t.Fatalf("request %d: %d", i+1, status)
		}
		got := s.upstream.Take()
		if len(got) != len(sent) {
			t.Fatalf("%d requests came, want %d: %q", len(got), len(sent), got)
		}
		for k := range got {
			unchanged(t, fmt.Sprintf("request %d.%d", i+1, k+1), sent[k], got[k], host(t, through.base))
		}
		if left := s.left(t, account); left != few-int64(i)-1 {
			t.Errorf("after request %d the account has %d left", i+1, left)
		}
	}
	if status := c.send(through, account); status != http.StatusTooManyRequests {
		t.Errorf("one more: %d", status)
	}
	for _, r := range s.upstream.Take() {
		if strings.HasPrefix(r.Path(), "/app") {
			t.Errorf("one more reached the upstream: %s", r.Line())
		}
	}
	if status := c.send(through, other); status != http.StatusOK || s.left(t, other) != few-1 {
		t.Errorf("another account: %d, %d left", status, s.left(t, other))
	}
}

// places are where an account may stand, and the throttle that judges there.
var places = []struct{ name, account, throttle string }{
	{"header", "header:X-Api-Key", "plans"},
	{"bearer", "bearer", "plans"},
	{"query", "query:key", "plans"},
	{"cookie", "cookie:session", "sessions"},
}

// openPlaces starts a weir with two gates for each place, without TLS and with it.
func openPlaces(t *testing.T) *shop {
	t.Helper()
	var gates []string
	for _, p := range places {
		gate := fmt.Sprintf("upstream: UPSTREAM, account: [%q], throttles: [%s]", p.account, p.throttle)
		gates = append(gates, gate, gate+", TLS")
	}
	s := openShop(t, gates, "")
	s.upstream.Answers(func(r recorder.Request) recorder.Answer {
		if as, found := strings.CutPrefix(r.Target(), "/login?as="); found {
			as, _ = url.QueryUnescape(as)
			return recorder.Answer{Header: []string{"Set-Cookie: first=1; Path=/",
				"Set-Cookie: session=" + as + "; Path=/",
				"Set-Cookie: theme=dark; Path=/app", "Set-Cookie: elsewhere=1; Path=/shop"}, Body: "hello " + as}
		}
		return recorder.Answer{Body: "hello\n"}
	})
	return s
}

// TestInnocentClients: a client that names its account once gets through as if there were no weir, up to its limit.
func TestInnocentClients(t *testing.T) {
	t.Parallel()
	all := innocents(t)
	for i, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := openPlaces(t)
			for _, c := range all[p.name] {
				for k, secure := range []bool{false, true} {
					t.Run(c.name+"/"+overWhat(secure), func(t *testing.T) {
						s.behaves(t, s.gate(t, 2*i+k, secure), p.name, c)
					})
				}
			}
		})
	}
}
