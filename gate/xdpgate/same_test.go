//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir"
	"weir/internal/testkit/needs"
	"weir/throttle/bloom"
)

// A model judges as bloom.Limiter does, on tables of package bloom under the keys of the program.
type model struct {
	plan      *plan
	now, next []table // next: nil unless charged
	bornNow   time.Duration
	bornNext  time.Duration
}

// A table is one of package bloom in memory that can be looked at.
type table struct {
	*bloom.Table
	words []uint64
}

func newModel(t *Trial) *model {
	m := &model{plan: t.plan}
	m.now = m.tables(t, 0)
	return m
}

// tables are as those of one half were when they were made.
func (m *model) tables(t *Trial, half int) (all []table) {
	for i, s := range m.plan.shapes {
		words := make([]uint64, s.Bytes()/8)
		all = append(all, table{bloom.Overlay(s, bloom.Key(t.memory.state.Half[i][half].Key), words), words})
	}
	return all
}

func (m *model) networks(src netip.Addr) (all []bloom.Network, exempt bool) {
	var found *bloom.Range
	for _, r := range m.plan.ranges {
		if r.Prefix.Contains(src.Unmap()) && (found == nil || r.Prefix.Bits() >= found.Prefix.Bits()) {
			found = &r
		}
	}
	switch {
	case found != nil && found.Exempt:
		return nil, true
	case found != nil:
		return []bloom.Network{bloom.NetworkGroup(found.Group)}, false
	case src.Is4() || src.Is4In6():
		return []bloom.Network{bloom.NetworkV4(src.As4(), m.plan.opts.Bloom.V4)}, false
	}
	for _, bits := range m.plan.opts.Bloom.V6 {
		all = append(all, bloom.NetworkV6(src.As16(), bits))
	}
	return all, false
}

// judge returns the answer, and why.
func (m *model) judge(src netip.Addr, cost int64, now time.Duration) string {
	nets, exempt := m.networks(src)
	if exempt {
		return "exempt"
	}
	var places []bloom.Taken
	for i, n := range nets {
		s := m.plan.shapes[i]
		why := "limited"
		if cost > s.Burst() {
			why = "too_costly"
		} else if place, ok := m.now[i].Take(n, s.Tokens(cost), now-m.bornNow); ok {
			places = append(places, place)
			continue
		}
		for j, place := range places {
			m.now[j].Give(place, m.plan.shapes[j].Tokens(cost), now-m.bornNow)
		}
		return why
	}
	for i := range m.next[:min(len(nets), len(m.next))] {
		m.next[i].Drain(nets[i], m.plan.shapes[i].Tokens(cost), now-m.bornNext)
	}
	return "passed"
}

// A crowd are sources of every kind: a few hot ones, many cold ones, neighbours that share some levels and not others.
type crowd struct{ *rand.Rand }

func (c crowd) source() netip.Addr {
	near := func(most int) byte { return byte(c.IntN(most)) }
	switch c.IntN(10) {
	case 0, 1, 2: // hot
		return netip.AddrFrom4([4]byte{198, 18, near(4), byte(c.Uint32())})
	case 3, 4: // cold
		return netip.AddrFrom4([4]byte{near(255), byte(c.Uint32()), byte(c.Uint32()), byte(c.Uint32())})
	case 5, 6: // hot /64s of a few /48s
		return netip.AddrFrom16([16]byte{0: 0xfd, 5: near(3), 7: near(20), 15: byte(c.Uint32())})
	case 7: // mapped
		return netip.AddrFrom16([16]byte{10: 0xff, 11: 0xff, 12: 198, 13: 18, 14: near(4), 15: byte(c.Uint32())})
	default:
		return netip.AddrFrom16([16]byte{0: 0xfd, 1: byte(c.Uint32()), 2: byte(c.Uint32()), 3: byte(c.Uint32()),
			7: near(200), 15: 1})
	}
}

// same asks program and model the same packets and compares their answers one by one, and the memory of both at the
// end.
func same(t *testing.T, o Options, packets int, seed uint64) {
	p, err := newPlan(o)
	if err != nil {
		t.Fatal(err)
	}
	sameFor(t, p, packets, seed)
}

func sameFor(t *testing.T, p *plan, packets int, seed uint64) {
	o, trial := p.opts, trialFor(t, p)
	c := crowd{rand.New(rand.NewPCG(seed, 1))}
	m := newModel(trial)
	overlays := func(half int) (all []*bloom.Table) {
		for i, s := range p.shapes {
			all = append(all, bloom.Overlay(s, bloom.Key(trial.memory.state.Half[i][half].Key),
				trial.memory.half(p, i, half)))
		}
		return all
	}
	kernel := [2][]*bloom.Table{overlays(0), nil}
	unit := p.shapes[0].Unit
	// A hot network sends a tenth of all: so it comes to about four times its limit.
	pace := o.Bloom.Rate.Per / time.Duration(40*o.Bloom.Rate.Count)
	if o.Mode == Bytes {
		pace *= 750
	}
	half, swept := 0, time.Duration(0)
	now := time.Duration(0)
	answers := map[string]int{}
	v4frame, v6frame := syn4(""), syn6("")
	for i := range packets {
		now += time.Duration(c.Int64N(int64(2 * pace)))
		if c.IntN(10_000) == 0 {
			now += time.Duration(c.Int64N(int64(unit) * 1000)) // quiet for a while
		}
		trial.at(now)
		if now-swept >= 8000*unit { // long before the counters begin anew
			for j := range p.shapes {
				m.now[j].Sweep(now - m.bornNow)
				kernel[half][j].Sweep(now - m.bornNow)
				if a, b := m.now[j].Drained(now-m.bornNow), kernel[half][j].Drained(now-m.bornNow); a != b {
					t.Fatalf("packet %d: %d empty limiters, in the kernel %d", i, a, b)
				}
				if m.next != nil {
					m.next[j].Sweep(now - m.bornNext)
					kernel[1-half][j].Sweep(now - m.bornNext)
				}
			}
			swept = now
		}
		switch i % (packets / 6) {
		case packets / 12: // the other half is charged from here on
			for j := range p.shapes {
				trial.memory.renew(p, j, 1-half, now).Empty()
			}
			m.next, m.bornNext = m.tables(trial, 1-half), now
			for _, t := range m.next {
				t.Empty()
			}
			kernel[1-half] = overlays(1 - half)
			trial.memory.flag(controlCharge, true)
		case packets/6 - 1: // and takes over
			if m.next != nil {
				m.now, m.bornNow, m.next = m.next, m.bornNext, nil
				half = 1 - half
				trial.memory.set(uint64(half))
			}
		}
		src := c.source()
		frame := v6frame
		if src.Is4() {
			frame = v4frame
			a := src.As4()
			copy(frame[14+12:], a[:])
		} else {
			a := src.As16()
			copy(frame[14+8:], a[:])
		}
		cost := int64(1)
		if o.Mode == Bytes {
			frame = append(frame[:len(frame):len(frame)], make([]byte, c.IntN(1400))...)
			cost = int64(len(frame))
		}
		want := m.judge(src, cost, now)
		got, err := trial.objects.prog.Run(&ebpf.RunOptions{Data: frame})
		if err != nil {
			t.Fatal(err)
		}
		if drop := want == "limited" || want == "too_costly"; (got == xdpDrop) != drop {
			t.Fatalf("packet %d from %s at %s: answer %d, package bloom says %s", i, src, now, got, want)
		}
		answers[want]++
	}
	var all []string
	for _, why := range []string{"passed", "limited", "exempt", "too_costly"} {
		if n := answers[why]; n == 1 {
			all = append(all, why)
		} else if n > 1 {
			all = append(all, fmt.Sprintf("%s %d", why, n))
		}
	}
	t.Logf("%d packets, %s: %v", packets, now, all)
	if !testing.Short() && (answers["passed"] < packets/50 || answers["limited"] < packets/50) {
		t.Errorf("hardly a test: %v", answers)
	}
	for why, n := range answers {
		trial.counters(t).ByName(func(name string, counted uint64) {
			if name == why && counted != uint64(n) {
				t.Errorf("counted %d as %s, package bloom %d", counted, name, n)
			}
		})
	}
	for i := range p.shapes {
		if !slices.Equal(trial.memory.half(p, i, half), m.now[i].words) {
			t.Errorf("level %d: the tables differ", i)
		}
	}
}

// TestSameAnswers: Go and kernel, asked the same packets, give the same answers (B7).
func TestSameAnswers(t *testing.T) {
	needs.Unwatched(t)
	packets := 200_000
	if needs.Long() {
		packets = 1_000_000
	}
	groups := map[string][]netip.Prefix{"office": {netip.MustParsePrefix("198.18.2.0/25"),
		netip.MustParsePrefix("fd00:0:1::/48")}, "far": {netip.MustParsePrefix("10.0.0.0/8")}}
	exempt := []netip.Prefix{netip.MustParsePrefix("198.18.2.64/26")}
	for _, c := range []struct {
		name string
		o    Options
		part int // of all packets
	}{
		{"syn", Options{Bloom: bloom.Options{Rate: weir.Rate{Count: 20, Per: time.Second}, Burst: 40, Attackers: 300}},
			2},
		{"groups", Options{Mode: Packets,
			Bloom: bloom.Options{Rate: weir.Rate{Count: 7, Per: time.Second}, Burst: 100, K: 3, V4: 25,
				V6: []int{64, 56, 48, 32}, Wider: 3, Attackers: 300, Groups: groups, Exempt: exempt}}, 4},
		{"bytes", Options{Mode: Bytes, Bloom: bloom.Options{Rate: weir.Rate{Count: 50_000, Per: time.Second},
			Burst: 600_000, K: 8, Attackers: 500}}, 8},
		{"one limiter", Options{Bloom: bloom.Options{Rate: weir.Rate{Count: 100, Per: time.Second}, Burst: 50, K: 1,
			V6: []int{128}, Attackers: 100}}, 16},
		{"crowded", Options{Bloom: bloom.Options{Rate: weir.Rate{Count: 1000, Per: time.Second}, Burst: 100, K: 8,
			Attackers: 2, Collateral: 0.5}}, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Interface = "lo"
			same(t, c.o, packets/c.part, uint64(c.part))
		})
	}
}
