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
	// The thief gives up when the password is wrong. Between its mails the owner, who knows nothing, writes some too.
	if !t.is(func(t *theft) bool { return !t.shut && (t.taken < mailOwnAt || t.wrote) }) {
		return Nothing
	}
	l, tell := p.newLetter(&t.stolen, "You have won", "Click here.", p.stranger("target")), p.tell[forThief]
	r, err := p.send(ctx, &t.stolen, l, &awaited{theft: t, tell: func(r Result, took time.Duration, at time.Time) {
		t.mu.Lock()
		t.out++
		t.mu.Unlock()
		tell(r, took, at)
	}})
	p.stage.Note(t.heard(r, code(err), time.Now())...)
	return r
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
