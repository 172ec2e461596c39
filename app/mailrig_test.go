package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"weir/app"
	"weir/config"
	"weir/console"
	"weir/internal/clock"
)

// A message is a mail that came out of weir.
type message struct {
	from, to, text string
}

// subject is the subject of a message, or what is wrong with it.
func (l *message) header(name string) string {
	m, err := mail.ReadMessage(strings.NewReader(l.text))
	if err != nil {
		return err.Error()
	}
	return m.Header.Get(name)
}

// A sink is the next hop: it takes everything and remembers it, recipient by recipient.
type sink struct {
	mu      sync.Mutex
	all     []message
	refuses func(to string) error
	server  *smtp.Server
	address string
}

func newSink(t *testing.T) *sink {
	s := &sink{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	s.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &sinkSession{sink: s},
			nil
	}))
	s.server.EnableDSN, s.server.EnableSMTPUTF8, s.server.AllowInsecureAuth = true, true, true
	go s.server.Serve(l)
	t.Cleanup(func() { s.server.Close() })
	return s
}

type sinkSession struct {
	sink *sink
	from string
	to   []string
}

func (s *sinkSession) Reset()        { s.from, s.to = "", nil }
func (s *sinkSession) Logout() error { return nil }
func (s *sinkSession) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return nil
}
func (s *sinkSession) AuthMechanisms() []string { return []string{sasl.Plain} }
func (s *sinkSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, name, password string) error {
		if name != "ann" || password != "next hop knows" {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}
func (s *sinkSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.sink.mu.Lock()
	refuses := s.sink.refuses
	s.sink.mu.Unlock()
	if refuses != nil {
		if err := refuses(to); err != nil {
			return err
		}
	}
	s.to = append(s.to, to)
	return nil
}
func (s *sinkSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.sink.mu.Lock()
	defer s.sink.mu.Unlock()
	for _, to := range s.to {
		s.sink.all = append(s.sink.all, message{s.from, to, string(text)})
	}
	return nil
}

// to returns what has come for a recipient; empty: for anybody.
func (s *sink) to(address string) (all []message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.all {
		if address == "" || l.to == address {
			all = append(all, l)
		}
	}
	return all
}

// reached is how many recipients got a mail that weir did not write itself.
func (s *sink) reached() (n int) {
	for _, l := range s.to("") {
		if l.from != "" {
			n++
		}
	}
	return n
}

// A post is a running weir with a gate for mail, a next hop, and the clock in the test's hand.
type post struct {
	t       *testing.T
	clock   *clock.Fake
	app     *app.App
	sink    *sink
	control *console.Client
	folder  string
	extra   string
	log     *slog.Logger // nil: none
}

// newPost starts one. mail is the options of the mail throttle, gate and extra are further lines of the gate and of the
// configuration.
func newPost(t *testing.T, mail, gate, extra string) *post {
	t.Helper()
	p := &post{t: t, clock: clock.NewFake(noon), sink: newSink(t), folder: t.TempDir(), extra: extra}
	p.start(p.config(mail, gate))
	return p
}

func (p *post) start(cfg *config.Config) {
	p.t.Helper()
	a, err := app.New(cfg, app.Options{Clock: p.clock, Log: p.log, HashMemory: someWork})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := a.Start(context.Background()); err != nil {
		p.t.Fatal(err)
	}
	p.app, p.control = a, console.NewClient(a.ControlPath())
	p.t.Cleanup(func() { p.stop() })
}

func (p *post) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.app.Stop(ctx); err != nil {
		p.t.Error(err)
	}
}

func (p *post) config(mail, gate string) *config.Config {
	p.t.Helper()
	if !strings.Contains(gate, "throttles:") {
		gate += "\n  throttles: [outgoing]"
	}
	cfg, err := config.Parse("weir.yaml", []byte(fmt.Sprintf(`
data: %s
smtp:
- listen: 127.0.0.1:0
  hostname: mail.example.org
  next_hop: %s
  command: weir@mail.example.org
  admin: admin@example.org
  %s
console: {listen: "127.0.0.1:0"}
throttles:
  outgoing: {mail: {%s}}
%s`, p.folder, p.sink.address, gate, mail, p.extra)))
	if err != nil {
		p.t.Fatal(err)
	}
	return cfg
}

const password = "correct horse"

// someWork is the memory, in KiB, that the passwords of these tests take. That is about a millisecond of work, and not
// forty, as there are very many. It is enough for guesses at once to meet.
const someWork = 512

// user adds a user, whose contact is at another domain.
func (p *post) user(name string, senders ...string) {
	p.t.Helper()
	if _, err := console.UserAddCall.Ask(context.Background(), p.control,
		console.NewUser{Name: name, Password: password, Contact: name + "@private.example",
			Senders: senders}); err != nil {
		p.t.Fatal(err)
	}
}

// sleeps is runs for a long time in which nothing has to happen on the way.
func (p *post) sleeps(d time.Duration) {
	p.t.Helper()
	p.clock.Leap(d)
	p.runs(0)
}

// runs moves the clock, and waits until everything is done that falls due.
func (p *post) runs(d time.Duration) {
	p.t.Helper()
	p.clock.Advance(d)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.app.RunDue(ctx); err != nil {
		p.t.Fatal(err)
	}
}

// A mailer is somebody's mail program.
type mailer struct {
	p *post
	*smtp.Client
	from string
}

// mailer connects, and logs in unless the name is empty.
func (p *post) mailer(name string) *mailer {
	p.t.Helper()
	c, err := smtp.Dial(p.app.Addr("smtp", 0).String())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	m := &mailer{p: p, Client: c, from: name + "@example.org"}
	if name != "" {
		if err := c.Auth(sasl.NewPlainClient("", name, password)); err != nil {
			p.t.Fatal(err)
		}
	}
	return m
}

// send sends a mail, and returns the error of the answer.
func (m *mailer) send(subject string, to ...string) error {
	text := fmt.Sprintf("From: %s\r\nTo: %s\r\nSubject: %s\r\n\r\nhello\r\n", m.from,
		strings.Join(to[:min(len(to), 3)], ", "), subject)
	return m.sendText(text, to...)
}

func (m *mailer) sendText(text string, to ...string) error {
	return m.Client.SendMail(m.from, to, strings.NewReader(text))
}

// code is the code of an answer; 250 for none.
func code(err error) int {
	if e, ok := errors.AsType[*smtp.SMTPError](err); ok {
		return e.Code
	}
	if err == nil {
		return 250
	}
	return 0
}

// many makes addresses.
func many(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("stranger-%d@elsewhere.example", i))
	}
	return all
}

// status is the mail side as operators see it.
func (p *post) status() *console.MailStatus {
	p.t.Helper()
	s, err := console.StatusCall.Ask(context.Background(), p.control, console.None{})
	if err != nil {
		p.t.Fatal(err)
	}
	return s.Mail
}

// arrived waits until so many recipients of a list have their mail, and checks that nobody has it twice.
func (p *post) arrived(n int, to []string) {
	p.t.Helper()
	p.runs(0)
	got := 0
	for _, l := range p.sink.to("") {
		if slices.Contains(to, l.to) {
			got++
		}
	}
	if got != n {
		p.t.Fatalf("%d mails have arrived, want %d", got, n)
	}
	for _, one := range to {
		if all := p.sink.to(one); len(all) > 1 {
			p.t.Fatalf("%s has %d mails", one, len(all))
		}
	}
}

// dialogue writes everything at once, and returns the answers until the gate closes the connection.
func (p *post) dialogue(script string) (answers []string) {
	p.t.Helper()
	conn, err := net.Dial("tcp", p.app.Addr("smtp", 0).String())
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		p.t.Fatal(err)
	}
	go io.WriteString(conn, script)
	text, err := io.ReadAll(conn)
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\r\n")
}

// A lockedBuffer is a log that a test reads.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
