package postfixgate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
	"weir/mail/spool"
)

// TestBounds: of mails, recipients and memory, each at its edge and one beyond. Neighbours go on.
func TestBounds(t *testing.T) {
	for doubt, begin := range map[Doubt]string{"": "DEFER_IF_PERMIT 4.5.3", DoubtPass: "DUNNO"} {
		r := start(t, Options{OnBound: doubt, Bounds: Bounds{Mails: 2, Recipients: 3}}, Parts{})
		first, second, third := r.dial(), r.dial(), r.dial()
		for i := range 3 {
			want(t, first.ask(rcpt+fmt.Sprintf("instance=1 recipient=%d@example.net", i)), "DUNNO")
		}
		want(t, first.ask(rcpt+"instance=1 recipient=3@example.net"), begin)
		if r.seen.bounds(BoundRecipients) != 1 {
			t.Error("not counted: recipients")
		}
		want(t, second.ask(rcpt+"instance=2 recipient=bob@example.net"), "DUNNO")
		want(t, third.ask(rcpt+"instance=3 recipient=bob@example.net"), begin)
		if r.seen.bounds(BoundMails) != 1 {
			t.Error("not counted: mails")
		}
		// A mail of which not all recipients are known is not judged by a part of them.
		want(t, first.ask(data+"instance=1 recipient= recipient_count=4"), begin)
		want(t, third.ask(data+"instance=3 recipient= recipient_count=2"), begin)
		r.check()
		if doubt == "" {
			want(t, third.ask(rcpt+"instance=3 recipient=bob@example.net"), "DUNNO") // there is room again
		}
		want(t, second.ask(data+"instance=2 recipient=bob@example.net recipient_count=1"), "DUNNO")
		r.check("ann <ann@example.org> to bob@example.net, commit true, count true")
	}
	size := messageSize + 2*1 + recipientSize + len("bob@example.net")
	for more, begin := range map[int]string{0: "DUNNO", -1: "DEFER_IF_PERMIT 4.5.3"} {
		r := start(t, Options{Bounds: Bounds{Memory: weir.Size(size + more)}}, Parts{})
		want(t, r.dial().ask(rcpt+"instance=1 recipient=bob@example.net"), begin)
		if want := -more; r.seen.bounds(BoundMemory) != want {
			t.Errorf("memory: counted %d, want %d", r.seen.bounds(BoundMemory), want)
		}
	}
}

// TestAbandoned: at a bound, messages whose connections have ended make room, the oldest first. Those whose connections
// are open stay. So nobody is kept from sending by somebody who begins messages and never ends them, also with a server
// that opens a connection for each question.
func TestAbandoned(t *testing.T) {
	r := start(t, Options{Bounds: Bounds{Mails: 3}}, Parts{})
	adrift := func() (n int) {
		r.arriving.mu.Lock()
		defer r.arriving.mu.Unlock()
		for _, p := range r.arriving.known {
			if p.adrift {
				n++
			}
		}
		return n
	}
	once := func(pairs string, adriftThen int) string {
		t.Helper()
		c := r.dial()
		answer := c.ask(pairs)
		_ = c.Close()
		needs.Wait(t, "the gate has seen the end of the connection", func() bool { return adrift() == adriftThen })
		return answer
	}
	open := r.dial()
	want(t, open.ask(rcpt+"instance=open recipient=bob@example.net"), "DUNNO")
	want(t, once(rcpt+"instance=1 recipient=bob@example.net", 1), "DUNNO")
	want(t, once(rcpt+"instance=2 recipient=bob@example.net", 2), "DUNNO")
	if n := r.seen.bounds(BoundMails); n != 0 {
		t.Errorf("at the bound: %d dropped", n)
	}
	want(t, once(rcpt+"instance=3 recipient=bob@example.net", 2), "DUNNO")
	if n := r.seen.bounds(BoundMails); n != 1 {
		t.Errorf("one beyond the bound: %d dropped", n)
	}
	for _, instance := range []string{"open", "2", "3"} {
		if r.arriving.known[instance] == nil {
			t.Errorf("%s is forgotten", instance)
		}
	}
	// It makes room for the question about the one that is forgotten, too.
	want(t, once(data+"instance=1 recipient= recipient_count=2", 1), "DEFER_IF_PERMIT 4.5.3")
	want(t, once(data+"instance=3 recipient= recipient_count=0", 1), "DUNNO")
	want(t, open.ask(data+"instance=open recipient=bob@example.net recipient_count=1"), "DUNNO")

	size := messageSize + 2*1 + recipientSize + len("bob@example.net")
	r = start(t, Options{Bounds: Bounds{Memory: weir.Size(2 * size)}}, Parts{})
	want(t, once(rcpt+"instance=1 recipient=bob@example.net", 1), "DUNNO")
	want(t, once(rcpt+"instance=2 recipient=bob@example.net", 2), "DUNNO")
	want(t, once(rcpt+"instance=2 recipient=eve@example.net", 1), "DUNNO")
	if n := r.seen.bounds(BoundMemory); n != 1 || r.arriving.known["2"] == nil {
		t.Errorf("memory: %d dropped", n)
	}
}

// TestUnseen: where Postfix did not ask about every recipient, the operator is told what is missing.
func TestUnseen(t *testing.T) {
	r := start(t, Options{}, Parts{})
	c := r.dial()
	for i, pairs := range []string{
		data + "instance=1 recipient= recipient_count=2", // weir was started in between
		data + "recipient= recipient_count=2",            // no instance
	} {
		want(t, c.ask(pairs), "DEFER_IF_PERMIT 4.5.3")
		if r.seen.bounds(BoundUnseen) != i+1 {
			t.Error("not counted")
		}
	}
	if !strings.Contains(r.log.String(), "smtpd_recipient_restrictions lacks") {
		t.Errorf("nobody is told: %s", r.log)
	}
	want(t, c.ask(rcpt+"instance=2 recipient=bob@example.net"), "DUNNO")
	want(t, c.ask(data+"instance=2 recipient= recipient_count=2"), "DEFER_IF_PERMIT")
	r.check()
	// To one alone, nothing has to be remembered.
	want(t, c.ask(data+"recipient=bob@example.net recipient_count=1"), "DUNNO")
	r.check("ann <ann@example.org> to bob@example.net, commit true, count true")
}

// TestForgotten: mails that nobody speaks of any more go by themselves: when their smtpd speaks of another one, or with
// time.
func TestForgotten(t *testing.T) {
	r := start(t, Options{Timeouts: Timeouts{Mail: weir.Duration(time.Hour)}}, Parts{})
	c := r.dial()
	for i := range 100 {
		want(t, c.ask(rcpt+fmt.Sprintf("instance=%d recipient=bob@example.net", i)), "DUNNO")
	}
	if n := len(r.arriving.known); n != 1 {
		t.Errorf("%d mails of one smtpd are remembered", n)
	}
	left := r.dial() // as an smtpd that ended
	want(t, left.ask(rcpt+"instance=a recipient=bob@example.net"), "DUNNO")
	r.clock.Advance(time.Hour)
	want(t, r.dial().ask(rcpt+"instance=b recipient=bob@example.net"), "DUNNO")
	if n := len(r.arriving.known); n != 3 {
		t.Errorf("%d mails are remembered within the hour, want 3", n)
	}
	r.clock.Advance(time.Second)
	want(t, r.dial().ask(rcpt+"instance=c recipient=bob@example.net"), "DUNNO")
	if n := len(r.arriving.known); n != 2 {
		t.Errorf("%d mails are remembered after it, want 2", n)
	}
}

// TestTwoAtOnce: two who ask about the same mail at the same time get one decision.
func TestTwoAtOnce(t *testing.T) {
	r := start(t, Options{}, Parts{})
	begun, goOn := make(chan struct{}), make(chan struct{})
	r.desk.decide = func(question) (spool.Verdict, error) {
		close(begun)
		<-goOn
		return spool.Verdict{Pass: true}, nil
	}
	const mail = "instance=1 recipient=bob@example.net recipient_count=1"
	first, second := r.dial(), r.dial()
	first.send("request=smtpd_access_policy " + data + mail)
	<-begun
	want(t, second.ask(eom+mail), "DEFER_IF_PERMIT")
	close(goOn)
	if answer, err := first.answer(); answer != "DUNNO" || err != nil {
		t.Errorf("%q, %v", answer, err)
	}
	want(t, first.ask(eom+mail), "DUNNO")
	r.check("ann <ann@example.org> to bob@example.net, commit true, count true")
}

// TestConnections: one too many is closed, and so is one from elsewhere; the others go on.
func TestConnections(t *testing.T) {
	r := start(t, Options{Bounds: Bounds{Connections: 2}}, Parts{})
	first, second := r.dial(), r.dial()
	want(t, first.ask("protocol_state=MAIL"), "DUNNO")
	want(t, second.ask("protocol_state=MAIL"), "DUNNO")
	r.dial().closed()
	if r.seen.bounds(BoundConnections) != 1 {
		t.Error("not counted")
	}
	want(t, first.ask("protocol_state=MAIL"), "DUNNO")
	_ = second.Close()
	needs.Wait(t, "there is room again", func() bool { return r.seen.connections.Load() == 1 })
	want(t, r.dial().ask("protocol_state=MAIL"), "DUNNO")

	r = start(t, Options{Clients: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, Parts{})
	r.dial().closed()
	if r.seen.bounds(BoundClients) != 1 || !strings.Contains(r.log.String(), "under clients") {
		t.Errorf("not counted: %s", r.log)
	}
}

// TestGarbage: who does not speak the protocol is not listened to any longer, and leaves a line in the log.
func TestGarbage(t *testing.T) {
	r := start(t, Options{}, Parts{})
	for _, c := range []struct {
		text, bound string
	}{
		{"GET / HTTP/1.1\r\nHost: x\n\n", BoundMalformed},
		{"\n\n", BoundMalformed},
		{"request=smtpd_access_policy\nx=" + strings.Repeat("y", maxLine) + "\n\n", BoundRequest},
		{strings.Repeat("x=y\n", maxRequest), BoundRequest},
	} {
		before := r.seen.bounds(c.bound)
		asks := r.dial()
		_, _ = asks.Write([]byte(c.text)) // the gate may have closed it before the end
		asks.closed()
		needs.Wait(t, "it is counted", func() bool { return r.seen.bounds(c.bound) == before+1 })
	}
	if log := r.log.String(); strings.Count(log, "does not speak") != 1 {
		t.Errorf("want one line in ten seconds: %s", log)
	}
	// One that leaves in the middle is no offence, and who says nothing is closed in the end.
	r = start(t, Options{}, Parts{})
	hasty := *r.Setup.Load()
	hasty.opts.Timeouts.Idle = weir.Duration(time.Nanosecond)
	r.Setup.Store(&hasty)
	r.dial().closed()
	needs.Wait(t, "it is counted", func() bool { return r.seen.bounds(BoundIdle) == 1 })
}

// TestPipelined: requests that come at once are answered in order.
func TestPipelined(t *testing.T) {
	r := start(t, Options{}, Parts{})
	r.desk.decide = over
	c := r.dial()
	for range 50 {
		c.send("request=smtpd_access_policy protocol_state=MAIL")
		c.send("request=smtpd_access_policy " + data + "recipient=bob@example.net recipient_count=1")
	}
	for range 50 {
		for _, begin := range []string{"DUNNO", "DEFER"} {
			answer, err := c.answer()
			if err != nil {
				t.Fatal(err)
			}
			want(t, answer, begin)
		}
	}
}

// TestReload: requests that come after it meet the new options; the listener stays.
func TestReload(t *testing.T) {
	r := start(t, Options{}, Parts{})
	r.desk.decide = over
	c := r.dial()
	const mail = "instance=1 recipient=bob@example.net recipient_count=1"
	want(t, c.ask(data+mail), "DEFER")
	if _, _, err := r.Prepare(Options{Over: "never"}, Parts{}); err == nil {
		t.Error("wrong options are taken")
	}
	commit, _, err := r.Prepare(Options{Over: OverReject, Listen: "127.0.0.1:1"}, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, c.ask(data+mail), "DEFER")
	commit()
	want(t, c.ask(data+mail), "REJECT")
	_, abort, err := r.Prepare(Options{}, Parts{})
	if err != nil {
		t.Fatal(err)
	}
	abort()
	want(t, r.dial().ask(data+mail), "REJECT")
}

// TestStop: idle connections are closed at once, a request under way is answered, and one that takes too long is cut
// off.
func TestStop(t *testing.T) {
	r := start(t, Options{}, Parts{})
	begun, goOn := make(chan struct{}), make(chan struct{})
	r.desk.decide = func(question) (spool.Verdict, error) {
		begun <- struct{}{}
		<-goOn
		return spool.Verdict{Pass: true}, nil
	}
	idle, busy := r.dial(), r.dial()
	want(t, idle.ask("protocol_state=MAIL"), "DUNNO")
	busy.send("request=smtpd_access_policy " + data + "recipient=bob@example.net recipient_count=1")
	<-begun
	stopped := make(chan error)
	go func() { stopped <- r.Stop(context.Background()) }()
	idle.closed()
	close(goOn)
	if answer, err := busy.answer(); answer != "DUNNO" || err != nil {
		t.Errorf("%q, %v", answer, err)
	}
	busy.closed()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := r.Listen(); err == nil {
		t.Error("listens after the stop")
	}

	late := start(t, Options{}, Parts{})
	late.desk.decide = func(q question) (spool.Verdict, error) {
		begun <- struct{}{}
		<-q.ctx.Done()
		return spool.Verdict{}, q.ctx.Err()
	}
	c := late.dial()
	c.send("request=smtpd_access_policy " + data + "recipient=bob@example.net recipient_count=1")
	<-begun
	if err := late.Stop(ended()); !errors.Is(err, context.Canceled) {
		t.Errorf("cut off without a word: %v", err)
	}
	c.closed()
}
