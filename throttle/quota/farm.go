package quota

import (
	"net/netip"
	"time"
)

// A Tally is what has been charged to an account in one period of a fixed window of requests. Totals run, so that a
// tally may arrive late, twice or out of order, and nothing is lost or doubled: the greatest one counts. Periods are
// aligned to the epoch, so that all nodes of a farm speak of the same ones.
type Tally struct {
	Account string
	Source  netip.Addr // where there is no account
	Rule    string
	Period  time.Time // when it starts
	Total   int64
}

// Report registers the one function that is called for every charge, with this node's own running total. It is called
// under locks: it must not block, nor call back. What is given back is not reported: others then count a little too
// much.
//
// Report and Others are for a farm. On a single node nobody calls them.
func (q *Quota) Report(f func(Tally)) { q.table.report.Store(&f) }

// Others takes in what all other nodes together have charged to an account. It ignores a tally of another period than
// the current one, of a rule that is not a fixed window of requests, and of an account without an entry.
func (q *Quota) Others(t Tally, now time.Time) {
	rs := q.rules.Load()
	a, _ := q.table.get(rs, t.Account, t.Source, netip.Addr{}, nanos(now), restore)
	defer a.shard.mu.Unlock()
	if a.index < 0 {
		return
	}
	for _, r := range rs.list {
		if r.Name != t.Rule || !r.tallied() {
			continue
		}
		st := a.state(r)
		r.roll(st, a.terms(rs, r), a.shard.clock(nanos(now)))
		if t.Period.UnixNano() == st.start {
			st.others = max(st.others, t.Total)
		}
	}
}

func (a *account) charge(r *rule, st *state, t *terms, now, n int64) {
	r.charge(st, t, now, n)
	if n != 0 {
		a.mark(r)
	}
	if !r.tallied() || a.index < 0 {
		return
	}
	if report := a.shard.table.report.Load(); report != nil {
		(*report)(Tally{a.name, a.source(), r.Name, time.Unix(0, st.start), st.used})
	}
}

func (r *rule) tallied() bool { return r.way == inPeriods && !r.bytes }
