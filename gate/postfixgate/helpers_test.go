package postfixgate

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/gate"
	"weir/gate/gatetest"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/mail/spool"
	"weir/store"
)

// What the tests of all gates share.
var (
	chainOf = gatetest.Chain
	ended   = gatetest.Ended
)

var epoch = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// question is what a desk was asked.
type question struct {
	ctx           context.Context
	user, sender  string
	recipients    []string
	commit, count bool
}

func (q question) String() string {
	return fmt.Sprintf("%s <%s> to %s, commit %v, count %v", q.user, q.sender, strings.Join(q.recipients, " "),
		q.commit, q.count)
}

// desk judges as a test says, for what the real spool cannot be made to do at the right moment. Its zero value passes
// everything.
type desk struct {
	decide  func(q question) (spool.Verdict, error)
	stopped atomic.Pointer[string] // a user
	free    string                 // a recipient
	flagged error                  // what flagged users are told of anybody new

	mu    sync.Mutex
	asked []question
}

func (d *desk) Decide(ctx context.Context, _ time.Time, _, user, sender string, recipients []string, commit,
	count bool) (spool.Verdict, error) {
	q := question{ctx, user, sender, slices.Clone(recipients), commit, count}
	d.mu.Lock()
	d.asked = append(d.asked, q)
	d.mu.Unlock()
	if d.decide == nil {
		return spool.Verdict{Pass: true}, nil
	}
	return d.decide(q)
}

func (d *desk) Stopped(_, user string) bool {
	who := d.stopped.Load()
	return who != nil && *who == user
}

func (d *desk) Flagged(_, user string) bool { return d.flagged != nil && user == "flagged" }

func (d *desk) Reaches(_ context.Context, _ time.Time, _, _, _, recipient string) error {
	if recipient == "known@example.net" {
		return nil
	}
	return d.flagged
}

func (d *desk) Account(_ context.Context, name string) (store.User, error) {
	if name == "lost" {
		return store.User{}, context.DeadlineExceeded
	}
	return store.User{Name: name}, nil
}
func (d *desk) Free(_ string, _ *store.User, recipient string) bool { return recipient == d.free }

// questions returns what was asked since the last time.
func (d *desk) questions() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, q := range d.asked {
		all = append(all, q.String())
	}
	d.asked = nil
	return all
}

// over makes everything wait.
func over(question) (spool.Verdict, error) { return spool.Verdict{Delayed: 1}, nil }

// observer counts what it is told.
type observer struct {
	connections, failed atomic.Int64

	mu       sync.Mutex
	answered map[Action]int
	bounded  map[string]int
}

func (o *observer) Connections(d int) { o.connections.Add(int64(d)) }
func (o *observer) Failed()           { o.failed.Add(1) }
func (o *observer) Answered(a Action) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(Actions[:], a) {
		panic("an unknown action: " + a)
	}
	o.answered[a]++
}
func (o *observer) Bounded(b string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(BoundNames[:], b) {
		panic("an unknown bound: " + b)
	}
	o.bounded[b]++
}
func (o *observer) bounds(b string) int { o.mu.Lock(); defer o.mu.Unlock(); return o.bounded[b] }
func (o *observer) answers(a Action) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answered[a]
}

// rig is a gate on a real socket, with everything around it in the test's hand.
type rig struct {
	*Gate
	t     testing.TB
	desk  *desk
	clock *clock.Fake
	log   *gatetest.Log
	seen  *observer
}

var theSecret = []byte("the secret of these tests")

func start(t testing.TB, o Options, p Parts) *rig {
	t.Helper()
	r := &rig{t: t, desk: new(desk), clock: clock.NewFake(epoch), log: new(gatetest.Log),
		seen: &observer{answered: map[Action]int{}, bounded: map[string]int{}}}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	before := runtime.NumGoroutine()
	g, err := New(o, p, Env{Env: gate.Env{Clock: r.clock, Log: r.log.Text(slog.LevelDebug)}, Name: "postfix",
		Spool: r.desk, Observer: r.seen,
		Secret: func() []byte { return theSecret }})
	if err != nil {
		t.Fatal(err)
	}
	gatetest.Run(t, g)
	r.Gate = g
	t.Cleanup(func() {
		_ = g.Stop(ended())
		if n, o := g.Open.Load(), r.seen.connections.Load(); n != 0 || o != 0 {
			t.Errorf("%d open (%d observed) after the stop", n, o)
		}
		needs.Wait(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
	})
	return r
}

// client is an smtpd that asks.
type client struct {
	t testing.TB
	net.Conn
	lines *bufio.Reader
}

func (r *rig) dial() *client {
	r.t.Helper()
	c := gatetest.Dial(r.t, r.Addr())
	return &client{r.t, c, bufio.NewReader(c)}
}

// ask sends a request of pairs, as in "sasl_username=ann sender=a@example.com", and returns the action.
func (c *client) ask(pairs string) string {
	c.t.Helper()
	c.send("request=smtpd_access_policy " + pairs)
	action, err := c.answer()
	if err != nil {
		c.t.Fatalf("%s: %v", pairs, err)
	}
	return action
}

// send sends a request of pairs and does not wait.
func (c *client) send(pairs string) {
	c.t.Helper()
	if _, err := c.Write([]byte(strings.Join(strings.Fields(pairs), "\n") + "\n\n")); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) answer() (string, error) {
	line, err := c.lines.ReadString('\n')
	if err != nil {
		return "", err
	}
	action, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "action=")
	if empty, err := c.lines.ReadString('\n'); err != nil || empty != "\n" || !found {
		return "", fmt.Errorf("%q, %q, %v", line, empty, err)
	}
	return action, nil
}

// closed checks that the gate closed the connection without a word.
func (c *client) closed() {
	c.t.Helper()
	if answer, err := c.answer(); err == nil {
		c.t.Fatalf("answered %q, want the end", answer)
	}
}

// want checks that an answer begins as it should.
func want(t testing.TB, got, begin string) {
	t.Helper()
	if got != begin && !strings.HasPrefix(got, begin+" ") {
		t.Errorf("answered %q, want %q", got, begin)
	}
}

// throttle is one that does what a test says, and counts what it holds.
type throttle struct {
	judge func(ev *weir.Event, a *weir.Answer) error

	mu     sync.Mutex
	events []weir.Event
	held   int
	done   int
	bytes  int64
}

func (t *throttle) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, *ev)
	if t.judge != nil {
		if err := t.judge(ev, a); err != nil {
			return err
		}
	}
	if a.Verdict <= weir.Wait {
		a.Hold = weir.Hold{Ref: t, N: 1}
		t.held++
	}
	return nil
}

func (t *throttle) Settle(_ weir.Hold, o weir.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held--
	if o.Done {
		t.done++
	}
}

func (t *throttle) Flow(_ weir.Hold, n int64, _ time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes += n
	return time.Time{}
}

func (t *throttle) Peek(*weir.Event, *weir.Answer) {}
