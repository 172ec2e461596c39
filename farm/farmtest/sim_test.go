package farmtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir"
)

// A bell rings when it is due, and may be asked to ring earlier.
type bell struct {
	rung  []time.Time
	alarm func(time.Time)
}

func (b *bell) Advance(now time.Time) time.Time {
	b.rung = append(b.rung, now)
	return now.Add(time.Second)
}

func (b *bell) Alarm(told func(time.Time)) { b.alarm = told }

var _ weir.Clocked = (*bell)(nil)

// play runs a farm in which much goes wrong, and returns what happened.
func play(t *testing.T, seed uint64) (story []string) {
	s := NewSim(seed, Network{DelayMax: 20 * time.Millisecond, Loss: 0.2, Repeat: 0.1})
	var bells []*bell
	for i := range 4 {
		n := s.Node(fmt.Sprintf("n%d", i))
		n.Skew = time.Duration(i) * 50 * time.Millisecond
		n.Started = func(n *SimNode) {
			b := &bell{}
			bells = append(bells, b)
			n.Drive(b)
		}
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
	}
	nodes := s.Nodes()
	s.After(time.Second, func() { s.Cut(nodes[:2], nodes[2:]) })
	s.After(3*time.Second, s.Heal)
	s.After(4*time.Second, nodes[1].Stop)
	s.After(6*time.Second, nodes[1].Wake)
	s.Every(100*time.Millisecond, func() bool {
		for _, n := range nodes {
			story = append(story, fmt.Sprint(n.Name, n.Farm().Offset(), n.Farm().Members(n.Clock()), n.Farm().Stats()))
		}
		return s.Now().Before(nodes[0].Clock().Add(time.Hour))
	})
	s.Run(10 * time.Second)
	for _, b := range bells {
		story = append(story, fmt.Sprint(b.rung))
	}
	return story
}

func TestSameSeedSameRun(t *testing.T) {
	first := play(t, 1)
	if !slices.Equal(first, play(t, 1)) {
		t.Error("the same seed gave two runs")
	}
	if slices.Equal(first, play(t, 2)) {
		t.Error("two seeds gave the same run")
	}
}

func TestDrive(t *testing.T) {
	s := NewSim(1, Network{})
	n, b := s.Node("a"), &bell{}
	n.Started = func(n *SimNode) { n.Drive(b) }
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	start := s.Now()
	s.Run(2500 * time.Millisecond) // at 0, 1 and 2 s
	b.alarm(s.Now())               // at 2.5 s, and then at 3.5 s
	s.Run(1200 * time.Millisecond)
	n.Stop()
	s.Run(10 * time.Second)
	n.Wake() // at 13.7 s
	n.Stop()
	s.Run(5 * time.Second)
	n.Kill()
	s.Run(5 * time.Second)
	var at []time.Duration
	for _, rung := range b.rung {
		at = append(at, rung.Sub(start))
	}
	var want []time.Duration
	for _, ms := range []int{0, 1000, 2000, 2500, 3500, 13700} {
		want = append(want, time.Duration(ms)*time.Millisecond)
	}
	if !slices.Equal(at, want) {
		t.Errorf("it rang at %v, want %v", at, want)
	}
}
