package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/throttle/bloom"
)

// TestPlanIsWhatTheConfigurationUses: a plan without figures, or with those of a configuration, is of the tables that
// it gets.
func TestPlanIsWhatTheConfigurationUses(t *testing.T) {
	limit := weir.Rate{Count: 100, Per: time.Second}
	attackers, collateral, k := int64(412_000), weir.Share(0.005), 3
	for name, c := range map[string]struct {
		command planBloomCommand
		options bloom.Options
	}{
		"nothing": {planBloomCommand{}, bloom.Options{Rate: limit, Burst: 2000}},
		"attackers": {planBloomCommand{Attackers: &attackers},
			bloom.Options{Rate: limit, Burst: 2000, Attackers: 412_000}},
		"burst": {planBloomCommand{Attackers: &attackers, Burst: 1254},
			bloom.Options{Rate: limit, Burst: 1254, Attackers: 412_000}},
		"larger": {planBloomCommand{Attackers: &attackers, Burst: 1255},
			bloom.Options{Rate: limit, Burst: 1255, Attackers: 412_000}},
		"all": {planBloomCommand{Attackers: &attackers, Collateral: &collateral, K: &k},
			bloom.Options{Rate: limit, Burst: 2000, Attackers: 412_000, Collateral: collateral, K: k}},
	} {
		t.Run(name, func(t *testing.T) {
			p, _, err := c.command.plan()
			if err != nil {
				t.Fatal(err)
			}
			shapes, err := c.options.Shapes()
			if err != nil {
				t.Fatal(err)
			}
			if s := shapes[0]; p.K != s.K || p.Lines != s.Lines || p.Bytes != 2*s.Bytes() ||
				p.Limiters() != s.Limiters() {
				t.Errorf("planned %+v, configured %+v", p.Plan, shapes[0])
			}
		})
	}
}

// TestCarried: what a memory carries is planned for with that memory, and one more is not.
func TestCarried(t *testing.T) {
	for k := 1; k <= bloom.MaxK; k++ {
		for _, memory := range []weir.Size{128 << 10, 16 << 20, 1<<30 + 77} {
			for _, collateral := range []weir.Share{0.0001, 0.01, 0.5} {
				burst := int64(k*bloom.MaxNarrow) * int64(memory%3) // of limiters of one byte, or of two
				p, n, err := carried(memory, k, collateral, burst)
				if err != nil {
					t.Fatal(err)
				}
				if p.Bytes > int64(memory) || int64(memory)-p.Bytes >= 2*bloom.LineBytes ||
					p.Collateral > float64(collateral) {
					t.Errorf("k %d, %s, %s: %+v", k, memory, collateral, p)
				}
				if fits, err := bloom.Size(k, n, collateral, burst); err != nil || fits.Lines > p.Lines {
					t.Errorf("k %d, %s, %s: %d attackers need %+v, %v", k, memory, collateral, n, fits, err)
				}
				if more, err := bloom.Size(k, n+1, collateral, burst); err != nil || more.Lines < p.Lines {
					t.Errorf("k %d, %s, %s: %d attackers need only %+v, %v", k, memory, collateral, n+1, more, err)
				}
			}
		}
	}
}

func TestPlanAsJSON(t *testing.T) {
	memory := weir.Size(16 << 20)
	for want, c := range map[string]planBloomCommand{
		"bytes collateral crowd k lanes lines":           {JSON: true},
		"attackers bytes collateral crowd k lanes lines": {JSON: true, Memory: &memory},
	} {
		var out strings.Builder
		if err := c.Run(&terminal{out: &out}); err != nil {
			t.Fatal(err)
		}
		var got map[string]float64
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
			t.Fatal(err)
		}
		if keys := strings.Join(slices.Sorted(maps.Keys(got)), " "); keys != want {
			t.Errorf("keys %s, want %s", keys, want)
		}
	}
}

func TestFiguresForPeople(t *testing.T) {
	for share, want := range map[float64]string{0: "0%", 0.01: "1%", 0.012345: "1.23%", 0.999934: "99.99%", 0.99: "99%",
		1: "100%", 0.0000241: "0.00241%"} {
		if got := percent(share); got != want {
			t.Errorf("percent(%v) = %s, want %s", share, got, want)
		}
	}
	for n, want := range map[int64]string{64: "0.1 KiB", 128 << 10: "128.0 KiB", 1 << 20: "1.0 MiB",
		16_754_432: "16.0 MiB", 16 << 30: "16.0 GiB", 3 << 40: "3072.0 GiB"} {
		if got := about(n); got != want {
			t.Errorf("about(%d) = %s, want %s", n, got, want)
		}
	}
}
