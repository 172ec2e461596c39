package flood

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
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

// aReport is one with everything in it.
func aReport() *Report {
	o := Options{}.WithDefaults()
	r := &Report{Machine: "a machine, 2 cores", Began: time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC),
		Settings: settingsOf(o),
		LeftOut:  []LeftOut{{"HAProxy", "it is not installed"}}}
	seconds := func(got, flood int64) (all []Second) {
		for at := -8; at < 12; at++ {
			all = append(all, Second{At: at, People: Arrived{80, got, got}, Without: Arrived{20, got / 8, got / 8},
				Flood: Arrived{4000, flood, flood}})
		}
		return all
	}
	for _, kind := range Kinds {
		r.Floods = append(r.Floods, Flood{Kind: kind, Sources: o.sources(kind), Rounds: []Round{
			{
				Front: "none", Title: "nothing", Use: 0.97, Others: 0.25, Seconds: seconds(20, 370),
				People:  Figures{Offered: 960, Served: 240, Refused: 720, Share: 0.25, P50: 2681.2, P95: 4684.5},
				Without: Figures{Offered: 240, Share: 0, Refused: 240},
				Flood: Figures{Offered: 48000, Served: 4440, Refused: 43000, Unsent: 560, Share: 0.0925, P50: 680.9,
					P95: 691.4},
			},
			{
				Front: "nginx", Title: "nginx", Version: "1.22.1", Use: 0.83, Seconds: seconds(80, 200),
				Target:  Target{true, false},
				People:  Figures{Offered: 960, Served: 960, Share: 1, P50: 52.83, P95: 444.25},
				Without: Figures{Offered: 240, Served: 239, Failed: 1, Share: 239.0 / 240, P50: 45.19, P95: 478.97},
				Flood:   Figures{Offered: 48000, Served: 2400, Refused: 45600, Share: 0.05, P50: 53.4, P95: 454.8},
			},
			{
				Front: "weir", Title: "weir", Version: "dev", Use: 0.251, Seconds: seconds(80, 0),
				Target:  Target{true, true},
				People:  Figures{Offered: 960, Served: 959, Failed: 1, Share: 959.0 / 960, P50: 31.5, P95: 62.1},
				Without: Figures{Offered: 240, Served: 240, Share: 1, P50: 5034.5, P95: 5086.3},
				Flood:   Figures{Offered: 48000, Refused: 48000},
				Stamps:  &Stamps{Paid: 959, Work: 65536, Most: 131072, HereMS: 7.21, PhoneMS: 65.54},
				Gauges: []Gauge{{Second: -4, Load: 10.2, Work: 0}, {Second: 1, Load: 10.1, Work: 65536},
					{Second: 3, Load: 9.9, Work: 131072}},
			},
		}})
	}
	clients := func(served, offered int64) Figures {
		return Figures{Offered: offered, Served: served, Refused: offered - served,
			Share: float64(served) / float64(offered), P50: 84.2, P95: 162.4}
	}
	attack := Figures{Offered: 2400, Served: 264, Refused: 2100, Unsent: 36, Share: 0.11}
	paid := &Stamps{Paid: 19, Work: 65536, Most: 131072, HereMS: 7.21, PhoneMS: 65.54}
	for _, s := range []Scene{AfterFlood, Keys} {
		r.Scenes = append(r.Scenes, Played{Scene: s, Rounds: []SceneRound{
			{Front: "nginx", Title: "nginx", Version: "1.22.1",
				Parts: []Part{{Beside: "others", Clients: clients(0, 264), Attack: attack}}},
			{Front: "weir", Title: "weir", Version: "dev",
				Parts: []Part{{Beside: "others", Clients: clients(263, 264),
					Attack: Figures{Offered: 2400, Failed: 2400}}}, Met: true},
		}})
	}
	r.Scenes = append(r.Scenes, Played{Scene: Payer, Rounds: []SceneRound{
		{Front: "none", Title: "nothing", Parts: []Part{
			{Beside: "nobody", Clients: clients(18, 18), MedianMS: 162},
			{Beside: "a payer", Clients: clients(9, 18), MedianMS: 30000, Times: 185.2, Attack: clients(600, 640)},
			{Beside: "a payer, 50 addresses", Clients: clients(18, 18), MedianMS: 6500, Times: 40.1,
				Attack: clients(600, 640)},
		}},
		{Front: "weir", Title: "weir", Version: "dev", Met: true, Parts: []Part{
			{Beside: "nobody", Clients: clients(18, 18), MedianMS: 162},
			{Beside: "a payer", Clients: clients(18, 18), MedianMS: 226.8, Times: 1.4, Attack: clients(480, 640),
				Stamps: paid, AttackPaid: paid},
			{Beside: "a payer, 50 addresses", Clients: clients(18, 18), MedianMS: 405, Times: 2.5,
				Attack: clients(480, 640), Stamps: paid, AttackPaid: paid},
		}},
	}})
	turned := func(share Figures, most float64) Part {
		return Part{Beside: "payers", Clients: share, TurnsMS: most, Attack: clients(480, 640), AttackPaid: paid}
	}
	r.Scenes = append(r.Scenes,
		Played{Scene: Turns, Rounds: []SceneRound{
			{Front: "weir", Title: "weir", Version: "dev",
				Parts: []Part{turned(clients(18, 18), 108.3), turned(clients(18, 18), 108.2)}}}},
		Played{Scene: Shared, Rounds: []SceneRound{
			{Front: "weir", Title: "weir", Version: "dev", Parts: []Part{turned(clients(17, 18), 0)}}}},
		Played{Scene: Uploads, Rounds: []SceneRound{
			{Front: "weir", Title: "weir", Version: "dev", Met: true, Parts: []Part{turned(clients(263, 264), 0)}}}})
	return r
}

func TestTable(t *testing.T) {
	r := aReport()
	as := func(s string) string { return s }
	golden(t, "wide.txt", strings.Join(r.Sheet().Lines(0, false, as), "\n")+"\n")
	narrow := r.Sheet().Lines(60, false, as)
	golden(t, "narrow.txt", strings.Join(narrow, "\n")+"\n")
	if coloured := strings.Join(r.Sheet().Lines(0, true, as), "\n"); !strings.Contains(coloured, "\x1b[32mmet\x1b[0m") ||
		!strings.Contains(coloured, "\x1b[31mnot met\x1b[0m") {
		t.Error("met and not met have no colours")
	}
}

// TestPage: it needs nothing from elsewhere, runs nothing, and says everything.
func TestPage(t *testing.T) {
	for name, r := range map[string]*Report{"full": aReport(), "empty": {Floods: []Flood{}},
		"no round": {Floods: []Flood{{Kind: Many, Sources: 1}}}, "a scene": {Scenes: aReport().Scenes}} {
		var page bytes.Buffer
		if err := r.Sheet().Page(&page); err != nil {
			t.Fatal(err)
		}
		text := page.String()
		for _, foreign := range []string{"<script", "<img", "<iframe", "src=", "@import", "://", "NaN", "Inf", "ZgotmplZ",
			"<no value>"} {
			if strings.Contains(text, foreign) {
				t.Errorf("%s: the page has %q", name, foreign)
			}
		}
		if floods := strings.Contains(text, "A service of 400"); floods != (name == "full") {
			t.Errorf("%s: the page tells of floods: %t", name, floods)
		}
		if name != "full" {
			continue
		}
		for what, n := range map[string]int{
			`<svg class="plot`: 2 * (1 + 3 + 2), `<figure id="load-weir-many"`: 1,
			"Flood from 10,000 sources, 0.4 requests/s each</h2>": 1,
			"Flood from 20 sources, 200 requests/s each</h2>":     1,
			"After a flood: programs":                             1, "HAProxy is left out: it is not installed.": 1,
			"Under a flood from 10,000 sources, so many people were served: 25 % with nothing, 100 % with nginx, " +
				"99.9 % with weir.": 1,
			"this machine sent only 98.8 % of what the flood asks for": 2,
			"Other programs had up to 25 % of this machine":            1,
			`Share of people served, over time: nothing 25 %`:          2,
		} {
			if got := strings.Count(text, what); got != n {
				t.Errorf("%d times %q, want %d", got, what, n)
			}
		}
	}
}

func TestWords(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 0.0001: "0.1 %", 0.5: "50 %", 0.9999: "99.9 %", 1: "100 %",
		0.123: "12.3 %", 10.5: "1050 %"} {
		if got := percent(share); got != want {
			t.Errorf("%g is %q, want %q", share, got, want)
		}
	}
	for ms, want := range map[float64]string{0: "0 ms", 7.21: "7.2 ms", 9.96: "10 ms", 62.4: "62 ms", 999.6: "1 s",
		2681: "2.7 s", 60000: "60 s"} {
		if got := duration(ms); got != want {
			t.Errorf("%g is %q, want %q", ms, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 0.4: "0.4", 9.96: "10", 10: "10", 1234.5: "1,235", 65536: "65,536",
		1e6: "1,000,000"} {
		if got := number(n); got != want {
			t.Errorf("%g is %q, want %q", n, got, want)
		}
	}
	for _, line := range tabular.Wrap(strings.Repeat("word, and ", 50), 30) {
		if utf8.RuneCountInString(line) > 30 {
			t.Errorf("too long: %q", line)
		}
	}
	if math.IsNaN((&Report{}).Settings.Capacity) {
		t.Error("NaN")
	}
}
