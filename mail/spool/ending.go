package spool

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/shown"
	"weir/mail/bounce"
	"weir/mail/nexthop"
	"weir/store"
)

// An ending is what follows from a delivery.
type ending struct {
	remove  []int
	put     []store.Addressee
	entries []store.Entry

	failed, delayed, relayed []bounce.Recipient // for the sender to know
	narrow                   []store.Addressee  // of failed: the next server has no SMTPUTF8
	kept                     int                // of narrow: held, because the sender could not be told
	told                     bool               // the sender is told

	done, later, refused, ambiguous int
	void                            bool      // the message was removed in the meantime
	again                           bool      // a recipient is tried again at once
	next                            time.Time // when a recipient is tried again
}

// conclude returns what follows from the results of a delivery.
func conclude(j *job, now time.Time) *ending {
	end, conf := &ending{}, j.conf
	for i := range j.to {
		a, r := j.to[i], &j.results[i]
		if r.Outcome == nexthop.Done {
			end.done++
			end.remove = append(end.remove, a.Number)
			if r.Relayed && wants(a.Notify, "SUCCESS") {
				end.relayed = append(end.relayed, told(&a, r, now))
			}
			continue
		}
		a.State, a.Owner = store.Ready, ""
		if (j.gone || j.broken) && r.Outcome != nexthop.Failed {
			a.Due = now // nothing was tried
			end.again = end.again || !j.broken
			end.put = append(end.put, a)
			continue
		}
		if !j.claimed {
			a.Attempt++
		}
		a.Status = status(r)
		switch {
		case r.Outcome == nexthop.Failed:
			end.fail(&a, r, now)
		case r.Outcome == nexthop.Ambiguous:
			end.doubt(conf, &j.message, &a, now, "the next server did not answer")
		case !now.Before(a.Since.Add(conf.GiveUp)):
			given := *r
			given.Status = "4.4.7"
			given.Text = fmt.Sprintf("not delivered in %s; last: %s", span(conf.GiveUp), r.Text)
			end.fail(&a, &given, now)
		default:
			end.retry(conf, &a, now)
			if conf.WarnAfter > 0 && !a.Warned && !now.Before(a.Since.Add(conf.WarnAfter)) {
				a.Warned = true
				if wants(a.Notify, "DELAY") {
					end.delayed = append(end.delayed, told(&a, r, now))
				}
			}
			end.put = append(end.put, a)
		}
	}
	return end
}

func (e *ending) fail(a *store.Addressee, r *nexthop.Result, now time.Time) {
	e.refused++
	e.remove = append(e.remove, a.Number)
	if !wants(a.Notify, "FAILURE") {
		return
	}
	e.failed = append(e.failed, told(a, r, now))
	if r.Code == 0 && r.Status == nexthop.StatusUTF8 {
		e.narrow = append(e.narrow, *a)
	}
}

// keep holds the recipients that need SMTPUTF8, if the bounce cannot be delivered either. why says why the sender
// cannot be told.
func (e *ending) keep(l *store.Message, why string, now time.Time) {
	for _, a := range e.narrow {
		e.remove = slices.DeleteFunc(e.remove, func(number int) bool { return number == a.Number })
		e.failed = slices.DeleteFunc(e.failed, func(r bounce.Recipient) bool { return r.Address == a.Address })
		a.State, a.Due = store.Held, time.Time{}
		e.put = append(e.put, a)
		e.entries = append(e.entries, entry(now, weirItself, "held", l.User, l.ID,
			fmt.Sprintf("%s: %s; nobody could be told, as %s", a.Address, a.Status, why)))
	}
	e.kept = len(e.narrow)
	e.refused -= e.kept
}

// retry sets when a recipient is tried again. The last time is when it is given up.
func (e *ending) retry(conf *Gate, a *store.Addressee, now time.Time) {
	e.later++
	a.Due = now.Add(conf.Retries[min(max(a.Attempt, 1), len(conf.Retries))-1])
	if last := a.Since.Add(conf.GiveUp); a.Due.After(last) && last.After(now) {
		a.Due = last
	}
	e.next = earlier(e.next, a.Due)
}

// doubt is for a recipient that may or may not have the message. Messages of weir itself are sent again.
func (e *ending) doubt(conf *Gate, l *store.Message, a *store.Addressee, now time.Time, why string) {
	e.ambiguous++
	what := "it is sent again"
	a.State, a.Owner = store.Ready, ""
	if conf.Ambiguous == Hold && !l.Own {
		what = "it is held"
		a.State, a.Due = store.Held, time.Time{}
		a.Status = shown.Cut("it may have been delivered: "+why, store.MaxStatus)
	} else {
		e.retry(conf, a, now)
		e.later--
	}
	e.put = append(e.put, *a)
	e.entries = append(e.entries, entry(now, weirItself, "ambiguous", l.User, l.ID,
		fmt.Sprintf("%s, attempt %d: %s; %s", a.Address, a.Attempt, why, what)))
}

// wants reports whether a sender wants to know of something (RFC 3461 section 4.1): by default of failures and delays.
func wants(notify, what string) bool {
	if notify == "" {
		return what != "SUCCESS"
	}
	return slices.ContainsFunc(strings.Split(notify, ","),
		func(word string) bool { return strings.EqualFold(strings.TrimSpace(word), what) })
}

func told(a *store.Addressee, r *nexthop.Result, now time.Time) bounce.Recipient {
	return bounce.Recipient{Address: a.Address, Original: a.Original, Status: r.Status, Code: r.Code, Text: r.Text,
		Server: r.Server, Last: now}
}

func span(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 1 {
		return fmt.Sprintf("%d days", days)
	}
	return d.Round(time.Minute).String()
}

// store stores what weir writes because of a delivery, and what the audit log says of it.
func (end *ending) store(tx store.MailTx, own []*ownMessage) error {
	for _, o := range own {
		if err := tx.PutMessage(o.message, o.text, []store.Addressee{o.to}); err != nil {
			return err
		}
	}
	return logAll(tx, end.entries)
}

// discard gives up texts of messages that were not stored.
func discard(own []*ownMessage) {
	for _, o := range own {
		o.staged.Discard()
	}
}
