package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"weir/console"
	"weir/notify"
)

// A listener is a webhook.
type listener struct {
	*httptest.Server
	told chan notify.Notice
}

func newListener(t *testing.T) *listener {
	l := &listener{told: make(chan notify.Notice, 100)}
	l.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var said struct{ Notices []notify.Notice }
		if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
			t.Error(err)
		}
		for _, n := range said.Notices {
			l.told <- n
		}
	}))
	t.Cleanup(l.Close)
	return l
}

// hears wants one notice.
func (l *listener) hears(t *testing.T, event notify.Event, about string, over bool) {
	t.Helper()
	select {
	case n := <-l.told:
		if n.Event != event || n.About != about || n.Over != over || n.Text == "" || n.Node == "" {
			t.Errorf("%+v, want %s of %s", n, event, about)
		}
	case <-time.After(patience):
		t.Errorf("nothing was heard of %s", event)
	}
}

func (l *listener) config() string {
	return fmt.Sprintf("notify: [{webhook: {url: %q, secret: a secret of sixteen}}]", l.URL)
}

// selfSigned writes a certificate and its key.
func selfSigned(t *testing.T, until time.Time) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.AddDate(-1, 0, 0), NotAfter: until,
		DNSNames: []string{"mail.example.org"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", bytes)
}

// TestNotices: people are told of a user who is stopped, once, and when that is over; and of a certificate that ends
// soon. A reload keeps what was told, and one without targets ends it.
func TestNotices(t *testing.T) {
	t.Parallel()
	l := newListener(t)
	cert, key := selfSigned(t, noon.Add(14*24*time.Hour+time.Second))
	gate := fmt.Sprintf("tls: {cert: %q, key: %q}", cert, key)
	p := newPost(t, "rate: 1/m", gate, l.config())
	look := func() { p.clock.Advance(5 * time.Second) }
	p.user("ann")
	look()
	l.hears(t, notify.Certificate, cert, false)
	if _, err := console.UserStopCall.Ask(t.Context(), p.control, console.UserStop{Name: "ann", Why: "test"}); err != nil {
		t.Fatal(err)
	}
	look()
	l.hears(t, notify.UserStopped, "ann", false)
	look()
	if err := p.app.Reload(p.config("rate: 2/m", gate)); err != nil {
		t.Fatal(err)
	}
	look()
	if _, err := console.UserResumeCall.Ask(t.Context(), p.control, console.UserResume{Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	look()
	l.hears(t, notify.UserStopped, "ann", true)
	p.extra = ""
	if err := p.app.Reload(p.config("rate: 2/m", gate)); err != nil {
		t.Fatal(err)
	}
	if _, err := console.UserStopCall.Ask(t.Context(), p.control, console.UserStop{Name: "ann", Why: "test"}); err != nil {
		t.Fatal(err)
	}
	look()
	look()
	if len(l.told) != 0 {
		t.Errorf("nobody is to be told: %+v", <-l.told)
	}
}
