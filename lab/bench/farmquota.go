//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/farm"
	"weir/farm/nats"
	"weir/internal/testkit/needs"
	"weir/throttle/quota"
)

// A grower is a node of a farm, in this process, with a quota. The nodes speak over the loopback, as those of several
// machines would over a network.
type grower struct {
	bus    *meter
	farm   *farm.Farm
	quota  *quota.Quota
	shared *quota.Shared
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu    sync.Mutex
	delay []time.Duration // of messages that were heard, from when they were handed to the farm; at most maxDelays
}

const maxDelays = 1 << 20

// A meter is a bus that counts bytes, as they are sealed. Sent ones count once, however many nodes get them.
type meter struct {
	farm.Bus
	sent, received atomic.Int64
}

func (m *meter) Send(topic string, msg []byte) error {
	m.sent.Add(int64(len(msg)))
	return m.Bus.Send(topic, msg)
}

func (m *meter) Hear(topic string, f func(msg []byte)) (stop func(), err error) {
	return m.Bus.Hear(topic, func(msg []byte) {
		m.received.Add(int64(len(msg)))
		f(msg)
	})
}

const growTopic = "quota.bench"

// grow starts nodes that count together, and waits until they know each other.
func grow(nodes int, o quota.Options) (all []*grower) {
	var peers []string
	for range nodes {
		peers = append(peers, needs.FreeAddress())
	}
	for i := range nodes {
		options := farm.Options{Node: string(rune('a' + i)), Listen: peers[i], Peers: peers,
			Secret: farm.Secrets{"a secret of this benchmark"}}
		node := farm.Node{Name: options.Node, Boot: uint64(time.Now().UnixMicro())}
		bus := try(nats.Open(nats.Options{Node: node, Options: options}))
		g := &grower{bus: &meter{Bus: bus}, quota: try(quota.New(o))}
		g.farm = try(farm.Join(farm.Joining{Bus: g.bus, Node: node, Secrets: [][]byte{[]byte(options.Secret[0])},
			Expected: nodes}, time.Now()))
		g.shared = g.quota.Share(node.Name, node.Boot,
			func(msg []byte) error { return g.farm.Send(growTopic, timed(msg)) })
		_ = try(g.farm.Keep(growTopic, g))
		ctx, cancel := context.WithCancel(context.Background())
		g.stop = cancel
		for _, c := range []weir.Clocked{g.farm, g.shared, g.quota} {
			g.done.Go(func() { drive(ctx, c) })
		}
		all = append(all, g)
	}
	for _, g := range all {
		for s := g.farm.Standing(); !s.Whole(); s = g.farm.Standing() {
			time.Sleep(10 * time.Millisecond)
		}
		s := g.farm.Standing()
		g.quota.Divide(s)
	}
	return all
}

// timed puts the time before a message, so that whoever hears it knows how long it was under way.
func timed(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(msg)), uint64(time.Now().UnixNano())), msg...)
}

func (g *grower) Hear(from farm.Node, msg []byte, _ time.Time) error {
	if len(msg) < 8 {
		return errors.New("a message without a time")
	}
	now := time.Now()
	g.mu.Lock()
	if len(g.delay) < maxDelays {
		g.delay = append(g.delay, time.Duration(now.UnixNano()-int64(binary.BigEndian.Uint64(msg))))
	}
	g.mu.Unlock()
	return g.shared.Hear(from.Name, from.Boot, msg[8:], now)
}

func (g *grower) Lasting() bool { return g.shared.Lasting() }

func (g *grower) Snapshot(_ time.Time, give func([]byte) bool) {
	g.shared.Snapshot(time.Now(), func(msg []byte) bool { return give(timed(msg)) })
}

// delivery is the 99th percentile of how long messages were under way.
func delivery(all []*grower) time.Duration {
	var delays []time.Duration
	for _, g := range all {
		g.mu.Lock()
		delays = append(delays, g.delay...)
		g.mu.Unlock()
	}
	if len(delays) == 0 {
		return 0
	}
	slices.Sort(delays)
	return delays[len(delays)*99/100]
}

// drive calls Advance when it is due.
func drive(ctx context.Context, c weir.Clocked) {
	wake := make(chan time.Time, 1024)
	c.Alarm(func(due time.Time) {
		select {
		case wake <- due:
		default:
		}
	})
	var due time.Time
	for {
		timer := time.NewTimer(time.Hour)
		if !due.IsZero() {
			timer.Reset(time.Until(due))
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case at := <-wake:
			if due.IsZero() || at.Before(due) {
				due = at
			}
		case <-timer.C:
			due = c.Advance(time.Now())
		}
		timer.Stop()
	}
}

func reap(all []*grower) {
	for _, g := range all {
		g.stop()
		g.done.Wait()
		check(g.farm.Leave(context.Background()))
	}
}

// standstill is how long a machine may stand still for a run to count.
const standstill = 20 * time.Millisecond

// overshoot is Q5: six nodes, one account, 1,000 a second.
func overshoot(t *trial) (figures []figure) {
	const nodes, limit = 6, 1000
	runs, seconds := pick(t, 5, 1), pick(t, 5, 2)
	for _, c := range []struct {
		window  quota.WindowKind
		offered int
		most    float64 // percent
	}{
		{quota.Fixed, 4000, 1}, {quota.Fixed, 20_000, 5}, {quota.Sliding, 4000, 1}, {quota.Sliding, 20_000, 5},
		{quota.GCRA, 4000, 0.5}, {quota.GCRA, 20_000, 0.5},
	} {
		var over []float64
		offered, discarded := 0, 0
		for len(over) < runs {
			end := watchStandstill()
			all := grow(nodes, quota.Options{Policies: []quota.Policy{{Name: "p", Limit: quota.Count(limit),
				Burst: quota.Count(limit), Window: c.window, Period: weir.Period{Length: time.Second}}}})
			answers := make([]weir.Answer, nodes)
			got, asked := offer(nodes, c.offered, seconds,
				func(i int) (bool, error) { return granted(all[i].quota, "x", &answers[i]), nil })
			reap(all)
			if end() > standstill && discarded < 2*runs {
				discarded++ // what was offered then came all at once
				continue
			}
			offered = max(offered, asked/seconds)
			over = append(over, excess(c.window, got, limit, seconds))
		}
		what := "the worst second"
		if c.window == quota.GCRA {
			what = "all seconds together, less one burst"
		}
		figures = append(figures,
			figure{fmt.Sprintf("farm of %d, one account, %d a second, window %s, offered %d a second: "+
				"over the limit in %s, median of %d, without %d in which the machine stood still for more than %v",
				nodes, limit, c.window, offered, what, runs, discarded, standstill),
				[]value{most(c.most, 100*median(over), "%.2f %%")}, ""})
	}
	return figures
}

// A grant is when a request was sent that was granted, and when the answer came. It was decided in between.
type grant struct{ sent, answered time.Time }

// offer has so many ask at random times, all together at a rate, from the beginning of a second on. It returns what was
// granted, in the order in which it was sent.
func offer(askers, rate, seconds int, ask func(asker int) (granted bool, err error)) (all []grant, asked int) {
	var mu sync.Mutex
	begin := time.Now().Truncate(time.Second).Add(time.Second)
	end := begin.Add(time.Duration(seconds) * time.Second)
	together(askers, func(i int) error {
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		var own []grant
		n := 0
		for at := begin; at.Before(end); at = at.Add(time.Duration(
			rnd.ExpFloat64() * float64(askers) / float64(rate) * float64(time.Second))) {
			if wait := time.Until(at); wait > 0 {
				time.Sleep(wait)
			}
			sent := time.Now()
			granted, err := ask(i)
			if err != nil {
				return err
			}
			if n++; granted {
				own = append(own, grant{sent, time.Now()})
			}
		}
		mu.Lock()
		defer mu.Unlock()
		all, asked = append(all, own...), asked+n
		return nil
	})
	slices.SortFunc(all, func(a, b grant) int { return a.sent.Compare(b.sent) })
	return all, asked
}

// excess is by how much the limit was exceeded, as a share of it.
func excess(window quota.WindowKind, granted []grant, limit, seconds int) float64 {
	if window == quota.GCRA {
		return max(0, float64(len(granted)-limit)/float64(limit*seconds)-1)
	}
	most, first := 0, 0
	counts := map[int64]int{}
	for i, g := range granted {
		at := g.sent
		counts[at.Unix()]++
		for at.Sub(granted[first].sent) >= time.Second {
			first++
		}
		if window == quota.Fixed {
			most = max(most, counts[at.Unix()])
		} else {
			most = max(most, i-first+1)
		}
	}
	return max(0, float64(most)/float64(limit)-1)
}
