package policy

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"weir"
)

// MaxListed is how many throttles may be listed; MaxLinks includes the block list before and the lanes behind them.
const (
	MaxListed = 16
	MaxLinks  = MaxListed + 2
)

// ErrTooManyLinks is returned for a chain with more than MaxLinks throttles.
var ErrTooManyLinks = fmt.Errorf("a list of throttles holds at most %d", MaxListed)

// OnError says what a failing throttle means.
type OnError string

const (
	Open   OnError = "open"   // pass it over
	Closed OnError = "closed" // refuse
)

// A Link is one throttle of a chain, with its counters and its shadow switch. It may be in several chains.
type Link struct {
	Name     string
	Throttle weir.Throttle
	OnError  OnError // Closed unless Open
	Shadow   *Switch
	Counts   *Counts
	Watch    *Watch // of those who are held back or pay; nil where nobody looks
	Names    Naming // how they are named there
	// Parts are what the throttle counts by that the gate has to find in requests, and CostHeader is where answers say
	// what requests cost: see Keyed.
	Parts      []string
	CostHeader string
	// Told, where it is not nil, is told of events that the throttle lets go on or holds back. What it only would hold
	// back, in shadow, is not told. It must not block, and must not keep what it is given.
	Told func(ev *weir.Event, a *weir.Answer)
}

// NewLink returns a link with counters of its own, not in shadow.
func NewLink(name string, t weir.Throttle, onError OnError) *Link {
	l := &Link{Name: name, Throttle: t, OnError: onError, Shadow: new(Switch), Counts: new(Counts)}
	if k, ok := t.(Keyed); ok {
		l.Parts, l.CostHeader = k.KeyParts(), k.CostHeader()
	}
	l.DeclareRules()
	return l
}

// DeclareRules makes the counts follow the rules that the throttle has now. It is called after a reload.
func (l *Link) DeclareRules() {
	var rules []string
	if r, ok := l.Throttle.(Ruled); ok {
		rules = r.Rules()
	}
	l.Counts.Declare(rules)
}

// Prompt reports whether the throttle answers from memory: see weir.Prompter.
func (l *Link) Prompt() bool {
	p, ok := l.Throttle.(weir.Prompter)
	return ok && p.Prompt()
}

// sign puts the link's name into an answer of its throttle.
func (l *Link) sign(a *weir.Answer) {
	a.By = l.Name
	for i := range a.Figures {
		a.Figures[i].By = l.Name
	}
}

// A Chain is an ordered list of throttles. It is safe for concurrent use and does not change.
type Chain struct {
	links   []*Link
	taker   *Link // nil where no stamps are taken
	lanes   *Link // nil where the capacity is not limited
	failed  func(link string, err error)
	gate    *GateFigures // of the gate that it belongs to; nil where nobody asks
	answers sync.Pool    // of *weir.Answer, for what throttles say: a pass may be held for long and should be small
}

// New returns a chain of links. failed, which may be nil, is called for every throttle that fails.
func New(links []*Link, failed func(link string, err error)) (*Chain, error) {
	if len(links) > MaxLinks {
		return nil, ErrTooManyLinks
	}
	if failed == nil {
		failed = func(string, error) {}
	}
	c := &Chain{links: links, failed: failed}
	c.assign()
	c.answers.New = func() any { return new(weir.Answer) }
	return c, nil
}

// At says which gate the chain belongs to. Call it before the chain is used.
func (c *Chain) At(to *GateFigures) { c.gate = to }

// Links returns the links in order. They must not be changed.
func (c *Chain) Links() []*Link { return c.links }

// Judge asks the throttles about an event and puts the verdict into p. On Admit the event goes on; on Wait somebody
// calls Await; on Challenge and Refuse nothing is held. Settle must always be called; p may be used again after it.
func (c *Chain) Judge(ctx context.Context, ev *weir.Event, p *Pass) {
	p.reset(c)
	p.event = ev
	a := c.answer()
	defer p.judged(a)
	for i, link := range c.links {
		a.Clear()
		if err := link.Throttle.Judge(ctx, ev, a); err != nil {
			c.failed(link.Name, err)
			link.Counts.Errors.Add(1)
			a.Clear()
			if link.OnError != Open {
				a.Verdict, a.Reason = weir.Refuse, weir.Failure
			}
		}
		goesOn := p.take(i, a, ev.Time)
		if link.Told != nil && goesOn == (a.Verdict < weir.Challenge) {
			link.Told(ev, a)
		}
		if !goesOn {
			return
		}
	}
	if p.Answer.Verdict == weir.Admit {
		p.enter(ev.Time)
	}
}

// judged ends Judge. The event is the gate's, and may be another one by the time that a turn comes.
func (p *Pass) judged(a *weir.Answer) {
	p.chain.done(a)
	if p.Answer.Verdict == weir.Wait {
		p.client = clientOf(p.event)
	}
	p.event = nil
}

// answer returns a clear answer for a throttle to fill in; done takes it back without what it points to.
func (c *Chain) answer() *weir.Answer { return c.answers.Get().(*weir.Answer) }

func (c *Chain) done(a *weir.Answer) {
	a.Clear()
	c.answers.Put(a)
}

// A Pass is one event on its way through a chain: the verdict so far and what is held for it. The zero value is ready
// for Chain.Judge. It belongs to one goroutine, except that Away, Ask, Return and Flow may be called from others.
type Pass struct {
	// Answer is the verdict. Its Figures are those of every throttle not in shadow.
	Answer weir.Answer
	// Ready, unless it is nil, is called once before a place is taken that limits a level. It returns the time at which
	// the event is ready for it. With an error the event is refused, and the gate knows why.
	Ready  func() (time.Time, error)
	chain  *Chain
	event  *weir.Event // while it is being judged
	client client      // Wait: what is left of the event
	would  bool        // a throttle in shadow would have held it back

	mu   sync.Mutex // Away, Ask, Flow and Settle meet when a body is still being read while the request ends
	held []held     // by link
}

// held is what one throttle has taken for the event.
type held struct {
	hold    weir.Hold
	turn    *weir.Turn
	rule    string    // Wait: the rule that makes it wait
	until   time.Time // Wait: when the turn is expected
	waited  bool      // its turn was called
	placed  bool      // Enter was called: the event has a place
	counted bool      // its verdict is final and in Counts
	granted int64     // bytes that the throttle granted and that have not flowed yet
}

func (p *Pass) reset(c *Chain) {
	p.chain, p.client, p.would = c, client{}, false
	p.Answer.Clear()
	p.held = slices.Grow(p.held[:0], len(c.links))[:len(c.links)]
	clear(p.held)
}

// take looks at what link i answered and reports whether the chain goes on.
func (p *Pass) take(i int, a *weir.Answer, now time.Time) bool {
	h, link := &p.held[i], p.chain.links[i]
	h.hold, h.turn = a.Hold, a.Turn
	shadow := link.Shadow.Load()
	if a.Verdict != weir.Admit {
		p.note(link, a, now, shadow, !h.counted)
	} else if link.Names.Payers && p.event != nil && p.event.Purse.Paid().Work > 0 {
		link.paid(p.event, now)
	}
	if a.Verdict != weir.Admit || !a.Hold.Enter {
		h.count(link, a.Rule, a.Verdict)
	}
	if shadow {
		// Lanes in shadow have given a place, and nothing to wait for.
		if a.Verdict != weir.Admit && (link != p.chain.lanes || h.turn != nil) {
			p.give(i, weir.Outcome{Time: now})
		}
		return true
	}
	link.sign(a)
	p.Answer.Figures = append(p.Answer.Figures, a.Figures...)
	switch {
	case a.Verdict >= weir.Challenge:
		p.decide(a)
		p.Settle(weir.Outcome{Time: now})
		return false
	case a.Verdict == weir.Wait:
		h.rule, h.until = a.Rule, a.Until
		if p.Answer.Verdict == weir.Admit || a.Until.After(p.Answer.Until) {
			p.decide(a)
		}
	}
	return true
}

// note tells those who watch that a throttle holds the event back, or would. first means that it has not done so yet.
func (p *Pass) note(link *Link, a *weir.Answer, now time.Time, shadow, first bool) {
	gate := p.chain.gate
	if shadow && !p.would {
		p.would = true
		if gate != nil {
			gate.Would.Add(1)
		}
	}
	w := link.Watch
	if w == nil {
		return
	}
	c := p.client
	if p.event != nil {
		c = clientOf(p.event)
	}
	who := link.Names.party(&c)
	if first {
		w.Held(now, who, 1, shadow)
	}
	if a.Verdict >= weir.Challenge && w.refusals.admit(now) {
		link.refused(a, now, gate, &c, &who, shadow)
	}
}

// refused keeps a refusal for those who watch. It is a function of its own, as are others here, so that a goroutine
// that waits has never needed the stack for it.
func (l *Link) refused(a *weir.Answer, now time.Time, gate *GateFigures, c *client, who *Party, shadow bool) {
	r := Refusal{Time: now, Verdict: a.Verdict, Reason: a.Reason, Figure: a.Figure, Until: a.Until, Shadow: shadow,
		Who: *who, Source: c.source, ID: c.id}
	r.By = l.Name
	if gate != nil {
		r.Gate = gate.Gate
	}
	l.Watch.refusals.put(&r)
}

// paid tells those who watch that an event went on as its client has paid.
func (l *Link) paid(ev *weir.Event, now time.Time) {
	c := clientOf(ev)
	l.Watch.Paid(now, l.Names.party(&c))
}

// count puts the throttle's verdict on this event into its counters, once.
func (h *held) count(link *Link, rule string, v weir.Verdict) {
	if h.counted {
		return
	}
	h.counted = true
	tally := link.Counts.Of(rule, v)
	if link.Shadow.Load() {
		tally.Shadowed[v].Add(1)
	} else {
		tally.Verdicts[v].Add(1)
	}
}

func (p *Pass) decide(a *weir.Answer) {
	figures := p.Answer.Figures
	p.Answer = *a
	p.Answer.Figures, p.Answer.Hold, p.Answer.Turn = figures, weir.Hold{}, nil
}

// enters reports whether a throttle limits a level.
func (p *Pass) enters() bool {
	for i := range p.held {
		if p.held[i].hold.Enter {
			return true
		}
	}
	return false
}

// enter takes the places that limit a level, once nothing else is waited for.
func (p *Pass) enter(now time.Time) {
	if p.Answer.Verdict == weir.Admit && !p.enters() {
		return
	}
	a := p.chain.answer()
	defer p.chain.done(a)
	if ready := p.Ready; ready != nil && p.enters() {
		p.Ready = nil
		var err error
		if now, err = ready(); err != nil {
			a.Verdict, a.Reason = weir.Refuse, weir.Overload
			p.decide(a)
			p.Settle(weir.Outcome{Time: now})
			return
		}
	}
	p.decide(a)
	for i, link := range p.chain.links {
		h := &p.held[i]
		if !h.hold.Enter {
			continue
		}
		a.Clear()
		h.placed = true
		link.Throttle.(weir.ConcurrencyLimiter).Enter(&h.hold, now, a)
		a.Hold = h.hold
		if !p.take(i, a, now) {
			return
		}
		if p.Answer.Verdict == weir.Wait { // nobody occupies a place while waiting for another one
			return
		}
		h.count(link, "", weir.Admit)
	}
}

// Await waits until every turn has been called and then lets the event in, at the time that now returns. The verdict
// may then be Admit, Refuse (a turn was called off), or Wait again, for a place. A throttle that is taken into shadow
// keeps nobody waiting. When ctx ends first, all is given back.
func (p *Pass) Await(ctx context.Context, now func() time.Time) error {
	for i, link := range p.chain.links {
		h := &p.held[i]
		if h.turn == nil {
			continue
		}
		select {
		case <-h.turn.Called():
		case <-link.Shadow.Goes():
		case <-ctx.Done():
			p.Settle(weir.Outcome{Time: now()})
			return ctx.Err()
		}
		if link.Shadow.Load() {
			p.give(i, weir.Outcome{Time: now()})
			continue
		}
		if why := h.turn.Refused(); why != weir.NoReason {
			link.Counts.Expired.Add(1)
			p.callOff(i, why)
			at := now()
			p.note(link, &p.Answer, at, false, false)
			p.Settle(weir.Outcome{Time: at})
			return nil
		}
		h.turn, h.waited = nil, true
	}
	p.enter(now())
	return nil
}

// callOff makes a wait whose turn will not come a refusal.
func (p *Pass) callOff(i int, why weir.Reason) {
	h, by := &p.held[i], p.chain.links[i].Name
	a := weir.Answer{Verdict: weir.Refuse, Reason: why, Figure: weir.Figure{By: by, Rule: h.rule}, Until: h.until}
	for _, f := range p.Answer.Figures {
		if f.By == by && f.Rule == h.rule {
			a.Figure = f
		}
	}
	p.decide(&a)
}

// Away says that the event is on its way. The throttles that made it wait can then call the next one; without Away they
// do so a moment later.
func (p *Pass) Away(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, link := range p.chain.links {
		if h := &p.held[i]; h.waited && !h.hold.IsZero() {
			h.waited = false
			if u, ok := link.Throttle.(weir.Sequencer); ok {
				u.Away(h.hold, now)
			}
		}
	}
}

// Settle ends the pass: the event is done, or what was taken for it is given back. A second call does nothing.
func (p *Pass) Settle(o weir.Outcome) {
	for i := range p.held {
		p.give(i, o)
	}
}

// Leave settles what the event holds with throttles that limit a level, so that another one can have its place. It
// reports whether all throttles that ration bytes can still be asked.
func (p *Pass) Leave(o weir.Outcome) (asks bool) {
	asks = true
	for i := range p.held {
		if p.held[i].placed && !p.held[i].hold.IsZero() {
			r, ok := p.chain.links[i].Throttle.(weir.Rationer)
			asks = asks && !(ok && r.Rations())
			p.give(i, o)
		}
	}
	return asks
}

// give settles what link i holds, if it holds anything.
func (p *Pass) give(i int, o weir.Outcome) {
	h, link := &p.held[i], p.chain.links[i]
	p.mu.Lock()
	hold := h.hold
	h.hold, h.turn = weir.Hold{}, nil
	p.mu.Unlock()
	if hold.IsZero() {
		return
	}
	h.count(link, "", weir.Admit)
	link.Throttle.Settle(hold, o)
	if !o.Done && h.rule == "" {
		p.restore(link.Name, hold.N)
	}
}

// restore makes the figures of a throttle what they were before it took what has been given back. Those of one that
// made the event wait are without it anyway.
func (p *Pass) restore(name string, n int64) {
	for i := range p.Answer.Figures {
		switch f := &p.Answer.Figures[i]; {
		case f.By != name:
		case f.Unit == "requests" && f.Window != 0:
			f.Remaining = min(f.Remaining+n, f.Limit)
		case f.Unit == "at once":
			f.Remaining = min(f.Remaining+1, f.Limit)
		}
	}
}

// A Step is what one throttle would say about an event.
type Step struct {
	Throttle string
	Shadow   bool
	Answer   weir.Answer
}

// Explain asks every throttle what it would say, and takes nothing. It also returns the verdict of all of them.
func (c *Chain) Explain(ev *weir.Event) (steps []Step, verdict weir.Answer) {
	for _, link := range c.links {
		s := Step{Throttle: link.Name, Shadow: link.Shadow.Load()}
		link.Throttle.Peek(ev, &s.Answer)
		link.sign(&s.Answer)
		steps = append(steps, s)
		if s.Shadow || verdict.Verdict >= weir.Challenge {
			continue
		}
		worse := s.Answer.Verdict > verdict.Verdict
		longer := s.Answer.Verdict == weir.Wait && verdict.Verdict == weir.Wait && s.Answer.Until.After(verdict.Until)
		if worse || longer {
			verdict = s.Answer
		}
	}
	return steps, verdict
}
