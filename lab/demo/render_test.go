package demo

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/console"
	"weir/internal/tabular"
	"weir/throttle/bloom"
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

// aReport is that of a scene whose half without the throttle is over.
func aReport() *SceneReport {
	return &SceneReport{
		Without: Half{Seconds: 3.06, Actors: []ActorReport{{"alice", People, 0, Figures{12, 3, 0, 9, 62, 66, 0}, 0},
			{"paying flood", Flood, 0, Figures{3259, 1175, 0, 2084, 62, 66, 0}, 0}}},
		Half: Half{Seconds: 9.06, Actors: []ActorReport{{"alice", People, 0, Figures{36, 36, 0, 0, 21, 26, 0}, 0},
			{"paying flood", Flood, 0, Figures{22072, 457, 21615, 0, 100, 104, 0}, 0}}},
	}
}

func TestRender(t *testing.T) {
	scene := quotaScene()
	begun, full := aReport(), aReport()
	begun.Half = Half{}
	full.Half.Bloom = &console.Bloom{Stats: bloom.Stats{Bytes: 5878528, Attackers: 1973}}
	full.Half.Stamps = &Stamps{PeakLoad: 12.34, EndMS: 131}
	full.Half.Actors[1].Networks = 12345
	for name, r := range map[string]*SceneReport{"begun": begun, "full": full} {
		lines := render(&scene, r, "Each account may send 50 a second. 3s left.", 80, false)
		golden(t, "live-"+name+".txt", strings.Join(lines, "\n")+"\n")
		// A line that is too wide would break, and the next frame would be drawn in the wrong place.
		for width := range 140 {
			narrow := render(&scene, r, "A hint.", width, true)
			if len(narrow) != len(lines) {
				t.Fatalf("width %d: %d lines", width, len(narrow))
			}
			for _, line := range narrow {
				if n := tabular.Visible(line); n > width {
					t.Errorf("width %d: %d columns: %q", width, n, line)
				}
			}
		}
	}
}

// TestHint: the audience is told what goes on, and how long it goes on.
func TestHint(t *testing.T) {
	p := &play{pair: &pair{Scene: &Scene{Rule: "The rule."}}, parts: parts{4 * time.Second, 12 * time.Second}}
	if got, want := p.hint(time.Second), "In shadow: it counts, everything passes. At work in 3s."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.on = true
	if got, want := p.hint(20*time.Second), "The rule. 0s left."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.parts.with = 0
	if got, want := p.hint(time.Second), "The rule. Ctrl-C ends the demo."; got != want {
		t.Errorf("%q, want %q", got, want)
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

func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		grouped(0): "0", grouped(999): "999", grouped(1000): "1,000", grouped(1234567): "1,234,567",
		milliseconds(0.25):                      "0.2 ms",
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
