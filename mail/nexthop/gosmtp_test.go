package nexthop

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// A real is a server of another make, and what it has seen.
type real struct {
	*smtp.Server
	address string
	lmtp    bool
	mechs   []string

	mu    sync.Mutex
	mails []received
	logIn []string
}

type received struct {
	sender string
	opts   smtp.MailOptions
	to     []string
	rcpts  []smtp.RcptOptions
	text   string
	secure bool
}

func newReal(t *testing.T, change func(*real)) *real {
	t.Helper()
	r := &real{mechs: []string{sasl.Plain}}
	r.Server = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session,
		error) {
		return &realSession{real: r, conn: c}, nil
	}))
	r.Domain, r.ErrorLog = "real.example.org", log.New(io.Discard, "", 0)
	r.EnableDSN, r.EnableSMTPUTF8 = true, true
	change(r)
	r.LMTP = r.lmtp
	network, address := "tcp", "127.0.0.1:0"
	if r.lmtp {
		network, address = "unix", filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	r.address = ln.Addr().String()
	done := make(chan struct{})
	go func() {
		r.Serve(ln)
		close(done)
	}()
	t.Cleanup(func() {
		r.Close()
		ln.Close() // of which the server may not have heard yet
		<-done
	})
	return r
}

// dial reaches the server under any name.
func (r *real) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", r.address)
}

func (r *real) seen() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.mails...)
}

type realSession struct {
	*real
	conn *smtp.Conn
	mail received
}

func (s *realSession) Reset()        { s.mail = received{} }
func (s *realSession) Logout() error { return nil }
func (s *realSession) Mail(from string, opts *smtp.MailOptions) error {
	_, secure := s.conn.TLSConnectionState()
	s.mail = received{sender: from, opts: *opts, secure: secure}
	return nil
}
func (s *realSession) Rcpt(to string, opts *smtp.RcptOptions) error {
	if strings.HasPrefix(to, "unknown") {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
	}
	s.mail.to, s.mail.rcpts = append(s.mail.to, to), append(s.mail.rcpts, *opts)
	return nil
}
func (s *realSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.mail.text = string(text)
	s.mu.Lock()
	s.mails = append(s.mails, s.mail)
	s.mu.Unlock()
	return err
}
func (s *realSession) LMTPData(r io.Reader, status smtp.StatusCollector) error {
	for _, to := range s.mail.to {
		var err error
		if strings.HasPrefix(to, "full") {
			err = &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 2, 2}, Message: "mailbox full"}
		}
		status.SetStatus(to, err)
	}
	return s.Data(r)
}
func (s *realSession) AuthMechanisms() []string { return s.mechs }
func (s *realSession) Auth(mech string) (sasl.Server, error) {
	check := func(user, password string) error {
		s.mu.Lock()
		s.logIn = append(s.logIn, mech)
		s.mu.Unlock()
		if user != "weir" || password != "pass word" {
			return smtp.ErrAuthFailed
		}
		return nil
	}
	if mech == sasl.Login {
		return &loginServer{check: check}, nil
	}
	return sasl.NewPlainServer(func(_, user, password string) error { return check(user, password) }), nil
}

type loginServer struct {
	user  string
	step  int
	check func(user, password string) error
}

func (l *loginServer) Next(answer []byte) (challenge []byte, done bool, err error) {
	l.step++
	switch l.step {
	case 1:
		return []byte("Username:"), false, nil
	case 2:
		l.user = string(answer)
		return []byte("Password:"), false, nil
	}
	return nil, true, l.check(l.user, string(answer))
}

// certificate makes a certificate for a name, and the file that vouches for it.
func certificate(t *testing.T, name string) (*tls.Config, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		DNSNames:  []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, file
}

// TestOtherServer: everything in an envelope, and the text, arrive as they were.
func TestOtherServer(t *testing.T) {
	r := newReal(t, func(*real) {})
	client := newClient(t, Env{}, nil, r.address)
	const text = "Subject: dots\r\n\r\n.\r\n..\r\n.x\r\nläuft"
	j := &Job{Sender: "änn@example.org", Size: int64(len(text)), UTF8: true, EightBit: true, Return: "FULL",
		Envelope: "x+=y z", Open: slowly(text),
		Recipients: []Recipient{{"böb@example.net", "SUCCESS,FAILURE", "utf-8;böb=1@example.net"},
			{Address: "unknown@example.net"},
			{"a b@example.net", "NEVER", "rfc822;a+b@example.net"}}}
	want(t, client.Deliver(soon(t), j), "done 2.0.0", "failed 5.1.1 no such user", "done 2.0.0")
	got := r.seen()
	if len(got) != 1 {
		t.Fatalf("%d mails", len(got))
	}
	m := got[0]
	if m.text != text+"\r\n" || m.sender != j.Sender || strings.Join(m.to, " ") != "böb@example.net a b@example.net" {
		t.Errorf("%+v", m)
	}
	if o := m.opts; o.Size != j.Size || !o.UTF8 || o.Body != smtp.Body8BitMIME || o.Return != smtp.DSNReturnFull ||
		o.EnvelopeID != "x+=y z" {
		t.Errorf("%+v", o)
	}
	if o := m.rcpts[0]; len(o.Notify) != 2 || o.OriginalRecipientType != smtp.DSNAddressTypeUTF8 ||
		o.OriginalRecipient != "böb=1@example.net" {
		t.Errorf("%+v", o)
	}
	if o := m.rcpts[1]; len(o.Notify) != 1 || o.Notify[0] != smtp.DSNNotifyNever ||
		o.OriginalRecipient != "a+b@example.net" {
		t.Errorf("%+v", o)
	}
}

// TestOtherLMTP: by LMTP over a socket, each recipient has an own answer after the text.
func TestOtherLMTP(t *testing.T) {
	r := newReal(t, func(r *real) { r.lmtp, r.EnableDSN = true, false })
	client := newClient(t, Env{}, nil, "lmtp:unix:"+r.address)
	for range 3 {
		got := client.Deliver(soon(t), job("a@example.net", "full@example.net", "unknown@example.net", "b@example.net"))
		want(t, got, "done 2.0.0", "later 4.2.2 mailbox full", "failed 5.1.1", "done 2.0.0")
		if !got[0].Relayed || got[1].Relayed || got[2].Relayed {
			t.Errorf("%+v", got)
		}
	}
	if got := client.Stats(); got.Dials != 1 {
		t.Errorf("%+v", got)
	}
}

// TestOtherLimits: what the server announces is kept.
func TestOtherLimits(t *testing.T) {
	r := newReal(t, func(r *real) { r.MaxRecipients, r.MaxMessageBytes = 2, 100 })
	client := newClient(t, Env{}, nil, r.address)
	want(t, client.Deliver(soon(t), job("a@x.org", "b@x.org", "c@x.org")), "done 2.0.0", "done 2.0.0", "done 2.0.0")
	if got := r.seen(); len(got) != 2 || len(got[0].to) != 2 || len(got[1].to) != 1 {
		t.Errorf("%+v", got)
	}
	j := job(bob)
	j.Size = 101
	want(t, client.Deliver(soon(t), j), "failed 5.3.4")
}
