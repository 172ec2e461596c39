package demo

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/mail"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

// maxLetter bounds the size of a mail.
const maxLetter = 1 << 20

// A sink is the mail server behind the gate: mail that arrives there has got out. It is safe for concurrent use.
type sink struct {
	read func(to string, m *mail.Message) // is given what nobody awaits: notices

	mu      sync.Mutex
	awaited map[string]*awaited // by message id
}

// An awaited is a mail of an actor. It is known until it has arrived everywhere.
type awaited struct {
	tell  telling // when it has arrived everywhere
	theft *theft  // that it belongs to, or nil: then it must arrive
	stay  bool    // it is known afterwards, too: it might arrive again

	began time.Time
	left  int             // recipients
	seen  map[string]bool // recipients
	again int             // how often one has got it once more
}

func (k *sink) serve(s *Stage) (addr string, err error) {
	l, err := net.Listen("tcp", loopback)
	if err != nil {
		return "", err
	}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &delivery{sink: k}, nil
	}))
	server.Domain, server.MaxMessageBytes, server.MaxRecipients = "sink.example", maxLetter, 100
	server.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	go server.Serve(l)
	s.strike = append(s.strike, func() { server.Close() })
	return l.Addr().String(), nil
}

// await makes a mail known before it is sent.
func (k *sink) await(l *letter, a *awaited) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a.began, a.left, a.seen = time.Now(), len(l.to), make(map[string]bool, len(l.to))
	k.awaited[l.id] = a
}

func (k *sink) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.awaited, id)
}

// drop forgets all mail of a theft, or for nil all other mail, which should have arrived. It returns how to tell of it.
func (k *sink) drop(t *theft) (lost []telling) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, a := range k.awaited {
		if a.theft == t {
			lost = append(lost, a.tell)
			delete(k.awaited, id)
		}
	}
	return lost
}

// copies returns how many recipients have got a mail that stays known, and how often one got it again.
func (k *sink) copies(id string) (arrived, again int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a := k.awaited[id]; a != nil {
		return len(a.seen), a.again
	}
	return 0, 0
}

// arrived is called for each delivery, before it is acknowledged.
func (k *sink) arrived(to []string, text []byte, at time.Time) error {
	m, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "this is no mail"}
	}
	id := strings.Trim(m.Header.Get("Message-Id"), "<>")
	done, known := k.note(id, to, at)
	switch {
	case done != nil:
		done()
	case !known && k.read != nil:
		for _, one := range to {
			k.read(one, m)
		}
	}
	return nil
}

// note notes the recipients that a mail has reached. done is not nil for the last one.
func (k *sink) note(id string, to []string, at time.Time) (done func(), known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.awaited[id]
	if a == nil {
		return nil, false
	}
	for _, one := range to {
		if a.seen[one] {
			a.again++
			continue
		}
		a.seen[one] = true
		a.left--
	}
	if a.left > 0 || a.tell == nil {
		return nil, true
	}
	tell, took := a.tell, at.Sub(a.began)
	a.tell = nil
	if !a.stay {
		delete(k.awaited, id)
	}
	return func() { tell(Served, took, at) }, true
}

type delivery struct {
	sink *sink
	to   []string
}

var _ smtp.Session = (*delivery)(nil)

func (d *delivery) Reset()                               { d.to = nil }
func (d *delivery) Logout() error                        { return nil }
func (d *delivery) Mail(string, *smtp.MailOptions) error { return nil }
func (d *delivery) Rcpt(to string, _ *smtp.RcptOptions) error {
	d.to = append(d.to, strings.ToLower(to))
	return nil
}

func (d *delivery) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return d.sink.arrived(d.to, text, time.Now())
}
