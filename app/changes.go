package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/console"
	"weir/identify"
	"weir/internal/shown"
	"weir/store"
)

// changes are the last things that weir did by itself, or that a signal made it do. They are kept in memory. What
// people did is in the audit log.
type changes struct {
	mu     sync.Mutex
	last   ring[console.Change]
	banned int // how many networks the latest change stands for, if it is a ban
}

// byWeir is who did what happened by itself.
const byWeir = "weir"

func (c *changes) note(at time.Time, by, what, on, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.put(console.Change{At: at, By: by, What: what, On: cutText(on), Text: cutText(text)}, console.MaxChanges)
}

// noteBan notes that weir has banned a network by itself. A flood may have it ban very many: those that follow one
// another within sameFlood are one change, so that the others can still be seen.
func (c *changes) noteBan(at time.Time, who, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if latest := c.last.latest(); latest != nil && latest.What == autoBanned && at.Sub(latest.At) <= sameFlood {
		c.banned++
		latest.At, latest.On = at, who
		latest.Text = cutText(fmt.Sprintf("%s; and %d more just before", why, c.banned-1))
		return
	}
	c.banned = 1
	c.last.put(console.Change{At: at, By: byWeir, What: autoBanned, On: who, Text: cutText(why)}, console.MaxChanges)
}

const (
	autoBanned = "banned" // what a change is when a network stayed over a limit
	sameFlood  = time.Minute
)

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

// changed notes something that happened now.
func (a *App) changed(what, text string) { a.changes.note(a.opts.Clock.Now(), byWeir, what, "", text) }

// lastChanges returns the last changes, those in the audit log too, the latest first.
func (b backend) lastChanges(most int) []console.Change {
	all := b.changes.all()
	ctx, cancel := context.WithTimeout(context.Background(), auditPatience)
	defer cancel()
	entries, err := b.Entries(ctx, store.EntryQuery{}, most)
	if err != nil { // there is no store yet, or it is busy: what is in memory is shown
		entries = nil
	}
	for _, e := range entries {
		all = append(all, changeOf(&e))
	}
	slices.SortStableFunc(all, func(a, b console.Change) int { return b.At.Compare(a.At) })
	return all[:min(len(all), most)]
}

// changeOf is an entry of the audit log as people read it. Acts on accounts name them: they may be secrets, and are
// shown as in the access log.
func changeOf(e *store.Entry) console.Change {
	c := console.Change{At: e.At, By: e.By, What: e.What, On: cutText(e.User), Text: cutText(e.Text)}
	var in struct {
		Who, Reason string
		Throttles   []string
		All, On     bool
	}
	switch {
	case strings.HasPrefix(e.What, "account"):
		c.On, c.Text = "account "+identify.Mask(e.User), ""
	case !strings.HasPrefix(e.Text, "{") || json.Unmarshal([]byte(e.Text), &in) != nil:
	case strings.HasPrefix(e.What, "shadow"):
		if c.What = "shadow-off"; in.On {
			c.What = "shadow-on"
		}
		if c.On, c.Text = cutText(strings.Join(in.Throttles, ", ")), ""; in.All {
			c.On = "all throttles"
		}
	case strings.HasPrefix(e.What, "ban"):
		if c.On, c.Text = cutText(in.Who), cutText(in.Reason); in.Who == "" {
			c.On = cutText(e.User)
		} else if key, err := store.ParseBanKey(in.Who); err == nil {
			c.On = logged(key)
		}
	}
	return c
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

// latest is what was put last: nil when there is nothing.
func (r *ring[T]) latest() *T {
	if len(r.kept) == 0 {
		return nil
	}
	return &r.kept[(r.next+len(r.kept)-1)%len(r.kept)]
}

// all returns what is kept, the oldest first.
func (r *ring[T]) all() []T { return slices.Concat(r.kept[r.next:], r.kept[:r.next]) }
