package smtpgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/mail/notice"
	"weir/mail/spool"
	"weir/store"
	"weir/throttle/outbreak"
)

// TestMail: a mail goes in at one end and comes out at the other, with a trace and nothing else changed.
func TestMail(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.as("ann")
	got := c.mail("ann@example.org", "bob@example.com",
		"Return-Path: <evil@example.org>\r\nX-Weir-Stamp: abc\r\n\tdef\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n "+
			"an alle\r\n\r\n..dot\r\n", "250 2.0.0 OK: queued as ")
	id := got[len("250 2.0.0 OK: queued as "):]
	c.cmd("QUIT", "221 ")
	c.ended()
	if e := r.spool.envelope(t); e.ID.String() != id || e.Gate != gateName || e.User != "ann" ||
		e.Sender != "ann@example.org" || e.Subject != "Grüße an alle" ||
		e.Source.String() != "127.0.0.1" || e.UTF8 || e.EightBit {
		t.Errorf("%+v", e)
	}
	want := "Received: from client.example ([127.0.0.1])\r\n\tby mail.example.org with ESMTPA id " + id +
		"\r\n\tfor <bob@example.com>;\r\n\tMon, 02 Mar 2026 12:00:00 +0000\r\n" +
		"Date: Mon, 02 Mar 2026 12:00:00 +0000\r\nMessage-ID: <" + id + "@mail.example.org>\r\n" +
		"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n an alle\r\n\r\n.dot\r\n"
	if m := r.the(); m.text != want || len(m.to) != 1 || m.to[0] != "bob@example.com" {
		t.Errorf("%v\n%q\n%q", m.to, m.text, want)
	}
	if r.seen.count("mail accepted") != 1 || r.seen.count("login ok") != 1 {
		t.Errorf("%v", r.seen.counts)
	}
	needs.Wait(t, "the session ends", func() bool { return r.seen.sessions.Load() == 0 })
}

// TestOffers: what EHLO announces.
func TestOffers(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Bounds.Recipients = 7 })
	offers := "\n" + r.dial().cmd("EHLO x", "250 ") + "\n"
	for _, want := range []string{"PIPELINING", "8BITMIME", "SMTPUTF8", "SIZE 52428800", "CHUNKING", "DSN",
		"ENHANCEDSTATUSCODES", "LIMITS RCPTMAX=7", "AUTH PLAIN LOGIN"} {
		if !strings.Contains(offers, "\n250-"+want+"\n") && !strings.Contains(offers, "\n250 "+want+"\n") {
			t.Errorf("no %s in %s", want, offers)
		}
	}
	if strings.Contains(offers, "STARTTLS") || strings.Contains(offers, "WEIR") {
		t.Error(offers)
	}
}

// TestDialogue: what is said to what, command by command.
func TestDialogue(t *testing.T) {
	t.Parallel()
	const long = 330
	r := newRig(t, nil)
	type step struct{ say, want string }
	for name, c := range map[string]struct {
		user  string
		steps []step
	}{
		"the usual": {"ann",
			[]step{{"NOOP", "250 "}, {"MAIL FROM:<ann@example.org>", "250 "}, {"RCPT TO:<bob@example.com>", "250 "},
				{"RSET", "250 "}, {"DATA", "503 5.5.1"}, {"QUIT", "221 "}}},
		"nothing first": {"", []step{{"DATA", "503 "}, {"RCPT TO:<bob@example.com>", "503 "},
			{"BDAT 0 LAST", "503 "}, {"HELP", "214 "}, {"VRFY x", "252 "}, {"EXPN x", "502 5.5.1"}}},
		"a stranger": {"", []step{{"MAIL FROM:<ann@example.org>", "530 5.7.0 "},
			{"RCPT TO:<bob@example.com>", "503 5.5.1"}}},
		"nested": {"ann",
			[]step{{"MAIL FROM:<ann@example.org>", "250 "}, {"RCPT TO:<bob@example.com>", "250 "},
				{"MAIL FROM:<x@example.org>", "503 5.5.1"}, {"RCPT TO:<carl@example.com>", "250 "}}},
		"again after EHLO": {"ann",
			[]step{{"MAIL FROM:<ann@example.org>", "250 "}, {"EHLO y", "250 "},
				{"RCPT TO:<bob@example.com>", "503 5.5.1"}, {"MAIL FROM:<ann@example.org>", "250 "}}},
		"nobody": {"ann", []step{{"MAIL FROM:<>", "250 "}, {"RCPT TO:<bob@example.com>", "250 "}}},
		"bound to others": {"bound",
			[]step{{"MAIL FROM:<ann@example.org>", "553 5.7.1"}, {"MAIL FROM:<>", "553 5.7.1"},
				{"MAIL FROM:<bound@EXAMPLE.org>", "250 "}}},
		"bound to a domain":  {"bound", []step{{"MAIL FROM:<x@team.example>", "250 "}}},
		"not below a domain": {"bound", []step{{"MAIL FROM:<x@a.team.example>", "553 5.7.1"}}},
		"no addresses": {"ann",
			[]step{{"MAIL FROM:<ann>", "501 "}, {"MAIL FROM:ann@", "501 "}, {"MAIL FROM:<ann@exa mple.org>", "501 "},
				{"MAIL FROM:<ann@example..org>", "553 5.1.7"}}},
		"no recipients": {"ann",
			[]step{{"MAIL FROM:<>", "250 "}, {"RCPT TO:<>", "501 "}, {"RCPT TO:<a@b@c>", "553 5.1.3"},
				{"RCPT TO:<a@>", "501 "}, {"RCPT TO:<\"a\x01\"@example.com>", "553 5.1.3"},
				{"RCPT TO:<a@[192.0.2.1>", "553 5.1.3"},
				{"RCPT TO:<" + strings.Repeat("a", long) + "@example.com>", "553 5.1.3"},
				{"RCPT TO:<a@[192.0.2.1]>", "250 "}}},
		"letters": {"ann",
			[]step{{"MAIL FROM:<ann@example.org>", "250 "}, {"RCPT TO:<jürgen@example.com>", "553 5.6.7"},
				{"RSET", "250 "}, {"MAIL FROM:<änn@example.org>", "553 5.6.7"},
				{"MAIL FROM:<änn@example.org> SMTPUTF8", "250 "}, {"RCPT TO:<jürgen@example.com>", "250 "},
				{"RCPT TO:<\xff@example.com>", "553 5.1.3"}}},
		"parameters": {"ann",
			[]step{{"MAIL FROM:<a@b.example> SIZE=x", "501 "}, {"MAIL FROM:<a@b.example> SIZE=52428801", "552 5.3.4"},
				{"MAIL FROM:<a@b.example> SIZE=99999999", "552 5.3.4"},
				{"MAIL FROM:<a@b.example> BODY=BINARYMIME", "504 "}, {"MAIL FROM:<a@b.example> FOO=1", "555 5.5.4"},
				{"MAIL FROM:<a@b.example> SIZE=1 SIZE=2", "501 "}, {"MAIL FROM:<a@b.example>SIZE=1", "501 "},
				{"MAIL FROM:<a@b.example> SIZE=999999999999", "552 5.3.4"},
				{"MAIL FROM:<a@b.example> SIZE=99999999999999999999", "552 5.3.4"},
				{"MAIL FROM:<a@b.example> SIZE=-1", "501 "},
				{"MAIL FROM:<a@b.example> ENVID=" + strings.Repeat("x", 101), "501 "},
				{"MAIL FROM:<a@b.example> RET=HDRS ENVID=x+20y SIZE=52428800 BODY=8BITMIME", "250 "},
				{"RCPT TO:<b@example.com> NOTIFY=NEVER,DELAY", "501 "},
				{"RCPT TO:<b@example.com> ORCPT=rfc822;" + strings.Repeat("x", 501), "501 "},
				{"RCPT TO:<b@example.com> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;c+2Bd@example.com", "250 "}}},
		"log-ins": {"", []step{{"AUTH PLAIN " + plain("ann", "wrong"), "535 5.7.8"},
			{"AUTH PLAIN " + plain("nobody", "wrong"), "535 5.7.8"},
			{"AUTH PLAIN " + plain("gone", "correct horse"), "535 5.7.8"},
			{"AUTH PLAIN " + plain("empty", ""), "535 5.7.8"}}},
		"odd log-ins": {"", []step{{"AUTH", "501 5.5.4"}, {"AUTH FOO", "504 5.7.4"},
			{"AUTH PLAIN !", "501 5.5.2"}, {"AUTH PLAIN " + b64("x"), "501 5.5.2"},
			{"AUTH PLAIN " + b64("bob\x00ann\x00correct horse"), "535 5.7.8"},
			{"AUTH PLAIN " + b64("ANN\x00Ann\x00correct horse"), "235 "},
			{"AUTH PLAIN " + plain("ann", "correct horse"), "503 "}}},
		"step by step": {"", []step{{"AUTH PLAIN", "334 "}, {plain("ann", "correct horse"), "235 "}}},
		"LOGIN": {"", []step{{"AUTH LOGIN", "334 " + b64("Username:")},
			{b64("ann"), "334 " + b64("Password:")}, {b64("correct horse"), "235 "}}},
		"LOGIN with a name": {"", []step{{"AUTH LOGIN " + b64("ann"), "334 " + b64("Password:")},
			{b64("wrong"), "535 5.7.8"}, {"AUTH LOGIN", "334 "}, {"*", "501 "}}},
		"in the middle": {"ann",
			[]step{{"MAIL FROM:<ann@example.org>", "250 "}, {"AUTH PLAIN " + plain("ann", "correct horse"), "503 "}}},
		"no TLS": {"ann", []step{{"STARTTLS", "502 "}}},
		"nobody knows commands": {"ann",
			[]step{{"FOOO", "500 "}, {"FOO", "500 "}, {"", "500 "}, {"NOOP\x00", "500 "}, {"LHLO x", "500 "},
				{"NOOP", "250 "}}},
	} {
		t.Run(name, func(t *testing.T) {
			client := r.greeted()
			if c.user != "" {
				client.cmd("AUTH PLAIN "+plain(c.user, "correct horse"), "235 ")
			}
			for _, s := range c.steps {
				client.cmd(s.say, s.want)
			}
		})
	}
}

// TestEnvelope: what MAIL and RCPT say is kept.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.as("ann")
	c.cmd("MAIL FROM:<änn@example.org> SMTPUTF8 BODY=8BITMIME RET=full ENVID=a+2Bb", "250 ")
	c.cmd(`RCPT TO:<"a b"@example.com> NOTIFY=success,DELAY ORCPT=rfc822;c+2Bd@example.com`, "250 ")
	c.cmd("RCPT TO:<jürgen@example.com> ORCPT=utf-8;j\\x{FC}rgen@example.com", "250 ")
	c.cmd("RCPT TO:<jürgen@EXAMPLE.com>", "250 ") // once is enough
	c.cmd("RCPT TO:<JÜRGEN@example.com>", "250 ") // somebody else, for all we know
	c.cmd("DATA", "354 ")
	c.cmd("Subject: grüße\r\n\r\n.", "250 ")
	e := r.spool.envelope(t)
	if e.Sender != "änn@example.org" || !e.UTF8 || !e.EightBit || e.Return != "FULL" || e.Envelope != "a+b" ||
		e.Subject != "grüße" || len(e.To) != 3 {
		t.Fatalf("%+v", e)
	}
	if to := e.To[0]; to.Address != `"a b"@example.com` || to.Notify != "SUCCESS,DELAY" ||
		to.Original != "rfc822;c+d@example.com" {
		t.Errorf("%+v", to)
	}
	if to := e.To[2]; to.Address != "JÜRGEN@example.com" || to.Original != "" {
		t.Errorf("%+v", to)
	}
	if to := e.To[1]; to.Address != "jürgen@example.com" || to.Original != "utf-8;jürgen@example.com" {
		t.Errorf("%+v", to)
	}
	if m := r.the(); !strings.Contains(m.text, " with UTF8SMTPA id ") || strings.Contains(m.text, "for <") {
		t.Error(m.text)
	}
}

// TestPipelining: a whole mail in one piece, and another one behind it.
func TestPipelining(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.as("ann")
	c.send("MAIL FROM:<ann@example.org>\r\nRCPT TO:<bob@example.com>\r\nRCPT TO:<bad>\r\nRCPT " +
		"TO:<carl@example.com>\r\nDATA\r\n")
	for _, want := range []string{"250 ", "250 ", "501 ", "250 ", "354 "} {
		c.expect(want)
	}
	c.send(hello + ".\r\nMAIL FROM:<ann@example.org>\r\nRCPT TO:<bob@example.com>\r\nBDAT 7\r\nS: x\r\n\r" +
		"BDAT 6 LAST\r\n\nhello" + "QUIT\r\n")
	for _, want := range []string{"250 2.0.0 OK", "250 ", "250 ", "250 ", "250 2.0.0 OK", "221 "} {
		c.expect(want)
	}
	c.ended()
	all := r.sent()
	slices.SortFunc(all, func(a, b sentMail) int { return len(b.to) - len(a.to) }) // they may arrive in any order
	if len(all) != 2 || len(all[0].to) != 2 || !strings.HasSuffix(all[1].text, "\r\nS: x\r\n\r\nhello\r\n") {
		t.Errorf("%+v", all)
	}
}

// TestBDAT: chunks, an abort between them, and what comes after it.
func TestBDAT(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.as("ann")
	begin := func() {
		c.cmd("MAIL FROM:<ann@example.org>", "250 ")
		c.cmd("RCPT TO:<bob@example.com>", "250 ")
	}
	begin()
	c.send("BDAT 5\r\nhello")
	c.expect("250 ")
	c.cmd("MAIL FROM:<x@example.org>", "503 ")
	c.cmd("RSET", "250 ")
	c.cmd("BDAT 0 LAST", "503 ")
	for range 20 { // what RSET left behind must not take this one
		begin()
		c.send("BDAT 0\r\nRSET\r\n")
		c.expect("250 ")
		c.expect("250 ")
		begin()
		c.send("BDAT 5\r\nhelloRSET\r\n")
		c.expect("250 ")
		c.expect("250 ")
	}
	begin()
	c.cmd("BDAT 0", "250 ")
	c.cmd("BDAT 0 LAST", "250 2.0.0 OK")
	begin()
	c.send("BDAT 5\r\na\nb\r\n") // no end of a mail is in question: the session goes on
	c.expect("250 ")
	c.cmd("BDAT 0 LAST", "554 5.6.0 ")
	begin()
	c.send("BDAT 2 LAST\r\na\r")
	c.expect("554 5.6.0 ")
	begin()
	c.send("BDAT 1 LAST\r\na")
	c.expect("250 2.0.0 OK")
	const text = "\r\n\r\na\r\n"
	// in any order
	if all := r.sent(); len(all) != 2 || !strings.HasSuffix(all[0].text, text) &&
		!strings.HasSuffix(all[1].text, text) {
		t.Errorf("%+v", all)
	}
	if r.spool.accepted.Load() != 2 {
		t.Errorf("%d accepted", r.spool.accepted.Load())
	}
}

// TestNothingIsLeftBehind: a text is discarded however it ends: a file of it would stay for ever.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	large := "S: x\r\n\r\n" + strings.Repeat(strings.Repeat("a", 98)+"\r\n", 1000)
	for name, end := range map[string]func(c *client){
		"taken":    func(c *client) { c.cmd("DATA", "354 "); c.cmd(large+".", "250 ") },
		"refused":  func(c *client) { c.cmd("DATA", "354 "); c.cmd(large+"\x00\r\n.", "554 ") },
		"given up": func(c *client) { c.send(bdat(large, "") + "RSET\r\n"); c.expect("250 "); c.expect("250 ") },
		"a broken chunk": func(c *client) {
			c.send(bdat(large, "") +
				"BDAT x\r\n")
			c.expect("250 ")
			c.expect("501 ")
		},
		"left": func(c *client) { c.cmd("DATA", "354 "); c.send(large) },
	} {
		c := r.as("ann")
		c.cmd("MAIL FROM:<ann@example.org>", "250 ")
		c.cmd("RCPT TO:<ann@inside.example.org>", "250 ")
		end(c)
		c.conn.Close()
		needs.Wait(t, name+": nothing is left",
			func() bool { return r.seen.sessions.Load() == 0 && r.spool.staged.Load() == 0 })
	}
}

// TestSmuggling: whatever ends a mail elsewhere and not here is refused, and the session with it.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	const second = "MAIL FROM:<evil@example.org>\r\nRCPT TO:<victim@example.com>\r\nDATA\r\nSubject: " +
		"evil\r\n\r\nevil\r\n"
	r := newRig(t, nil)
	begin := func(end string) *client {
		c := r.as("ann")
		c.cmd("MAIL FROM:<ann@example.org>", "250 ")
		c.cmd("RCPT TO:<bob@example.com>", "250 ")
		c.cmd("DATA", "354 ")
		c.send("Subject: x\r\n\r\nhello" + end + second + "\r\n.\r\n")
		return c
	}
	for _, end := range []string{"\n.\n", "\n.\r\n", "\r\n.\n", "\r.\r", "\r.\r\n", "\n.\r", "\r\r\n.\r\n", "\n\n.\r\n",
		"\n\r\n.\n", "\r\n.\r", "\r\n.\r\r\n"} {
		c := begin(end)
		if got := c.expect("554 5.6.0 "); !strings.Contains(got, "bare CR or LF") {
			t.Errorf("%q: %s", end, got)
		}
		for { // nothing of what follows is done
			got, err := c.reply()
			if err == io.EOF {
				break
			}
			if err != nil || !strings.HasPrefix(got, "421 ") && !strings.HasPrefix(got, "5") {
				t.Fatalf("%q: %q, %v", end, got, err)
			}
		}
	}
	for _, end := range []string{"\r\n.\x00\r\n", "\r\n\x00.\r\n"} {
		c := begin(end)
		c.expect("554 5.6.0 a mail has no NUL")
		c.cmd("NOOP", "250 ")
	}
	if all := r.sent(); len(all) != 0 || r.spool.accepted.Load() != 0 {
		t.Errorf("%+v", all)
	}
	for i, end := range []string{"\r\n..\r\n", "\r\n. \r\n"} {
		c := begin(end)
		c.expect("250 2.0.0 OK")
		c.cmd("NOOP", "250 ")
		if all := r.sent(); len(all) != i+1 || all[i].job.Sender != "ann@example.org" ||
			strings.Count(strings.ReplaceAll(all[i].text, "\r\n", ""), "\r") != 0 ||
			!strings.Contains(all[i].text, "MAIL FROM:<evil") {
			t.Errorf("%q: %+v", end, all[len(all)-1])
		}
	}
}

// TestStoppedInSession: what is pipelined behind the mail that stops its user is refused. Some can still be reached.
func TestStoppedInSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.as("ann")
	var to []string
	for i := range 40 {
		to = append(to, "r"+strings.Repeat("x", i)+"@example.com")
	}
	c.send("MAIL FROM:<ann@example.org>\r\n")
	c.expect("250 ")
	for _, a := range to {
		c.cmd("RCPT TO:<"+a+">", "250 ")
	}
	c.cmd("DATA", "354 ")
	c.send(hello +
		".\r\nMAIL FROM:<ann@example.org>\r\nRCPT TO:<bob@example.com>\r\nRCPT TO:<support@example.org>\r\nRCPT " +
		"TO:<x@inside.example.org>\r\nRCPT TO:<ann@home.example>\r\n")
	for _, want := range []string{"250 2.0.0 OK", "250 ", "550 5.7.1 sending is stopped", "250 ", "250 ", "250 "} {
		c.expect(want)
	}
	c.cmd("DATA", "354 ")
	c.cmd(hello+".", "250 2.0.0 OK")
	reached := 0
	for _, m := range r.sent() {
		if m.job.Sender == "ann@example.org" {
			reached += len(m.to)
		}
	}
	if reached != 15+3 || r.seen.count("refused stopped") != 1 {
		t.Errorf("%d reached, %v", reached, r.seen.counts)
	}
	r.as("ann").cmd("MAIL FROM:<ann@example.org>", "250 ") // refuse-mail: logging in is allowed
}

// TestStopWhileSending: a user who is stopped between RCPT and the end of the mail.
func TestStopWhileSending(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Networks = prefixes("127.0.0.0/8") })
	for want, c := range map[string]*client{"550 5.7.1 ": r.as("ann"), "450 4.7.1 ": r.greeted()} {
		c.cmd("MAIL FROM:<ann@example.org>", "250 ")
		c.cmd("RCPT TO:<bob@example.com>", "250 ")
		c.cmd("DATA", "354 ")
		for _, user := range []string{"ann", "127.0.0.1"} {
			if err := r.spool.StopUser(t.Context(), r.clock.Now(), "test", user, "because"); err != nil {
				t.Fatal(err)
			}
		}
		c.cmd(hello+".", want)
		c.cmd("MAIL FROM:<ann@example.org>", "250 ")
		c.cmd("RCPT TO:<bob@example.com>", want)
		for _, user := range []string{"ann", "127.0.0.1"} {
			if err := r.spool.ResumeUser(t.Context(), r.clock.Now(), "test", user, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(r.sent()) != 0 {
		for _, m := range r.sent() {
			if m.job.Sender != "" { // notices
				t.Errorf("%+v", m)
			}
		}
	}
}

// TestRefuseAuth: the other way to stop a user.
func TestRefuseAuth(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Stopped = RefuseAuth })
	before := r.as("ann")
	if err := r.spool.StopUser(t.Context(), r.clock.Now(), "test", "ann", "because"); err != nil {
		t.Fatal(err)
	}
	r.greeted().cmd("AUTH PLAIN "+plain("ann", "correct horse"), "535 5.7.8 sending is stopped")
	// nobody learns of it who does not know the password
	r.greeted().cmd("AUTH PLAIN "+plain("ann", "wrong"), "535 5.7.8 wrong")
	before.cmd("MAIL FROM:<ann@example.org>", "250 ")
	before.cmd("RCPT TO:<bob@example.com>", "550 5.7.1 ")
	if r.seen.count("login stopped") != 1 {
		t.Error(r.seen.counts)
	}
}

// TestUserChanges: who is disabled, removed or bound while a session is open.
func TestUserChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.as("ann")
	c.mail("ann@example.org", "bob@example.com", hello, "250 ")
	change := func(f func(u *store.User)) {
		t.Helper()
		u, err := r.spool.User(t.Context(), "ann")
		if err != nil {
			t.Fatal(err)
		}
		f(&u)
		r.put(u)
		r.clock.Advance(fresh)
	}
	change(func(u *store.User) { u.Senders = []string{"only@example.org"} })
	c.cmd("MAIL FROM:<ann@example.org>", "553 5.7.1")
	change(func(u *store.User) { u.Disabled = true })
	c.cmd("MAIL FROM:<only@example.org>", "550 5.7.1")
	change(func(u *store.User) { u.Disabled = false })
	c.cmd("MAIL FROM:<only@example.org>", "250 ")
	c.cmd("RSET", "250 ")
	old := r.as("ann")
	change(func(u *store.User) { u.Password = "another" })
	old.send("MAIL FROM:<only@example.org>\r\nNOOP\r\n")
	old.expect("421 4.7.0 the password was changed")
	old.ended()
	change(func(u *store.User) { u.Password = passwords() })
	if err := r.spool.RemoveUser(t.Context(), r.clock.Now(), "test", "ann"); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(fresh)
	c.cmd("MAIL FROM:<only@example.org>", "550 5.7.1")
}

// TestNetworks: clients that send without AUTH are known by their address.
func TestNetworks(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Networks, r.opts.Auth, r.env.Door = prefixes("127.0.0.0/8"), AuthNone, nil })
	c := r.dial()
	if offers := c.cmd("EHLO x", "250 "); strings.Contains(offers, "AUTH") {
		t.Error(offers)
	}
	c.cmd("AUTH PLAIN "+plain("ann", "correct horse"), "502 ")
	c.mail("whoever@example.org", "bob@example.com", hello, "250 ")
	if e := r.spool.envelope(t); e.User != "127.0.0.1" {
		t.Errorf("%+v", e)
	}
	if m := r.the(); !strings.Contains(m.text, " with ESMTP id ") {
		t.Error(m.text)
	}
	v6 := setup{opts: Options{Networks: prefixes("2001:db8::/32")}}
	for source, want := range map[string]string{"2001:db8::1": "2001:db8::/64", "2001:db8::2:3": "2001:db8::/64",
		"2001:db8:0:1::1": "2001:db8:0:1::/64", "2001:db9::1": ""} {
		if got := v6.freeUser(netip.MustParseAddr(source)); got != want {
			t.Errorf("%s sends as %q, want %q", source, got, want)
		}
	}
	if o := (outbreak.Options{}).WithDefaults(); o.CountsNull("2001:db8::/64") || o.CountsNull("192.0.2.1") ||
		!o.CountsNull("ann") {
		t.Error("whoever is known by his address writes notifications")
	}
	other := newRig(t, func(r *rig) { r.opts.Networks, r.opts.Auth = prefixes("10.0.0.0/8"), AuthNone })
	other.greeted().cmd("MAIL FROM:<ann@example.org>", "550 5.7.1 ")
	bound := newRig(t, func(r *rig) { r.opts.Networks, r.opts.Senders = prefixes("127.0.0.0/8"), SendersBound })
	bound.greeted().cmd("MAIL FROM:<ann@example.org>", "553 5.7.1 ")
	bound.clock.Advance(fresh)
	bound.put(store.User{Name: "127.0.0.1", Senders: []string{"ann@example.org"}, Made: epoch, Changed: epoch})
	bound.greeted().cmd("MAIL FROM:<ann@example.org>", "250 ")
}

// TestClients: what is remembered of them is bounded, and not for long.
func TestClients(t *testing.T) {
	t.Parallel()
	var c clients
	who := identity{name: "a", user: store.User{Contact: "x"}, asked: epoch}
	c.add(&who)
	got := identity{name: "a"}
	if !c.find(&got, epoch) || got.user.Contact != "x" || c.find(&identity{name: "b"}, epoch) ||
		c.find(&got, epoch.Add(fresh)) {
		t.Errorf("%+v", got)
	}
	for i := range maxClients {
		c.add(&identity{name: fmt.Sprint(i), asked: epoch})
	}
	if len(c.seen) != 1 {
		t.Errorf("%d are remembered", len(c.seen))
	}
}

// TestCommands: mail to the command address is taken from everybody, and nothing else is.
func TestCommands(t *testing.T) {
	t.Parallel()
	var got []string
	var answer error
	r := newRig(t, func(r *rig) {
		r.opts.Command = "Weir@mail.example.org"
		r.env.Commands = func(_ context.Context, _ time.Time, ticket string, text io.Reader) error {
			all, err := io.ReadAll(text)
			got = append(got, ticket+" "+string(all[strings.Index(string(all), "\r\n\r\n"):]))
			return errors.Join(err, answer)
		}
	})
	c := r.greeted()
	c.cmd("MAIL FROM:<ann@home.example>", "250 ")
	c.cmd("RCPT TO:<bob@example.com>", "530 5.7.0 ")
	c.cmd("RCPT TO:<weird@mail.example.org>", "530 5.7.0 ")
	c.cmd("RCPT TO:<weir@mail.example.com>", "530 5.7.0 ")
	c.cmd("RCPT TO:<weir+TICKET@MAIL.example.org>", "250 ")
	c.cmd("RCPT TO:<weir+other@mail.example.org>", "452 4.5.3 ")
	c.cmd("RCPT TO:<bob@example.com>", "530 5.7.0 ")
	c.cmd("DATA", "354 ")
	c.cmd("Subject: re\r\n\r\nrelease all\r\n.", "250 2.0.0 ")
	if len(got) != 1 || got[0] != "ticket \r\n\r\nrelease all\r\n" {
		t.Errorf("%q", got)
	}
	for want, err := range map[string]error{"550 5.7.1 ": notice.ErrForged,
		"550 5.7.1 the command is out of date": spool.ErrSpent, "451 4.3.0 ": io.ErrClosedPipe,
		"452 4.3.1 ": store.ErrFull, "550 5.6.0 ": notice.ErrNothing} {
		answer = err
		c.mail("ann@home.example", "weir@mail.example.org", hello, want)
	}
	answer = nil
	user := r.as("ann")
	user.cmd("MAIL FROM:<ann@example.org>", "250 ")
	user.cmd("RCPT TO:<weir@mail.example.org>", "250 ")
	user.cmd("RCPT TO:<bob@example.com>", "452 4.5.3 ")
	user.cmd("RSET", "250 ")
	user.cmd("MAIL FROM:<ann@example.org>", "250 ")
	user.cmd("RCPT TO:<bob@example.com>", "250 ")
	user.cmd("RCPT TO:<weir@mail.example.org>", "452 4.5.3 ")
	got = nil
	user.cmd("RSET", "250 ")
	// the beginning is enough
	user.mail("ann@example.org", "weir+x@mail.example.org",
		"Subject: re\r\n\r\n"+strings.Repeat(strings.Repeat("a", 998)+"\r\n", 300), "250 ")
	if len(got) != 1 || len(got[0]) > maxCommand {
		t.Errorf("%d commands", len(got))
	}
	if len(r.sent()) != 0 || r.spool.accepted.Load() != 0 {
		t.Errorf("%+v", r.sent())
	}
	// A bounce quotes what was written, and nobody means it.
	got = nil
	for _, from := range []*client{user, r.greeted()} {
		from.mail("", "weir+x@mail.example.org", "Subject: re\r\n\r\nrelease all\r\n",
			"550 5.7.1 commands must be written by people")
	}
	if len(got) != 0 {
		t.Errorf("%q", got)
	}
	none := newRig(t, func(r *rig) { r.opts.Command = "weir@mail.example.org" })
	c = none.greeted()
	c.cmd("MAIL FROM:<ann@home.example>", "250 ")
	c.cmd("RCPT TO:<weir@mail.example.org>", "550 5.1.1 ")
}

// TestNotStored: nothing is said to be safe that is not.
func TestNotStored(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.as("ann")
	for want, err := range map[string]error{"452 4.3.1 there": store.ErrFull, "452 4.3.1 too much": spool.ErrQueue,
		"451 4.3.0 ": io.ErrShortWrite, "550 5.5.3 ": spool.ErrRecipients, "550 5.7.1 ": spool.ErrStopped,
		"552 5.3.4 ": store.ErrTooLarge} {
		r.spool.fail.Store(&err)
		c.mail("ann@example.org", "bob@example.com", hello, want)
	}
	r.spool.fail.Store(nil)
	c.mail("ann@example.org", "bob@example.com", hello, "250 ")
}

// TestPanic: a mistake ends one session, gives back what was held, and stores nothing.
func TestPanic(t *testing.T) {
	t.Parallel()
	th := &throttle{}
	var log bytes.Buffer
	r := newRig(t, func(r *rig) {
		r.parts.PerRecipient = chainOf(t, th)
		r.env.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
	})
	r.spool.before = func() { panic("a mistake") }
	other := r.as("ann")
	for _, say := range []string{"DATA\r\n" + hello + ".\r\n", "BDAT 6 LAST\r\nS: x\r\n"} {
		c := r.as("ann")
		c.cmd("MAIL FROM:<ann@example.org>", "250 ")
		c.cmd("RCPT TO:<bob@example.com>", "250 ")
		c.send(say)
		if got, err := c.reply(); err != nil || !strings.HasPrefix(got, "421 ") {
			if got, err = c.reply(); err != nil || !strings.HasPrefix(got, "421 ") { // behind the 354
				t.Errorf("%q, %v", got, err)
			}
		}
		c.ended()
	}
	needs.Wait(t, "everything is given back", func() bool {
		held, _, undone := th.settled()
		return held == 0 && undone == 2
	})
	other.cmd("NOOP", "250 ")
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "a session failed because of a bug in weir") {
		t.Error(log.String())
	}
}

// A server that is known by its address sends as many messages without a sender as null_rate says; the next one is put
// off, and is taken later. So a burst of genuine bounces is slowed and not lost, and whoever took the server over gets
// no further.
func TestNullSendersOfServersHaveACap(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.opts.Networks = prefixes("127.0.0.0/8") })
	c := r.greeted()
	const most = 60 // the default
	var queue []string
	for i := range most + 5 {
		to := fmt.Sprintf("person-%d@elsewhere.example", i)
		want := "250 "
		if i >= most {
			want = "450 4.7.1 "
			queue = append(queue, to)
		}
		c.mail("", to, hello, want)
	}
	if n := len(r.sent()); n != most {
		t.Errorf("%d messages left, want %d", n, most)
	}
	if n := r.seen.count("mail " + MailThrottled); n != len(queue) {
		t.Errorf("%d were counted as put off, want %d", n, len(queue))
	}
	c.mail("", "somebody@inside.example.org", hello, "250 ") // free, as ever
	for _, to := range queue {                               // a server tries again
		r.clock.Advance(time.Minute)
		c.mail("", to, hello, "250 ")
		c.mail("", to, hello, "450 4.7.1 ")
	}
	if n := len(r.sent()); n != most+1+len(queue) {
		t.Errorf("%d messages left after the retries", n)
	}
	// with a sender it is counted, and nobody is stopped
	c.mail("server@example.org", "person@elsewhere.example", hello, "250 ")
}
