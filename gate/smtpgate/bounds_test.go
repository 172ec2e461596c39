package smtpgate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/gate/gatetest"
	"weir/internal/testkit/needs"
)

// TestMessageBound: a mail may be as large as it says, by DATA and by BDAT, and not a byte larger.
func TestMessageBound(t *testing.T) {
	t.Parallel()
	const bound = 4 << 10
	r := newRig(t, func(r *rig) { r.opts.Bounds.Message = bound })
	text := func(n int) string {
		s := "Subject: x\r\n\r\n"
		for len(s) < n-1002 {
			s += strings.Repeat("a", 998) + "\r\n"
		}
		return s + strings.Repeat("b", n-len(s)-2) + "\r\n"
	}
	c := r.as("ann")
	begin := func() {
		c.cmd("MAIL FROM:<ann@example.org>", "250 ")
		c.cmd("RCPT TO:<bob@example.com>", "250 ")
	}
	for n, want := range map[int]string{bound: "250 2.0.0 OK", bound + 1: "552 5.3.4 ", bound + 2: "552 5.3.4 ",
		100 * bound: "552 5.3.4 "} {
		c.mail("ann@example.org", "bob@example.com", text(n), want)
		begin()
		c.send(fmt.Sprintf("BDAT %d LAST\r\n%s", n, text(n)))
		c.expect(want)
	}
	// In chunks, the last of which is too much.
	begin()
	c.send(fmt.Sprintf("BDAT 3000\r\n%sBDAT 3000 LAST\r\n%s", text(3000), text(3000)))
	c.expect("250 ")
	c.expect("552 5.3.4 ")
	c.cmd("NOOP", "250 ")
	c.cmd(fmt.Sprintf("MAIL FROM:<ann@example.org> SIZE=%d", bound+1), "552 5.3.4 ")
	if r.spool.accepted.Load() != 2 || r.seen.count("bound message") < 4 {
		t.Errorf("%d accepted, %v", r.spool.accepted.Load(), r.seen.counts)
	}
}

// TestHeaderBound, with a line that never ends, too.
func TestHeaderBound(t *testing.T) {
	t.Parallel()
	const bound = 2 << 10
	r := newRig(t, func(r *rig) { r.opts.Bounds.Header = bound })
	line := "X: " + strings.Repeat("a", 123) + "\r\n"
	c := r.as("ann")
	c.mail("ann@example.org", "bob@example.com", strings.Repeat(line, bound/len(line))+"\r\nhello\r\n", "250 ")
	c.mail("ann@example.org", "bob@example.com", strings.Repeat(line, bound/len(line))+"Y: z\r\n\r\nhello\r\n",
		"552 5.3.4 the header is larger")
	// no header at all
	c.mail("ann@example.org", "bob@example.com", strings.Repeat("a", 1900)+"\r\n"+strings.Repeat(line, 100), "250 ")
	if r.seen.count("bound header") != 1 {
		t.Error(r.seen.counts)
	}
}

// TestLineBound: commands, lines of DATA and lines of BDAT.
func TestLineBound(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Bounds.Line = 1000 })
	c := r.as("ann")
	c.mail("ann@example.org", "bob@example.com", "S: x\r\n\r\n"+strings.Repeat("a", 998)+"\r\n", "250 ")
	c.cmd("MAIL FROM:<ann@example.org>", "250 ")
	c.cmd("RCPT TO:<bob@example.com>", "250 ")
	c.send("BDAT 1009 LAST\r\nS: x\r\n\r\n" + strings.Repeat("a", 999) + "\r\n")
	c.expect("554 5.6.0 a line is longer than 1000 bytes")
	c.cmd("NOOP "+strings.Repeat("a", 993), "250 ")
	c.mail("ann@example.org", "bob@example.com", "S: x\r\n\r\n"+strings.Repeat("a", 999)+"\r\n",
		"554 5.6.0 a line is longer than 1000 bytes")
	c.cmd("NOOP", "250 ")
	c = r.greeted()
	c.send("NOOP " + strings.Repeat("a", 1000) + "\r\n")
	c.expect("500 ")
	c.ended()
	if r.seen.count("bound line") != 3 || r.spool.accepted.Load() != 1 {
		t.Error(r.seen.counts)
	}
}

// TestEndlessCommand: between two chunks, a command has the bound that it has elsewhere.
func TestEndlessCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.as("ann")
	c.cmd("MAIL FROM:<ann@example.org>", "250 ")
	c.cmd("RCPT TO:<bob@example.com>", "250 ")
	big := strings.Repeat(strings.Repeat("a", 998)+"\r\n", 1000)
	c.send(fmt.Sprintf("BDAT %d\r\n%s", len(big), big))
	c.expect("250 ")
	go func() {
		piece := strings.Repeat("a", 4<<10)
		for range 1 << 12 { // 16 MiB, of which most cannot be sent
			if _, err := c.conn.Write([]byte(piece)); err != nil {
				return
			}
		}
	}()
	c.expect("500 5.5.2 line too long")
	if _, err := c.reply(); err == nil {
		t.Error("the session goes on")
	}
	needs.Wait(t, "the session ends", func() bool { return r.seen.sessions.Load() == 0 })
	if r.seen.count("bound line") != 1 || r.spool.accepted.Load() != 0 {
		t.Error(r.seen.counts)
	}
}

// TestRecipientBound: one more is told to come later.
func TestRecipientBound(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Bounds.Recipients = 3 })
	c := r.as("ann")
	c.cmd("MAIL FROM:<ann@example.org>", "250 ")
	for i := range 3 {
		c.cmd(fmt.Sprintf("RCPT TO:<r%d@example.com>", i), "250 ")
	}
	c.cmd("RCPT TO:<one.more@example.com>", "452 4.5.3 ")
	c.cmd("DATA", "354 ")
	c.cmd(hello+".", "250 ")
	if e := r.spool.envelope(t); len(e.To) != 3 {
		t.Errorf("%+v", e.To)
	}
}

// TestLoop: a mail that has passed too many servers.
func TestLoop(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Bounds.ReceivedHops = 5 })
	c := r.as("ann")
	c.mail("ann@example.org", "bob@example.com", strings.Repeat("RECEIVED : from a\r\n\tby b\r\n", 5)+hello, "250 ")
	c.mail("ann@example.org", "bob@example.com", strings.Repeat("Received: from a\r\n\tby b\r\n", 6)+hello,
		"554 5.4.6 ")
	if r.seen.count("mail loop") != 1 {
		t.Error(r.seen.counts)
	}
}

// TestSessionBounds: of all, and of one source.
func TestSessionBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bounds Bounds
		bound  string
	}{{Bounds{Sessions: 2}, BoundSessions}, {Bounds{PerSource: 2}, BoundPerSource}} {
		r := newRig(t, func(r *rig) { r.opts.Bounds = c.bounds })
		first := r.dial()
		r.dial()
		third := r.connect()
		third.expect("421 4.7.0 mail.example.org too many sessions")
		third.ended()
		if r.seen.count("bound "+c.bound) != 1 {
			t.Errorf("%s: %v", c.bound, r.seen.counts)
		}
		first.cmd("QUIT", "221 ")
		first.conn.Close()
		needs.Wait(t, "there is room again", func() bool { return r.seen.sessions.Load() == 1 })
		r.dial()
	}
}

// TestRegulars: strangers take most of the sessions, and not all. Who has logged in before still comes in.
func TestRegulars(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Bounds.Sessions = 10 })
	var strangers []*client
	for range 9 {
		strangers = append(strangers, r.dial())
	}
	tenth := r.connect()
	tenth.expect("421 4.7.0 mail.example.org too many sessions")
	if tenth.ended(); r.seen.count("bound sessions") != 1 {
		t.Error(r.seen.counts)
	}
	strangers[0].cmd("EHLO x", "250 ")
	// makes room for one more, and is from where all the others are
	strangers[0].cmd("AUTH PLAIN "+plain("ann", "correct horse"), "235 ")
	r.dial()
	eleventh := r.connect()
	eleventh.expect("421 4.7.0 mail.example.org too many sessions")
	for _, c := range strangers {
		c.conn.Close()
	}
	needs.Wait(t, "they leave", func() bool { return r.seen.sessions.Load() == 1 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.strangers.Len() != 0 || !r.regulars.knows(netip.MustParseAddr("127.0.0.1"), r.clock.Now()) ||
		r.regulars.knows(netip.MustParseAddr("127.0.0.1"), r.clock.Now().Add(regularFor)) {
		t.Errorf("%d strangers, %v", r.strangers.Len(), r.regulars)
	}
	for i := range maxRegulars {
		r.regulars.add(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), r.clock.Now())
	}
	if len(r.regulars) > maxRegulars {
		t.Errorf("%d are remembered", len(r.regulars))
	}
}

// TestNoSourceKeepsOthersOut: one stranger holds all sessions that strangers may have. Others come in, and the newest
// sessions of that one are told so, also in the middle of a text, which can only be one for the command address.
func TestNoSourceKeepsOthersOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.opts.Bounds = Bounds{Sessions: 20}
		r.opts.Command = "weir@mail.example.org"
		r.env.Commands = func(context.Context, time.Time, string, io.Reader) error { return nil }
	})
	from := func(host byte) *client {
		conn := gatetest.DialFrom(t, host, r.Addr())
		return &client{t, conn, bufio.NewReader(conn)}
	}
	var greedy, others []*client
	for range 18 {
		c := from(2)
		c.expect("220 ")
		greedy = append(greedy, c)
	}
	for _, command := range []string{"EHLO x", "MAIL FROM:<eve@example.com>", "RCPT TO:<weir@mail.example.org>"} {
		greedy[17].cmd(command, "250 ")
	}
	greedy[17].cmd("DATA", "354 ")
	for i := range 2 {
		c := from(byte(3 + i))
		c.expect("220 ")
		others = append(others, c)
		greedy[17-i].expect("421 4.7.0 too many sessions")
		greedy[17-i].ended()
	}
	for _, c := range append(others, greedy[:16]...) {
		c.cmd("EHLO x", "250 ")
	}
	from(2).expect("421 4.7.0 mail.example.org too many sessions") // no source makes room for itself
	if n := r.seen.count("bound sessions"); n != 3 {
		t.Errorf("%d counted", n)
	}
}

// TestErrorBound: a session of nothing but mistakes ends, even when the rest of it has been sent already.
func TestErrorBound(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Bounds.Errors = 3 })
	c := r.as("ann")
	c.send(strings.Repeat("MAIL FROM:<a@b..c>\r\n", 3) + "MAIL FROM:<ann@example.org>\r\n")
	for _, want := range []string{"553 ", "553 ", "421 4.7.0 too many errors"} {
		c.expect(want)
	}
	c.ended()
	if r.seen.count("bound errors") != 1 {
		t.Error(r.seen.counts)
	}
}

// TestCommandBound: a session cannot go on for ever.
func TestCommandBound(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Bounds.Commands = 50 })
	c := r.greeted()
	for range 60 {
		c.send("NOOP\r\n")
		got, err := c.reply()
		if err != nil {
			t.Fatal("the session ended without a word")
		}
		if strings.HasPrefix(got, "421 4.7.0 too many commands") {
			c.ended()
			if r.seen.count("bound commands") != 1 {
				t.Error(r.seen.counts)
			}
			return
		}
	}
	t.Error("the session goes on")
}

// TestLogInBound: a session has a few tries.
func TestLogInBound(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Bounds.Logins = 2 })
	c := r.greeted()
	c.cmd("AUTH PLAIN "+plain("ann", "wrong"), "535 5.7.8")
	c.cmd("AUTH PLAIN "+plain("ann", "wrong"), "421 4.7.0 ")
	c.ended()
}

// TestTime: whoever is silent, slow, or stays too long is sent away. Half-open sessions end.
func TestTime(t *testing.T) {
	t.Parallel()
	const soon = weir.Duration(30 * time.Millisecond)
	t.Run("idle", func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.hasty = func(t *Timeouts) { t.Idle = soon } })
		c := r.dial()
		c.expect("421 4.4.2 idle for too long")
		c.ended()
		if r.seen.count("bound time") != 1 {
			t.Error(r.seen.counts)
		}
	})
	t.Run("session", func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.hasty = func(t *Timeouts) { t.Session = soon } })
		c := r.dial()
		for {
			_, _ = io.WriteString(c.conn, "NOOP\r\n") // it may be over
			got, err := c.reply()
			if err != nil {
				t.Fatalf("ended without a word: %v", err)
			}
			if strings.HasPrefix(got, "421 4.4.2 the session took too long") {
				break
			}
		}
		c.ended()
	})
	t.Run("data", func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.hasty = func(t *Timeouts) { t.Data = soon } })
		c := r.as("ann")
		c.cmd("MAIL FROM:<ann@example.org>", "250 ")
		c.cmd("RCPT TO:<bob@example.com>", "250 ")
		c.cmd("DATA", "354 ")
		_, _ = io.WriteString(c.conn, "Subject: x\r\n") // it may be over
		c.expect("421 4.4.2 the mail took too long")
		c.ended()
		if r.spool.accepted.Load() != 0 || r.seen.count("mail aborted") != 1 {
			t.Error(r.seen.counts)
		}
	})
	t.Run("nobody logs in", func(t *testing.T) {
		for name, networks := range map[string][]netip.Prefix{"a stranger": nil,
			"who sends nothing": prefixes("127.0.0.0/8")} {
			r := newRig(t, func(r *rig) {
				r.opts.Networks = networks
				r.hasty = func(t *Timeouts) { t.Login = soon }
			})
			c := r.dial()
			for said := ""; !strings.HasPrefix(said, "421 4.4.2 nobody logged in for too long"); {
				_, _ = io.WriteString(c.conn, "NOOP\r\n") // it may be over
				var err error
				if said, err = c.reply(); err != nil {
					t.Fatalf("%s: ended without a word: %v", name, err)
				}
			}
			if c.ended(); r.seen.count("bound time") != 1 {
				t.Error(r.seen.counts)
			}
		}
	})
	t.Run("a stranger's mail", func(t *testing.T) { // the command address is no way to stay for longer
		r := newRig(t, func(r *rig) {
			r.opts.Command = "weir@mail.example.org"
			r.env.Commands = func(context.Context, time.Time, string, io.Reader) error { return nil }
			r.hasty = func(t *Timeouts) { t.Login = 20 * soon }
		})
		c := r.connect()
		c.send("EHLO x\r\nMAIL FROM:<ann@home.example>\r\nRCPT TO:<weir@mail.example.org>\r\nDATA\r\nSubject: x\r\n")
		for said := ""; !strings.HasPrefix(said, "421 4.4.2 the mail took too long"); {
			var err error
			if said, err = c.reply(); err != nil {
				t.Fatalf("ended without a word: %v", err)
			}
		}
	})
	t.Run("known", func(t *testing.T) { // who has logged in, or sent a mail, has the time that others have
		r := newRig(t, func(r *rig) {
			r.opts.Networks = prefixes("127.0.0.0/8")
			r.hasty = func(t *Timeouts) { t.Login = 100 * soon }
		})
		clients := []*client{r.as("ann"), r.greeted()}
		for _, c := range clients {
			c.mail("ann@example.org", "ann@inside.example.org", hello, "250 ")
		}
		r.dial().expect("421 4.4.2 nobody logged in for too long") // it came later
		for _, c := range clients {
			c.mail("ann@example.org", "ann@inside.example.org", hello, "250 ")
			c.cmd("QUIT", "221 ")
		}
	})
	t.Run("half a mail", func(t *testing.T) {
		r := newRig(t, nil)
		c := r.as("ann")
		c.cmd("MAIL FROM:<ann@example.org>", "250 ")
		c.cmd("RCPT TO:<bob@example.com>", "250 ")
		c.cmd("DATA", "354 ")
		c.send("Subject: x\r\n\r\nhello")
		c.conn.Close()
		needs.Wait(t, "the session ends", func() bool { return r.seen.sessions.Load() == 0 })
		if r.spool.accepted.Load() != 0 || r.seen.count("mail aborted") != 1 {
			t.Error(r.seen.counts)
		}
	})
	t.Run("bare and silent", func(t *testing.T) { // it is not for long that anybody waits for the end of such a mail
		r := newRig(t, nil)
		c := r.as("ann")
		c.send("MAIL FROM:<ann@example.org>\r\nRCPT TO:<bob@example.com>\r\nDATA\r\nS: x\n\nhello\n.\n")
		c.expect("250 ")
		c.expect("250 ")
		c.expect("354 ")
		c.expect("554 5.6.0 a bare CR or LF")
		c.ended()
	})
}
