package smtpgate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"weir"
	"weir/mail/spool"
	"weir/store"
)

// A no is an answer that refuses something.
type no struct {
	how   string // one of the Mail names, for the observer
	reply *answer
	bound string // at which it was refused, or empty
	cause error  // for the log
}

func (n *no) at(bound string) *no {
	n.bound = bound
	return n
}

// An answer is one line: a code of RFC 5321, one of RFC 3463, and a text.
type answer struct {
	code, enhanced int
	text           string
}

// reply makes an answer: 550 and 571 are "550 5.7.1", 523 and 5710 are "523 5.7.10". 0 is no enhanced code.
func reply(code, enhanced int, text string) *answer { return &answer{code, enhanced, text} }

// String is the line, without its end.
func (a *answer) String() string {
	if a.enhanced == 0 {
		return fmt.Sprintf("%d %s", a.code, a.text)
	}
	split := 10
	if a.enhanced >= 1000 {
		split = 100
	}
	return fmt.Sprintf("%d %d.%d.%d %s", a.code, a.enhanced/split/10, a.enhanced/split%10, a.enhanced%split, a.text)
}

func refuse(how string, code, enhanced int, text string) *no {
	return &no{how: how, reply: reply(code, enhanced, text)}
}

// throttled refuses a message or a recipient that a throttle does not admit.
func throttled(a *weir.Answer, what string, now time.Time) *no {
	code, enhanced := 450, 471
	switch a.Reason {
	case weir.TooCostly, weir.Banned, weir.Forged, weir.Replayed, weir.NoAccount, weir.NoSource:
		code, enhanced = 550, 571
	case weir.Failure:
		code, enhanced = 451, 430
	}
	return refuse(MailThrottled, code, enhanced, explain(a, what, now, code/100 == 5))
}

// explain says in a line which limit a message has reached. what is the word for requests.
func explain(a *weir.Answer, what string, now time.Time, never bool) string {
	var b strings.Builder
	shared := ""
	if a.Reason == weir.SharedLimit {
		shared = " shared by new accounts,"
	}
	switch {
	case a.Verdict == weir.Challenge:
		b.WriteString("a stamp is asked for")
	case a.Reason == weir.Failure:
		b.WriteString("it cannot be decided right now whether this may pass")
	case a.Reason == weir.Banned:
		b.WriteString("no mail is accepted from this client")
	case a.Reason == weir.Overload:
		b.WriteString("the server has no room for this right now")
	case a.Limit > 0 && a.Unit == "bytes":
		fmt.Fprintf(&b, "over the limit%s of %s", shared, weir.Size(a.Limit))
	case a.Limit > 0:
		unit := a.Unit
		if unit == "requests" {
			unit = what
		}
		fmt.Fprintf(&b, "over the limit%s of %d %s", shared, a.Limit, unit)
	default:
		b.WriteString("over a limit")
	}
	if a.Limit > 0 && a.Window > 0 {
		fmt.Fprintf(&b, " per %s", a.Window)
	}
	if rule := strings.Trim(a.By+"/"+a.Rule, "/"); rule != "" {
		fmt.Fprintf(&b, " (%s)", rule)
	}
	if wait := a.Until.Sub(now); !never && !a.Until.IsZero() && wait > 0 {
		fmt.Fprintf(&b, ", come back in %s", weir.Duration(max(wait.Round(time.Second), time.Second)))
	}
	return oneLine(b.String(), 400)
}

// oneLine makes a text fit into an answer: printable ASCII, and not too long.
func oneLine(text string, most int) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return clean[:min(len(clean), most)]
}

// notTaken refuses a message that the spool did not accept.
func notTaken(err error, who *identity) *no {
	var n *no
	refusal, known := errors.AsType[*spool.Refusal](err)
	switch {
	case errors.Is(err, spool.ErrStopped):
		return isStopped(who)
	case known:
		if n = refuse(MailFlagged, 550, 571, refusal.Text); refusal.Later {
			n = refuse(MailFlagged, 450, 471, refusal.Text)
		}
		if errors.Is(err, spool.ErrNulls) {
			n.how = MailThrottled
		}
		return n
	case errors.Is(err, spool.ErrUnpaid):
		return unpaid()
	case errors.Is(err, store.ErrCrowded):
		n = refuse(MailFull, 452, 431, "no more stamps can be taken, try again later")
	case errors.Is(err, spool.ErrRecipients):
		n = refuse(MailThrottled, 550, 553, "too many recipients for one mail").at(BoundRecipients)
	case errors.Is(err, spool.ErrQueue):
		n = refuse(MailFull, 452, 431, "too much of your mail waits already, try again later")
	case errors.Is(err, store.ErrFull):
		n = refuse(MailFull, 452, 431, "there is no room to store the mail, try again later")
	case errors.Is(err, store.ErrTooLarge):
		n = refuse(MailTooLarge, 552, 534, "the mail is too large to store")
	default:
		n = refuse(MailFailed, 451, 430, "the mail could not be stored, try again later")
	}
	n.cause = err
	return n
}

// isStopped refuses a stopped user. A client that is known by its address may be a server that would return the message
// after a permanent refusal.
func isStopped(who *identity) *no {
	text := spool.ErrStopped.Text
	if !who.authenticated {
		return refuse(MailStopped, 450, 471, text)
	}
	return refuse(MailStopped, 550, 571, text)
}
