package quota

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/internal/testkit/needs"
)

// v4 is the n-th of many addresses.
func v4(n int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(10<<24+n))
	return netip.AddrFrom4(b)
}

// send judges a request of an account from a source, and settles it as the upstream answers it, if it got there.
func (r *rig) send(account string, from netip.Addr, status int) *event {
	r.t.Helper()
	e := r.judge(weir.Event{Account: account, Source: from})
	if e.answer.Verdict == weir.Admit {
		r.answered(e, status)
	}
	return e
}

func (r *rig) answered(e *event, status int) {
	r.q.Settle(e.answer.Hold, weir.Outcome{Time: r.now, Done: true, Status: status})
}

// flood sends one request each of n invented keys, each from an address of its own.
func (r *rig) flood(name string, n, status int) {
	r.t.Helper()
	for i := range n {
		r.send(fmt.Sprint(name, i), v4(1<<20+i), status)
	}
}

// exactly wants an account to have so many requests left, each answered with 200, and then to be refused by its own
// limit.
func (r *rig) exactly(account string, from netip.Addr, left int) {
	r.t.Helper()
	for i := range left {
		if e := r.send(account, from, 200); e.answer.Verdict != weir.Admit {
			r.t.Fatalf("%s: request %d of %d: %s", account, i+1, left, e.answer.Explain())
		}
	}
	r.want(r.send(account, from, 200), weir.Refuse, weir.OverLimit)
}

func TestOpinions(t *testing.T) {
	for want, statuses := range map[opinion][]int{
		accepts: {101, 200, 201, 204, 206, 299, 304, 402, 404, 405, 409, 410, 422, 451},
		rejects: {401, 403},
		none:    {0, 100, 103, 300, 301, 302, 303, 307, 308, 400, 407, 408, 429, 500, 502, 503, 504, 599},
	} {
		for _, s := range statuses {
			if got := opinionOf(&weir.Outcome{Done: true, Status: s}); got != want {
				t.Errorf("%d: %d, want %d", s, got, want)
			}
			if got := opinionOf(&weir.Outcome{Status: s}); got != unasked {
				t.Errorf("%d, not done: %d", s, got)
			}
		}
	}
}

// However many keys are invented, a new customer of a monthly plan gets the whole of it, and nobody who was there
// before loses anything.
func TestInventedKeysKeepNobodyOut(t *testing.T) {
	needs.Unwatched(t)
	for _, w := range []WindowKind{Fixed, Sliding, GCRA} {
		p := daily(5, w)
		if w == Fixed {
			p = monthly(5)
		}
		o := one(p)
		o.MaxAccounts = 100
		r := newRig(t, o)
		r.send("old", v4(1), 200)
		r.send("old", v4(1), 200)
		for i := range 20 {
			r.flood(fmt.Sprint("invented-", i, "-"), 100, 401)
			r.exactly(fmt.Sprint("new-", i), v4(2+i), 5)
		}
		r.exactly("old", v4(1), 3)
		for i := range 20 {
			r.want(r.send(fmt.Sprint("new-", i), v4(2+i), 200), weir.Refuse, weir.OverLimit)
		}
		if s := r.q.Stats(); s.Accounts != 100 || s.Probation != 79 || s.PushedOut == 0 || s.Strangers != 0 {
			t.Errorf("%s: %+v", w, s)
		}
	}
}

// Invented keys that use up their limits, and whose answers say nothing, do not keep a new customer out either.
func TestUsedUpKeysKeepNobodyOut(t *testing.T) {
	needs.Unwatched(t)
	o := one(monthly(3))
	o.MaxAccounts = 1000
	r := newRig(t, o)
	for i := range 2000 {
		for range 4 {
			r.send(fmt.Sprint("invented-", i), v4(1<<20+i), []int{0, 401, 503}[i%3])
		}
	}
	for i := range 20 {
		r.exactly(fmt.Sprint("new-", i), v4(i), 3)
	}
}

// Whoever is pushed out goes on with what was used, and is told that a shared limit is used up, and to try again soon.
func TestPushedOutGetNoMore(t *testing.T) {
	needs.Unwatched(t)
	for _, status := range []int{0, 503, 302, 401} {
		for _, p := range []Policy{monthly(5), daily(5, Sliding), daily(5, GCRA)} {
			o := one(p)
			o.MaxAccounts = 10
			r := newRig(t, o)
			for range 5 {
				r.want(r.send("greedy", v4(1), status), weir.Admit, 0)
			}
			for i := 0; ; i++ {
				if _, known := r.q.Account("greedy", r.now); !known {
					break
				}
				if i == 1000 {
					t.Fatal("nobody is pushed out")
				}
				for range 6 {
					r.send(fmt.Sprint("invented-", i), v4(1<<20+i), 0)
				}
			}
			e := r.want(r.send("greedy", v4(1), status), weir.Refuse, weir.SharedLimit)
			if wait := e.answer.Until.Sub(r.now); wait <= 0 || wait > time.Minute ||
				e.answer.Reset.Sub(r.now) > time.Minute {
				t.Errorf("%s %d: refused for %s, %s", p.Window, status, wait, e.answer.Reset.Sub(r.now))
			}
			var why weir.Answer
			r.q.Peek(&weir.Event{Account: "greedy", Source: v4(1), Time: r.now}, &why)
			if why.Reason != weir.SharedLimit {
				t.Errorf("why: %s", why.Explain())
			}
			r.now = r.now.Add(35 * 24 * time.Hour) // it is over
			r.exactly("greedy", v4(1), 5)
		}
	}
}

// Of those on probation, the keys that were turned away go first, and then the ones that were used least.
func TestTheLeastGoesFirst(t *testing.T) {
	o := one(monthly(100))
	o.MaxAccounts = 2 * shards // two in a shard are looked at together
	r := newRig(t, o)
	for range 10 {
		r.send("regular", v4(1), 0)
	}
	for i := range 20 * shards {
		r.send(fmt.Sprint("invented-", i), v4(2+i), []int{0, 401}[i%2])
	}
	if _, known := r.q.Account("regular", r.now); !known {
		t.Error("an account with ten requests was pushed out, and there were many with one")
	}
}

// A request under way keeps its account in the table, so that its answer finds it.
func TestUnderWayNobodyIsPushedOut(t *testing.T) {
	o := one(monthly(5))
	o.MaxAccounts = 10
	r := newRig(t, o)
	e := r.judge(weir.Event{Account: "slow", Source: v4(1)})
	r.flood("invented-", 1000, 401)
	r.answered(e, 200)
	r.flood("more-", 1000, 401)
	r.exactly("slow", v4(1), 4)
}

// A source brings so many new accounts once the table is half full, and one more shares.
func TestNewAccountsHaveABound(t *testing.T) {
	o := one(monthly(5))
	o.MaxAccounts, o.NewAccounts = 100, weir.Rate{Count: 3, Per: time.Hour}
	r := newRig(t, o)
	for i := range 50 { // as long as there is room, nobody counts
		r.send(fmt.Sprint("early-", i), v4(1), 0)
	}
	own := func(account string, from netip.Addr, status int, want bool) {
		t.Helper()
		before := r.q.Stats().Strangers
		r.send(account, from, status)
		if _, known := r.q.Account(account, r.now); known != want || r.q.Stats().Strangers-before == 0 != want {
			t.Fatalf("%s has a place: %v, want %v", account, known, want)
		}
	}
	for i := range 3 {
		own(fmt.Sprint("a-", i), v4(1), 0, true)
	}
	own("a-3", v4(1), 401, false)
	own("b-0", v4(2), 0, true) // another source
	own("early-1", v4(1), 0, true)
	r.now = r.now.Add(20 * time.Minute)
	own("a-3", v4(1), 0, true)
	own("a-4", v4(1), 0, false)

	// An account that the upstream accepts does not count. So many are ten times as many.
	for i := range 30 {
		own(fmt.Sprint("c-", i), v4(3), 200, true)
	}
	if s := r.q.Stats(); s.Accounts-s.Probation != 30 {
		t.Errorf("%+v", s)
	}
	for i := range 3 { // these stay on probation, and count
		own(fmt.Sprint("d-", i), v4(3), 200, true)
	}
	own("d-3", v4(3), 200, false)
	own("d-0", v4(3), 200, true)
	if s := r.q.Stats(); s.Accounts-s.Probation != 30 {
		t.Errorf("%+v", s)
	}

	// Without a source nobody can tell who brings an account: then the table alone is the bound.
	for i := range 10 {
		own(fmt.Sprint("nowhere-", i), netip.Addr{}, 0, true)
	}
}

// Somebody with a /48 has 65,536 networks, and brings sixteen times as much as one.
func TestASiteHasABoundToo(t *testing.T) {
	o := one(monthly(5))
	o.MaxAccounts, o.NewAccounts = 1000, weir.Rate{Count: 3, Per: time.Hour}
	r := newRig(t, o)
	for i := range 500 {
		r.send(fmt.Sprint("early-", i), v4(i), 0)
	}
	from := func(site, network byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 5: site, 7: network, 15: 1})
	}
	for i := range 200 {
		r.send(fmt.Sprint("a-", i), from(1, byte(i)), 0)
	}
	if s := r.q.Stats(); s.Strangers != 200-16*3 {
		t.Errorf("%+v", s)
	}
	for i := range 48 {
		r.send(fmt.Sprint("b-", i), from(2, byte(i)), 0)
	}
	// Who has no account is counted by the network, and bounded alike.
	for i := range 100 {
		r.judge(weir.Event{Source: from(3, byte(i))})
	}
	if s := r.q.Stats(); s.Strangers != 200-16*3+100-16*3 {
		t.Errorf("%+v", s)
	}
}

// However many sources bring one account each, those that have brought all they may stay bounded, and what was given
// back may be brought again.
func TestSourcesAreBounded(t *testing.T) {
	o := one(monthly(5))
	o.NewAccounts = weir.Rate{Count: 3, Per: time.Hour}
	q := newRig(t, o).q
	rs, sources, now := q.rules.Load(), &q.table.sources, nanos(epoch)
	bring := func(n int) bool { return sources.fits(rs, newKeys, sources.of(rs, v4(n)), now, true) }
	greedy := 20
	for n := range greedy {
		for i := range 4 {
			if brought := bring(n); brought != (i < 3) {
				t.Fatalf("source %d brings account %d: %v", n, i+1, brought)
			}
		}
	}
	for n := range 2 * sourceSets * sourceWays {
		bring(greedy + n)
	}
	for n := range greedy {
		if bring(n) {
			t.Errorf("source %d is forgotten", n)
		}
		sources.give(rs, newKeys, sources.of(rs, v4(n)), now)
		if !bring(n) || bring(n) {
			t.Errorf("source %d was given one account back", n)
		}
	}
}

// A stranger that the upstream accepts gets a place, and what it was charged as a stranger is moved there.
func TestAGuestEarnsAPlace(t *testing.T) {
	for _, w := range []WindowKind{Fixed, Sliding, GCRA} {
		for _, over := range []Over{OverRefuse, OverDelay} {
			p := daily(5, w)
			p.Over = over
			o := one(p, Policy{Name: "at-once", Kind: Concurrent, Limit: Count(10)})
			o.MaxAccounts, o.NewAccounts = 2, weir.Rate{Count: 1, Per: time.Hour}
			r := newRig(t, o)
			r.send("first", v4(1), 401)
			r.send("second", v4(1), 401)
			set := func(name string) *account { return r.q.table.stranger(r.q.table.hash(name, netip.Addr{})) }
			stranger := "stranger"
			// one of them is pushed out, and goes there
			for set(stranger) == set("first") || set(stranger) == set("second") {
				stranger += "x"
			}
			e, f := r.judge(weir.Event{Account: stranger, Source: v4(1)}),
				r.judge(weir.Event{Account: stranger, Source: v4(1)})
			if s := r.q.Stats(); s.Strangers != 2 {
				t.Fatalf("%+v", s)
			}
			r.answered(e, 200)
			if a := r.q.table.lookup(r.q.rules.Load(), stranger, netip.Addr{}); a == nil {
				t.Fatalf("%s: it has no place", w)
			} else {
				if a.onProbation() {
					t.Errorf("%s: others can push it out", w)
				}
				a.shard.mu.Unlock()
			}
			r.answered(f, 500)
			s, known := r.q.Account(stranger, r.now)
			if !known || s.Rules[0].Remaining != 3 || s.Rules[1].Remaining != 10 {
				t.Errorf("%s: %+v", w, s)
			}
			if !set(stranger).idle(r.q.rules.Load(), nanos(r.now)) {
				t.Errorf("%s: strangers are still charged", w)
			}
		}
	}
}

// Where the table is full of accepted accounts, newcomers share: there is nobody to push out.
func TestAcceptedAccountsFillTheTable(t *testing.T) {
	o := one(monthly(5))
	o.MaxAccounts = 10
	r := newRig(t, o)
	for i := range 11 {
		r.send(fmt.Sprint("a-", i), v4(i), 200)
	}
	if s := r.q.Stats(); s.Accounts != 10 || s.Probation != 0 || s.Strangers != 1 || s.PushedOut != 0 {
		t.Errorf("%+v", s)
	}
	r.now = r.now.Add(35 * 24 * time.Hour) // idle ones make room as ever
	r.exactly("late", v4(99), 5)
}

// Members have a place from the start, also those that a reload names.
func TestNamedAccountsAreAccepted(t *testing.T) {
	o := one(monthly(5))
	o.MaxAccounts = 10
	r := newRig(t, o)
	for range 2 {
		r.send("partner", v4(1), 0)
	}
	o.Members = map[string]string{"partner": "gold", "other": "gold"}
	if err := r.q.Configure(o, r.now); err != nil {
		t.Fatal(err)
	}
	r.send("partner", v4(1), 0)
	r.flood("invented-", 1000, 401)
	r.flood("silent-", 1000, 0)
	r.exactly("partner", v4(1), 2)
	for range 5 {
		r.want(r.send("other", v4(1), 0), weir.Admit, 0) // a gate that sees no status
	}
	r.flood("again-", 1000, 0)
	r.want(r.send("other", v4(1), 0), weir.Refuse, weir.OverLimit)
	o.Members = nil
	if err := r.q.Configure(o, r.now); err != nil {
		t.Fatal(err)
	}
	r.flood("later-", 1000, 0)
	r.want(r.send("other", v4(1), 0), weir.Refuse, weir.OverLimit) // once accepted, it stays so
}

// A restart keeps who was accepted, and what was invented is not kept at all.
func TestARestartKeepsWhoWasAccepted(t *testing.T) {
	for _, p := range []Policy{monthly(5), daily(5, Sliding), daily(5, GCRA),
		{Name: "traffic", Kind: Volume, Limit: Bytes(5), Period: weir.Period{Calendar: weir.Month}}} {
		o := one(p)
		o.MaxAccounts = 10
		o.Members = map[string]string{"partner": "gold"}
		r, saved := newRig(t, o), shelf{}
		for _, account := range []string{"a", "partner"} {
			e := r.judge(weir.Event{Account: account, Source: v4(1)})
			r.q.Flow(e.answer.Hold, 2, r.now)
			r.answered(e, 200)
		}
		for i := range 4 {
			e := r.judge(weir.Event{Account: fmt.Sprint("invented-", i), Source: v4(i)})
			r.q.Flow(e.answer.Hold, 1, r.now)
			r.answered(e, 401)
		}
		if n := len(saved.take(t, r.q, r.now)); n != 3 {
			t.Errorf("%s: %d counters are saved: %+v", p.Name, n, saved)
		}
		r.q = saved.give(t, o, r.now)
		if s := r.q.Stats(); s.Accounts != 2 || s.Probation != 0 {
			t.Errorf("%s: %+v", p.Name, s)
		}
		r.flood("invented-", 1000, 401)
		s, known := r.q.Account("a", r.now)
		if want := map[Kind]int64{"": 4, Volume: 3}[p.Kind]; !known || s.Rules[0].Remaining != want {
			t.Errorf("%s: %v, %+v", p.Name, known, s)
		}
		// That it was accepted is not saved with every change, only with the first of a period.
		for range 2 {
			r.send("a", v4(1), 200)
			if n := len(saved.take(t, r.q, r.now)); n > 2 {
				t.Errorf("%s: %d counters are saved", p.Name, n)
			}
		}
	}
}

func TestPushedCellsAreBounded(t *testing.T) {
	for accounts, want := range map[int]int{1: pushedLeast, 1 << 14: pushedLeast, 1<<14 + 1: 2 * pushedLeast,
		100_000: 1 << 13,
		1 << 20: pushedMost, 1<<20 + 1: pushedMost, MaxAccountsCap: pushedMost} {
		if n := pushedCells(accounts); n != want {
			t.Errorf("%d accounts: %d, want %d", accounts, n, want)
		}
	}
}

// Whatever invented keys do: an accepted account is charged to itself and to nobody else, a new customer gets its
// limit, and no key gets more than its limit of answers that are not 401 or 403.
func TestWhateverInventedKeysDo(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		const limit, customers = 3, 6
		p := daily(limit, rapid.SampledFrom([]WindowKind{Fixed, Sliding, GCRA}).Draw(rt, "window"))
		o := one(p)
		o.MaxAccounts = rapid.IntRange(customers+4, 20).Draw(rt, "max")
		o.NewAccounts = weir.Rate{Count: rapid.Int64Range(1, 50).Draw(rt, "new"), Per: time.Hour}
		r := newRig(t, o)
		got, accepted := map[string]int{}, map[string]bool{}
		var slow []*event
		for range rapid.IntRange(1, 300).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "step") {
			case 0:
				c := rapid.IntRange(0, customers-1).Draw(rt, "customer")
				name := fmt.Sprint("customer-", c)
				status := rapid.SampledFrom([]int{200, 200, 404, 503, 401, 0}).Draw(rt, "status")
				if got[name] == 0 {
					status = 200
				}
				e := r.send(name, v4(c), status)
				switch admitted := e.answer.Verdict == weir.Admit; {
				case admitted:
					got[name]++
					accepted[name] = accepted[name] || status == 200 || status == 404
				case accepted[name] && e.answer.Reason != weir.OverLimit, got[name] < limit &&
					(accepted[name] || got[name] == 0):
					rt.Fatalf("%s is refused with %d of %d used: %s", name, got[name], limit, e.answer.Explain())
				}
				if got[name] > limit {
					rt.Fatalf("%s got %d of %d", name, got[name], limit)
				}
			case 1: // one key, again and again
				name := fmt.Sprint("greedy-", rapid.IntRange(0, 3).Draw(rt, "greedy"))
				if r.send(name, v4(100),
					rapid.SampledFrom([]int{0, 500, 302}).Draw(rt, "status")).answer.Verdict == weir.Admit {
					if got[name]++; got[name] > limit {
						rt.Fatalf("%s got %d of %d", name, got[name], limit)
					}
				}
			case 2: // requests that are under way for long, at most 2 keys of them
				if len(slow) < 2 {
					name := fmt.Sprint("slow-", r.next)
					if e := r.judge(weir.Event{Account: name, Source: v4(101)}); e.answer.Verdict == weir.Admit {
						slow = append(slow, e)
					}
				} else {
					r.answered(slow[0], rapid.SampledFrom([]int{0, 401}).Draw(rt, "status"))
					slow = slow[1:]
				}
			default:
				name := fmt.Sprint("invented-", r.next)
				from := v4(1<<20 + rapid.IntRange(0, 30).Draw(rt, "from"))
				for range rapid.IntRange(1, limit+1).Draw(rt, "uses") {
					r.send(name, from, rapid.SampledFrom([]int{401, 403, 0, 503}).Draw(rt, "status"))
				}
			}
		}
		r.consistent(rt)
	})
}

// consistent checks that the table's figures agree.
func (r *rig) consistent(t tb) {
	t.Helper()
	count := 0
	for i := range r.q.table.shards {
		s := &r.q.table.shards[i]
		s.mu.Lock()
		count += len(s.ring)
		if int(s.size.Load()) != len(s.ring) || s.accounts.n != len(s.ring) {
			t.Fatalf("%d in the ring, %d in the index, size %d", len(s.ring), s.accounts.n, s.size.Load())
		}
		for at, a := range s.ring {
			if int(a.index) != at || a.onProbation() != (at < int(s.newcomer.Load())) {
				t.Fatalf("%s stands at %d and thinks at %d; on probation: %v, and so are %d", a.name, at, a.index,
					a.onProbation(), s.newcomer.Load())
			}
		}
		s.mu.Unlock()
	}
	if s := r.q.Stats(); s.Accounts != count {
		t.Fatalf("%d accounts, %+v", count, s)
	}
}

// Everybody at once: the race detector looks on, customers get their limit to the last one, and in the end the figures
// agree.
func TestNewcomersAtOnce(t *testing.T) {
	o := one(monthly(50))
	o.MaxAccounts = 40
	r := newRig(t, o)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				ev := weir.Event{Account: fmt.Sprint("invented-", g, "-", i), Source: v4(1<<20 + g*2000 + i),
					Time: r.now}
				var a weir.Answer
				_ = r.q.Judge(context.Background(), &ev, &a)
				if a.Verdict == weir.Admit {
					r.q.Settle(a.Hold, weir.Outcome{Time: r.now, Done: true, Status: []int{401, 0, 503}[i%3]})
				}
			}
		})
		wg.Go(func() {
			admitted := 0
			for range 100 {
				ev := weir.Event{Account: fmt.Sprint("customer-", g), Source: v4(g), Time: r.now}
				var a weir.Answer
				_ = r.q.Judge(context.Background(), &ev, &a)
				if a.Verdict == weir.Admit {
					admitted++
					r.q.Settle(a.Hold, weir.Outcome{Time: r.now, Done: true, Status: 200})
				}
			}
			if admitted != 50 {
				t.Errorf("customer %d got %d", g, admitted)
			}
		})
	}
	wg.Wait()
	r.consistent(t)
}

func TestANewAccountsDecisionAllocatesNothing(t *testing.T) {
	r := newRig(t, one(perSecond(1<<40)))
	var a weir.Answer
	for _, status := range []int{0, 401, 503, 200} {
		if allocs := testing.AllocsPerRun(1000, func() {
			ev := weir.Event{Account: "a", Source: v4(1), Time: r.now}
			a.Clear()
			_ = r.q.Judge(context.Background(), &ev, &a)
			r.q.Settle(a.Hold, weir.Outcome{Time: ev.Time, Done: true, Status: status})
		}); allocs != 0 {
			t.Errorf("%d: %v allocations", status, allocs)
		}
	}
}

// An event under way is noticed however many others begin and end meanwhile.
func TestUnderWayAmongMany(t *testing.T) {
	var a traits
	a.begin()
	for i := range 1 << 17 {
		a.begin()
		if a.end(rejects); a.idling() || a.invented() {
			t.Fatalf("idling after %d events, and one is under way", i)
		}
	}
	if a.end(rejects); !a.idling() || !a.invented() || a.events() != maxEvents || a.has(owed|accepted|shared|charged) {
		t.Errorf("%+v when all have ended", &a)
	}
}
