package app_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/store"
	"weir/throttle/stamp"
	"weir/throttle/stamp/payer"
)

// stamped is a mail to somebody with a stamp.
func (p *post) stamped(params stamp.MailParams, to string) string {
	p.t.Helper()
	letter,
		err := payer.ReadMail(strings.NewReader(fmt.Sprintf("From: ann@example.org\r\nTo: %s\r\nSubject: "+
		"paid\r\n\r\nhello\r\n", to)))
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := letter.Stamp(context.Background(), p.clock.Now(), params, nil, payer.Options{}); err != nil {
		p.t.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := letter.WriteTo(&text); err != nil {
		p.t.Fatal(err)
	}
	return text.String()
}

// sends sends a mail, and wants so many recipients of all mails so far to wait in the delay queue.
func (m *mailer) sends(text, to string, delayed int) {
	m.p.t.Helper()
	if err := m.sendText(text, to); err != nil {
		m.p.t.Fatal(err)
	}
	if n := m.p.status().Recipients[store.Delayed]; n != delayed {
		m.p.t.Errorf("%d wait, want %d", n, delayed)
	}
}

// spendsSlack adds ann, and sends the one mail that passes without a stamp.
func (p *post) spendsSlack() *mailer {
	p.t.Helper()
	p.user("ann")
	m := p.mailer("ann")
	if err := m.send("spends the slack", "first@elsewhere.example"); err != nil {
		p.t.Fatal(err)
	}
	return m
}

// TestAStampIsWorthOneAtAllGates: what one gate has taken is spent at the other, one by STARTTLS or none, the other by
// TLS from the start.
func TestAStampIsWorthOneAtAllGates(t *testing.T) {
	t.Parallel()
	p := &post{t: t, clock: clock.NewFake(noon), sink: newSink(t), folder: t.TempDir()}
	certs := t.TempDir()
	roots := certificate(t, certs)
	p.start(p.config("rate: 1/m", fmt.Sprintf(`stamps: {work: 8 bits}
  throttles: [outgoing]
- listen: 127.0.0.1:0
  hostname: mail.example.org
  next_hop: %[1]s
  tls: {mode: implicit, cert: %[2]s/cert.pem, key: %[2]s/key.pem}
  stamps: {work: 6 bits}
  throttles: [outgoing]`, p.sink.address, certs)))
	submission := p.spendsSlack()
	c, err := smtp.DialTLS(p.app.Addr("smtp", 1).String(), &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Auth(sasl.NewPlainClient("", "ann", password)); err != nil {
		t.Fatal(err)
	}
	submissions := &mailer{p: p, Client: c, from: "ann@example.org"}
	params := p.stampParams()
	text := p.stamped(params, "a@elsewhere.example")
	submission.sends(text, "a@elsewhere.example", 0)
	submissions.sends(text, "a@elsewhere.example", 1)
	text = p.stamped(params, "b@elsewhere.example")
	submissions.sends(text, "b@elsewhere.example", 1)
	submission.sends(text, "b@elsewhere.example", 2)
	p.arrived(1, []string{"a@elsewhere.example"})
	p.arrived(1, []string{"b@elsewhere.example"})
}

// TestStampsOverReloadAndRestart: what is spent stays spent, and what is not stays good, also where the price has
// changed.
func TestStampsOverReloadAndRestart(t *testing.T) {
	t.Parallel()
	p := newPost(t, "rate: 1/m", "stamps: {work: 8 bits}", "")
	m := p.spendsSlack()
	params := p.stampParams()
	spent := p.stamped(params, "a@elsewhere.example")
	m.sends(spent, "a@elsewhere.example", 0)
	if err := p.app.Reload(p.config("rate: 1/m", "stamps: {work: 9 bits}")); err != nil {
		t.Fatal(err)
	}
	dearer := p.stampParams()
	if dearer.Work != 512 || dearer.Seed != params.Seed {
		t.Fatalf("%+v after %+v", dearer, params)
	}
	m.sends(spent, "a@elsewhere.example", 1)
	m = p.mailer("ann") // who was there before does not see what is new
	m.sends(spent, "a@elsewhere.example", 2)
	m.sends(p.stamped(params, "b@elsewhere.example"), "b@elsewhere.example", 2) // at the price before
	p.stop()
	p.start(p.config("rate: 1/m", "stamps: {work: 8 bits}"))
	if again := p.stampParams(); again != params {
		t.Fatalf("%+v after a restart, %+v before", again, params)
	}
	m = p.mailer("ann")
	m.sends(spent, "a@elsewhere.example", 3)
	m.sends(p.stamped(params, "c@elsewhere.example"), "c@elsewhere.example", 3)
	if err := p.app.Reload(p.config("rate: 1/m", "stamps: {work: 9 bits, required: true}")); err != nil {
		t.Fatal(err)
	}
	m = p.mailer("ann")
	if err := m.sendText(p.stamped(params, "d@elsewhere.example"), "d@elsewhere.example"); err != nil {
		t.Error(err)
	}
	cheap := p.stamped(params, "e@elsewhere.example")
	p.clock.Leap(stamp.MailGrace)
	if err := m.sendText(cheap, "e@elsewhere.example"); code(err) != 550 {
		t.Errorf("%s after the rise: %v", stamp.MailGrace, err)
	}
}

// TestThePriceOfMailFollowsDeliveries: while as much is being delivered as can be, a stamp costs more, in the answer to
// EHLO and on the page.
func TestThePriceOfMailFollowsDeliveries(t *testing.T) {
	t.Parallel()
	address := needs.FreeAddress()
	p := &post{t: t, clock: clock.NewFake(noon), sink: newSink(t), folder: t.TempDir(),
		extra: fmt.Sprintf("self_service: {listen: %q, url: %q}\n", address, "http://"+address)}
	arrived, leave := make(chan struct{}), make(chan struct{})
	p.sink.refuses = func(to string) error {
		if to == "slow@elsewhere.example" {
			close(arrived)
			<-leave
		}
		return nil
	}
	cfg := p.config("rate: 1/m", "stamps: {work: 8 bits, schedule: [{load: 100%, work: 11 bits}]}")
	cfg.SMTP[0].NextHop.Connections = 1
	another := cfg.SMTP[0]
	another.Listen, another.Stamps.Work = "127.0.0.1:0", "8 bits"
	other := *another.Stamps
	other.Work, other.Schedule, another.Stamps = "9 bits", nil, &other
	cfg.SMTP = append(cfg.SMTP, another)
	p.start(cfg)
	page := func() stamp.MailParams {
		t.Helper()
		resp, err := http.Get("http://" + address + "/.well-known/weir-mail-stamp")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		params, err := stamp.ReadMailParams(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return params
	}
	// that of the dearest gate
	if ehlo, told := p.stampParams(), page(); ehlo.Work != 1<<8 || told.Work != 1<<9 || told.Seed != ehlo.Seed {
		t.Errorf("%+v, %+v", ehlo, told)
	}
	p.user("ann")
	if err := p.mailer("ann").send("slow", "slow@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-arrived:
	case <-time.After(patience):
		t.Fatal("nothing is delivered")
	}
	if ehlo, told := p.stampParams(), page(); ehlo.Work != 1<<11 || told.Work != 1<<11 {
		t.Errorf("%+v, %+v", ehlo, told)
	}
	close(leave)
	p.runs(0)
	if ehlo, told := p.stampParams(), page(); ehlo.Work != 1<<8 || told.Work != 1<<9 {
		t.Errorf("%+v, %+v", ehlo, told)
	}
}
