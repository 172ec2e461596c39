//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"weir"
	"weir/throttle/quota"
)

// A load is what the nodes of a farm did for a while, for each node.
type load struct {
	rate      int     // decisions a second that were wanted
	decisions float64 // a second, as are the following
	told      float64 // counters
	messages  float64 // that were sent
	sent      float64 // bytes, before they are copied for each of the others
	received  float64
	cpu       float64       // of a core
	lost      uint64        // messages, in all
	delivery  time.Duration // the 99th percentile
}

// borne reports whether the machine could do it: all was decided in time, and nobody heard of it late.
func (l *load) borne() bool {
	return l.decisions >= 0.95*float64(l.rate) && l.lost == 0 && l.delivery < 100*time.Millisecond
}

// cost describes a load, less what the nodes did alone.
func (l *load) cost(alone *load) string {
	return fmt.Sprintf("%.0f messages/s with %.0f counters/s, %.0f KB/s sent to each of the others, %.0f KB/s received, "+
		"%.1f %% of a core for it (%.1f %% for the decisions), delivery p99 %.1f ms", l.messages, l.told, l.sent/1e3,
		l.received/1e3, 100*(l.cpu-alone.cpu), 100*alone.cpu, l.delivery.Seconds()*1000)
}

// farmScale is Q5s: what it costs that nodes tell each other, by their number and by what each decides. Nodes are in
// one process and speak over the loopback. A run in which each counts for itself is taken off.
func farmScale(t *trial) (figures []figure) {
	const middle = 5000 // at which farms of different sizes are compared
	f := &field{accounts: 100_000, seconds: 10}
	counts, rates := []int{2, 4, 8}, []int{1000, middle, 10_000, 20_000, 40_000, 80_000}
	if t.quick {
		f.accounts, f.seconds, counts, rates = 2000, 1, []int{2, 8}, rates[:2]
	}
	for i := range f.accounts {
		f.names = append(f.names, fmt.Sprintf("account-%06d", i))
	}
	row := func(what, got string) { figures = append(figures, figure{what, []value{{text: got}}, ""}) }
	last := counts[len(counts)-1]
	each := map[int]float64{} // microseconds of a decision, by the number of nodes
	for _, nodes := range counts {
		wanted := rates
		if nodes < last {
			wanted = []int{middle}
		}
		f.nodes, f.limit, f.know = nodes, 1_000_000, true
		alone, farm := f.play(quota.FarmLocal, wanted), f.play(quota.FarmBroadcast, wanted)
		for i := range farm.loads {
			l, without := &farm.loads[i], &alone.loads[i]
			if l.rate == middle {
				each[nodes] = 1e6 * (l.cpu - without.cpu) / l.decisions
			}
			if l.borne() {
				row(f.what(l.rate), l.cost(without))
			} else {
				row(f.what(l.rate)+": more than this machine bears", fmt.Sprintf("%.0f decisions/s, %d messages lost, "+
					"delivery p99 %.0f ms", l.decisions, l.lost, l.delivery.Seconds()*1000))
			}
		}
		row(fmt.Sprintf("… a farm of %d, memory of an account on each node: farm: local / broadcast; its part of a "+
			"snapshot", nodes), fmt.Sprintf("%.0f / %.0f bytes; %.0f bytes", alone.memory, farm.memory, farm.snapshot))
	}
	others := (each[last] - each[counts[0]]) / float64(last-counts[0])
	row(fmt.Sprintf("… processor time of a decision that is told, at its node / at each node that hears of it, by farms "+
		"of %d and %d", counts[0], last), fmt.Sprintf("%.2f µs / %.2f µs", each[counts[0]]-others*float64(counts[0]-1),
		others))

	f.limit, f.know = 20, false
	alone, farm := f.play(quota.FarmLocal, rates[:1]), f.play(quota.FarmBroadcast, rates[:1])
	row(f.what(rates[0])+", limits of 20: each charge is told at once", farm.loads[0].cost(&alone.loads[0]))
	return figures
}

// A field is a farm that is to be measured.
type field struct {
	accounts, seconds int
	names             []string // of the accounts
	nodes             int
	limit             int64
	know              bool // every account is known everywhere before the first rate
}

// A yield is what was measured of a farm.
type yield struct {
	loads    []load
	memory   float64 // bytes of an account on a node
	snapshot float64 // bytes of an account
}

func (f *field) what(rate int) string {
	return fmt.Sprintf("farm of %d, %d accounts active at all nodes, %d decisions a second and node", f.nodes, f.accounts,
		rate)
}

// play grows a farm and lets the nodes decide at each of the rates, up to the first one that the machine does not bear.
func (f *field) play(how quota.Farm, rates []int) (y yield) {
	before := heap()
	all := grow(f.nodes, quota.Options{MaxAccounts: 4 * f.accounts, Policies: []quota.Policy{{Name: "p",
		Limit: quota.Count(f.limit), Period: weir.Period{Length: 24 * time.Hour}, Farm: how}}})
	empty := heap() - before
	if f.know {
		// so many a second, heard by all others, are borne also by a busy machine
		decide(all, f.names, min(8000, 60_000/(f.nodes*(f.nodes-1))), 0)
		quiet(all)
		y.memory = float64(heap()-before-empty) / float64(f.nodes*f.accounts)
		all[0].shared.Snapshot(time.Now(), func(msg []byte) bool {
			y.snapshot += float64(len(msg)) / float64(f.accounts)
			return true
		})
	}
	for _, rate := range rates {
		var l load
		for tries := 3; tries > 0; tries-- { // something else may have kept the machine busy
			if l = decide(all, f.names, rate, f.seconds); how == quota.FarmLocal || l.borne() {
				break
			}
			quiet(all)
		}
		quiet(all)
		if y.loads = append(y.loads, l); how == quota.FarmBroadcast && !l.borne() {
			break
		}
	}
	reap(all)
	return y
}

// quiet waits until nothing is under way, for a minute at most, and forgets how long messages took.
func quiet(all []*grower) {
	var heard uint64
	end := time.Now().Add(time.Minute)
	for again := true; again && time.Now().Before(end); {
		time.Sleep(300 * time.Millisecond)
		before := heard
		heard = 0
		for _, g := range all {
			heard += g.shared.Stats().Heard
		}
		again = heard != before
	}
	for _, g := range all {
		g.mu.Lock()
		g.delay = nil
		g.mu.Unlock()
	}
}

// decide has every node decide at a rate, about accounts in an order of its own: for so many seconds, or once about
// each.
func decide(all []*grower, names []string, rate, seconds int) (l load) {
	n := rate * seconds
	if n == 0 {
		n = len(names)
	}
	type sum struct {
		sent, received, told, messages float64
		lost                           uint64
	}
	count := func() (s sum) {
		for _, g := range all {
			stats, bus := g.shared.Stats(), g.farm.Stats()
			s.sent, s.received = s.sent+float64(g.bus.sent.Load()), s.received+float64(g.bus.received.Load())
			s.told, s.messages = s.told+float64(stats.Told), s.messages+float64(bus.Sent)
			s.lost += bus.Dropped + bus.Missed
		}
		return s
	}
	before, cpu, start := count(), processTime(), time.Now()
	end := start.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
	done := make([]int, len(all))
	together(len(all), func(i int) error {
		order := rand.New(rand.NewPCG(uint64(rate), uint64(i))).Perm(len(names))
		var a weir.Answer
		ev := weir.Event{}
		for k := 0; k < n; {
			now := time.Now()
			if now.After(end.Add(time.Second)) {
				return nil
			}
			for due := min(n, int(now.Sub(start).Seconds()*float64(rate))+1); k < due; k++ {
				ev.Time, ev.Account = now, names[order[k%len(order)]]
				a.Clear()
				if err := all[i].quota.Judge(context.Background(), &ev, &a); err != nil {
					return err
				}
				if a.Verdict == weir.Admit {
					all[i].quota.Settle(a.Hold, weir.Outcome{Time: now, Done: true, Status: http.StatusOK})
				}
				done[i]++
			}
			time.Sleep(time.Millisecond)
		}
		return nil
	})
	per := float64(len(all)) * time.Since(start).Seconds()
	time.Sleep(50 * time.Millisecond) // the last ones are told
	after := count()
	for _, n := range done {
		l.decisions += float64(n) / per
	}
	l.rate, l.cpu, l.delivery = rate, (processTime()-cpu).Seconds()/per, delivery(all)
	l.told, l.messages = (after.told-before.told)/per, (after.messages-before.messages)/per
	l.sent, l.received = (after.sent-before.sent)/per, (after.received-before.received)/per
	l.lost = after.lost - before.lost
	return l
}
