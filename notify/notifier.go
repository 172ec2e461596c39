package notify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"weir/internal/clock"
)

// Bounds of delivery.
const (
	// MaxWaiting is how many notices wait for a target. Of more, the oldest are dropped.
	MaxWaiting = 1000
	// MaxTogether is how many go in one message.
	MaxTogether = 100
	// tryTime bounds one attempt.
	tryTime = 15 * time.Second
	// Failed attempts are repeated after a second, and after twice as long each time, for a day.
	firstPause, longestPause = time.Second, 5 * time.Minute
	giveUpAfter              = 24 * time.Hour
)

// ErrRefused means that a target did not accept a message.
var ErrRefused = errors.New("it was not accepted")

// Env is what a notifier needs of the rest.
type Env struct {
	Clock clock.Clock
	Log   *slog.Logger
	Node  string // the name of this weir
	// HTTP calls webhooks. Default: a client that follows no redirect.
	HTTP *http.Client
}

// A Notifier tells its targets.
type Notifier struct {
	env     Env
	targets []*target
	ctx     context.Context // ends when everything must be over
	stop    context.CancelFunc
	closing chan struct{} // closed when what waits is tried once more
	working sync.WaitGroup
}

// A sender delivers notices.
type sender interface {
	send(ctx context.Context, id string, now time.Time, all []Notice) error
	close(ctx context.Context)
}

type target struct {
	Target
	sender
	name string
	wake chan struct{} // holds one

	mu      sync.Mutex
	waiting []Notice
	stats   Stats
}

// Stats say how a target does.
type Stats struct {
	Target  string    `json:"target"`
	Waiting int       `json:"waiting"`
	Sent    uint64    `json:"sent"`    // notices that were accepted
	Failed  uint64    `json:"failed"`  // attempts
	Dropped uint64    `json:"dropped"` // notices: too many waited, or they could not be delivered for a day
	Error   string    `json:"error,omitempty"`
	ErrorAt time.Time `json:"error_at,omitzero"`
}

// New returns a notifier for valid options.
func New(o Options, env Env) (*Notifier, error) {
	n := &Notifier{env: env, closing: make(chan struct{})}
	n.ctx, n.stop = context.WithCancel(context.Background())
	for _, t := range o {
		one := &target{Target: t, name: t.String(), wake: make(chan struct{}, 1)}
		one.stats.Target = one.name
		var err error
		if t.Webhook != nil {
			one.sender = newHook(*t.Webhook, env)
		} else {
			one.sender, err = newPost(*t.Mail, env)
		}
		if err != nil {
			n.Close(n.ctx)
			return nil, err
		}
		n.targets = append(n.targets, one)
		n.working.Go(func() { n.work(one) })
	}
	return n, nil
}

// Tell tells all targets that want to know. It does not wait.
func (n *Notifier) Tell(notice Notice) {
	notice.Node, notice.About, notice.Text = n.env.Node, clean(notice.About), clean(notice.Text)
	for _, t := range n.targets {
		if t.wants(notice.Event) {
			t.add(notice)
		}
	}
}

func (t *target) add(notice Notice) {
	t.mu.Lock()
	t.waiting = append(t.waiting, notice)
	if more := len(t.waiting) - MaxWaiting; more > 0 {
		t.waiting = append(t.waiting[:0], t.waiting[more:]...)
		t.stats.Dropped += uint64(more)
	}
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// next returns what goes together next, without taking it away.
func (t *target) next() []Notice {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Notice(nil), t.waiting[:min(len(t.waiting), MaxTogether)]...)
}

// done notes what became of notices that next returned.
func (t *target) done(all []Notice, now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.stats.Failed++
		t.stats.Error, t.stats.ErrorAt = clean(err.Error()), now
		return
	}
	t.stats.Sent += uint64(len(all))
	t.stats.Error, t.stats.ErrorAt = "", time.Time{}
	t.forget(all)
}

// forget takes notices out of the queue. Some of them may have been dropped meanwhile. The lock is held.
func (t *target) forget(all []Notice) {
	last := all[len(all)-1]
	for i, w := range t.waiting[:min(len(t.waiting), len(all))] {
		if w == last {
			t.waiting = append(t.waiting[:0], t.waiting[i+1:]...)
			return
		}
	}
}

// work delivers what waits, until the notifier is closed.
func (n *Notifier) work(t *target) {
	for {
		all := t.next()
		if len(all) == 0 {
			select {
			case <-t.wake:
				continue
			case <-n.closing:
				return
			}
		}
		if !n.deliver(t, all) {
			return
		}
	}
}

// deliver tries until the notices are delivered or too old. It reports whether to go on.
func (n *Notifier) deliver(t *target, all []Notice) bool {
	id, began := newID(), n.env.Clock.Now()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := n.try(n.ctx, t, id, all)
		now := n.env.Clock.Now()
		t.done(all, now, err)
		if err == nil {
			return true
		}
		n.env.Log.Warn("a notice could not be delivered", "target", t.name, "notices", len(all), "err", err)
		if now.Sub(began) >= giveUpAfter {
			t.mu.Lock()
			t.stats.Dropped += uint64(len(all))
			t.forget(all)
			t.mu.Unlock()
			n.env.Log.Error("notices are dropped: they could not be delivered for a day", "target", t.name, "notices", len(all))
			return true
		}
		due := make(chan struct{})
		timer := n.env.Clock.AfterFunc(pause, func() { close(due) })
		select {
		case <-due:
		case <-n.closing:
			timer.Stop()
			return false
		}
	}
}

func (n *Notifier) try(ctx context.Context, t *target, id string, all []Notice) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	return t.send(ctx, id, n.env.Clock.Now(), all)
}

// A Result is what became of a trial.
type Result struct {
	Target string `json:"target"`
	Error  string `json:"error,omitempty"`
}

// Try sends a notice to every target at once, past those that wait, and returns what became of it.
func (n *Notifier) Try(ctx context.Context, by string) []Result {
	results := make([]Result, len(n.targets))
	var all sync.WaitGroup
	notice := Notice{Event: Test, Time: n.env.Clock.Now(), Node: n.env.Node,
		Text: clean(fmt.Sprintf("This is a test that %s asked for. Nothing has happened.", by))}
	for i, t := range n.targets {
		all.Go(func() {
			results[i].Target = t.name
			if err := n.try(ctx, t, newID(), []Notice{notice}); err != nil {
				results[i].Error = clean(err.Error())
			}
		})
	}
	all.Wait()
	return results
}

// Stats returns how the targets do, in their order.
func (n *Notifier) Stats() []Stats {
	all := make([]Stats, len(n.targets))
	for i, t := range n.targets {
		t.mu.Lock()
		all[i] = t.stats
		all[i].Waiting = len(t.waiting)
		t.mu.Unlock()
	}
	return all
}

// Close ends delivery. Until ctx ends, what waits is tried once.
func (n *Notifier) Close(ctx context.Context) {
	close(n.closing)
	stop := context.AfterFunc(ctx, n.stop)
	n.working.Wait()
	stop()
	n.stop()
	for _, t := range n.targets {
		t.close(ctx)
	}
}

func newID() string { return "weir_" + rand.Text() }
