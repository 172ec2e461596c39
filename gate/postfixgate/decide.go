package postfixgate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"
	"unicode"
	"unicode/utf8"

	"weir"
	"weir/identify"
	"weir/mail/spool"
	"weir/policy"
)

// markFor is how long a diverted message may take to arrive. Postfix gives up after five days (maximal_queue_lifetime).
const markFor = 6 * 24 * time.Hour

// An inquiry is one request that is being answered.
type inquiry struct {
	gate  *Gate
	setup *setup
	req   *request
	now   time.Time

	user   string
	source netip.Addr
}

// ctx has the deadline for the answer. It is made only when the store is asked: most answers come from memory, and cost
// less than a context.
func (t *inquiry) ctx() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.gate.Base, t.setup.opts.Timeouts.Answer.Std())
}

// judge returns the answer to the request.
func (t *inquiry) judge() answer {
	state := string(t.req.state)
	switch state {
	case "RCPT", "DATA", "BDAT", "END-OF-MESSAGE":
	default:
		return dunno
	}
	ours, ok := t.identify()
	switch {
	case !ours:
		return dunno
	case !ok:
		return t.fail(errUser)
	case state == "RCPT":
		return t.recipient()
	}
	return t.message(state == "END-OF-MESSAGE")
}

var errUser = errors.New("the name of the user is too long, or not text")

// identify sets the user. It reports whether the message is that of a user at all, and whether the name is valid.
func (t *inquiry) identify() (ours, ok bool) {
	t.source = sourceOf(t.req.client)
	if len(t.req.user) > 0 {
		ok = utf8.Valid(t.req.user) && !bytes.ContainsFunc(t.req.user, unicode.IsControl)
		t.user = identify.LogInName(string(t.req.user), t.setup.opts.Realm)
		return true, ok && t.user != "" && len(t.user) <= identify.MaxAccount
	}
	if !t.setup.within(t.source) {
		return false, true
	}
	t.user = identify.AddressUser(t.source)
	return true, true
}

// recipient judges one recipient, and remembers it for the message.
func (t *inquiry) recipient() answer {
	g, q := t.gate, t.req
	if g.arriving.asked(q.instance, q.recipient) {
		return dunno
	}
	if g.env.Spool.Stopped(g.env.Name, t.user) {
		// A stopped user still reaches exempt recipients.
		if v, err := t.decide([]string{string(q.recipient)}, false, false); err != nil {
			return t.fail(err)
		} else if v.Refused {
			return t.setup.stopped
		}
	}
	if g.env.Spool.Flagged(g.env.Name, t.user) {
		if a, err := t.reaches(); err != nil {
			return t.fail(err)
		} else if a.action != "" {
			return a
		}
	}
	settle, refusal := t.perRecipient()
	if refusal.action != "" {
		return refusal
	}
	// A message without an instance cannot be found again. One to a single recipient is judged all the same.
	if len(q.instance) > 0 {
		if err := g.arriving.add(q.instance, q.recipient, t.now, &t.setup.limits); err != nil {
			settle(false)
			return t.bound(err)
		}
	}
	settle(true)
	return dunno
}

// reaches asks whether a flagged user may write to the recipient. The answer is empty if so.
func (t *inquiry) reaches() (answer, error) {
	ctx, cancel := t.ctx()
	defer cancel()
	err := t.gate.env.Spool.Reaches(ctx, t.now, t.gate.env.Name, t.user, string(t.req.sender), string(t.req.recipient))
	if a := refusing(err); a.action != "" {
		return a, nil
	}
	return answer{}, err
}

// perRecipient puts the recipient before the throttles, unless it is exempt.
func (t *inquiry) perRecipient() (settle func(done bool), refusal answer) {
	if t.setup.parts.PerRecipient == nil {
		return settled, answer{}
	}
	g, recipient := t.gate, string(t.req.recipient)
	ctx, cancel := t.ctx()
	defer cancel()
	user, err := g.env.Spool.Account(ctx, t.user)
	if err != nil {
		return nil, t.fail(err)
	}
	if g.env.Spool.Free(g.env.Name, &user, recipient) {
		return settled, answer{}
	}
	return t.throttle(ctx, t.setup.parts.PerRecipient, []string{recipient})
}

// settled settles nothing.
func settled(bool) {}

// throttle puts the message, or one recipient of it, before a chain. It returns the answer if that refuses, and else
// the function that settles.
func (t *inquiry) throttle(ctx context.Context, chain *policy.Chain, recipients []string) (settle func(done bool),
	refusal answer) {
	ev := weir.Event{Time: t.now, Source: t.source, Account: t.user, Kind: KindMail, ID: string(t.req.instance),
		Cost: 1, Bytes: int64(t.req.size),
		Message: &weir.Message{User: t.user, Recipients: recipients}}
	pass := new(policy.Pass)
	chain.Judge(ctx, &ev, pass)
	settle = func(done bool) {
		if done && t.req.size > 0 {
			pass.Flow(int64(t.req.size), t.now)
		}
		pass.Settle(weir.Outcome{Time: t.now, Done: done})
	}
	a := pass.Answer
	if a.Verdict == weir.Admit {
		return settle, answer{}
	}
	settle(false) // Postfix must not wait: a client that comes back later gets its turn
	switch {
	case a.Reason == weir.Failure:
		return nil, failed
	case a.Verdict == weir.Refuse && (a.Reason == weir.Banned || a.Reason == weir.TooCostly):
		return nil, banned
	}
	return nil, limited
}

// message judges a message, once. The answer at its end may follow from the one at DATA.
func (t *inquiry) message(end bool) answer {
	g, q := t.gate, t.req
	if len(q.instance) == 0 {
		if recipients := t.recipients(nil); recipients != nil {
			a, _ := t.whole(recipients, end, false)
			return a
		}
		return t.bound(errUnseen)
	}
	m, a, err := g.arriving.decide(q.instance, end, t.now, &t.setup.limits)
	switch {
	case err != nil:
		return t.bound(err)
	case m == nil:
		return a
	}
	forget, later := true, answer{} // also after a panic
	defer func() { g.arriving.settle(m, forget, later) }()
	recipients := t.recipients(m)
	if recipients == nil {
		return t.bound(errUnseen)
	}
	a, later = t.whole(recipients, end, true)
	forget = end || a.ends()
	return a
}

var errUnseen = errors.New("a recipient that the gate was not asked about")

// recipients returns those of the message, or nil if not all of them are known. One that another restriction of Postfix
// has refused may be among them: Postfix does not tell.
func (t *inquiry) recipients(m *message) []string {
	if len(t.req.recipient) > 0 && t.req.count <= 1 {
		return []string{string(t.req.recipient)}
	}
	if m == nil || m.partial || len(m.recipients) == 0 || len(m.recipients) < t.req.count {
		return nil
	}
	return m.recipients
}

// whole judges a message. It returns the answer for now, and the one at the end of the message. found is false for a
// message that cannot be found again at its end.
func (t *inquiry) whole(recipients []string, end, found bool) (now, later answer) {
	filter := t.setup.over.action == ActionFilter
	settle := settled
	if chain := t.setup.parts.Throttles; chain != nil {
		ctx, cancel := t.ctx()
		defer cancel()
		var refusal answer
		if settle, refusal = t.throttle(ctx, chain, recipients); refusal.action != "" {
			return refusal, dunno
		}
	}
	v, err := t.decide(recipients, true, !filter)
	// A diverted message is judged once more where it arrives, and charged there.
	settle(err == nil && !v.Refused && (v.Pass || t.setup.over.action == ActionHold))
	switch {
	case errors.Is(err, spool.ErrRecipients):
		return tooMany, dunno
	case errors.Is(err, spool.ErrStopped):
		return t.setup.stopped, dunno
	case err != nil:
		return t.fail(err), dunno
	case v.Refused && v.Why != nil:
		return refusing(v.Why), dunno
	case v.Refused:
		return t.setup.stopped, dunno
	case v.Pass:
		return dunno, dunno
	case !filter:
		return t.setup.over, dunno
	}
	instance := string(t.req.instance[:min(len(t.req.instance), identify.MaxMarkedMail)])
	mark := identify.Mark(t.gate.env.Secret(), t.user, instance, t.now.Add(markFor))
	if found && !end && mark != "" {
		return answer{ActionPrepend, identify.MarkHeader + ": " + mark}, t.setup.over
	}
	t.gate.env.Observer.Bounded(BoundUnmarked)
	t.gate.Warn(&t.gate.misled,
		"a mail cannot be diverted because it was not asked about at DATA: smtpd_data_restrictions lacks the "+
			"check_policy_service",
		slog.String("instance", string(t.req.instance)), slog.String("user", t.user))
	return overDefer, dunno
}

func (t *inquiry) decide(recipients []string, commit, count bool) (spool.Verdict, error) {
	ctx, cancel := t.ctx()
	defer cancel()
	return t.gate.env.Spool.Decide(ctx, t.now, t.gate.env.Name, t.user, string(t.req.sender), recipients, commit, count)
}

// bound is the answer when a bound is reached.
func (t *inquiry) bound(err error) answer {
	bound := cmp.Or(bounds[err], BoundUnseen)
	t.gate.env.Observer.Bounded(bound)
	if bound == BoundUnseen {
		t.gate.Warn(&t.gate.misled,
			"a mail has recipients that were not asked about: smtpd_recipient_restrictions lacks the "+
				"check_policy_service, or permits before it", slog.String("instance", string(t.req.instance)),
			slog.Int("recipients", t.req.count), slog.String("user", t.user))
	}
	return t.setup.bounded
}

// fail is the answer when a message cannot be judged.
func (t *inquiry) fail(err error) answer {
	t.gate.env.Observer.Failed()
	t.gate.Warn(&t.gate.failing, "a mail cannot be judged", slog.String("user", t.user), slog.Any("error", err))
	return t.setup.failed
}
