package smtpgate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/identify"
	"weir/internal/testkit/needs"
	"weir/internal/turns"
	"weir/mail/login"
	"weir/mail/notice"
	"weir/mail/spool"
	"weir/throttle/bloom"
	"weir/throttle/quota"
	"weir/throttle/stamp"
)

// throttle is one that does what a test says, for what no real one can be made to do at the right moment. It counts
// what it holds.
type throttle struct {
	mu     sync.Mutex
	judge  func(ev *weir.Event, a *weir.Answer) error
	events []weir.Event
	held   int
	done   int
	undone int
}

func (th *throttle) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.events = append(th.events, *ev)
	if th.judge != nil {
		if err := th.judge(ev, a); err != nil {
			return err
		}
	}
	if a.Verdict <= weir.Wait {
		a.Hold = weir.Hold{Ref: th, N: 1}
		th.held++
	}
	return nil
}

func (th *throttle) Settle(_ weir.Hold, o weir.Outcome) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.held--
	if o.Done {
		th.done++
	} else {
		th.undone++
	}
}

func (th *throttle) Peek(*weir.Event, *weir.Answer) {}

func (th *throttle) settled() (held, done, undone int) {
	th.mu.Lock()
	defer th.mu.Unlock()
	return th.held, th.done, th.undone
}

func newQuota(t testing.TB, policies ...quota.Policy) *quota.Quota {
	t.Helper()
	q, err := quota.New(quota.Options{Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// TestQuota: messages and bytes per user, with the rule in the answer and when to come back.
func TestQuota(t *testing.T) {
	t.Parallel()
	q := newQuota(t, quota.Policy{Name: "per-hour", Kind: quota.Requests, Limit: quota.Count(2),
		Period: weir.Period{Length: time.Hour}})
	r := newRig(t, func(r *rig) {
		r.parts.Throttles = chainOf(t, q)
		r.rules.Exempt = []string{"ann", "bound"}
	})
	c := r.as("ann")
	c.mail("ann@example.org", "bob@example.com", hello, "250 ")
	c.mail("ann@example.org", "carl@example.com", hello, "250 ")
	c.mail("ann@example.org", "dora@example.com", hello,
		"450 4.7.1 over the limit of 2 messages per 1h (t0/per-hour), come back in 1h")
	c.mail("ann@example.org", "support@example.org", hello, "250 ") // nobody counts these
	r.as("bound").mail("bound@example.org", "bob@example.com", hello, "250 ")
	r.clock.Advance(time.Hour)
	c.mail("ann@example.org", "dora@example.com", hello, "250 ")
	if r.seen.count("mail throttled") != 1 || r.spool.accepted.Load() != 5 {
		t.Error(r.seen.counts)
	}
}

// TestVolume: bytes are charged when the mail is safe.
func TestVolume(t *testing.T) {
	t.Parallel()
	q := newQuota(t, quota.Policy{Name: "bytes", Kind: quota.Volume, Limit: quota.Bytes(1000),
		Period: weir.Period{Length: time.Hour}})
	r := newRig(t, func(r *rig) { r.parts.Throttles, r.rules.Exempt = chainOf(t, q), []string{"ann"} })
	c := r.as("ann")
	c.mail("ann@example.org", "bob@example.com", hello+strings.Repeat("0123456789\r\n", 100), "250 ")
	c.mail("ann@example.org", "bob@example.com", hello, "450 4.7.1 over the limit of 1KB per 1h (t0/bytes)")
}

// TestSharedLimit: whoever has no limit of their own is told whose limit it is.
func TestSharedLimit(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]weir.Answer{
		"over the limit shared by new accounts, of 5 messages per 1h (plans/hourly), come back in 1m": {
			Reason: weir.SharedLimit, Until: epoch.Add(time.Minute),
			Figure: weir.Figure{By: "plans", Rule: "hourly", Unit: "requests", Limit: 5,
				Window: weir.Window(time.Hour)}},
		"over the limit of 5 messages per month (plans/monthly)": {Reason: weir.OverLimit,
			Figure: weir.Figure{By: "plans", Rule: "monthly", Unit: "requests", Limit: 5,
				Window: weir.NewWindow(30*24*time.Hour, weir.Month)}},
		"over the limit shared by new accounts, of 1KB": {Reason: weir.SharedLimit,
			Figure: weir.Figure{Unit: "bytes", Limit: 1000}},
	} {
		if got := explain(&a, "messages", epoch, false); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if no := throttled(&a, "messages", epoch); no.reply.code != 450 {
			t.Errorf("%d", no.reply.code)
		}
	}
}

// TestRecipients: what is held for a recipient is settled with the mail: done when it is safe, given back otherwise.
func TestRecipients(t *testing.T) {
	t.Parallel()
	th := &throttle{judge: func(ev *weir.Event, a *weir.Answer) error {
		switch to := ev.Message.Recipients[0]; to {
		case "over@example.com":
			a.Verdict, a.Reason = weir.Refuse, weir.OverLimit
		case "never@example.com":
			a.Verdict, a.Reason = weir.Refuse, weir.TooCostly
		case "fails@example.com":
			return errors.New("out of order")
		case "later@example.com":
			a.Verdict, a.Until = weir.Wait, epoch.Add(time.Hour)
		}
		return nil
	}}
	mails := &throttle{}
	r := newRig(t, func(r *rig) { r.parts.PerRecipient, r.parts.Throttles = chainOf(t, th), chainOf(t, mails) })
	expect := func(held, done, undone int) {
		t.Helper()
		needs.Wait(t, "everything is settled", func() bool {
			h, d, u := th.settled()
			return h == held && d == done && u == undone
		})
	}
	c := r.as("ann")
	c.cmd("MAIL FROM:<ann@example.org>", "250 ")
	c.cmd("RCPT TO:<Bob@Example.com>", "250 ")
	c.cmd("RCPT TO:<bob@example.com>", "250 ") // judged once
	c.cmd("RCPT TO:<support@example.org>", "250 ")
	c.cmd("RCPT TO:<over@example.com>", "450 4.7.1 over a limit (t0)")
	c.cmd("RCPT TO:<never@example.com>", "550 5.7.1 ")
	c.cmd("RCPT TO:<fails@example.com>", "451 4.3.0 ")
	c.cmd("RCPT TO:<later@example.com>", "250 ")
	c.cmd("RCPT TO:<LATER@example.com>", "250 ")
	expect(2, 0, 0)
	c.cmd("DATA", "354 ")
	c.cmd(hello+".", "250 ")
	expect(0, 2, 0)
	if ev := th.events[0]; ev.Kind != KindMail || ev.Account != "ann" || ev.Source.String() != "127.0.0.1" ||
		ev.Cost != 1 || ev.Message.User != "ann" || len(th.events) != 5 {
		t.Errorf("%+v", ev)
	}
	if ev := mails.events[0]; len(ev.Message.Recipients) != 2 || ev.Bytes != int64(len(hello)) || ev.ID == "" {
		t.Errorf("%+v", ev)
	}
	if to := r.spool.envelope(t).To; len(to) != 5 || !to[0].After.IsZero() ||
		!to[3].After.Equal(epoch.Add(time.Hour)) || !to[4].After.Equal(epoch.Add(time.Hour)) {
		t.Errorf("%+v", to)
	}
	// Given back: RSET, a refused mail, a client that leaves, a new EHLO.
	for i, end := range []func(){
		func() { c.cmd("RSET", "250 ") },
		func() { c.cmd("DATA", "354 "); c.cmd("a\r\nb\x00\r\n.", "554 ") },
		func() { c.cmd("EHLO x", "250 ") },
		func() { c.send("BDAT 1\r\nx"); c.expect("250 "); c.cmd("RSET", "250 ") },
		func() { c.send("DATA\r\n"); c.expect("354 "); c.conn.Close() },
	} {
		c.cmd("MAIL FROM:<ann@example.org>", "250 ")
		c.cmd("RCPT TO:<bob@example.com>", "250 ")
		end()
		expect(0, 2, i+1)
	}
	c = r.as("ann")
	c.cmd("MAIL FROM:<ann@example.org>", "250 ")
	c.cmd("RCPT TO:<bob@example.com>", "250 ")
	c.conn.Close()
	expect(0, 2, 6)
}

// TestTurn: an answer is held back until the turn is called, and no longer than it may be.
func TestTurn(t *testing.T) {
	t.Parallel()
	turns := make(chan *weir.Turn, 1)
	th := &throttle{judge: func(_ *weir.Event, a *weir.Answer) error {
		a.Verdict, a.Reason, a.Turn, a.Until = weir.Wait, weir.OverLimit, weir.NewTurn(), epoch.Add(time.Minute)
		turns <- a.Turn
		return nil
	}}
	r := newRig(t, func(r *rig) { r.parts.Throttles = chainOf(t, th) })
	c := r.as("ann")
	begin := func() {
		c.cmd("MAIL FROM:<ann@example.org>", "250 ")
		c.cmd("RCPT TO:<bob@example.com>", "250 ")
		c.cmd("DATA", "354 ")
		c.send(hello + ".\r\n")
	}
	begin()
	(<-turns).Grant() // earlier than expected
	c.expect("250 2.0.0 OK")
	if to := r.spool.envelope(t).To[0]; !to.After.IsZero() {
		t.Errorf("%+v", to)
	}
	begin()
	(<-turns).Refuse(weir.WaitTooLong)
	c.expect("450 4.7.1 ")
	begin()
	<-turns
	needs.Wait(t, "it waits", func() bool { return r.seen.waiting.Load() == 1 && r.clock.Pending() > 0 })
	r.clock.Advance(30 * time.Second)
	c.expect("451 4.7.1 over a limit (t0), come back in 30s")
	if held, done, undone := th.settled(); held != 0 || done != 1 || undone != 2 || r.seen.count("bound wait") != 1 ||
		r.seen.waiting.Load() != 0 {
		t.Error(held, done, undone, r.seen.counts)
	}
}

// TestAccept: who is turned away at the door hears nothing.
func TestAccept(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.parts.Accept = chainOf(t, newQuota(t,
			quota.Policy{Name: "p", Kind: quota.Requests, Limit: quota.Count(1),
				Period: weir.Period{Length: time.Hour}}))
	})
	r.dial()
	if conn, err := net.Dial("tcp", r.Addr().String()); err == nil {
		defer conn.Close()
		if n, err := conn.Read(make([]byte, 100)); err == nil {
			t.Errorf("%d bytes for somebody who was turned away", n)
		}
	}
}

// TestGuessing: too many wrong passwords from one place are not even looked at, and a right one has to wait as well,
// unless it was right there before.
func TestGuessing(t *testing.T) {
	t.Parallel()
	limit, err := bloom.New(bloom.Options{Rate: weir.Rate{Count: 5, Per: time.Minute}, Burst: 5}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r := newRig(t, func(r *rig) {
		r.parts.Guesses = limit.Throttle()
		r.opts.Bounds.Logins = 100
		r.env.Door = &login.Door{Verifier: login.New(login.Options{})}
		r.opts.Command = "weir@mail.example.org"
		r.env.Commands = func(context.Context, time.Time, string, io.Reader) error { return notice.ErrForged }
		r.env.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	// Nobody can guess a ticket, so those who try do not keep others from logging in.
	c := r.greeted()
	for range 20 {
		c.mail("eve@example.com", "weir+x@mail.example.org", hello, "550 5.7.1 the command is not genuine")
	}
	r.as("bound") // is remembered
	tries := 0
	for ; ; tries++ {
		c.send("AUTH PLAIN " + plain("ann", "sesame 1234") + "\r\n")
		got, err := c.reply()
		if err != nil || tries > 10 {
			t.Fatal(tries, got, err)
		}
		if strings.HasPrefix(got, "454 4.7.0 too many wrong passwords") {
			break
		}
		if !strings.HasPrefix(got, "535 5.7.8 ") {
			t.Fatal(got)
		}
	}
	if tries < 1 || tries > 5 {
		t.Errorf("%d tries", tries)
	}
	stats := func() login.Stats { return r.env.Door.Verifier.Stats() }
	verified := stats()
	r.greeted().cmd("AUTH PLAIN "+plain("ann", "correct horse"), "454 4.7.0 ")
	if after := stats(); after != verified {
		t.Errorf("verified all the same: %+v", after)
	}
	r.as("bound")
	r.greeted().cmd("AUTH PLAIN "+plain("bound", "another horse"), "454 4.7.0 ")
	if after := stats(); after.Remembered != verified.Remembered+1 || after.Wrong != verified.Wrong {
		t.Errorf("verified all the same: %+v", after)
	}
	r.clock.Advance(2 * time.Minute)
	c.cmd("AUTH PLAIN "+plain("ann", "correct horse"), "235 ")
	if err := r.Stop(t.Context()); err != nil && !errors.Is(err, context.Canceled) {
		t.Log(err)
	}
	if text := log.String(); strings.Contains(text, "sesame") || strings.Contains(text, "horse") ||
		!strings.Contains(text, "user=ann") {
		t.Error(text)
	}
}

// TestUserGuesses: too many wrong passwords for one user, from wherever they come, are not looked at, and neither is a
// right one that was not right before. Others do not notice.
func TestUserGuesses(t *testing.T) {
	t.Parallel()
	for name, auth := range map[string]Auth{"our own": AuthUsers, "of the next hop": AuthNextHop} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			r := newRig(t, func(r *rig) {
				r.opts.Auth = auth
				r.parts.UserGuesses = newQuota(t,
					quota.Policy{Name: "wrong", Limit: quota.Count(3), Period: weir.Period{Length: 10 * time.Minute}})
				r.env.Door = &login.Door{Verifier: login.New(login.Options{Clock: r.clock})}
				r.parts.Relay = relay(func(_, password string) error {
					if asked++; password != "correct horse" {
						return login.ErrWrong
					}
					return nil
				})
			})
			r.as("bound")
			for _, name := range []string{"ann", "bound"} {
				for range 3 {
					r.greeted().cmd("AUTH PLAIN "+plain(name, "sesame"), "535 5.7.8 ")
				}
				r.greeted().cmd("AUTH PLAIN "+plain(name, "sesame"), "454 4.7.0 too many wrong passwords")
			}
			before := asked
			r.greeted().cmd("AUTH PLAIN "+plain("ann", "correct horse"), "454 4.7.0 ")
			if asked != before {
				t.Error("the next hop was asked")
			}
			r.as("bound")
			r.clock.Advance(10 * time.Minute)
			r.as("ann")
			if r.seen.count("login guessing") != 3 || r.seen.count("login wrong") != 6 {
				t.Error(r.seen.counts)
			}
		})
	}
}

// TestRealm: whatever the next hop takes for one account is one user, and where only known ones may log in, no other.
func TestRealm(t *testing.T) {
	t.Parallel()
	var asked []string
	r := newRig(t, func(r *rig) {
		r.opts.Auth, r.opts.Realm = AuthNextHop, "example.org"
		r.parts.Relay = relay(func(name, _ string) error { asked = append(asked, name); return nil })
	})
	spellings := []string{"zoe", "Zoe@Example.org", "zoe+x", "zoe+y@example.org"}
	for _, name := range spellings {
		c := r.as(name)
		if c.mail("zoe@example.org", "bob@example.com", hello, "250 "); r.spool.envelope(t).User != "zoe@example.org" {
			t.Errorf("%s: %+v", name, r.spool.envelope(t))
		}
	}
	if got := strings.Join(asked, " "); got != strings.ToLower(strings.Join(spellings, " ")) {
		t.Errorf("the next hop was asked about %s", got)
	}
	strict := newRig(t, func(r *rig) {
		r.opts.Auth, r.opts.KnownOnly = AuthNextHop, true
		r.parts.Relay = relay(func(string, string) error { return nil })
	})
	c := strict.as("ann")
	c.cmd("MAIL FROM:<ann@example.org>", "250 ")
	c.cmd("RSET", "250 ")
	strict.greeted().cmd("AUTH PLAIN "+plain("ann@example.org", "correct horse"), "535 5.7.8 ")
	if err := strict.spool.RemoveUser(t.Context(), strict.clock.Now(), "test", "ann"); err != nil {
		t.Fatal(err)
	}
	strict.clock.Advance(fresh)
	c.cmd("MAIL FROM:<ann@example.org>", "550 5.7.1 there is no such user any more")
}

// relay knows the passwords of the next hop.
type relay func(name, password string) error

func (r relay) Auth(_ context.Context, _ turns.Rank, name, password string) error {
	return r(name, password)
}

// TestNextHopAuth: the next hop is asked, and its users need not be ours.
func TestNextHopAuth(t *testing.T) {
	t.Parallel()
	answer := login.ErrWrong
	r := newRig(t, func(r *rig) {
		r.opts.Auth, r.env.Door, r.opts.Bounds.Logins = AuthNextHop, nil, 100
		r.parts.Relay = relay(func(name, password string) error {
			if name == "zoe" && password == "secret" {
				return nil
			}
			return answer
		})
	})
	c := r.greeted()
	c.cmd("AUTH PLAIN "+plain("zoe", "wrong"), "535 5.7.8")
	answer = login.ErrBusy
	c.cmd("AUTH PLAIN "+plain("zoe", "wrong"), "454 4.7.0")
	answer = errors.New("no connection")
	c.cmd("AUTH PLAIN "+plain("zoe", "wrong"), "454 4.7.0")
	c.cmd("AUTH PLAIN "+plain("Zoe", "secret"), "235 ")
	c.mail("zoe@example.org", "bob@example.com", hello, "250 ")
	if e := r.spool.envelope(t); e.User != "zoe" {
		t.Errorf("%+v", e)
	}
}

// TestStamps: what is announced can be paid; who has not paid waits in the pool while there is too much to do.
func TestStamps(t *testing.T) {
	t.Parallel()
	d, err := stamp.NewMailIssuer(stamp.MailOptions{Algorithm: stamp.SHA256K, Work: 64}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	offended := 0
	r := newRig(t, func(r *rig) {
		r.opts.Stamps, r.parts.Stamps = &Stamping{}, wiring{d, r.spool}
		r.env.Offend = func(_ *weir.Event, a *weir.Answer) {
			if a.Ban && a.Reason == weir.Forged {
				offended++
			}
		}
	})
	c := r.dial()
	offers := strings.Split(c.cmd("EHLO x", "250 "), "\n")
	var params stamp.MailParams
	auth := false
	for _, line := range offers {
		auth = auth || line == "250-AUTH PLAIN LOGIN"
		if text, ok := strings.CutPrefix(line, "250-X-WEIR-STAMP "); ok {
			if params, err = stamp.ReadMailParams(strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !auth || params.Work == 0 {
		t.Fatal(offers)
	}
	c.cmd("AUTH PLAIN "+plain("ann", "correct horse"), "235 ")
	const body = "hello\r\n\r\n..\r\n"
	pay := func(to string) string {
		s, err := stamp.MailStamp(t.Context(), params,
			stamp.MailBinding{Message: stamp.BodyID([]byte(strings.ReplaceAll(body, "..", "."))), Recipient: to},
			stamp.SolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return stamp.FoldMailHeader(s)
	}
	r.spool.load.Store(95)
	c.mail("ann@example.org", "Bob@example.com,carl@example.com,support@example.org",
		pay("bob@example.com")+"Subject: x\r\n\r\n"+body, "250 ")
	none := spool.Stamp{}
	if to := r.spool.envelope(t).To; to[0].Stamp == none || to[1].Stamp != none || !to[1].Pooled || to[2].Pooled ||
		to[2].Stamp != none {
		t.Errorf("%+v", to)
	}
	if got := r.spool.receipt(t); got.Paid != 1 || got.Pooled != 1 || got.Passed != 2 {
		t.Errorf("%+v", got)
	}
	for _, m := range r.sent() {
		if strings.Contains(m.text, "Weir-Stamp") {
			t.Error(m.text)
		}
	}
	// Two who are one for stamps are paid for by one.
	c.mail("ann@example.org", "Eve@example.com,eve@example.com", pay("eve@example.com")+"Subject: x\r\n\r\n"+body,
		"250 ")
	if to := r.spool.envelope(t).To; len(to) != 2 || to[0].Stamp == none || to[1].Stamp != to[0].Stamp ||
		r.spool.receipt(t).Paid != 2 {
		t.Errorf("%+v", to)
	}
	r.spool.load.Store(50)
	c.mail("ann@example.org", "dora@example.com", "Subject: x\r\n\r\n"+body, "250 ")
	if to := r.spool.envelope(t).To; to[0].Stamp != none || to[0].Pooled {
		t.Errorf("%+v", to)
	}
	head, solution,
		_ := strings.Cut(stamp.UnfoldMailHeader(strings.TrimPrefix(pay("bob@example.com"), stamp.MailHeader+":")), ".")
	// which solves all parts of the puzzle once in a universe
	wrong := stamp.FoldMailHeader(head + "." + strings.Repeat("A", len(solution)))
	c.mail("ann@example.org", "bob@example.com", wrong+"Subject: x\r\n\r\n"+body, "550 5.7.1 a stamp is not genuine")
	if offended != 1 || r.seen.count("mail stamp") != 1 {
		t.Error(offended, r.seen.counts)
	}
	strict := newRig(t, func(r *rig) {
		r.opts.Stamps, r.parts.Stamps = &Stamping{Required: true, OnInvalid: FatePool}, wiring{d, r.spool}
	})
	c = strict.as("ann")
	c.mail("ann@example.org", "bob@example.com", "Subject: x\r\n\r\n"+body, "550 5.7.1 a stamp is required")
	c.mail("ann@example.org", "bob@example.com", pay("bob@example.com")+"Subject: x\r\n\r\n"+body, "250 ")
	c.mail("ann@example.org", "support@example.org", "Subject: x\r\n\r\n"+body, "250 ")
}

// TestDivertedMailOfTheStopped: a mark tells whose mail another server has taken. Of a stopped user it is held, also
// where a quota would put it off: that server would send it again when the user may send. Of others a quota puts it
// off, as ever.
func TestDivertedMailOfTheStopped(t *testing.T) {
	t.Parallel()
	q := newQuota(t, quota.Policy{Name: "per-hour", Kind: quota.Requests, Limit: quota.Count(1),
		Period: weir.Period{Length: time.Hour}})
	secret := []byte("0123456789abcdef0123456789abcdef")
	r := newRig(t, func(r *rig) {
		r.parts.Throttles = chainOf(t, q)
		r.opts.Networks, r.opts.Marks, r.opts.Auth = prefixes("127.0.0.0/8"), true, AuthNone
		r.env.Marks = func() [][]byte { return [][]byte{secret} }
	})
	c := r.greeted()
	send := func(user, to, want string) {
		t.Helper()
		mark := identify.Mark(secret, user, "1", r.clock.Now().Add(time.Hour))
		c.mail(user+"@example.org", to, identify.MarkHeader+": "+mark+"\r\n"+hello, want)
	}
	send("ann", "a@elsewhere.example", "250 ")
	send("ann", "b@elsewhere.example", "450 4.7.1 ")
	if err := r.spool.StopUser(t.Context(), r.clock.Now(), "root", "ann", ""); err != nil {
		t.Fatal(err)
	}
	send("ann", "b@elsewhere.example", "250 ")
	if got := r.spool.receipt(t); got.Held != 1 || got.Passed != 0 {
		t.Errorf("%+v", got)
	}
	send("ann", "somebody@inside.example.org", "250 ")
	if got := r.spool.receipt(t); got.Held != 0 || got.Passed != 1 {
		t.Errorf("whom she reaches: %+v", got)
	}
	var left []string
	for _, m := range r.sent() {
		left = append(left, m.to...)
	}
	slices.Sort(left) // to her contact goes the notice
	if want := []string{"a@elsewhere.example", "ann@home.example", "somebody@inside.example.org"}; !slices.Equal(left,
		want) {
		t.Errorf("mail left to %v", left)
	}
}
