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
	nodes         int
	decisions     float64 // a second, as are the following
	told          float64 // counters
	messages      float64 // that were sent
	sent          float64 // bytes, before they are copied for each of the others
	received      float64
	cpu           float64 // of a core
	dropped, lost uint64  // messages, in all
}

// farmScale is Q5s: what it costs that nodes tell each other, by their number and by what each decides. Nodes are in
// one process and speak over the loopback. A run in which each counts for itself is taken off.
func farmScale(t *trial) (figures []figure) {
	accounts, slow, fast, seconds := 100_000, 1000, 10_000, 10
	counts := []int{2, 4, 8}
	if t.quick {
		accounts, seconds, counts = 2000, 1, []int{2, 3}
	}
	names := make([]string, accounts)
	for i := range names {
		names[i] = fmt.Sprintf("account-%06d", i)
	}
	row := func(what, got string) {
		figures = append(figures, figure{what, "–", got, true})
	}
	var each [3]float64 // microseconds of a decision, by the number of nodes
	for i, nodes := range counts {
		local := scale(names, nodes, quota.FarmLocal, 1_000_000, []int{slow, fast}, seconds)
		farm := scale(names, nodes, quota.FarmBroadcast, 1_000_000, []int{slow, fast}, seconds)
		for j, rate := range []int{slow, fast} {
			if nodes == counts[len(counts)-1] || rate == fast {
				row(farm.what(nodes, accounts, rate), farm.loads[j].cost(&local.loads[j]))
			}
		}
		each[i] = 1e6 * (farm.loads[1].cpu - local.loads[1].cpu) / farm.loads[1].decisions
		row(fmt.Sprintf("… a farm of %d, memory of an account that all nodes know, on each node: farm: local / "+
			"broadcast; its part of a snapshot", nodes), fmt.Sprintf("%.0f / %.0f bytes; %.0f bytes", local.memory,
			farm.memory, farm.snapshot))
	}
	last := len(counts) - 1
	nodes := counts[last]
	others := (each[last] - each[0]) / float64(nodes-counts[0])
	row("… processor time of a decision that is told, at its node / at each node that hears of it",
		fmt.Sprintf("%.2f µs / %.2f µs", each[0]-others*float64(counts[0]-1), others))

	local := scale(names, nodes, quota.FarmLocal, 20, []int{slow}, seconds)
	farm := scale(names, nodes, quota.FarmBroadcast, 20, []int{slow}, seconds)
	row(farm.what(nodes, accounts, slow)+", limits of 20, each charge told at once", farm.loads[0].cost(&local.loads[0]))

	var most *load
	for rate := 2 * fast; ; rate += fast {
		local := scale(names, nodes, quota.FarmLocal, 1_000_000, []int{rate}, seconds)
		farm := scale(names, nodes, quota.FarmBroadcast, 1_000_000, []int{rate}, seconds)
		l := &farm.loads[0]
		if l.decisions < 0.95*float64(rate) || l.dropped+l.lost > 0 {
			break
		}
		most = l
		row(farm.what(nodes, accounts, rate), l.cost(&local.loads[0]))
		if t.quick {
			break
		}
	}
	if most != nil {
		row(fmt.Sprintf("… the most that %d nodes together bear on this machine, in steps of %d", nodes, fast),
			fmt.Sprintf("%.0f decisions a second and node", most.decisions))
	}
	return figures
}

// A scaled is what was measured of a farm.
type scaled struct {
	loads    []load
	memory   float64 // bytes of an account on a node
	snapshot float64 // bytes of an account
}

func (s *scaled) what(nodes, accounts, rate int) string {
	return fmt.Sprintf("farm of %d, %d accounts active at all nodes, %d decisions a second and node", nodes, accounts,
		rate)
}

// cost describes a load, less what the nodes did alone.
func (l *load) cost(alone *load) string {
	return fmt.Sprintf("%.0f messages/s with %.0f counters/s, %.0f KB/s sent to each of the others, %.0f KB/s received, "+
		"%.1f %% of a core for it (%.1f %% for the decisions), %d lost", l.messages, l.told, l.sent/1e3, l.received/1e3,
		100*(l.cpu-alone.cpu), 100*alone.cpu, l.dropped+l.lost)
}

// scale grows a farm, makes every account known everywhere, and lets the nodes decide at each of the rates.
func scale(names []string, nodes int, how quota.Farm, limit int64, rates []int, seconds int) (s scaled) {
	before := heap()
	all := grow(nodes, quota.Options{MaxAccounts: 4 * len(names), Policies: []quota.Policy{{Name: "p",
		Limit: quota.Count(limit), Period: weir.Period{Length: 24 * time.Hour}, Farm: how}}})
	empty := heap() - before
	const calmly = 10_000 // so many a second are known without loss
	decide(all, names, calmly, 0)
	for _, rate := range rates {
		s.loads = append(s.loads, decide(all, names, rate, seconds))
	}
	for _, g := range all {
		g.delay = nil
	}
	s.memory = float64(heap()-before-empty) / float64(nodes*len(names))
	all[0].shared.Snapshot(time.Now(), func(msg []byte) bool {
		s.snapshot += float64(len(msg)) / float64(len(names))
		return true
	})
	reap(all)
	return s
}

// decide has every node decide at a rate, about accounts in an order of its own: for so many seconds, or once about each.
func decide(all []*grower, names []string, rate, seconds int) (l load) {
	n := rate * seconds
	if n == 0 {
		n = len(names)
	}
	type sum struct {
		sent, received, told, messages, decisions float64
		dropped, lost                             uint64
	}
	count := func() (s sum) {
		for _, g := range all {
			stats, bus := g.shared.Stats(), g.farm.Stats()
			s.sent, s.received = s.sent+float64(g.bus.sent.Load()), s.received+float64(g.bus.received.Load())
			s.told, s.messages = s.told+float64(stats.Told), s.messages+float64(bus.Sent)
			s.dropped, s.lost = s.dropped+bus.Dropped, s.lost+bus.Missed
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
	l.nodes, l.cpu = len(all), (processTime()-cpu).Seconds()/per
	l.told, l.messages = (after.told-before.told)/per, (after.messages-before.messages)/per
	l.sent, l.received = (after.sent-before.sent)/per, (after.received-before.received)/per
	l.dropped, l.lost = after.dropped-before.dropped, after.lost-before.lost
	return l
}
