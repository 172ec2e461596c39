package smtpgate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/mail/spool"
	"weir/policy"
)

// A transaction is one message, from MAIL to its end.
type transaction struct {
	who    identity // as it was at MAIL
	helo   string
	sender address
	mailParams

	pass    *policy.Pass // what throttles hold for the message as a whole; nil: nothing
	to      []recipient
	named   int  // accepted RCPT commands, some of them for the same recipient
	command bool // it is to the command address alone
	ticket  string
}

// A recipient of a transaction.
type recipient struct {
	spool.To
	normal string
	free   bool         // exempt: not counted
	pass   *policy.Pass // what throttles hold for the recipient; nil: nothing
}

// settle ends what throttles hold. A second call does nothing.
func (tx *transaction) settle(now time.Time, done bool) {
	if tx.pass != nil {
		tx.pass.Settle(weir.Outcome{Time: now, Done: done})
		tx.pass = nil
	}
	for i := range tx.to {
		if p := tx.to[i].pass; p != nil {
			p.Settle(weir.Outcome{Time: now, Done: done})
			tx.to[i].pass = nil
		}
	}
}

// recipients returns those that match, each once, in the form in which they are compared.
func (tx *transaction) recipients(match func(*recipient) bool) (list []string) {
	for i := range tx.to {
		if r := &tx.to[i]; match(r) && !slices.Contains(list, r.normal) {
			list = append(list, r.normal)
		}
	}
	return list
}

// mail begins a transaction.
func (s *session) mail(arg string) {
	switch {
	case s.helo == "":
		s.deny(refuse(MailMalformed, 503, 551, "EHLO first"))
		return
	case s.tx != nil:
		s.refuse(refuse(MailMalformed, 503, 551, "there is a MAIL already"))
		return
	}
	tx, n := s.begin(arg)
	if n != nil {
		s.refuse(n)
		return
	}
	s.tx = tx
	s.answer(reply(250, 210, "OK"))
}

func (s *session) begin(arg string) (*transaction, *no) {
	from, rest, err := parsePath(arg, "FROM:")
	if err != nil || from != "" && !strings.Contains(from, "@") {
		return nil, refuse(MailMalformed, 501, 517, "write MAIL FROM:<name@example.org>")
	}
	p, n := readMailParams(rest)
	if n != nil {
		return nil, n
	}
	if s.who.name == "" && s.setup.command.local == "" {
		return nil, s.stranger()
	}
	if p.size > int64(s.setup.opts.Bounds.Message) {
		return nil, tooLarge(&s.setup.opts.Bounds)
	}
	tx := &transaction{helo: s.helo, mailParams: p}
	if from != "" {
		if tx.sender, err = parseAddress(from, p.utf8); err != nil {
			return nil, badAddress(err, 517)
		}
	}
	if s.who.name == "" { // only for the command address
		return tx, nil
	}
	if n := s.refresh(s.gate.Base); n != nil {
		return nil, n
	}
	if !s.maySend(tx.sender) {
		return nil, refuse(MailSender, 553, 571, "not an address that this user may send from")
	}
	tx.who = s.who
	return tx, nil
}

// stranger refuses a client that may not send.
func (s *session) stranger() *no {
	text := "authentication required"
	if s.setup.opts.Auth == AuthNone {
		return refuse(MailStranger, 550, 571, "no mail is accepted from this address")
	}
	if !s.mayLogIn() {
		text += ", after STARTTLS"
	}
	return refuse(MailStranger, 530, 570, text)
}

func badAddress(err error, enhanced int) *no {
	if errors.Is(err, errUTF8) {
		return refuse(MailMalformed, 553, 567, "an address with letters beyond ASCII needs SMTPUTF8")
	}
	return refuse(MailMalformed, 553, enhanced, "not an address that can be written to")
}

// rcpt adds a recipient.
func (s *session) rcpt(arg string) {
	if s.tx == nil || s.arrival != nil {
		s.early(s.missing())
		return
	}
	// This is not counted as an error: it is how a client learns of the limit (RFC 5321 section 4.5.3.1.10).
	if s.tx.named >= s.setup.opts.Bounds.Recipients {
		s.gate.env.Observer.Bounded(BoundRecipients)
		s.answer(reply(452, 453, fmt.Sprintf("a mail has %d recipients at most: send the others separately",
			s.tx.named)))
		return
	}
	if n := s.add(s.tx, arg); n != nil {
		s.refuse(n)
		return
	}
	s.tx.named++
	s.answer(reply(250, 215, "OK"))
}

func (s *session) add(tx *transaction, arg string) *no {
	to, rest, err := parsePath(arg, "TO:")
	switch {
	case err != nil || to == "":
		return refuse(MailMalformed, 501, 513, "write RCPT TO:<name@example.org>")
	case !strings.Contains(to, "@"):
		to = s.setup.postmaster
	}
	p, n := readRcptParams(rest)
	if n != nil {
		return n
	}
	a, err := parseAddress(to, tx.utf8)
	if err != nil {
		return badAddress(err, 513)
	}
	const another = "this address takes a mail of its own: send it separately"
	ticket, isCommand := s.setup.isCommand(a)
	switch {
	case isCommand && s.gate.env.Commands == nil:
		return refuse(MailStranger, 550, 511, "no commands are taken by mail")
	case isCommand && (len(tx.to) > 0 || tx.command && tx.ticket != ticket),
		!isCommand && tx.command && tx.who.name != "":
		return refuse(MailMalformed, 452, 453, another)
	case isCommand:
		tx.command, tx.ticket = true, ticket
		return nil
	case tx.who.name == "":
		return s.stranger()
	}
	r := recipient{To: spool.To{Address: a.String(), Notify: p.notify, Original: p.original}, normal: a.normal()}
	var like *recipient // counts as the same
	for i := range tx.to {
		switch {
		case sameAddress(tx.to[i].Address, r.Address):
			return nil // one copy is enough
		case like == nil && tx.to[i].normal == r.normal:
			like = &tx.to[i]
		}
	}
	if s.marked(tx) { // the user is in the text, and the other server has asked the throttles
		tx.to = append(tx.to, r)
		return nil
	}
	env := &s.gate.env
	r.free = env.Spool.Free(env.Name, &tx.who.user, r.normal)
	if !r.free {
		if env.Spool.Stopped(env.Name, tx.who.name) {
			return isStopped(&tx.who)
		}
		if env.Spool.Flagged(env.Name, tx.who.name) {
			if err := env.Spool.Reaches(s.gate.Base, s.now(), env.Name, tx.who.name, tx.sender.String(),
				r.Address); err != nil {
				return notTaken(err, &tx.who)
			}
		}
		if like != nil {
			r.After = like.After
		} else if n := s.judgeRecipient(tx, &r); n != nil {
			return n
		}
	}
	tx.to = append(tx.to, r)
	return nil
}

// judgeRecipient puts a recipient before its chain.
func (s *session) judgeRecipient(tx *transaction, r *recipient) (n *no) {
	ev := s.event(tx, []string{r.normal})
	r.After, r.pass, n = s.judge(s.setup.parts.PerRecipient, &ev, "recipients")
	return n
}

// judge puts an event before a chain, and waits if it must. If the event may go on, at once or after a time, the pass
// must be settled. It is nil if the chain is empty. what is the word for requests.
func (s *session) judge(chain *policy.Chain, ev *weir.Event, what string) (after time.Time, pass *policy.Pass, n *no) {
	if chain == nil || len(chain.Links()) == 0 {
		return time.Time{}, nil, nil
	}
	pass = new(policy.Pass)
	chain.Judge(s.gate.Base, ev, pass)
	if pass.Answer.Verdict == weir.Wait {
		after, n = s.wait(pass, what)
	}
	now := s.now()
	if n == nil && pass.Answer.Verdict != weir.Admit {
		if pass.Answer.Ban {
			s.gate.env.Offend(ev, &pass.Answer)
		}
		n = throttled(&pass.Answer, what, now)
	}
	if n != nil {
		pass.Settle(weir.Outcome{Time: now})
		return time.Time{}, nil, n
	}
	pass.Away(now)
	return after, pass, nil
}

// wait holds the answer back until the turn comes. If there is no line but only a time, the message is accepted, and
// goes on after that time.
func (s *session) wait(pass *policy.Pass, what string) (after time.Time, n *no) {
	env := &s.gate.env
	_ = s.conn.flush() // answers to earlier commands need not wait
	env.Observer.Waiting(1)
	defer env.Observer.Waiting(-1)
	ctx, cancel := context.WithCancel(s.gate.Base)
	defer cancel()
	defer env.Clock.AfterFunc(s.setup.opts.Timeouts.Wait.Std(), cancel).Stop()
	for pass.Answer.Verdict == weir.Wait {
		answer := pass.Answer
		line := lineWatch{Context: ctx}
		if pass.Await(&line, env.Clock.Now) != nil {
			n := throttled(&answer, what, s.now()).at(BoundWait)
			n.reply.code = 451
			return time.Time{}, n
		}
		if !line.stood && answer.Until.After(after) {
			after = answer.Until
		}
	}
	if !after.After(s.now()) {
		after = time.Time{}
	}
	return after, nil
}

// A lineWatch is a context that notices a call of Done: then there was a turn to wait for.
type lineWatch struct {
	context.Context
	stood bool
}

// Done notes the call.
func (l *lineWatch) Done() <-chan struct{} {
	l.stood = true
	return l.Context.Done()
}
