package spool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/store"
)

// Bounds of acts on many messages, so that memory and transactions stay small however much mail waits.
const (
	bulkPage    = 200    // messages that are read at once
	bulkMatches = 1000   // messages that one step acts on
	bulkLooks   = 20_000 // messages that one step looks at
)

// A Filter says which messages are meant. What is left out matches everything; of what is given, all must match. Texts
// are compared without regard to upper and lower case.
type Filter struct {
	User      string      // exactly
	Sender    string      // a part of the envelope's sender; <> for messages without one
	Recipient string      // a part of a recipient's address
	Domain    string      // of a recipient, exactly; .example.com also matches what is below
	Subject   string      // a part
	State     store.State // of a recipient; 0: any in which it waits
	Since     time.Time   // received not before
	Before    time.Time   // received before
	Larger    int64       // than so many bytes; 0: any
	Smaller   int64       // than so many bytes; 0: any
}

// Any reports whether the filter says nothing: it matches every message that waits.
func (f *Filter) Any() bool { return *f == (Filter{}) }

// lowered is the filter as texts are compared with.
func (f Filter) lowered() Filter {
	for _, text := range []*string{&f.Sender, &f.Recipient, &f.Domain, &f.Subject} {
		*text = strings.ToLower(*text)
	}
	return f
}

// matches reports whether a message does, apart from its recipients. The filter is lowered.
func (f *Filter) matches(l *store.Message) bool {
	switch {
	case f.User != "" && l.User != f.User,
		f.Sender == "<>" && l.Sender != "",
		f.Sender != "<>" && !strings.Contains(strings.ToLower(l.Sender), f.Sender),
		!strings.Contains(strings.ToLower(l.Subject), f.Subject),
		!f.Since.IsZero() && l.Received.Before(f.Since),
		!f.Before.IsZero() && !l.Received.Before(f.Before),
		f.Larger > 0 && l.Size <= f.Larger,
		f.Smaller > 0 && l.Size >= f.Smaller:
		return false
	}
	return true
}

// addressee reports whether a recipient matches. The filter is lowered.
func (f *Filter) addressee(a *store.Addressee) bool {
	if f.State != 0 && a.State != f.State {
		return false
	}
	if f.Recipient == "" && f.Domain == "" {
		return true
	}
	address := strings.ToLower(a.Address)
	domain := address[strings.LastIndexByte(address, '@')+1:]
	return strings.Contains(address, f.Recipient) &&
		(f.Domain == "" || domain == strings.TrimPrefix(f.Domain, ".") ||
			f.Domain[0] == '.' && strings.HasSuffix(domain, f.Domain))
}

// An Act is what is done to messages that match.
type Act string

const (
	ActRelease Act = "release" // held, delayed, withheld and pooled recipients leave at once
	ActDelete  Act = "delete"  // held, delayed, withheld and pooled recipients are removed; nobody is told
	ActRetry   Act = "retry"   // what waits for another try is tried now
)

// waitsForAct reports whether something can be done to a recipient in bulk. What is on its way out is not deleted.
func waitsForAct(a *store.Addressee) bool { return Waits(a) || a.State == store.Pooled }

// waitsForTry reports whether a recipient waits for another try.
func waitsForTry(now time.Time) func(*store.Addressee) bool {
	return func(a *store.Addressee) bool {
		return a.State == store.Ready && a.Owner == "" && a.Due.After(now)
	}
}

// A Bulk is a part of an act on all messages that match.
type Bulk struct {
	Filter
	Act   Act
	After store.MailID // the Next of the part before
	// UpTo is the last message that is meant. 0 in the first part: those that came since are left alone.
	UpTo store.MailID
	Dry  bool // only count
}

// A BulkResult is what one part of a BulkOrder has done.
type BulkResult struct {
	Mails      int          `json:"messages"`   // that it was done to
	Recipients int          `json:"recipients"` // of them
	UpTo       store.MailID `json:"up_to,omitempty"`
	Next       store.MailID `json:"next,omitempty"` // where the next part begins; left out: there is none
}

// Bulk does a part of an act on all messages that match, and says where the next part begins. Each part is a bounded
// amount of work. If it is interrupted, what was done is done, and the same act may be begun again.
func (d *desk) Bulk(ctx context.Context, now time.Time, by string, b Bulk) (r BulkResult, err error) {
	of := waitsForAct
	v := releaseAny
	switch b.Act {
	case ActRelease:
	case ActDelete:
		v = removeAny
	case ActRetry:
		of = waitsForTry(now)
	default:
		return r, fmt.Errorf("%q is not done to mail: %w", b.Act, store.ErrInvalid)
	}
	f := b.Filter.lowered()
	v.of = func(a *store.Addressee) bool { return of(a) && f.addressee(a) }
	if r.UpTo = b.UpTo; r.UpTo == 0 {
		r.UpTo = d.NewID(now)
	}
	found, next, err := d.match(ctx, &f, v.of, b.After, r.UpTo)
	if err != nil {
		return r, err
	}
	switch {
	case b.Dry:
		r.Mails = len(found)
		for i := range found {
			r.Recipients += found[i].n
		}
	case len(found) > 0:
		ids := make([]store.MailID, len(found))
		for i := range found {
			ids[i] = found[i].id
		}
		if b.Act == ActRetry {
			r.Mails, r.Recipients, err = d.retry(ctx, now, ids, v.of)
		} else {
			r.Mails, r.Recipients, err = d.actOnMany(ctx, now, by, ids, v)
		}
	}
	r.Next = next
	return r, err
}

// matched is a message that matches, and how many of its recipients do.
type matched struct {
	id store.MailID
	n  int
}

// look calls each for messages of a user and in a state, behind one of them, until it returns false. It returns where
// to go on; 0: nowhere.
func (d *desk) look(ctx context.Context, f *Filter, after store.MailID, each func(*store.Queued) bool) (
	next store.MailID, err error,
) {
	for looked := 0; looked < bulkLooks; looked += bulkPage {
		page, err := d.queue.Queue(ctx, store.MessageQuery{User: f.User, State: f.State, After: after}, bulkPage)
		if err != nil {
			return 0, err
		}
		for i := range page {
			if after = page[i].ID; !each(&page[i]) {
				return after, nil
			}
		}
		if len(page) < bulkPage {
			return 0, nil
		}
	}
	return after, nil
}

// match looks for messages behind one of them, up to another one. It returns where to go on; 0: nowhere.
func (d *desk) match(ctx context.Context, f *Filter, of func(*store.Addressee) bool, after, upTo store.MailID) (
	found []matched, next store.MailID, err error,
) {
	past := false
	next, err = d.look(ctx, f, after, func(m *store.Queued) bool {
		past = m.ID > upTo
		if n := countOf(m.To, of); !past && n > 0 && f.matches(&m.Message) {
			found = append(found, matched{m.ID, n})
		}
		return !past && len(found) < bulkMatches
	})
	if past {
		next = 0
	}
	return found, next, err
}

func countOf(to []store.Addressee, of func(*store.Addressee) bool) (n int) {
	for i := range to {
		if of(&to[i]) {
			n++
		}
	}
	return n
}

// Find returns up to limit messages that match, behind one of them, and where to go on; 0: nowhere. It may find fewer
// although there are more.
func (d *desk) Find(ctx context.Context, f Filter, after store.MailID, limit int) (found []store.Queued,
	next store.MailID, err error,
) {
	low := f.lowered()
	wanted := func(a store.Addressee) bool { return low.addressee(&a) }
	next, err = d.look(ctx, &f, after, func(m *store.Queued) bool {
		if low.matches(&m.Message) && slices.ContainsFunc(m.To, wanted) {
			found = append(found, *m)
		}
		return len(found) < limit
	})
	return found, next, err
}
