package nats

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/farm"
	"weir/internal/testkit/needs"
)

// A maker makes certificates that have nothing to do with a secret.
type maker struct {
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

func newMaker(t *testing.T) *maker {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	self := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "of the operator"},
		NotBefore: always, NotAfter: forever, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, self, self, public, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &maker{cert, key}
}

// leaf makes a certificate that claims something.
func (m *maker) leaf(t *testing.T, says string) tls.Certificate {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: always,
		NotAfter: forever, Subject: pkix.Name{CommonName: "a", SerialNumber: says}}, m.cert, public, m.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// write puts a certificate and its key into files.
func (m *maker) write(t *testing.T, files farm.TLS) {
	t.Helper()
	leaf := m.leaf(t, "")
	key, err := x509.MarshalPKCS8PrivateKey(leaf.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		files.Cert: {Type: "CERTIFICATE", Bytes: leaf.Certificate[0]},
		files.Key:  {Type: "PRIVATE KEY", Bytes: key},
		files.CA:   {Type: "CERTIFICATE", Bytes: m.cert.Raw},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func filesIn(dir string) farm.TLS {
	return farm.TLS{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), CA: filepath.Join(dir, "ca")}
}

// knock is not a node of this farm: it says what it likes, and returns all that it got in clear.
func knock(t *testing.T, addr string, secured *tls.Config, says string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if secured != nil {
		conn = tls.Client(conn, secured)
	}
	_, _ = io.WriteString(conn, says)
	got, err := io.ReadAll(conn)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Error("the stranger was never shown the door")
	}
	return string(got)
}

// nodeProtocol is what a node would say after its handshake.
const nodeProtocol = "CONNECT {\"verbose\":false,\"cluster\":\"weir\",\"name\":\"x\",\"headers\":true}\r\n" +
	"INFO {\"server_id\":\"STRANGER\",\"server_name\":\"x\",\"cluster\":\"weir\",\"headers\":true,\"max_payload\":1048576}\r\n" +
	"RS+ $G weir.>\r\nPING\r\n"

// TestStrangers: who has not the secret gets nothing, whatever they say.
func TestStrangers(t *testing.T) {
	a, b := open(t, optionsOf("a")), open(t, optionsOf("b"))
	meet(t, a, b)
	met(t, a, b)
	other := newMaker(t)
	claims := claim{farm.Major, []string{print8(t, secretA)}}.String()
	insecure := func(name string, certs ...tls.Certificate) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, ServerName: name, Certificates: certs}
	}
	old := insecure(claims, other.leaf(t, claims))
	old.MaxVersion = tls.VersionTLS12
	for name, c := range map[string]struct {
		secured *tls.Config
		says    string
	}{
		"plain text":                        {nil, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		"nothing":                           {nil, ""},
		"the protocol without TLS":          {nil, nodeProtocol},
		"no claim":                          {insecure("example.org"), nodeProtocol},
		"no certificate":                    {insecure(claims), nodeProtocol},
		"a certificate of another":          {insecure(claims, other.leaf(t, "")), nodeProtocol},
		"one that claims to be of the farm": {insecure(claims, other.leaf(t, claims)), nodeProtocol},
		"an older TLS":                      {old, nodeProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			if got := knock(t, a.Addr().String(), c.secured, c.says); strings.ContainsAny(got, "{}") || len(got) > 16 {
				t.Errorf("it got %q", got)
			}
			if n := a.server.NumRoutes(); n != 1 {
				t.Errorf("there are %d routes", n)
			}
		})
	}
	met(t, a, b)
	if len(a.Stats().Refused) != 1 {
		t.Errorf("refused: %v", a.Stats().Refused)
	}
}

// TestFlood: 200 strangers who say nothing cost little, and the farm goes on while they are there and afterwards.
func TestFlood(t *testing.T) {
	a, b := open(t, optionsOf("a")), open(t, optionsOf("b"))
	meet(t, a, b)
	met(t, a, b)
	before := runtime.NumGoroutine()
	const strangers = 200
	var open sync.WaitGroup
	for range strangers {
		conn, err := net.DialTimeout("tcp", a.Addr().String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		open.Go(func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience))
			n, err := io.Copy(io.Discard, conn)
			if n > 16 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a stranger got %d bytes, and stayed: %v", n, err)
			}
		})
	}
	met(t, a, b) // while they wait
	open.Wait()
	needs.Wait(t, "nothing of the strangers is left", func() bool { return runtime.NumGoroutine() <= before })
	met(t, a, b)
	c := openTo(t, "c", a)
	met(t, a, b, c)
}

// openTo opens a node that knows one other.
func openTo(t *testing.T, name string, to *Bus) *Bus {
	t.Helper()
	o := optionsOf(name)
	o.Peers = []string{to.Addr().String()}
	return open(t, o)
}

// TestNoClients: the bus is the only client of its server.
func TestNoClients(t *testing.T) {
	a := open(t, optionsOf("a"))
	if addr := a.server.Addr(); addr != nil {
		t.Errorf("the server listens for clients at %v", addr)
	}
	if n := a.server.NumClients(); n != 1 {
		t.Errorf("it has %d clients", n)
	}
}

// TestFiles: certificates of the operator are used on both ends, and read again by a reload.
func TestFiles(t *testing.T) {
	operator, stranger := newMaker(t), newMaker(t)
	at := func(name string, m *maker) Options {
		o := optionsOf(name)
		o.TLS = filesIn(t.TempDir())
		m.write(t, o.TLS)
		return o
	}
	a, b := open(t, at("a", operator)), open(t, at("b", operator))
	other := at("c", stranger)
	c := open(t, other)
	meet(t, a, b, c)
	met(t, a, b)
	needs.Wait(t, "a refuses a node with another certificate", func() bool {
		return strings.Contains(a.Stats().Refused[c.Addr().String()], "not signed by an authority that this node trusts (farm.tls.ca)")
	})
	if n := a.server.NumRoutes(); n != 1 {
		t.Errorf("%d routes", n)
	}
	operator.write(t, other.TLS)
	o := c.options
	if err := c.Reconfigure(o); err != nil {
		t.Fatal(err)
	}
	met(t, a, b, c)
	if err := os.WriteFile(other.TLS.CA, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Reconfigure(o); err == nil || !strings.Contains(err.Error(), "farm.tls.ca") {
		t.Errorf("a file without certificates: %v", err)
	}
	met(t, a, b, c)
	o = at("d", operator).Options
	o.TLS.Key += "-missing"
	if _, err := Open(Options{Node: farm.Node{Name: "d"}, Options: o}); err == nil || !strings.Contains(err.Error(), "farm.tls.key") {
		t.Errorf("a key that is missing: %v", err)
	}
}

// TestClocks: a node whose clock is wrong by decades is let in.
func TestClocks(t *testing.T) {
	early, late := optionsOf("a"), optionsOf("b")
	early.Now = func() time.Time { return time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC) }
	late.Now = func() time.Time { return time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC) }
	a, b := open(t, early), open(t, late)
	meet(t, a, b)
	met(t, a, b)
}

// TestAuthorityIsTheSameEverywhere: its bytes may not depend on when or where it is made.
func TestAuthorityIsTheSameEverywhere(t *testing.T) {
	print := print8(t, secretA)
	one, _, err := authority(secretA, print)
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := authority(secretA, print)
	if err != nil {
		t.Fatal(err)
	}
	if !one.Equal(two) || print != "2eb62dc4" {
		t.Errorf("the fingerprint is %s", print)
	}
	if print == print8(t, secretB) {
		t.Error("two secrets have one fingerprint")
	}
}

func FuzzClaim(f *testing.F) {
	f.Add("v1-1a2b3c4d.weir")
	f.Add("v1-1a2b3c4d-5e6f7a8b.weir")
	f.Add("v1-1a2b3c4d-5e6f7a8b-00000000.weir")
	f.Add("v01-1a2b3c4d.weir")
	f.Add("v99999-1a2b3c4d.weir")
	f.Add("example.org")
	f.Add("")
	mine := claim{farm.Major, []string{"1a2b3c4d"}}
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := parseClaim(text)
		if !ok {
			return
		}
		if c.String() != text || len(c.prints) == 0 || len(c.prints) > farm.MaxSecrets {
			t.Fatalf("%q is read as %+v", text, c)
		}
		if err := mine.judge(c); err == nil && (c.major != farm.Major || c.prints[0] != mine.prints[0]) {
			t.Errorf("%q is let in", text)
		}
	})
}
