package stamp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/identify"
)

// A Throttle asks for stamps under load, and takes them for all throttles of its chain. Make one with NewThrottle;
// goroutines may share it.
//
//	no load; a good stamp; an exempt client; a place in the pool ──> admit
//	a forged stamp ──> refuse and ban; a stamp for one request that comes a second time ──> refuse
//	no stamp ──> challenge; no stamp again and again, and no ticket of the waiting room ──> refuse
type Throttle struct {
	setup atomic.Pointer[setup]
	gates sync.Map // a *gateWork by the name of its gate, weir.Load.Of
	seen  seen     // how often clients were challenged and did not pay

	shadow func() bool // nil for never

	mu     sync.Mutex // of Configure
	counts throttleCounts
}

// A setup is what Configure makes from the options. It does not change after that.
type setup struct {
	Options
	issuer     *Issuer
	difficulty *Difficulty
	exempt     *identify.Exempt
}

// throttleCounts count requests while stamps were asked for, by what was decided. Stats says what each of them means.
type throttleCounts struct {
	Paid, Free, Called, Held, Challenged, Forged, Replayed, NotPaying atomic.Uint64
}

// NewThrottle returns a throttle that asks for nothing until there is load. read reads the files that the options name.
func NewThrottle(o Options, now time.Time, read func(path string) ([]byte, error)) (*Throttle, error) {
	issuer, err := New(o, now)
	if err != nil {
		return nil, err
	}
	exempt, err := identify.NewExempt(o.NeverAsk, read)
	if err != nil {
		return nil, weir.Under("never_ask", err)
	}
	t := &Throttle{seen: newSeen()}
	t.setup.Store(&setup{o.WithDefaults(), issuer, o.Difficulty(), exempt})
	return t, nil
}

// Configure changes the options. What was spent stays spent, challenges that clients have stay good, and the difficulty
// goes on from where it is. On an error nothing has changed.
func (t *Throttle) Configure(o Options, now time.Time, read func(path string) ([]byte, error)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.setup.Load()
	issuer, err := Renew(old.issuer, old.Options, o, now)
	if err != nil {
		return err
	}
	exempt, err := identify.NewExempt(o.NeverAsk, read)
	if err != nil {
		return weir.Under("never_ask", err)
	}
	exempt.Inherit(old.exempt)
	t.setup.Store(&setup{o.WithDefaults(), issuer, o.Difficulty(), exempt})
	return nil
}

// Join makes the throttle one of a farm, so that no stamp is spent at two nodes: the node that issued its challenge
// decides. Join with nil leaves the farm. It may be called while the throttle serves. Challenges that were issued
// before it are refused, and their clients get new ones.
func (t *Throttle) Join(c Nodes, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.setup.Load()
	s.issuer.join(c, s.remembers(), s.MaxSpent, now)
}

// Answer answers what another node has sent by Nodes.Ask or Nodes.Tell. It returns nil if the question is malformed or
// this node is not in a farm.
func (t *Throttle) Answer(now time.Time, question []byte) []byte {
	s := t.setup.Load()
	return s.issuer.answer(now, question, s.Covers)
}

// Exempt returns the clients that are never asked for a stamp.
func (t *Throttle) Exempt() *identify.Exempt { return t.setup.Load().exempt }

// Terms says how stamps are used.
func (t *Throttle) Terms() weir.Terms {
	s := t.setup.Load()
	return weir.Terms{Covers: s.Covers, Binds: s.Covers == 1, Address: s.Classic, Strict: s.Classic, Always: s.always()}
}

// Judge admits everybody while the load is low. Otherwise it asks for a stamp, unless the event has brought one or may
// pass without.
func (t *Throttle) Judge(ctx context.Context, ev *weir.Event, a *weir.Answer) error {
	s := t.setup.Load()
	work := t.step(s.difficulty, ev.Load, ev.Time)
	if work == 0 {
		return nil
	}
	t.judge(s, work, ev, ev.Purse.Open(ctx, ev), a)
	return nil
}

// Follow sets the function that says whether the throttle is in shadow. Clients see no challenge then, and so are not
// counted as leaving one unpaid. Call Follow before the throttle is used.
func (t *Throttle) Follow(shadow func() bool) { t.shadow = shadow }

// judge decides about an event while stamps are asked for.
func (t *Throttle) judge(s *setup, work Work, ev *weir.Event, paid weir.Paid, a *weir.Answer) {
	inShadow := t.shadow != nil && t.shadow()
	switch {
	case paid.Work > 0:
		t.counts.Paid.Add(1)
		t.seen.forget(visitor(s, ev))
	case paid.Free:
		t.counts.Free.Add(1)
	case paid.Fault == weir.Forged && s.OnInvalid == FateDrop:
		t.counts.Forged.Add(1)
		refuse(a, weir.Forged, true)
	case paid.Fault == weir.Replayed && s.OnReplay == FateDrop:
		t.counts.Replayed.Add(1)
		refuse(a, weir.Replayed, false)
	case paid.Fault == weir.Overload: // the stamp was not verified, and may be good
		refuse(a, weir.Overload, false)
		a.Until = ev.Time.Add(time.Second)
	case ev.Pool != nil && ev.Pool.Take():
		if ev.Place.Called {
			t.counts.Called.Add(1)
		} else {
			t.counts.Held.Add(1)
		}
	case !inShadow && ev.Place.Number == 0 && t.seen.note(visitor(s, ev), ev.Time) > s.Patience &&
		(s.Classic || ev.Client != ""): // without an id, its puzzles become dearer instead
		t.counts.NotPaying.Add(1)
		refuse(a, weir.NotPaying, s.Classic)
		a.Until = ev.Time.Truncate(patienceWindow).Add(patienceWindow)
	default:
		if !inShadow {
			t.counts.Challenged.Add(1)
		}
		challenge(a, work)
	}
}

// rule is the rule that answers of the throttle name.
const rule = "stamp"

// Rules lists the rules that answers name.
func (*Throttle) Rules() []string { return []string{rule} }

func refuse(a *weir.Answer, why weir.Reason, ban bool) {
	a.Verdict, a.Reason, a.Rule, a.Ban = weir.Refuse, why, rule, ban
}

func challenge(a *weir.Answer, work Work) {
	a.Verdict, a.Reason = weir.Challenge, weir.Unpaid
	a.Figure = weir.Figure{Rule: rule, Unit: "operations", Limit: int64(work)}
}

// visitor is the key by which unpaid challenges are counted: the client's id together with its address, or the address
// alone for a client without an id.
func visitor(s *setup, ev *weir.Event) string {
	if ev.Client != "" && !s.Classic {
		return identify.ClientAt(ev.Client, ev.Source)
	}
	return identify.AddressID(ev.Source)
}

// dearer is how many times as much work is asked of a client without an id, if its address has left more challenges
// unpaid than Patience. The client is not refused, since others at the address may have left them.
const dearer = 4

// Settle does nothing, as Judge takes nothing. The event's purse gives back what was paid.
func (t *Throttle) Settle(weir.Hold, weir.Outcome) {}

// Peek answers as Judge would, but opens no purse: only a stamp that was taken before counts. ev.Pool must be one whose
// Take only answers, and takes nothing.
func (t *Throttle) Peek(ev *weir.Event, a *weir.Answer) {
	s := t.setup.Load()
	work := t.workAt(ev.Load.Of)
	if work == 0 || ev.Purse.Paid().First() || ev.Place.Called || s.exempt.Known(ev) || ev.Pool != nil &&
		ev.Pool.Take() {
		return
	}
	challenge(a, work)
}

// Receive verifies a stamp and takes it.
func (t *Throttle) Receive(ctx context.Context, ev *weir.Event, stamp, message string) (weir.Paid, func()) {
	s := t.setup.Load()
	if s.exempt.Known(ev) {
		return weir.Paid{Free: true}, nil
	}
	if stamp == "" {
		return weir.Paid{}, nil
	}
	// A stamp is good that was made for the client's id, or for its address.
	d := Demand{Client: ev.Client, Or: identify.AddressID(ev.Source), Covers: s.Covers}
	if s.Classic || d.Client == "" {
		d.Client, d.Or = d.Or, ""
	}
	if s.Covers == 1 {
		d.Message = message
	}
	receipt, err := s.issuer.Verify(ctx, ev.Time, stamp, d)
	if err == ErrIssuerGone { // the client has worked for this stamp, so its unpaid challenges are forgotten
		t.seen.forget(visitor(s, ev))
	}
	if err != nil {
		return weir.Paid{Fault: s.fault(err)}, nil
	}
	refund := func() { _ = s.issuer.Refund(context.WithoutCancel(ctx), ev.Time, &receipt) }
	return weir.Paid{Work: uint64(receipt.Work), Uses: receipt.Uses}, refund
}

// fault says what a client did wrong whose stamp is not accepted. What may happen to any client is not a fault: the
// stamp expired, the client's network changed, or the node that issued the challenge is gone. It is challenged again.
func (s *setup) fault(err error) weir.Reason {
	switch {
	case errors.Is(err, ErrForged), errors.Is(err, ErrWrong):
		return weir.Forged
	case errors.Is(err, ErrReplayed) && s.Covers == 1:
		return weir.Replayed
	case errors.Is(err, ErrBusy), errors.Is(err, ErrFull):
		return weir.Overload
	case s.Classic && (errors.Is(err, ErrMalformed) || errors.Is(err, ErrForeign) || errors.Is(err, ErrUnknown)):
		return weir.Forged
	}
	return weir.NoReason
}

// Ask makes a puzzle for a client. If the client is empty, the puzzle is for the address of the event.
func (t *Throttle) Ask(ev *weir.Event, client, message string) (weir.Puzzle, error) {
	s := t.setup.Load()
	if client == "" || s.Classic {
		client = identify.AddressID(ev.Source)
	}
	if s.Covers != 1 {
		message = ""
	}
	work := t.workAt(ev.Load.Of)
	if work == 0 { // the stamp is for another throttle of the chain
		work = s.difficulty.First()
	}
	dear := ev.Client == "" && t.seen.unpaid(identify.AddressID(ev.Source), ev.Time) > s.Patience
	if dear {
		work = min(dearer*work, max(work, s.difficulty.Most()))
	}
	text, err := s.issuer.Issue(ev.Time,
		Ask{Algorithm: s.Algorithm, Work: work, Lifetime: s.Expires.Std(), Message: message, Client: client})
	if err != nil {
		return weir.Puzzle{}, err
	}
	return weir.Puzzle{
		Text: text, Algorithm: s.Algorithm.String(), Work: uint64(work), Takes: work.Time(s.Algorithm),
		Expires: ev.Time.Add(s.Expires.Std()), Dear: dear,
	}, nil
}

// Observe updates the difficulty at a gate, and returns the work that is asked for. Judge does the same for each event.
// Observe is for the time without events.
func (t *Throttle) Observe(load weir.Load, now time.Time) Work {
	return t.step(t.setup.Load().difficulty, load, now)
}

// Stats is what the throttle has done, and what it asks for now.
type Stats struct {
	Algorithm string            `json:"algorithm"`
	Work      map[string]uint64 `json:"work" metric:"weir_stamp_work" label:"gate" help:"Work that a stamp must contain now, in operations; 0 while no stamps are asked for."`
	Issued    uint64            `json:"issued" metric:"weir_stamp_challenges_total" help:"Challenges issued."`
	Accepted  uint64            `json:"accepted" metric:"weir_stamp_accepted_total" help:"Uses of stamps that were accepted."`
	// Requests that went first.
	Paid uint64 `json:"paid" metric:"weir_stamp_requests_total" label:"result=paid" help:"Requests while stamps were asked for, by result."`
	// Requests of which nothing is asked.
	Free uint64 `json:"free" metric:"weir_stamp_requests_total" label:"result=free"`
	// Requests of people who were called from the waiting room.
	Called uint64 `json:"called" metric:"weir_stamp_requests_total" label:"result=called"`
	// Unpaid requests that the general pool took without a ticket.
	Held uint64 `json:"held" metric:"weir_stamp_requests_total" label:"result=held"`
	// Requests that were asked to pay.
	Challenged uint64 `json:"challenged" metric:"weir_stamp_requests_total" label:"result=challenged"`
	Forged     uint64 `json:"forged" metric:"weir_stamp_requests_total" label:"result=forged"`
	Replayed   uint64 `json:"replayed" metric:"weir_stamp_requests_total" label:"result=replayed"`
	NotPaying  uint64 `json:"not_paying" metric:"weir_stamp_requests_total" label:"result=not-paying"`
	Spent      int    `json:"spent" metric:"weir_stamp_spent" help:"Stamps that are remembered as used."`
	// Stamps not taken, as no more can be remembered (max_spent).
	Full uint64 `json:"full" metric:"weir_stamp_requests_total" label:"result=full"`
	// Stamps of nodes of the farm that were not there to be asked.
	Gone uint64 `json:"gone" metric:"weir_stamp_requests_total" label:"result=gone"`
	// Stamps not taken, as too many questions to other nodes were open.
	Busy uint64 `json:"busy" metric:"weir_stamp_requests_total" label:"result=busy"`
}

// Stats returns what the throttle has done.
func (t *Throttle) Stats() Stats {
	s, c := t.setup.Load(), &t.counts
	out := Stats{Algorithm: s.WithDefaults().Algorithm.String(), Work: map[string]uint64{},
		Issued:   s.issuer.Counts.Issued.Load(),
		Accepted: s.issuer.Counts.Accepted.Load(),
		Paid:     c.Paid.Load(), Free: c.Free.Load(), Called: c.Called.Load(), Held: c.Held.Load(),
		Challenged: c.Challenged.Load(), Forged: c.Forged.Load(),
		Replayed: c.Replayed.Load(), NotPaying: c.NotPaying.Load(), Full: s.issuer.Counts.Full.Load(),
		Busy: s.issuer.Counts.Busy.Load(), Gone: s.issuer.Counts.Gone.Load()}
	if f, ok := s.issuer.parts.Ledger.(*Filter); ok {
		out.Spent = f.Len()
	}
	if b := s.issuer.farmLedger.Load(); b != nil {
		out.Spent += b.others.Len()
	}
	for gate, g := range t.gates.Range {
		out.Work[gate.(string)] = g.(*gateWork).work.Load()
	}
	return out
}

// A gateWork is how much work is asked for at one gate.
type gateWork struct {
	work atomic.Uint64
	due  atomic.Int64 // when the difficulty is next updated

	mu    sync.Mutex
	state State // of the difficulty
}

// stepEvery is how often the difficulty is updated. Difficulty changes the work once a second at most.
const stepEvery = 100 * time.Millisecond

// workAt returns the work that is asked for at a gate.
func (t *Throttle) workAt(gate string) Work {
	if g, ok := t.gates.Load(gate); ok {
		return Work(g.(*gateWork).work.Load())
	}
	return 0
}

// step updates the difficulty at a gate if that is due, and returns the work that is asked for.
func (t *Throttle) step(d *Difficulty, load weir.Load, now time.Time) Work {
	found, ok := t.gates.Load(load.Of)
	if !ok {
		found, _ = t.gates.LoadOrStore(load.Of, new(gateWork))
	}
	g, n := found.(*gateWork), now.UnixNano()
	if due := g.due.Load(); n < due && n > due-int64(time.Minute) { // if due is further away, the clock was set back
		return Work(g.work.Load())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = d.Next(g.state, now, load.Share, load.Delay)
	g.work.Store(uint64(g.state.Work))
	g.due.Store(n + int64(stepEvery))
	return g.state.Work
}

// Forget drops what is known of a gate that no longer exists.
func (t *Throttle) Forget(gate string) { t.gates.Delete(gate) }
