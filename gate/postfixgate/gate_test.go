package postfixgate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/gate"
	"weir/identify"
	"weir/mail/spool"
)

// say is what an smtpd asks about a mail of ann's.
const (
	ann  = " sasl_username=ann client_address=192.0.2.7 sender=ann@example.org "
	rcpt = "protocol_state=RCPT recipient_count=0" + ann
	data = "protocol_state=DATA" + ann
	eom  = "protocol_state=END-OF-MESSAGE size=1000" + ann
)

// check compares what the spool was asked.
func (r *rig) check(want ...string) {
	r.t.Helper()
	if got := r.desk.questions(); !slices.Equal(got, want) {
		r.t.Errorf("asked\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// TestOneAndSeveral: recipients are collected by instance, and the mail is judged once, at DATA.
func TestOneAndSeveral(t *testing.T) {
	r := start(t, Options{}, Parts{})
	c := r.dial()
	want(t, c.ask(rcpt+"instance=1 recipient=bob@example.net"), "DUNNO")
	r.check()
	want(t, c.ask(data+"instance=1 recipient=bob@example.net recipient_count=1"), "DUNNO")
	r.check("ann <ann@example.org> to bob@example.net, commit true, count true")
	want(t, c.ask(eom+"instance=1 recipient=bob@example.net recipient_count=1"), "DUNNO")
	r.check()

	// asked twice about eve
	for _, to := range []string{"bob@example.net", "eve@example.net", "eve@example.net", "joe@example.net"} {
		want(t, c.ask(rcpt+"instance=2 recipient="+to), "DUNNO")
	}
	want(t, c.ask(data+"instance=2 recipient= recipient_count=3"), "DUNNO")
	want(t, c.ask(data+"instance=2 recipient= recipient_count=3"), "DUNNO") // asked twice
	r.check("ann <ann@example.org> to bob@example.net eve@example.net joe@example.net, commit true, count true")
	want(t, c.ask(eom+"instance=2 recipient= recipient_count=3"), "DUNNO")
	r.check()
	if n := len(r.arriving.known); n != 0 || r.arriving.memory != 0 {
		t.Errorf("%d mails are remembered, %d bytes", n, r.arriving.memory)
	}

	// One that somebody else refused later on: the mail is to one after all.
	want(t, c.ask(rcpt+"instance=3 recipient=bob@example.net"), "DUNNO")
	want(t, c.ask(rcpt+"instance=3 recipient=eve@example.net"), "DUNNO")
	want(t, c.ask(eom+"instance=3 recipient=eve@example.net recipient_count=1"), "DUNNO")
	r.check("ann <ann@example.org> to eve@example.net, commit true, count true")
}

// TestWhoIsJudged: users who logged in, and networks. What comes in does not matter to the gate, nor do other stages.
func TestWhoIsJudged(t *testing.T) {
	r := start(t, Options{Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("2001:db8::/32")}}, Parts{})
	r.desk.decide = over
	c := r.dial()
	const mail = "protocol_state=DATA recipient=bob@example.net recipient_count=1 "
	n := 0
	for pairs, user := range map[string]string{
		"sasl_username=Ann@Example.ORG client_address=203.0.113.5": "ann@example.org",
		"client_address=10.1.2.3 sasl_username=":                   "10.1.2.3",
		"client_address=::ffff:10.1.2.3":                           "10.1.2.3",
		"client_address=2001:db8::17":                              "2001:db8::/64",
		// the same machine, on its way through its addresses
		"client_address=2001:db8::bad:cafe":                 "2001:db8::/64",
		"client_address=203.0.113.5 sender=ann@example.org": "",
		"client_address=unknown":                            "",
		"client_address=10.1.2.3.4":                         "",
		"":                                                  "",
	} {
		n++
		answer, asked := c.ask(fmt.Sprintf("%sinstance=%d %s", mail, n, pairs)), r.desk.questions()
		if user == "" {
			if answer != "DUNNO" || asked != nil {
				t.Errorf("%s: %s, asked %q", pairs, answer, asked)
			}
			continue
		}
		if want(t, answer, "DEFER"); len(asked) != 1 || !strings.HasPrefix(asked[0], user+" ") {
			t.Errorf("%s: asked %q, want one of %s", pairs, asked, user)
		}
	}
	for _, stage := range []string{"CONNECT", "EHLO", "HELO", "MAIL", "VRFY", "ETRN", "", "NEW"} {
		want(t, c.ask("protocol_state="+stage+ann+"recipient=bob@example.net"), "DUNNO")
	}
	r.check()
	// What is no name is nobody's; it is not let through either.
	for _, user := range []string{strings.Repeat("x", identify.MaxAccount+1), "a\x01b", "a\xffb"} {
		want(t, c.ask(mail+"instance=1 sasl_username="+user), "DEFER_IF_PERMIT 4.3.0")
	}
	want(t, c.ask(mail+"instance=1 sasl_username="+strings.Repeat("x", identify.MaxAccount)), "DEFER")
}

// TestRealm: whatever Postfix takes for one account is one user.
func TestRealm(t *testing.T) {
	r := start(t, Options{Realm: "example.org"}, Parts{})
	c := r.dial()
	for i, name := range []string{"ann", "Ann@Example.org", "ann+x", "ann+y@example.org"} {
		want(t,
			c.ask(fmt.Sprintf("protocol_state=DATA recipient=bob@example.net recipient_count=1 instance=%d "+
				"sasl_username=%s", i, name)), "DUNNO")
		if asked := r.desk.questions(); len(asked) != 1 || !strings.HasPrefix(asked[0], "ann@example.org ") {
			t.Errorf("%s: asked %q", name, asked)
		}
	}
}

// TestOver: what may be told to Postfix about a mail that has to wait, at either stage.
func TestOver(t *testing.T) {
	for over_, c := range map[Over]struct {
		atOnce string
		count  string
	}{
		OverHold:   {"HOLD", "true"},
		OverDefer:  {"DEFER 4.7.1", "true"},
		OverReject: {"REJECT 5.7.1", "true"},
		"":         {"DEFER 4.7.1", "true"},
	} {
		r := start(t, Options{Over: over_}, Parts{})
		r.desk.decide = over
		asks := r.dial()
		for _, stage := range []string{data, eom} {
			want(t, asks.ask(stage+"instance=1 recipient=bob@example.net recipient_count=1"), c.atOnce)
			r.check("ann <ann@example.org> to bob@example.net, commit true, count " + c.count)
			want(t, asks.ask("protocol_state=MAIL instance=2"), "DUNNO")
		}
		want(t, asks.ask(data+"instance=3 recipient=bob@example.net recipient_count=1"), c.atOnce)
		if over_ == OverHold {
			want(t, asks.ask(eom+"instance=3 recipient=bob@example.net recipient_count=1"), "DUNNO")
		}
	}
}

// TestFilter: at DATA a mail that has to wait is marked with its user, and diverted at its end. Nothing is charged.
func TestFilter(t *testing.T) {
	r := start(t, Options{Filter: "smtp:[127.0.0.1]:2526"}, Parts{})
	r.desk.decide = over
	c := r.dial()
	want(t, c.ask(rcpt+"instance=7 recipient=bob@example.net"), "DUNNO")
	want(t, c.ask(rcpt+"instance=7 recipient=eve@example.net"), "DUNNO")
	answer := c.ask(data + "instance=7 recipient= recipient_count=2")
	mark, found := strings.CutPrefix(answer, "PREPEND X-Weir-User: ")
	if !found {
		t.Fatalf("answered %q", answer)
	}
	user, mail, err := identify.ReadMark(mark, epoch.Add(5*24*time.Hour), theSecret)
	if user != "ann" || mail != "7" || err != nil {
		t.Errorf("the mark says %q, %q, %v", user, mail, err)
	}
	if _, _, err := identify.ReadMark(mark, epoch.Add(7*24*time.Hour), theSecret); !errors.Is(err,
		identify.ErrMarkOld) {
		t.Errorf("a week later: %v", err)
	}
	want(t, c.ask(eom+"instance=7 recipient= recipient_count=2"), "FILTER smtp:[127.0.0.1]:2526")
	r.check("ann <ann@example.org> to bob@example.net eve@example.net, commit true, count false")

	// Asked at the end alone, it cannot be marked, and nobody would know whose it is.
	want(t, c.ask(eom+"instance=8 recipient=bob@example.net recipient_count=1"), "DEFER 4.7.1")
	if r.seen.bounds(BoundUnmarked) != 1 || !strings.Contains(r.log.String(), "smtpd_data_restrictions lacks") {
		t.Errorf("nobody is told: %s", r.log)
	}
	// And asked at DATA alone, it is not diverted.
	r.clock.Advance(time.Minute)
	want(t, c.ask(data+"instance=9 recipient=bob@example.net recipient_count=1"), "PREPEND")
	want(t, c.ask("protocol_state=MAIL instance=10"), "DUNNO")
	if r.seen.bounds(BoundUnmarked) != 2 || !strings.Contains(r.log.String(), "smtpd_end_of_data_restrictions lacks") {
		t.Errorf("nobody is told: %s", r.log)
	}
	// What passes is neither.
	r.desk.decide = nil
	want(t, c.ask(data+"instance=11 recipient=bob@example.net recipient_count=1"), "DUNNO")
	want(t, c.ask(eom+"instance=11 recipient=bob@example.net recipient_count=1"), "DUNNO")
}

// TestStopped: a stopped user is refused at RCPT, except for recipients that are reached all the same.
func TestStopped(t *testing.T) {
	for refusal, begin := range map[Refusal]string{"": "REJECT 5.7.1", Reject: "REJECT 5.7.1", Defer: "DEFER 4.7.1"} {
		r := start(t, Options{Stopped: refusal}, Parts{})
		r.desk.decide = func(q question) (spool.Verdict, error) {
			free := !slices.ContainsFunc(q.recipients, func(to string) bool { return to != "support@example.org" })
			return spool.Verdict{Pass: free, Refused: !free}, nil
		}
		who := "ann"
		r.desk.stopped.Store(&who)
		c := r.dial()
		want(t, c.ask(rcpt+"instance=1 recipient=bob@example.net"), begin)
		r.check("ann <ann@example.org> to bob@example.net, commit false, count false")
		want(t, c.ask(rcpt+"instance=1 recipient=support@example.org"), "DUNNO")
		r.check("ann <ann@example.org> to support@example.org, commit false, count false")
		want(t, c.ask(data+"instance=1 recipient=support@example.org recipient_count=1"), "DUNNO")
		r.check("ann <ann@example.org> to support@example.org, commit true, count true")

		// Stopped by another session between RCPT and DATA.
		r.desk.stopped.Store(nil)
		want(t, c.ask(rcpt+"instance=2 recipient=bob@example.net"), "DUNNO")
		want(t, c.ask(data+"instance=2 recipient=bob@example.net recipient_count=1"), begin)
	}
}

// TestFailing: a store that fails defers, or passes where the operator says so.
func TestFailing(t *testing.T) {
	for doubt, begin := range map[Doubt]string{"": "DEFER_IF_PERMIT 4.3.0", DoubtDefer: "DEFER_IF_PERMIT 4.3.0",
		DoubtPass: "DUNNO"} {
		r := start(t, Options{OnError: doubt}, Parts{})
		r.desk.decide = func(q question) (spool.Verdict, error) {
			switch q.recipients[0] {
			case "many@example.net":
				return spool.Verdict{}, spool.ErrRecipients
			case "stopped@example.net":
				return spool.Verdict{}, spool.ErrStopped
			case "broken@example.net":
				panic("broken")
			}
			return spool.Verdict{}, errors.New("the disk is full")
		}
		c := r.dial()
		want(t, c.ask(data+"instance=1 recipient=bob@example.net recipient_count=1"), begin)
		if r.seen.failed.Load() != 1 || !strings.Contains(r.log.String(), "the disk is full") {
			t.Errorf("nobody is told: %s", r.log)
		}
		want(t, c.ask(data+"instance=2 recipient=many@example.net recipient_count=1"), "REJECT 5.5.3")
		want(t, c.ask(data+"instance=3 recipient=stopped@example.net recipient_count=1"), "REJECT 5.7.1")
		who := "ann"
		r.desk.stopped.Store(&who)
		want(t, c.ask(rcpt+"instance=4 recipient=bob@example.net"), begin)

		neighbour := r.dial()
		c.send("request=smtpd_access_policy " + data + "instance=5 recipient=broken@example.net recipient_count=1")
		c.closed()
		if !strings.Contains(r.log.String(), "a bug in weir") {
			t.Error("nobody is told of a panic")
		}
		want(t, neighbour.ask(data+"instance=6 recipient=many@example.net recipient_count=1"), "REJECT")
	}
}

// TestThrottles: those of recipients and of mails judge too, and are charged for what goes on alone.
func TestThrottles(t *testing.T) {
	verdicts := map[string]weir.Answer{
		"limited@example.net": {Verdict: weir.Refuse, Reason: weir.OverLimit},
		"waits@example.net":   {Verdict: weir.Wait, Reason: weir.OverLimit, Turn: weir.NewTurn()},
		"banned@example.net":  {Verdict: weir.Refuse, Reason: weir.Banned},
	}
	judge := func(ev *weir.Event, a *weir.Answer) error {
		if ev.Message.Recipients[0] == "fails@example.net" {
			return errors.New("broken")
		}
		*a = verdicts[ev.Message.Recipients[0]]
		return nil
	}
	each, whole := &throttle{judge: judge}, &throttle{judge: judge}
	r := start(t, Options{}, Parts{Throttles: chainOf(t, whole), PerRecipient: chainOf(t, each)})
	r.desk.free = "support@example.org"
	c := r.dial()
	answers := map[string]string{"limited": "DEFER 4.7.1", "waits": "DEFER 4.7.1", "banned": "REJECT 5.7.1",
		"fails": "DEFER_IF_PERMIT 4.3.0"}
	for who, begin := range answers {
		want(t, c.ask(rcpt+"instance=1 recipient="+who+"@example.net"), begin)
		want(t, c.ask(data+"instance=2 recipient="+who+"@example.net recipient_count=1"), begin)
	}
	if each.held != 0 || each.done != 0 || whole.held != 0 || whole.done != 0 {
		t.Errorf("refused, and charged: %d held and %d done, %d and %d", each.held, each.done, whole.held, whole.done)
	}
	r.check()
	want(t, c.ask(rcpt+"instance=3 recipient=bob@example.net"), "DUNNO")
	want(t, c.ask(rcpt+"instance=3 recipient=support@example.org"), "DUNNO")
	if each.done != 1 {
		t.Errorf("%d recipients charged, want 1: nobody counts the other", each.done)
	}
	want(t, c.ask(eom+"instance=3 recipient= recipient_count=2"), "DUNNO")
	if whole.done != 1 || whole.bytes != 1000 || whole.held != 0 {
		t.Errorf("%d mails of %d bytes charged", whole.done, whole.bytes)
	}
	ev := whole.events[len(whole.events)-1]
	if ev.Account != "ann" || ev.Source != netip.MustParseAddr("192.0.2.7") || ev.Kind != "mail" || ev.Bytes != 1000 ||
		len(ev.Message.Recipients) != 2 {
		t.Errorf("the event was %+v", ev)
	}
	r.desk.decide = over
	want(t, c.ask(eom+"instance=4 recipient=bob@example.net recipient_count=1"), "DEFER")
	if whole.done != 1 || whole.held != 0 {
		t.Errorf("a mail that does not go on is charged: %d", whole.done)
	}
	want(t, c.ask("protocol_state=RCPT sasl_username=lost instance=5 recipient=bob@example.net"),
		"DEFER_IF_PERMIT 4.3.0")
}

// TestSocket: the same over a socket of this machine, with its rights; and one that was left behind is no obstacle.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy")
	listen := func(o *Options) (net.Listener, error) { return gate.Listen(o.Listen, o.Socket) }
	o := Options{Listen: "unix:" + path, Socket: gate.Socket{Mode: "0600"}}
	r := start(t, o, Parts{})
	want(t, r.dial().ask(data+"instance=1 recipient=bob@example.net recipient_count=1"), "DUNNO")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	again, err := New(o, Parts{}, Env{Name: "x", Spool: r.desk})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Listen(); err == nil || !strings.Contains(err.Error(), "another program does already") {
		t.Errorf("listens on a socket in use: %v", err)
	}
	if err := r.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	// As one leaves it who is killed.
	l, err := listen(&o)
	if err != nil {
		t.Fatal(err)
	}
	l.(interface{ SetUnlinkOnClose(bool) }).SetUnlinkOnClose(false)
	_ = l.Close()
	if err := again.Listen(); err != nil {
		t.Errorf("does not listen where a socket was left: %v", err)
	}
	_ = again.Stop(context.Background())
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(&o); err == nil {
		t.Error("listens where there is a file")
	}
	if kept, _ := os.ReadFile(path); string(kept) != "precious" {
		t.Error("the file is gone")
	}
	for _, s := range []gate.Socket{{Owner: "nobody-of-that-name"}, {Group: "nobody-of-that-name"}} {
		if _, err := listen(&Options{Listen: "unix:" + path + "2", Socket: s}); err == nil ||
			!strings.Contains(err.Error(), "nobody-of-that-name") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
