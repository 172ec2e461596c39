package spool

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/clock"
	"weir/mail/nexthop"
	"weir/mail/notice"
	"weir/store"
	"weir/store/sqlite"
	"weir/throttle/outbreak"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

const (
	gateName  = "out"
	ann       = "ann"
	contact   = "ann@home.example"
	admin     = "admin@example.org"
	commandTo = "weir@mail.example.org"
)

// A carrier takes mails like a server would, and notes them.
type carrier struct {
	mu     sync.Mutex
	taken  []handed
	tries  int
	answer func(j *nexthop.Job, r nexthop.Recipient) nexthop.Result // nil: everything is taken
	before func(ctx context.Context, j *nexthop.Job)                // is called before the final dot
	after  func(ctx context.Context, j *nexthop.Job)                // … and after it
	done   chan struct{}                                            // gets something for each mail; nil: it does not
}

type handed struct{ id, sender, to, text string }

func (c *carrier) Deliver(ctx context.Context, j *nexthop.Job) []nexthop.Result {
	c.mu.Lock()
	c.tries++
	answer, before, after := c.answer, c.before, c.after
	c.mu.Unlock()
	later := func(err error) []nexthop.Result {
		return slices.Repeat([]nexthop.Result{{Outcome: nexthop.Later, Status: "4.3.0", Text: err.Error()}},
			len(j.Recipients))
	}
	r, err := j.Open()
	if err != nil {
		return later(err)
	}
	text, err := io.ReadAll(r)
	r.Close()
	if err != nil {
		return later(err)
	}
	results := make([]nexthop.Result, len(j.Recipients))
	committed := false
	for i, to := range j.Recipients {
		if answer != nil {
			results[i] = answer(j, to)
		}
		committed = committed || results[i].Outcome == nexthop.Done || results[i].Outcome == nexthop.Ambiguous
	}
	if before != nil {
		before(ctx, j)
		if err := ctx.Err(); err != nil {
			return later(err)
		}
	}
	if committed {
		if err := j.Committed(); err != nil {
			return later(err)
		}
	}
	if after != nil {
		after(ctx, j)
	}
	c.mu.Lock()
	for i, to := range j.Recipients {
		if results[i].Outcome == nexthop.Done {
			c.taken = append(c.taken, handed{j.ID, j.Sender, to.Address, string(text)})
		}
	}
	done := c.done
	c.mu.Unlock()
	if done != nil {
		done <- struct{}{}
	}
	return results
}

func (c *carrier) set(f func(*carrier)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

// to returns what was delivered to an address.
func (c *carrier) to(address string) (list []handed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.taken {
		if d.to == address {
			list = append(list, d)
		}
	}
	return list
}

// theirs counts what was delivered to others than the contact and the admin.
func (c *carrier) theirs() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.taken {
		if d.to != contact && d.to != admin {
			n++
		}
	}
	return n
}

func answers(outcome nexthop.Outcome, code int, status, text string) func(*nexthop.Job,
	nexthop.Recipient) nexthop.Result {
	return func(*nexthop.Job, nexthop.Recipient) nexthop.Result {
		return nexthop.Result{Outcome: outcome, Code: code, Status: status, Text: text, Server: "mx.example.net:25"}
	}
}

// counts is an observer that counts.
type counts struct {
	Nobody
	mu                                                                                             sync.Mutex
	delivered, deferred, failed, bounced, ambiguous, stopped, resumed, released, deleted, accepted int
	expired, reminded                                                                              int
	bounds                                                                                         map[string]int
}

func (c *counts) add(n *int, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n += by
}

func (c *counts) Accepted(string, string, Receipt)           { c.add(&c.accepted, 1) }
func (c *counts) Delivered(_ string, n int, _ time.Duration) { c.add(&c.delivered, n) }
func (c *counts) Deferred(_ string, n int)                   { c.add(&c.deferred, n) }
func (c *counts) Failed(_ string, n int)                     { c.add(&c.failed, n) }
func (c *counts) Bounced(string)                             { c.add(&c.bounced, 1) }
func (c *counts) Ambiguous(_ string, n int)                  { c.add(&c.ambiguous, n) }
func (c *counts) Stopped(string)                             { c.add(&c.stopped, 1) }
func (c *counts) Resumed(string)                             { c.add(&c.resumed, 1) }
func (c *counts) Released(n int)                             { c.add(&c.released, n) }
func (c *counts) Expired(_ string, n int)                    { c.add(&c.expired, n) }
func (c *counts) Reminded(string)                            { c.add(&c.reminded, 1) }
func (c *counts) Deleted(n int)                              { c.add(&c.deleted, n) }
func (c *counts) Bounded(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bounds == nil {
		c.bounds = map[string]int{}
	}
	c.bounds[name]++
}

func (c *counts) get(n *int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return *n
}

func (c *counts) bound(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bounds[name]
}

// A rig is a spool on a real store.
type rig struct {
	testing.TB
	*Spool
	store   *sqlite.Store
	folder  string
	clock   *clock.Fake
	carrier *carrier
	seen    *counts
	gate    Gate
	opts    Options
	shadow  bool
	signer  *notice.Signer

	configured func() // further things to configure before the start; nil: none
}

var secret = []byte("0123456789abcdef0123456789abcdef")

func newRig(t testing.TB, change ...func(*rig)) *rig {
	t.Helper()
	r := &rig{TB: t, folder: t.TempDir(), clock: clock.NewFake(start), carrier: &carrier{}, seen: &counts{},
		signer: notice.NewSigner(secret)}
	r.gate = Gate{Name: gateName, TellAfter: -1, RemindAfter: -1, Throttle: "outgoing",
		Mail:   &outbreak.Options{Internal: []string{"internal.example"}, Free: []string{"support@example.org"}},
		Shadow: func() bool { return r.shadow }, Carrier: r.carrier, Connections: 4, Host: "mail.example.org",
		Admin: admin, Command: commandTo,
		PageURL: func(ticket string) string { return "https://mail.example.org/held/" + ticket }}
	r.opts = Options{Clock: r.clock, Observer: r.seen, Secret: secret, Signer: r.signer, Owner: "first"}
	if testing.Verbose() {
		r.opts.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	for _, f := range change {
		f(r)
	}
	r.open()
	r.user(store.User{Name: ann, Contact: contact, Senders: []string{"ann@example.org"}})
	return r
}

// open opens the store, and a spool on it.
func (r *rig) open() {
	r.Helper()
	var err error
	if r.store, err = sqlite.Open(r.Context(), sqlite.Options{Folder: r.folder}); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { r.store.Close() })
	r.opts.Store = r.store.Mail()
	if r.Spool, err = New(r.opts); err != nil {
		r.Fatal(err)
	}
	s := r.Spool
	r.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.Stop(ctx)
	})
	if r.configured != nil {
		r.configured()
	}
	r.must(r.Configure([]Gate{r.gate}))
	r.must(r.Start(r.Context()))
}

// again ends this run in disorder, and begins another on the same store.
func (r *rig) again(owner string) {
	r.Helper()
	r.cut()
	r.end()
	r.running.Wait()
	r.must(r.store.Close())
	r.opts.Owner = owner
	r.open()
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) now() time.Time { return r.clock.Now() }

func (r *rig) user(u store.User) {
	r.Helper()
	r.must(r.ChangeUser(r.Context(), r.now(), "test", u.Name, func(now *store.User, _ bool) error {
		u.Made = now.Made
		*now = u
		return nil
	}))
}

// limits gives a user own limits.
func (r *rig) limits(name, limits string) error {
	return r.ChangeUser(r.Context(), r.now(), "op", name, func(u *store.User, isNew bool) error {
		if isNew {
			return store.ErrNotFound
		}
		u.Limits = limits
		return nil
	})
}

// send accepts a mail.
func (r *rig) send(user string, to ...string) (Receipt, error) {
	r.Helper()
	_, receipt, err := r.mail(&Envelope{User: user, Sender: user + "@example.org"}, to...)
	return receipt, err
}

func (r *rig) mail(e *Envelope, to ...string) (store.MailID, Receipt, error) {
	r.Helper()
	e.ID = r.NewID(r.now())
	if e.Gate == "" {
		e.Gate = gateName
	}
	e.Source = netip.MustParseAddr("192.0.2.1")
	if e.Subject == "" {
		e.Subject = "hello"
	}
	for _, address := range to {
		e.To = append(e.To, To{Address: address})
	}
	text := r.Stage()
	fmt.Fprintf(text, "Subject: %s\r\n\r\nHello.\r\n", e.Subject)
	receipt, err := r.Accept(r.Context(), r.now(), e, text)
	return e.ID, receipt, err
}

// sent is send for mails that are taken.
func (r *rig) sent(user string, to ...string) Receipt {
	r.Helper()
	receipt, err := r.send(user, to...)
	r.must(err)
	return receipt
}

// run does what is due, and waits for the workers.
func (r *rig) run() {
	r.Helper()
	if _, err := r.RunDue(r.Context(), r.now()); err != nil {
		r.Fatal(err)
	}
	r.idle()
}

func (r *rig) idle() {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	r.must(r.Idle(ctx))
}

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	r.Helper()
	r.clock.Advance(d)
	r.run()
}

// states counts addressees by state.
func (r *rig) states() map[store.State]int {
	r.Helper()
	_, states, err := r.Count(r.Context())
	r.must(err)
	return states
}

func (r *rig) wantStates(want map[store.State]int) {
	r.Helper()
	got := r.states()
	for _, state := range store.States {
		if got[state] != want[state] {
			r.Errorf("%d are %s, want %d (all: %v)", got[state], state, want[state], got)
		}
	}
}

func (r *rig) wantDelivered(n int) {
	r.Helper()
	if got := r.carrier.theirs(); got != n {
		r.Errorf("%d delivered, want %d", got, n)
	}
}

// log returns the audit log, the oldest first.
func (r *rig) audit(what string) (list []store.Entry) {
	r.Helper()
	all, err := r.Audit(r.Context(), 0, 1000)
	r.must(err)
	slices.Reverse(all)
	for _, e := range all {
		if what == "" || e.What == what {
			list = append(list, e)
		}
	}
	return list
}

// recipients makes addresses.
func recipients(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s%d@example.net", prefix, i+1)
	}
	return list
}

// ticket finds the ticket in the last notice to the contact: for mail, and for the page.
func (r *rig) tickets() (forMail, forPage string) {
	r.Helper()
	all := r.carrier.to(contact)
	if len(all) == 0 {
		r.Fatal("no notice")
	}
	text := strings.NewReplacer("=\r\n", "", "\r\n ", " ").Replace(all[len(all)-1].text)
	cutOut := func(before, after string) string {
		_, rest, ok := strings.Cut(text, before)
		ticket, _, _ := strings.Cut(rest, after)
		if !ok {
			r.Fatalf("no %q in the notice:\n%s", before, text)
		}
		return strings.TrimSpace(ticket)[:min(notice.MaxTicket, len(strings.TrimSpace(ticket)))]
	}
	return cutOut("weir+", "@"), cutOut("/held/", "\r\n")
}

func reply(lines ...string) io.Reader {
	return strings.NewReader("From: ann@home.example\r\nMessage-ID: <1@home.example>\r\nSubject: Re: Your mail\r\n\r\n" + strings.Join(lines, "\r\n") + "\r\n")
}
