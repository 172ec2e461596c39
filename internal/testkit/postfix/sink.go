package postfix

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/mail"
	"slices"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"

	"weir/internal/testkit/needs"
)

// A Sink is a mail server that takes everything and keeps it.
type Sink struct {
	t      testing.TB
	addr   string
	server *smtp.Server

	mu    sync.Mutex
	mails []Mail
}

// A Mail is one that a Sink has taken.
type Mail struct {
	From string
	To   []string
	Text []byte
}

// Header returns the fields of a name, in their order.
func (m *Mail) Header(name string) []string {
	read, err := mail.ReadMessage(bytes.NewReader(m.Text))
	if err != nil {
		return nil
	}
	return read.Header[name]
}

// NewSink starts a sink that ends with the test.
func NewSink(t testing.TB) *Sink { return newSink(t, true) }

// NewPlainSink starts one that knows no SMTPUTF8.
func NewPlainSink(t testing.TB) *Sink { return newSink(t, false) }

func newSink(t testing.TB, utf8 bool) *Sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Sink{t: t, addr: l.Addr().String()}
	s.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &taking{sink: s}, nil }))
	s.server.Domain = "sink.test"
	s.server.EnableSMTPUTF8 = utf8
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.server.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.server.Close()
		_ = l.Close() // of which the server may not have heard yet
		<-ended
	})
	return s
}

func (s *Sink) Addr() string { return s.addr }

// Mails returns what it has taken, in order.
func (s *Sink) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

// Await waits until it has taken so many mails, and returns them.
func (s *Sink) Await(n int) []Mail {
	s.t.Helper()
	needs.Wait(s.t, fmt.Sprint(n, " messages have arrived"), func() bool { return len(s.Mails()) >= n })
	return s.Mails()
}

// taking is one session at a sink.
type taking struct {
	sink *Sink
	mail Mail
}

func (s *taking) Reset()        { s.mail = Mail{} }
func (s *taking) Logout() error { return nil }
func (s *taking) Mail(from string, _ *smtp.MailOptions) error {
	s.mail.From = from
	return nil
}
func (s *taking) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mail.To = append(s.mail.To, to)
	return nil
}
func (s *taking) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mail.Text = text
	s.sink.mu.Lock()
	defer s.sink.mu.Unlock()
	s.sink.mails = append(s.sink.mails, s.mail)
	return nil
}
