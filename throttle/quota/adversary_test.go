package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
)

// TestAdversary: whoever chooses times, costs, parallelism, cancellations and the moments of restarts and reloads gets
// at most
//   - fixed: the limit in each period, by the clock or by the calendar;
//   - sliding: the limit in every stretch of one period;
//   - gcra: one burst and rate x stretch in every stretch, with a gap (kind idle) one event for each gap;
//
// while an account that is inside its limit always gets in: another one beside the adversary's, and the adversary's
// own.
func TestAdversary(t *testing.T) {
	// what is longer than KeptAbove is kept over restarts
	second, day := weir.Period{Length: time.Second}, weir.Period{Length: 24 * time.Hour}
	byDay, byMonth := weir.Period{Calendar: weir.Day}, weir.Period{Calendar: weir.Month}
	for name, all := range map[string][]Policy{
		"fixed": {{Period: second}, {Period: day}, {Period: byDay, TimeZone: berlin.String()},
			{Period: byMonth, TimeZone: berlin.String()}},
		"sliding": {{Period: second, Window: Sliding}, {Period: day, Window: Sliding}},
		"gcra":    {{Period: second, Window: GCRA}, {Period: day, Window: GCRA}},
		"idle":    {{Kind: Idle, Gap: weir.Duration(time.Second)}},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				p := newPlay(t, rt, rapid.SampledFrom(all).Draw(rt, "limit"))
				for range rapid.IntRange(1, 50).Draw(rt, "steps") {
					p.step()
				}
			})
		})
	}
}

var berlin, _ = time.LoadLocation("Europe/Berlin")

// A play is a quota, those who play with it, and what each of them was granted.
type play struct {
	t  *testing.T
	rt *rapid.T
	*rig
	o     Options // policy 0 is the limit
	logs  map[string]*ledger
	under []*grant // not settled yet
	lined []*grant // in line
	saved map[string]ledger
	shelf shelf
	kept  time.Time // of the last save: what is late is not that late

	rates []paceFrom // of a steady limit
	// by how much reloads and restarts have raised the burst, all in all: so much more may come at once
	raised int64
}

// A paceFrom is the rate of a steady limit from a time on, in events per nanosecond.
type paceFrom struct {
	at   time.Time
	rate float64
}

// A ledger lists what an account was granted.
type ledger struct {
	granted []grant
	seen    time.Time // the latest time that it was asked at: whoever brings an older one is late
}

// A grant is an event that went on.
type grant struct {
	*event
	account   string
	at        time.Time // when it counts
	cost      int64
	limit     Policy // that held
	raised    int64  // before
	late      bool
	cancelled bool
}

func newPlay(t *testing.T, rt *rapid.T, limit Policy) *play {
	limit.Name = "limit"
	if rapid.Bool().Draw(rt, "delay") {
		limit = delayed(limit, rapid.IntRange(1, 8).Draw(rt, "max"), min(MaxWait, 2*length(&limit)))
	}
	p := &play{t: t, rt: rt, o: one(limit), logs: map[string]*ledger{"adversary": {}, "innocent": {}}, shelf: shelf{}}
	p.options(time.Time{})
	p.rig = newRig(t, p.o)
	p.rig.now = epoch.Add(26*24*time.Hour + 22*time.Hour) // the clocks are put forward in two days, and a month ends
	return p
}

// length is about how long a period is.
func length(p *Policy) time.Duration {
	switch {
	case p.Kind == Idle:
		return p.Gap.Std()
	case p.Period.Calendar == weir.Day:
		return 24 * time.Hour
	case p.Period.Calendar == weir.Month:
		return 31 * 24 * time.Hour
	}
	return p.Period.Length
}

// options draws other figures and policies beside the limit.
func (p *play) options(at time.Time) {
	limit := &p.o.Policies[0]
	if limit.Name != "limit" {
		limit = &p.o.Policies[1]
	}
	switch {
	case limit.Kind == Idle:
	case limit.Window == GCRA:
		if p.rig == nil || !p.q.Keeps() { // a store knows when a debt is paid off, and not at which rate
			limit.Limit = Count(rapid.Int64Range(1, 6).Draw(p.rt, "limit"))
		}
		before := limit.Burst.N
		limit.Burst = Count(rapid.Int64Range(1, 8).Draw(p.rt, "burst"))
		p.raised += max(0, limit.Burst.N-before)
	default:
		limit.Limit = Count(rapid.Int64Range(1, 6).Draw(p.rt, "limit"))
	}
	rate, _ := tokens(limit)
	p.rates = append(p.rates, paceFrom{at, rate})
	beside := Policy{Name: "beside", Limit: Count(1_000_000), Period: weir.Period{Length: time.Hour}}
	switch rapid.IntRange(0, 2).Draw(p.rt, "beside") {
	case 0:
		p.o = one(*limit)
	case 1:
		p.o = one(*limit, beside)
	case 2:
		p.o = one(beside, *limit)
	}
}

// limit is the policy in force, everything filled in.
func (p *play) limit() Policy {
	all := p.o.WithDefaults().Policies
	return all[slices.IndexFunc(all, func(l Policy) bool { return l.Name == "limit" })]
}

// tokens are rate and burst of a steady limit.
func tokens(l *Policy) (rate float64, burst int64) {
	if l.Kind == Idle {
		return 1 / float64(l.Gap), 1
	}
	return float64(l.Limit.N) / float64(l.Period.Length), l.Burst.N
}

// pace is the lowest and the highest rate since a time. What an account owes is worked out anew when it asks for the
// first time after the rate has changed: until then either rate may have held.
func (p *play) pace(since time.Time) (low, high float64) {
	for i, from := range p.rates {
		if i+1 == len(p.rates) || !p.rates[i+1].at.Before(since) {
			if high = max(high, from.rate); low == 0 || from.rate < low {
				low = from.rate
			}
		}
	}
	return low, high
}

func steadily(l *Policy) bool { return l.Kind == Idle || l.Window == GCRA }

func (p *play) step() {
	limit := p.limit()
	period := length(&limit)
	account := rapid.SampledFrom([]string{"adversary", "adversary", "innocent"}).Draw(p.rt, "account")
	switch rapid.IntRange(0, 11).Draw(p.rt, "step") {
	case 0:
		wait := time.Duration(rapid.Int64Range(0, int64(period)*5/4).Draw(p.rt, "wait"))
		if rapid.IntRange(0, 3).Draw(p.rt, "tardy") == 0 { // whoever calls those in line is late
			p.now, wait = p.now.Add(wait), 0
		}
		p.pass(wait)
	case 1: // to the edge of a part of a period, and of a burst's
		part := rapid.SampledFrom([]time.Duration{period, (period + 15) / 16,
			period / time.Duration(max(1, limit.Limit.N))}).Draw(p.rt, "part")
		p.pass(p.now.Truncate(part).Add(part).Sub(p.now) - time.Duration(rapid.IntRange(0, 1).Draw(p.rt, "before")))
	case 2, 3:
		p.take(account, rapid.Int64Range(1, 3).Draw(p.rt, "cost"), 0)
	case 4:
		for range 20 {
			if p.take(account, 1, 0) != weir.Admit {
				break
			}
		}
	case 5: // a goroutine that was held up
		if limit.Over == OverDelay {
			break // when those in line were called would not be known
		}
		late := min(time.Duration(rapid.Int64Range(0, int64(period)/2).Draw(p.rt, "late")), p.now.Sub(p.kept))
		late = min(late, time.Duration(maxLate)) // beyond that it is a clock that was set back
		for other, log := range p.logs {
			if other != account { // the two may share a shard and its clock, and may not
				late = min(late, max(0, p.now.Sub(log.seen)))
			}
		}
		p.take(account, 1, late)
	case 6:
		p.atOnce(account)
	case 7, 8:
		p.end(rapid.Bool().Draw(p.rt, "cancelled"))
	case 9:
		p.save()
		if rapid.Bool().Draw(p.rt, "stop") {
			p.restart()
		}
	case 10:
		if rapid.IntRange(0, 3).Draw(p.rt, "kill") == 0 {
			p.restart()
		}
	case 11:
		p.options(p.now)
		if err := p.q.Configure(p.o, p.now); err != nil {
			p.rt.Fatal(err)
		}
		p.collect(nil)
	}
}

// take asks for a cost, with a time that is so late, and checks the answer.
func (p *play) take(account string, cost int64, late time.Duration) weir.Verdict {
	limit, log := p.limit(), p.logs[account]
	if limit.Kind == Idle {
		cost = 1
	}
	now := p.now
	p.now = now.Add(-late)
	if p.now.After(log.seen) {
		log.seen = p.now
	}
	g := &grant{account: account, at: log.seen, cost: cost, limit: limit, late: !log.seen.Equal(p.now)}
	inside := !g.late && p.inside(g)
	e := p.judge(weir.Event{Account: account, Cost: cost})
	g.event, p.now = e, now
	if inside && e.answer.Verdict != weir.Admit {
		p.rt.Fatalf("%s: %s is inside its limit with %d more: %s\n%s", p.now.Sub(epoch), account, cost,
			e.answer.Explain(), p.told(account))
	}
	switch e.answer.Verdict {
	case weir.Admit:
		p.goesOn(g)
	case weir.Wait:
		p.lined = append(p.lined, g)
		p.collect(nil)
	}
	return e.answer.Verdict
}

// atOnce asks from several goroutines.
func (p *play) atOnce(account string) {
	log := p.logs[account]
	if len(p.lined) > 0 || p.limit().Over == OverDelay {
		return
	}
	log.seen = p.now
	var all sync.WaitGroup
	var n atomic.Int64
	for range 4 {
		all.Go(func() {
			for range 3 {
				var a weir.Answer
				_ = p.q.Judge(context.Background(), &weir.Event{Account: account, Time: p.now}, &a)
				if a.Verdict == weir.Admit {
					n.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n.Load() > 0 {
		p.goesOn(&grant{account: account, at: p.now, cost: n.Load(), limit: p.limit()})
	}
}

// pass lets time pass; those whose turn comes go on.
func (p *play) pass(d time.Duration) { p.collect(p.advance(max(0, d))) }

// collect takes in who was called.
func (p *play) collect(calls map[time.Duration][]int) {
	if calls == nil {
		calls = map[time.Duration][]int{}
	}
	if now := p.called(); now != nil {
		calls[p.now.Sub(epoch)] = append(calls[p.now.Sub(epoch)], now...)
	}
	for _, at := range slices.Sorted(maps.Keys(calls)) {
		for _, n := range calls[at] {
			i := slices.IndexFunc(p.lined, func(g *grant) bool { return g.n == n })
			g := p.lined[i]
			p.lined = slices.Delete(p.lined, i, i+1)
			g.at, g.limit = epoch.Add(at), p.limit()
			p.goesOn(g)
		}
	}
	p.lined = slices.DeleteFunc(p.lined, func(g *grant) bool { return g.answer.Verdict == weir.Refuse })
	for _, g := range p.lined {
		p.logs[g.account].seen = p.now
	}
}

// end settles one that is under way, or in line.
func (p *play) end(cancelled bool) {
	all := append(slices.Clone(p.lined), p.under...)
	if len(all) == 0 {
		return
	}
	i := rapid.IntRange(0, len(all)-1).Draw(p.rt, "who")
	g := all[i]
	if i < len(p.lined) {
		p.lined = slices.Delete(p.lined, i, i+1)
		p.settle(g.event, false)
	} else {
		p.under = slices.Delete(p.under, i-len(p.lined), i-len(p.lined)+1)
		p.settle(g.event, !cancelled)
		if cancelled {
			log := p.logs[g.account]
			log.seen = p.now
			at := slices.IndexFunc(log.granted, func(o grant) bool { return o.event == g.event })
			log.granted[at].cancelled = true
			// What was late may have been charged to another time. A steady limit has been paying it off, and gives
			// back nothing that was charged before its options changed.
			reloaded := !g.at.After(p.rates[len(p.rates)-1].at)
			log.granted[at].late = g.late || steadily(&g.limit) && (p.now.After(g.at) || reloaded)
		}
	}
	p.collect(nil)
}

// save writes the counters down.
func (p *play) save() {
	p.kept = p.now
	p.shelf.take(p.rt, p.q, p.now)
	p.saved = map[string]ledger{}
	for account, log := range p.logs {
		log.seen = p.now
		p.saved[account] = ledger{slices.Clone(log.granted), log.seen}
	}
}

// restart begins anew with what is written down. The rest is lost, and so is what is not kept at all.
func (p *play) restart() {
	keeps := p.q.Keeps()
	p.options(p.now)
	now := p.now
	p.rig = newRig(p.t, p.o)
	p.now, p.kept, p.under, p.lined = now, now, nil, nil
	for _, c := range p.shelf {
		if c.Counts(now) {
			if err := p.q.Restore(c, now); err != nil {
				p.rt.Fatalf("%+v: %v", c, err)
			}
		}
	}
	for account, log := range p.logs {
		*log = ledger{seen: now}
		if keeps && p.saved != nil {
			log.granted = slices.Clone(p.saved[account].granted)
		}
	}
}

// goesOn notes a grant, and checks every stretch that ends with it.
func (p *play) goesOn(g *grant) {
	log := p.logs[g.account]
	if g.at.After(log.seen) {
		log.seen = g.at
	}
	g.raised = p.raised
	log.granted = append(log.granted, *g)
	if g.event != nil {
		p.under = append(p.under, g)
	}
	got, most := int64(0), g.limit.Limit.N
	for _, o := range slices.Backward(log.granted) {
		if o.cancelled {
			continue
		}
		switch age := g.at.Sub(o.at); {
		case steadily(&g.limit):
			_, burst := tokens(&o.limit)
			_, rate := p.pace(o.at)
			over := 0.0
			if g.limit.Over == OverDelay && g.limit.Kind != Idle {
				over = float64(catchUp) // so much late may somebody in line be called
			}
			most = int64(float64(burst+g.raised-o.raised) + rate*(float64(age)+over) + 1e-6)
		case g.limit.Window == Sliding && age >= g.limit.Period.Length, g.limit.Window != Sliding &&
			!samePeriod(&g.limit, o.at, g.at):
			continue
		}
		if got += o.cost; got > most {
			p.rt.Fatalf("%s: %s was granted %d since %s, the most is %d\n%s",
				g.at.Sub(epoch), g.account, got, o.at.Sub(epoch), most, p.told(g.account))
		}
	}
}

// samePeriod reports whether two times lie in the same period, by the clock on the wall.
func samePeriod(p *Policy, a, b time.Time) bool {
	switch p.Period.Calendar {
	case weir.Day:
		return a.In(berlin).Format(time.DateOnly) == b.In(berlin).Format(time.DateOnly)
	case weir.Month:
		return a.In(berlin).Format("2006-01") == b.In(berlin).Format("2006-01")
	}
	return a.UnixNano()/int64(p.Period.Length) == b.UnixNano()/int64(p.Period.Length)
}

// inside reports whether an event is surely inside the limit of its account.
func (p *play) inside(g *grant) bool {
	if slices.ContainsFunc(p.lined, func(o *grant) bool { return o.account == g.account }) {
		return false // those in line come first
	}
	l := &g.limit
	sliding := l.Window == Sliding
	used, last := float64(g.cost), time.Time{}
	if !steadily(l) {
		for _, o := range p.logs[g.account].granted {
			if o.cancelled && !o.late || !sliding && !samePeriod(l, o.at, g.at) ||
				sliding && g.at.Sub(o.at) >= 17*((l.Period.Length+15)/16) { // a charge may be remembered for that long
				continue
			}
			used += float64(o.cost)
		}
		return used <= float64(l.Limit.N)
	}
	// A bucket that leaks.
	_, burst := tokens(l)
	level := 0.0
	for _, o := range p.logs[g.account].granted {
		if o.cancelled && !o.late {
			continue
		}
		rate, _ := p.pace(last)
		level = max(0, level-rate*float64(o.at.Sub(last))) + float64(o.cost)
		last = o.at
	}
	rate, _ := p.pace(last)
	level = max(0, level-rate*float64(g.at.Sub(last)))
	return level+used <= float64(burst)-1e-6
}

func (p *play) told(account string) (text string) {
	for _, g := range p.logs[account].granted {
		text += fmt.Sprintf("%s: %d, cancelled %v, late %v\n", g.at.Sub(epoch), g.cost, g.cancelled, g.late)
	}
	return fmt.Sprintf("%+v\n%s", p.o.Policies, text)
}
