package app

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/console"
	"weir/identify"
	"weir/policy"
)

// How much an overview shows where nobody says.
const (
	defaultTop  = 10
	defaultLast = 20
)

// Overview says how weir fares, and who is held back.
func (b backend) Overview(q console.OverviewQuery) console.Overview {
	g, now := b.current.Load(), b.clock.Now()
	top, last := cmp.Or(q.Top, defaultTop), cmp.Or(q.Last, defaultLast)
	o := console.Overview{At: b.opts.Clock.Now(), State: stateNames[b.state.Load()], ShadowAll: b.shadowAll(),
		Gates: []console.GateWatch{}, Throttles: []console.ThrottleWatch{}}
	if err := b.Ready(); err != nil {
		o.NotReady = err.Error()
	}
	o.Ready = o.NotReady == ""
	watched := b.watched(g)
	b.history.fill(&o, g, watched, q)
	for i, w := range watched {
		t := &o.Throttles[i]
		t.Held, t.Would = heldBack(w, now, top, false), heldBack(w, now, top, true)
		t.Payers = payers(w, now, top)
	}
	o.Refusals = b.Refusals(console.RefusalQuery{Limit: last}).Refusals
	o.Changes = b.lastChanges(last)
	return o
}

// fill adds the past of gates and throttles.
func (h *history) fill(o *console.Overview, g *generation, throttles []watched, q console.OverviewQuery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	for _, gt := range g.gates {
		w := console.GateWatch{Address: gt.address(), Accept: gt.status.Accept, Throttles: gt.status.Throttles,
			Series: console.Series{Name: gt.listen, Kind: gt.kind, Unit: cmp.Or(units[gt.kind], "requests")}}
		if w.Throttles == nil {
			w.Throttles = []string{}
		}
		if t := g.stamps(gt.chain); t != nil {
			w.Stamps = t.name
		}
		read := readGate(g, gt, now)
		r := h.recordOf(gt.seen, &gateColumns, read, now)
		r.series(&w.Series, q.Window == console.OneHour, q.Since, gt.lanes != nil)
		w.Hour = r.totals(read)
		o.Gates = append(o.Gates, w)
		o.Routes = append(o.Routes, h.roomsOf(g, gt, q, now)...)
	}
	for _, t := range throttles {
		w := console.ThrottleWatch{Shadow: t.link.Shadow.Load(),
			Series: console.Series{Name: t.name, Kind: t.kind, Unit: t.unit}}
		read := t.read()
		r := h.recordOf(t.link.Counts, &throttleColumns, read, now)
		r.series(&w.Series, q.Window == console.OneHour, q.Since, true)
		w.Hour = r.totals(read)
		o.Throttles = append(o.Throttles, w)
	}
}

// heldBack lists who a throttle holds back most, or would.
func heldBack(w watched, now time.Time, most int, shadow bool) []console.HeldBack {
	all := []console.HeldBack{}
	for _, h := range w.link.Watch.Top(now, most, shadow) {
		kind, name := partyText(h.Party)
		all = append(all, console.HeldBack{Kind: kind, Name: name, Throttle: w.name, Recent: uint64(h.Count),
			Over: uint64(h.Over), Total: h.Total, First: h.First, Last: h.Last})
	}
	return all
}

// payers lists who paid a throttle that asks for stamps most often.
func payers(w watched, now time.Time, most int) (all []console.Payer) {
	for _, h := range w.link.Watch.Payers(now, most) {
		kind, name := partyText(h.Party)
		all = append(all, console.Payer{Kind: kind, Name: name, Recent: uint64(h.Count), Over: uint64(h.Over),
			Total: h.Total, First: h.First, Last: h.Last})
	}
	return all
}

// partyText is who somebody is, as logs show it: accounts may be secrets, and are fingerprints there.
func partyText(p policy.Party) (kind, name string) {
	switch p.Kind {
	case policy.Nobody:
		return "", ""
	case policy.Network:
		if p.Network.IsSingleIP() {
			return p.Kind.String(), p.Network.Addr().String()
		}
		return p.Kind.String(), p.Network.String()
	case policy.Account:
		if source, ok := strings.CutPrefix(p.Name, identify.SourcePrefix); ok { // no client can name an account so
			if _, err := netip.ParseAddr(source); err == nil {
				return policy.Network.String(), source
			}
		}
		return p.Kind.String(), identify.Mask(p.Name)
	}
	return p.Kind.String(), cutText(p.Name)
}

// Refusals returns the last refusals of all throttles.
func (b backend) Refusals(q console.RefusalQuery) console.RefusalPage {
	page := console.RefusalPage{Refusals: []console.Refusal{}}
	limit := console.MaxRefusals
	if q.Limit > 0 {
		limit = min(q.Limit, limit)
	}
	type found struct {
		policy.Refusal
		throttle string
	}
	var all []found
	for _, w := range b.watched(b.current.Load()) {
		if q.Throttle != "" && q.Throttle != w.name {
			continue
		}
		kept, left := w.link.Watch.Refusals()
		page.Left += left
		for _, r := range kept {
			if q.ID == "" || q.ID == r.ID {
				all = append(all, found{r, w.name})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return b.Time.Compare(a.Time) })
	for _, f := range all {
		if len(page.Refusals) == limit {
			break
		}
		if r := refusalText(&f.Refusal, f.throttle); q.Who == "" || q.Who == r.Name || q.Who == r.Source {
			page.Refusals = append(page.Refusals, r)
		}
	}
	return page
}

// refusalText is a refusal as people read it.
func refusalText(r *policy.Refusal, throttle string) console.Refusal {
	a := weir.Answer{Verdict: r.Verdict, Reason: r.Reason, Figure: r.Figure, Until: r.Until}
	t := console.Refusal{At: r.Time, Gate: r.Gate, Throttle: throttle, Rule: r.Rule, Verdict: r.Verdict,
		Reason: r.Reason, Shadow: r.Shadow, ID: cutText(r.ID), Until: r.Until, Text: a.Explain()}
	t.Kind, t.Name = partyText(r.Who)
	if r.Source.IsValid() {
		t.Source = r.Source.Unmap().String()
	}
	if r.Limit > 0 {
		t.Figure = &console.Rules([]weir.Figure{r.Figure})[0]
	}
	return t
}

// watched lists the quotas of a gate's imported rules.
func (l *envoyLimits) watched(gate string) (all []watched) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, unit := range l.units {
		name := unit.link.Name + " of " + gate
		if key.exact {
			name += ", exact"
		}
		all = append(all, watched{name: name, kind: "quota", unit: "hits", link: unit.link,
			waiting: func() int { return unit.quota.Stats().Waiting }})
	}
	slices.SortFunc(all, func(a, b watched) int { return cmp.Compare(a.name, b.name) })
	return all
}

// count brings the counts of the link up to date with those in the kernel.
func (p *packets) count() {
	if c, err := p.gate.Counters(); err == nil {
		p.link.Counts.Verdicts[weir.Admit].Store(c.Passed)
		p.link.Counts.Verdicts[weir.Refuse].Store(c.Dropped())
		p.link.Counts.Shadowed[weir.Refuse].Store(c.Shadowed)
	}
}

// HistoryBytes is what the past of so many gates, routes with a capacity of their own and throttles takes at most, with
// who is held back. A throttle that asks for stamps takes policy.PayersBytes more.
func HistoryBytes(gates, rooms, throttles int) int64 {
	const samples = console.HistoryLength + console.HourLength
	row := func(c *columns) int64 { return 12 + 4*int64(len(c.all())) }
	return int64(gates)*samples*row(&gateColumns) + int64(rooms)*samples*row(&roomColumns) +
		int64(throttles)*(samples*row(&throttleColumns)+policy.WatchBytes)
}
