package demo

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"weir/console"
	"weir/internal/tabular"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

func aView(on bool) view {
	v := view{
		on: on, elapsed: 3500 * time.Millisecond, total: 20 * time.Second,
		left: 1500 * time.Millisecond, rule: "Each account may send 50 a second.",
		rows: []row{
			{name: "alice", role: People, rates: rates{5, 1, 0, 4}, p50: 62.4, p99: 63.1, history: []float64{0, 1, 2}},
			{name: "bob", role: People, rates: rates{4.5, 0, 0, 4.5}, history: []float64{0, 0, 0}},
			{name: "mallory", role: Flood, rates: rates{1085.4, 383, 0, 702.4}, p50: 62, p99: 1266,
				history: []float64{10, 400, 383}},
		},
	}
	if on {
		v.elapsed = 12 * time.Second
		v.rows[0].rates, v.rows[1].rates = rates{5, 5, 0, 0}, rates{4, 4, 0, 0}
		v.rows[2].rates = rates{2476, 50, 2426, 0}
		v.rows[0].p50, v.rows[0].p99, v.rows[1].p50, v.rows[1].p99 = 21, 26, 20.8, 9.4
		for i := range v.rows {
			for s := range 40 {
				v.rows[i].history = append(v.rows[i].history, float64(s%5)*float64(i+1))
			}
		}
	}
	return v
}

// aWideView is one of a scene where networks matter.
func aWideView(on bool) view {
	v := aView(on)
	v.rule, v.bloom = "Each network may open 30 connections a minute, 3 at once.",
		&console.Bloom{Bytes: 5878528, Attackers: 1973}
	v.rows = v.rows[1:]
	v.rows[0].name, v.rows[0].networks = "people", 40
	v.rows[1].name, v.rows[1].networks = "flood", 12345
	return v
}

// aStrainedView is one of a scene where stamps are asked for.
func aStrainedView(on bool) view {
	v := aView(on)
	v.rows[2].name = "paying flood"
	v.dials = []dial{
		{"LOAD", "1,234%", "of what the service can do", []float64{0.1, 3, 12.34}},
		{"WORK", "131 ms", "of a phone, asked for a stamp", []float64{0, 32.8, 65.5, 131.1}},
	}
	if !on {
		v.dials[1] = dial{"WORK", "dormant", "", []float64{0, 0}}
	}
	return v
}

// aMailView is one of a scene where mail is held.
func aMailView(on bool) view {
	v := aView(on)
	v.holds = true
	v.rows[1].name, v.rows[2].name = "newsletter", "thief"
	v.dials = []dial{{"WAITING", "0", "recipients", []float64{0, 0, 0}}}
	if on {
		v.rows[2].held = 19
		v.dials[0] = dial{"WAITING", "21", "STOPPED", []float64{0, 3, 21}}
	}
	return v
}

func TestRender(t *testing.T) {
	open := aView(true)
	open.total, open.elapsed = 0, 75*time.Second
	wide := aWideView(true)
	wide.total, wide.elapsed = 0, 75*time.Second
	for name, v := range map[string]view{"without": aView(false), "with": aView(true), "open": open,
		"wide-without": aWideView(false), "wide-with": aWideView(true), "wide-open": wide,
		"strained-without": aStrainedView(false), "strained-with": aStrainedView(true),
		"mail-without": aMailView(false), "mail-with": aMailView(true)} {
		for _, width := range []int{110, 80, 60} {
			golden(t, fmt.Sprintf("live-%s-%d.txt", name, width), strings.Join(render(v, width, false), "\n")+"\n")
		}
	}
}

func TestRenderColour(t *testing.T) {
	plain, painted := render(aStrainedView(false), 100, false), render(aStrainedView(false), 100, true)
	if strings.Contains(strings.Join(plain, ""), "\x1b") || !strings.Contains(strings.Join(painted, ""), "\x1b[31m") {
		t.Error("colour where there should be none, or none where there should")
	}
	for i := range plain {
		var bare strings.Builder
		for part, escape := range tabular.Glyphs(painted[i]) {
			if !escape {
				bare.WriteString(part)
			}
		}
		if bare.String() != plain[i] {
			t.Errorf("with colours %q, without %q", bare.String(), plain[i])
		}
	}
}

// TestRenderFits: a line that is too wide would break, and the next frame would be drawn in the wrong place.
func TestRenderFits(t *testing.T) {
	for width := range 140 {
		for _, v := range []view{aView(false), aView(true), aWideView(false), aWideView(true), aStrainedView(false),
			aStrainedView(true), aMailView(true)} {
			lines := render(v, width, true)
			if len(lines) != len(render(v, 140, true)) {
				t.Fatalf("width %d: %d lines", width, len(lines))
			}
			for _, line := range lines {
				if n := tabular.Visible(line); n > width {
					t.Errorf("width %d: %d columns: %q", width, n, line)
				}
			}
		}
	}
}

func TestSummary(t *testing.T) {
	r := &SceneReport{
		Name: "quota", LimitPerSecond: 50,
		Half: Half{
			People: Figures{72, 72, 0, 0, 21.2, 24, 0}, Flood: Figures{22072, 457, 21615, 0, 100, 104, 0},
			Seconds: 9.06, Delayed: 452,
			Actors: []ActorReport{{"alice", People, 0, Figures{36, 36, 0, 0, 21, 26, 0}, 0},
				{"bob", People, 0, Figures{36, 36, 0, 0, 21, 24, 0}, 0},
				{"mallory", Flood, 0, Figures{22072, 457, 21615, 0, 100, 104, 0}, 0}},
		},
		Without: Half{
			People: Figures{24, 3, 0, 21, 62, 66, 0}, Flood: Figures{3259, 1175, 0, 2084, 62, 66, 0}, Seconds: 3.06,
			Actors: []ActorReport{{"alice", People, 0, Figures{12, 0, 0, 12, 0, 0, 0}, 0},
				{"bob", People, 0, Figures{12, 3, 0, 9, 62, 62, 0}, 0},
				{"mallory", Flood, 0, Figures{3259, 1175, 0, 2084, 62, 66, 0}, 0}},
		},
	}
	scene := quotaScene()
	for _, width := range []int{0, 50} {
		lines := summary(&scene, r, width, false)
		golden(t, fmt.Sprintf("summary-%d.txt", width), strings.Join(lines, "\n")+"\n")
	}
}

func TestSparkline(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   string
	}{
		{nil, "    "},
		{[]float64{0, 0}, "▁▁  "},
		{[]float64{1, 1000, 500}, "▂█▅ "},
		{[]float64{9000, 0, 1, 2, 4}, "▁▃▅█"}, // the first is too long ago
	} {
		if got := sparkline(test.values, 4); got != test.want {
			t.Errorf("%v: %q, want %q", test.values, got, test.want)
		}
		if n := utf8.RuneCountInString(sparkline(test.values, 4)); n != 4 {
			t.Errorf("%v: %d columns", test.values, n)
		}
	}
}

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		grouped(0): "0", grouped(999): "999", grouped(1000): "1,000", grouped(1234567): "1,234,567",
		perSecond(99.94): "99.9", perSecond(1234.5): "1,235", milliseconds(0.25): "0.2 ms",
		share(Figures{Sent: 1000, Served: 999}): "99%", share(Figures{Sent: 1000, Served: 21}): "2.1%",
		quoted("/tmp/weir-demo-1/weir.sock"): "/tmp/weir-demo-1/weir.sock", quoted("/tmp/a b'c"): `'/tmp/a b'\''c'`,
		names([]ActorReport{{Name: "a", Role: People}, {Name: "x", Role: Flood}, {Name: "b", Role: People},
			{Name: "c", Role: People}}, People): "a, b and c",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
