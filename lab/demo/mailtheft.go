package demo

import (
	"context"
	"fmt"
	"net/mail"
	"sync"
	"time"
)

// A theft is the story of one stolen account.
type theft struct {
	owner  *writer
	stolen writer // as it was when it was stolen
	began  time.Time

	// trying is held by each try of the thief: whoever holds it alone knows that none is under way.
	trying sync.RWMutex

	mu       sync.Mutex
	taken    int           // mails of the thief
	out      int64         // of those, got out
	stopped  time.Duration // how long after the first the account was stopped; 0: it is not
	shut     bool          // the stolen password is worth nothing any more
	own      []*letter     // mails of the owner that were taken
	wrote    bool          // the owner has written what they wanted to
	notice   *notification // that the account is stopped
	told     time.Time     // when that came
	acted    bool          // on it
	answered bool          // by weir
	over     bool          // and all of it was told
}

func newTheft(owner *writer, now time.Time) *theft {
	return &theft{owner: owner, stolen: *owner, began: now}
}

// past reports whether another account may be stolen: in a half with an open end, one in each round.
func (t *theft) past(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over && now.Sub(t.began) > round*8/10
}

// receive is called with each mail of weir's to the owner, and returns what is worth telling about it.
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

// stop notes that the account is stopped, by whatever shows it first.
func (t *theft) stop(now time.Time) (notes []string) {
	if t.stopped > 0 {
		return nil
	}
	t.stopped = max(now.Sub(t.began), 1)
	return []string{fmt.Sprintf("After %s the account is stopped: %s of the thief's mails got out, the others are "+
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
	if !t.mayTry() {
		return Nothing
	}
	l, tell := p.newLetter(&t.stolen, "You have won", "Click here.", p.stranger("target")), p.tell[forThief]
	r, err := p.send(ctx, &t.stolen, l, &awaited{theft: t, tell: func(r Result, took time.Duration, at time.Time) {
		t.gotOut()
		tell(r, took, at)
	}})
	p.stage.Note(t.heard(r, code(err), time.Now())...)
	return r
}

// mayTry reports whether the thief goes on. They give up when the password is wrong. The owner, who knows of nothing,
// writes some mails in between, before it is too late for that.
func (t *theft) mayTry() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.shut && (t.taken < mailOwnAt || t.wrote)
}

func (t *theft) gotOut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.out++
}

// heard notes what the thief was told, and returns what is worth telling about it.
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

// is reports whether something is so.
func (t *theft) is(so func(*theft) bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return so(t)
}
