package demo

import (
	"context"
	"fmt"
	"net/mail"
	"sync"
	"time"

	"weir/console"
	"weir/store"
)

// A theft is the story of one stolen account.
type theft struct {
	owner  *writer
	stolen writer // as it was when it was stolen
	began  time.Time

	// trying is held for reading by each try of the thief. To hold it for writing is to know that none is under way.
	trying sync.RWMutex

	mu       sync.Mutex
	taken    int           // mails of the thief
	out      int64         // of those, got out
	stopped  time.Duration // how long after the first the account was stopped; 0: it is not
	shut     bool          // the stolen password is worth nothing any more
	own      []*message    // mails of the owner that were taken
	wrote    bool          // the owner has written what they wanted to
	notice   *notification // that the account is stopped
	told     time.Time     // when that came
	acted    bool          // on it
	answered bool          // by weir
	over     bool          // and all of it was told
}

// receive is called with each mail of weir to the owner, and returns notes about it.
func (t *theft) receive(m *mail.Message, now time.Time) (notes []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch n := readNotification(m); {
	case n == nil: // not the first one, which says that something waits
	case n.answer:
		t.answered = true
	case t.notice == nil:
		t.notice, t.told = n, now
		return append(t.stop(now),
			fmt.Sprintf("%s gets a notice at %s, with a list of what is held, and the address of a page: %s",
				t.owner.name, t.owner.contact, n.link))
	}
	return nil
}

// stop notes that the account is stopped, when something first shows it.
func (t *theft) stop(now time.Time) (notes []string) {
	if t.stopped > 0 {
		return nil
	}
	t.stopped = max(now.Sub(t.began), 1)
	return []string{fmt.Sprintf("After %s the account is stopped: %s of the thief's messages got out, the others are "+
		"held, and new ones are refused.",
		seconds(t.stopped.Seconds()), grouped(t.out))}
}

// spam is what the thief does: write to a new address, with the owner's password.
func (p *post) spam(ctx context.Context) Result {
	return p.try(ctx, p.steal(time.Now()))
}

func (p *post) try(ctx context.Context, t *theft) Result {
	t.trying.RLock()
	defer t.trying.RUnlock()
	// The thief gives up when the password is wrong. Between its mails the owner, who knows nothing, writes some too.
	if !t.is(func(t *theft) bool { return !t.shut && (t.taken < mailOwnAt || t.wrote) }) {
		return Nothing
	}
	l, tell := p.newMessage(&t.stolen, "You have won", "Click here.", p.stranger("target")), p.tell[forThief]
	r, err := p.send(ctx, &t.stolen, l, &awaited{theft: t, tell: func(r Result, took time.Duration, at time.Time) {
		t.mu.Lock()
		t.out++
		t.mu.Unlock()
		tell(r, took, at)
	}})
	p.stage.Note(t.heard(r, code(err), time.Now())...)
	return r
}

// heard notes the answer to the thief, and returns notes about it.
func (t *theft) heard(r Result, code int, now time.Time) (notes []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r == Held:
		t.taken++
	case code == 535 && !t.shut:
		t.shut = true
		return []string{"The thief is told that the password is wrong, and gives up."}
	case code == 550:
		return t.stop(now)
	}
	return nil
}

// is reports whether something is so, under the lock.
func (t *theft) is(so func(*theft) bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return so(t)
}

// finish brings everything to its end: the owner acts on the notice, and all mail has gone that may go.
func (p *post) finish() {
	if t := p.current(); t != nil && p.stage.AtWork() {
		p.finishStory(t)
	}
	p.calm()
	for _, tell := range p.sink.drop(nil) {
		tell(Failed, 0, time.Now())
	}
}

// finishStory does what there was no time for, if the account was stopped.
func (p *post) finishStory(t *theft) {
	ctx := context.Background()
	if !t.is(func(t *theft) bool { return t.stopped > 0 }) || !t.will(func(t *theft) bool { return t.notice != nil }) {
		return
	}
	if t.is(func(t *theft) bool { return !t.acted }) {
		p.act(ctx, t)
	}
	p.try(ctx, t) // the thief may not know yet that it is in vain
	if t.will(func(t *theft) bool { return t.answered }) && t.is(func(t *theft) bool { return !t.over }) {
		p.calm()
		p.conclude(t)
	}
}

// will waits until something is so, as long as patience lasts.
func (t *theft) will(so func(*theft) bool) bool { return until(func() bool { return t.is(so) }) }

// calm waits until all mail has gone that may go.
func (p *post) calm() {
	until(func() bool {
		s, err := p.stage.status()
		return err == nil && s.Mail != nil && s.Mail.Recipients[store.Ready]+s.Mail.Recipients[store.Sending] == 0
	})
}

// until waits for something, as long as patience lasts.
func until(so func() bool) bool {
	for end := time.Now().Add(patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// arrived returns how many of the owner's mails have arrived, and how many arrived again.
func (p *post) arrived(t *theft) (arrived, again int) {
	t.mu.Lock()
	own := t.own
	t.mu.Unlock()
	for _, l := range own {
		n, more := p.sink.copies(l.id)
		arrived, again = arrived+n, again+more
	}
	return arrived, again
}

// deeds are how many mails of an account were deleted and released since it was stolen.
type deeds struct {
	deleted, released int // by the answer of the owner
	visitors          int // released by somebody else: a visitor may take part
}

func (p *post) deeds(t *theft) (d deeds) {
	page, err := console.AuditListCall.Ask(context.Background(), p.stage.control, console.AuditQuery{Limit: maxEntries})
	if err != nil {
		return d
	}
	for _, e := range page.Entries {
		if e.User != t.owner.name || e.At.Before(t.began) {
			continue
		}
		switch answer := e.By == t.owner.name+", by mail"; {
		case e.What == "deleted" && answer:
			d.deleted++
		case e.What == "released" && answer:
			d.released++
		case e.What == "released":
			d.visitors++
		}
	}
	return d
}

// maxEntries is how many entries of the audit log are read: more than one theft leaves there.
const maxEntries = 200

func (p *post) report() *Mail {
	p.mu.Lock()
	t, m := p.theft, &Mail{Late: p.late.Load(), Thefts: int64(p.thefts), SpamOut: p.worst}
	p.mu.Unlock()
	if t == nil {
		return m
	}
	t.report(m)
	if m.Stopped == nil {
		return m
	}
	d := p.deeds(t)
	m.Deleted, m.Released, m.visitors = d.deleted, d.released, p.visitors.Load()
	m.Arrived, m.Again = p.arrived(t)
	if u, err := console.UserShowCall.Ask(context.Background(), p.stage.control,
		console.Name{Name: t.owner.name}); err == nil {
		m.Resumed = !u.Stopped()
	}
	return m
}

func (t *theft) report(m *Mail) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m.SpamOut = max(m.SpamOut, t.out)
	m.SpamHeld, m.Shut = int64(t.taken)-t.out, t.shut
	if t.stopped > 0 {
		after := float64(t.stopped.Milliseconds()) / 1000
		m.Stopped, m.Own = &after, len(t.own)
	}
}
