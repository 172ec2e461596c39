package demo

import (
	"context"
	"time"

	"weir/store"
)

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

// deeds are to how many mails of an account something was done since it was stolen.
type deeds struct {
	deleted, released int // by the answer of the owner
	visitors          int // released by somebody else: a visitor may take part
}

// deeds reads the audit log.
func (p *post) deeds(t *theft) (d deeds) {
	page, err := p.stage.control.Audit(context.Background(), 0, maxEntries)
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

// maxEntries is how much of the audit log is looked at: more than one theft leaves there.
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
	if u, err := p.stage.control.User(context.Background(), t.owner.name); err == nil {
		m.Resumed = !u.Stopped()
	}
	return m
}

// report adds what became of a theft.
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
