package smtpgate

import (
	"context"
	"crypto/tls"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/mail/nexthop"
)

// overTLS makes a rig as if the gate were open to the network: AUTH only inside TLS.
func overTLS(t testing.TB, mode TLSMode, change func(*rig)) (*rig, *tls.Config) {
	cert, key, trust := certificate(t)
	return newRig(t, func(r *rig) {
		r.opts.Listen = "0.0.0.0:0"
		r.opts.TLS = TLS{Mode: mode, Cert: cert, Key: key}
		if change != nil {
			change(r)
		}
	}), trust
}

// TestSTARTTLS: AUTH only inside, and nothing of what was said before counts.
func TestSTARTTLS(t *testing.T) {
	t.Parallel()
	r, trust := overTLS(t, TLSStart, nil)
	c := r.dial()
	if offers := c.cmd("EHLO x", "250 "); !strings.Contains(offers, "STARTTLS") || strings.Contains(offers, "AUTH") {
		t.Error(offers)
	}
	c.cmd("AUTH PLAIN "+plain("ann", "correct horse"), "523 5.7.10 ")
	c.cmd("MAIL FROM:<ann@example.org>", "530 5.7.0 authentication required, after STARTTLS")
	c.cmd("STARTTLS", "220 ")
	s := c.encrypt(trust)
	s.cmd("MAIL FROM:<ann@example.org>", "503 ")
	if offers := s.cmd("EHLO inside.example", "250 "); strings.Contains(offers, "STARTTLS") ||
		!strings.Contains(offers, "AUTH PLAIN LOGIN") {
		t.Error(offers)
	}
	s.cmd("STARTTLS", "503 ")
	s.cmd("AUTH PLAIN "+plain("ann", "correct horse"), "235 ")
	s.mail("ann@example.org", "bob@example.com", hello, "250 ")
	s.cmd("QUIT", "221 ")
	s.ended()
	if m := r.the(); !strings.HasPrefix(m.text, "Received: from inside.example (") ||
		!strings.Contains(m.text, " with ESMTPSA id ") {
		t.Error(m.text)
	}
}

// TestInjection: what is pipelined behind STARTTLS in clear text is not taken for what the client says inside.
func TestInjection(t *testing.T) {
	t.Parallel()
	r, trust := overTLS(t, TLSStart, func(r *rig) { r.opts.Networks = prefixes("127.0.0.0/8") })
	c := r.greeted()
	c.cmd("MAIL FROM:<before@example.org>", "250 ")
	c.cmd("RCPT TO:<before@example.com>", "250 ")
	c.send("STARTTLS\r\nEHLO evil\r\nMAIL FROM:<evil@example.org>\r\nRCPT TO:<victim@example.com>\r\n")
	c.expect("220 ")
	s := c.encrypt(trust)
	s.cmd("NOOP", "250 ") // and this is the first answer inside
	s.cmd("DATA", "503 ")
	s.cmd("EHLO x", "250 ")
	s.mail("ann@example.org", "bob@example.com", hello, "250 ")
	if e := r.spool.envelope(t); e.Sender != "ann@example.org" || len(e.To) != 1 {
		t.Errorf("%+v", e)
	}
}

// TestNoHandshake: who says STARTTLS and goes on in clear text is not answered in clear text, nor is STARTTLS with a
// parameter.
func TestNoHandshake(t *testing.T) {
	t.Parallel()
	r, _ := overTLS(t, TLSStart, func(r *rig) { r.opts.Networks = prefixes("127.0.0.0/8") })
	c := r.greeted()
	c.cmd("STARTTLS now", "501 5.5.4")
	c.cmd("STARTTLS", "220 ")
	c.send("EHLO x\r\nMAIL FROM:<evil@example.org>\r\n")
	got, _ := io.ReadAll(c.r)
	if strings.Contains(string(got), "250") {
		t.Errorf("%q", got)
	}
	needs.Wait(t, "the session ends", func() bool { return r.seen.sessions.Load() == 0 })
}

// TestImplicit: TLS from the first byte on, and no clear text at all.
func TestImplicit(t *testing.T) {
	t.Parallel()
	r, trust := overTLS(t, TLSImplicit, nil)
	s := r.connect().encrypt(trust)
	s.expect("220 ")
	if offers := s.cmd("EHLO x", "250 "); strings.Contains(offers, "STARTTLS") ||
		!strings.Contains(offers, "AUTH PLAIN LOGIN") {
		t.Error(offers)
	}
	s.cmd("AUTH PLAIN "+plain("ann", "correct horse"), "235 ")
	s.mail("ann@example.org", "bob@example.com", hello, "250 ")
	clear := r.connect()
	clear.send("EHLO x\r\n")
	if got, err := clear.reply(); err == nil && !strings.HasPrefix(got, "\x15") { // an alert
		t.Errorf("%q", got)
	}
	// It is told good-bye inside.
	go r.Stop(context.Background())
	s.expect("421 4.3.2 ")
	s.ended()
}

// TestReload: the next session has the new certificate and the new bounds; one under way keeps what it began with.
func TestReload(t *testing.T) {
	t.Parallel()
	r, trust := overTLS(t, TLSStart, func(r *rig) { r.opts.Networks = prefixes("127.0.0.0/8") })
	before := r.greeted()
	cert, key, trustNext := certificate(t)
	for name, text := range map[string]string{r.opts.TLS.Cert: cert, r.opts.TLS.Key: key} {
		data, err := os.ReadFile(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := r.opts
	next.Bounds.Recipients, next.Bounds.Message = 1, 2048
	commit, _, err := r.Prepare(next, r.parts)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	c := r.dial()
	if offers := c.cmd("EHLO x", "250 "); !strings.Contains(offers, "LIMITS RCPTMAX=1\n") &&
		!strings.HasSuffix(offers, "LIMITS RCPTMAX=1") {
		t.Error(offers)
	}
	c.cmd("STARTTLS", "220 ")
	c.encrypt(trustNext).cmd("EHLO x", "250 ")
	before.mail("ann@example.org", "bob@example.com,carl@example.com", "S: x\r\n\r\n"+strings.Repeat("a\r\n", 1000),
		"250 ")
	before.cmd("STARTTLS", "220 ")
	before.encrypt(trust).cmd("EHLO x", "250 ")
	// What cannot be had changes nothing.
	bad := next
	bad.TLS.Cert = "/nowhere"
	if _, _, err := r.Prepare(bad, r.parts); err == nil ||
		!strings.Contains(err.Error(), "tls: cannot use the certificate") {
		t.Error(err)
	}
	bad = next
	bad.NextHop = nexthop.Options{}
	if _, _, err := r.Prepare(bad, r.parts); err == nil {
		t.Error("no next hop")
	}
	r.greeted().cmd("NOOP", "250 ")
}

// TestStop: those who are idle are told, who is sending may finish.
func TestStop(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Networks = prefixes("127.0.0.0/8") })
	fresh, idle, begun, sending, chunked := r.dial(), r.greeted(), r.greeted(), r.greeted(), r.greeted()
	for _, c := range []*client{begun, sending, chunked} {
		c.cmd("MAIL FROM:<ann@example.org>", "250 ")
		c.cmd("RCPT TO:<bob@example.com>", "250 ")
	}
	sending.cmd("DATA", "354 ")
	sending.send("Subject: x\r\n\r\n")
	chunked.send("BDAT 6\r\nS: x\r\n")
	chunked.expect("250 ")
	stopped := make(chan error)
	go func() { stopped <- r.Stop(context.Background()) }()
	for _, c := range []*client{fresh, idle, begun} {
		c.expect("421 4.3.2 the server is going down")
		c.ended()
	}
	sending.send("hello\r\n.\r\n")
	sending.expect("250 2.0.0 OK")
	sending.expect("421 4.3.2 ")
	sending.conn.Close()
	chunked.send("BDAT 9 LAST\r\n\r\nhello\r\n")
	chunked.expect("250 2.0.0 OK")
	chunked.expect("421 4.3.2 ")
	chunked.conn.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := r.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if len(r.sent()) != 2 || r.seen.sessions.Load() != 0 {
		t.Errorf("%d sent, %d sessions", len(r.sent()), r.seen.sessions.Load())
	}
}

// TestStopCuts: patience has an end, and nothing is taken that nobody was told of.
func TestStopCuts(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Networks = prefixes("127.0.0.0/8") })
	c := r.greeted()
	c.cmd("MAIL FROM:<ann@example.org>", "250 ")
	c.cmd("RCPT TO:<bob@example.com>", "250 ")
	c.cmd("DATA", "354 ")
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := r.Stop(ctx); err == nil || !strings.Contains(err.Error(), "1 sessions were cut off") {
		t.Error(err)
	}
	if r.seen.sessions.Load() != 0 || r.spool.accepted.Load() != 0 {
		t.Error(r.seen.counts)
	}
}
