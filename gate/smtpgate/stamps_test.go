package smtpgate

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/mail/spool"
	"weir/store"
	"weir/throttle/stamp"
)

// stampedGate is a gate that takes stamps, of which so many operations are asked.
func stampedGate(t *testing.T, o stamp.MailOptions, s Stamping, throttles ...weir.Throttle) (*rig, *stamp.MailIssuer) {
	t.Helper()
	d, err := stamp.NewMailIssuer(o, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, func(r *rig) {
		r.opts.Stamps, r.parts.Stamps = &s, wiring{d, r.spool}
		r.parts.Throttles = chainOf(t, throttles...)
	}), d
}

// paid is a mail to a recipient with a stamp made under parameters.
func paid(t *testing.T, p stamp.MailParams, to string) string {
	t.Helper()
	const body = "hello\r\n"
	s, err := stamp.MailStamp(t.Context(), p, stamp.MailBinding{Message: stamp.BodyID([]byte(body)), Recipient: to},
		stamp.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stamp.FoldMailHeader(s) + "Subject: x\r\n\r\n" + body
}

// TestAStampOfMailThatIsNotTaken stays good: whether the store fails, a throttle refuses, or the connection breaks.
func TestAStampOfMailThatIsNotTaken(t *testing.T) {
	t.Parallel()
	var refuses atomic.Bool
	r, d := stampedGate(t, stamp.MailOptions{Work: 64}, Stamping{Required: true},
		&throttle{judge: func(_ *weir.Event, a *weir.Answer) error {
			if refuses.Load() {
				a.Verdict, a.Reason = weir.Refuse, weir.OverLimit
			}
			return nil
		}})
	text := paid(t, d.Params(r.clock.Now()), "bob@example.com")
	c := r.as("ann")
	refuses.Store(true)
	c.mail("ann@example.org", "bob@example.com", text, "450 ")
	refuses.Store(false)
	broken := errors.New("the disk is on fire")
	r.spool.fail.Store(&broken)
	c.mail("ann@example.org", "bob@example.com", text, "451 ")
	r.spool.fail.Store(nil)
	lost := r.as("ann")
	for _, line := range []string{"MAIL FROM:<ann@example.org>", "RCPT TO:<bob@example.com>"} {
		lost.cmd(line, "250 ")
	}
	lost.cmd("DATA", "354 ")
	lost.send(text) // all of it but the end
	lost.conn.Close()
	c.mail("ann@example.org", "bob@example.com", text, "250 ")
	c.mail("ann@example.org", "bob@example.com", text, "550 5.7.1 a stamp is required")
}

// TestTwoWithOneStamp: both are found good before either is taken, and one is.
func TestTwoWithOneStamp(t *testing.T) {
	t.Parallel()
	r, d := stampedGate(t, stamp.MailOptions{Work: 64}, Stamping{Required: true})
	text := paid(t, d.Params(r.clock.Now()), "bob@example.com")
	var both sync.WaitGroup
	both.Add(2)
	r.spool.before = func() { both.Done(); both.Wait() }
	answers := make(chan string, 2)
	for range 2 {
		c := r.as("ann")
		c.cmd("MAIL FROM:<ann@example.org>", "250 ")
		c.cmd("RCPT TO:<bob@example.com>", "250 ")
		c.cmd("DATA", "354 ")
		go func() {
			c.send(text + ".\r\n")
			answer, _ := c.reply()
			answers <- answer[:min(3, len(answer))]
		}()
	}
	if one, other := <-answers, <-answers; one+other != "250550" && one+other != "550250" {
		t.Errorf("%s and %s", one, other)
	}
}

// TestThePriceFollowsTheLoad: what EHLO says rises with what there is to deliver; the price before is good for a while.
func TestThePriceFollowsTheLoad(t *testing.T) {
	t.Parallel()
	o := stamp.MailOptions{Work: 64, Schedule: []stamp.Step{{Load: 0.5, Work: 256}}}
	r, d := stampedGate(t, o, Stamping{Required: true, FromLoad: 9})
	c := r.as("ann")
	asked := func() stamp.MailParams {
		t.Helper()
		for line := range strings.Lines(c.cmd("EHLO x", "250 ")) {
			if text, ok := strings.CutPrefix(line, "250-X-WEIR-STAMP "); ok {
				p, err := stamp.ReadMailParams(strings.NewReader(text))
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
		}
		t.Fatal("nothing is announced")
		return stamp.MailParams{}
	}
	before := asked()
	r.spool.load.Store(50)
	risen := asked()
	if before.Work != 64 || risen.Work != 256 || d.Params(r.clock.Now()) != risen {
		t.Fatalf("%+v, then %+v", before, risen)
	}
	c = r.as("ann")
	c.mail("ann@example.org", "bob@example.com", paid(t, before, "bob@example.com"), "250 ")
	r.clock.Leap(stamp.MailGrace - time.Second)
	c = r.as("ann")
	c.mail("ann@example.org", "bob@example.com", paid(t, before, "bob@example.com"), "250 ")
	r.clock.Leap(time.Second)
	c = r.as("ann")
	c.mail("ann@example.org", "bob@example.com", paid(t, before, "bob@example.com"), "550 5.7.1 a stamp is required")
	c.mail("ann@example.org", "bob@example.com", paid(t, risen, "bob@example.com"), "250 ")
	r.spool.load.Store(0)
	c.mail("ann@example.org", "bob@example.com", paid(t, risen, "bob@example.com"), "250 ") // more than is asked
	c.mail("ann@example.org", "bob@example.com", paid(t, before, "bob@example.com"), "250 ")
}

// wiring is how stamps are wired.
type wiring struct {
	*stamp.MailIssuer
	spool *watched
}

func (d wiring) Announce(now time.Time, load weir.Share) string {
	d.Observe(now, load)
	text, _ := d.Params(now).MarshalJSON()
	return "X-WEIR-STAMP " + string(text)
}

func (d wiring) Digest() Digest { return stamp.NewBodyDigest() }

func (d wiring) Verify(ctx context.Context, now time.Time, load weir.Share, stamps []string, bodyID string,
	recipients []string) (good []spool.Stamp, forged bool) {
	d.Observe(now, load)
	receipts, errs := d.LookEach(ctx, now, stamps, stamp.MailBinding{Message: bodyID}, recipients,
		func(ctx context.Context, n stamp.Nonce) (bool, error) {
			return d.spool.Spent(ctx, store.StampNonce(n))
		})
	for i, err := range errs {
		good, forged = append(good, spool.Stamp{Nonce: store.StampNonce(receipts[i].Nonce),
			Until: receipts[i].Expires}), forged || errors.Is(err, stamp.ErrWrong)
		if err != nil {
			good[i] = spool.Stamp{}
		}
	}
	return good, forged
}
