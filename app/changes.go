package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/console"
	"weir/internal/shown"
	"weir/store"
)

// changes are the last things that were done to weir, or that it did by itself. They are kept in memory: what is about
// mail and users is read from the audit log.
type changes struct {
	mu   sync.Mutex
	last ring[console.Change]
}

// byWeir is who did what happened by itself.
const byWeir = "weir"

// byOperator is who acted over the control socket, which tells no more about them.
const byOperator = "operator"

func (c *changes) note(at time.Time, by, what, on, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.put(console.Change{At: at, By: by, What: what, On: cutText(on), Text: cutText(text)}, console.MaxChanges)
}

// maxChangeText is how many bytes of a text are kept.
const maxChangeText = 256

func cutText(text string) string { return shown.Line(text, maxChangeText, "…") }

// all returns what is kept, the latest first.
func (c *changes) all() []console.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.last.all()
	slices.Reverse(all)
	return all
}

// changed notes something that was done now.
func (a *App) changed(by, what, on, text string) {
	a.changes.note(a.opts.Clock.Now(), by, what, on, text)
}

// lastChanges returns the last changes, those in the audit log too, the latest first.
func (b backend) lastChanges(most int) []console.Change {
	all := b.changes.all()
	for _, e := range b.audited(most) {
		all = append(all, console.Change{At: e.At, By: e.By, What: e.What, On: e.User, Text: cutText(e.Text)})
	}
	slices.SortStableFunc(all, func(a, b console.Change) int { return b.At.Compare(a.At) })
	return all[:min(len(all), most)]
}

// audited is the end of the audit log, or nothing where there is none, or it cannot be read in time.
func (b backend) audited(most int) []store.Entry {
	m := b.Mail()
	if m == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), auditPatience)
	defer cancel()
	entries, err := m.Audit(ctx, 0, most)
	if err != nil {
		return nil
	}
	return entries
}

// auditPatience is how long an overview waits for the audit log.
const auditPatience = 500 * time.Millisecond

// A ring keeps the latest of what is put into it.
type ring[T any] struct {
	kept []T
	next int // where the oldest is, once it is full
}

// put adds a value, in the place of the oldest where there are as many as there may be.
func (r *ring[T]) put(v T, most int) {
	if r.kept == nil {
		r.kept = make([]T, 0, most)
	}
	if len(r.kept) < most {
		r.kept = append(r.kept, v)
		return
	}
	r.kept[r.next] = v
	r.next = (r.next + 1) % most
}

// all returns what is kept, the oldest first.
func (r *ring[T]) all() []T { return slices.Concat(r.kept[r.next:], r.kept[:r.next]) }
