package console

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/plot"
)

// An element of a picture.
type element struct {
	name  string
	attrs map[string]string
	text  string
}

// render returns the elements of a plot as the page has it.
func render(t *testing.T, p *gatePlot) (all []element) {
	t.Helper()
	var b strings.Builder
	if err := overviewPage().text.ExecuteTemplate(&b, "plot", p); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in %s", err, b.String())
		}
		switch v := token.(type) {
		case xml.StartElement:
			e := element{name: v.Name.Local, attrs: map[string]string{}}
			for _, a := range v.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			all = append(all, e)
		case xml.CharData:
			if len(all) > 0 {
				all[len(all)-1].text += string(v)
			}
		}
	}
}

// lines returns the paths of the series, by class.
func lines(all []element) map[string]string {
	paths := map[string]string{}
	for _, e := range all {
		if e.name == "path" {
			paths[e.attrs["class"]] = e.attrs["d"]
		}
	}
	return paths
}

var fiveMinutes = spanOf(false)

func TestPlots(t *testing.T) {
	for _, c := range []struct {
		title, label string
		classes      []string
		words        []string // beside it
	}{
		{"Load", "Load of 127.0.0.1:8080 over the last 5 minutes: now 820% of the capacity, at most 933%.",
			[]string{"line load", "area load"},
			[]string{"820%", "at most 933%", "100%", "1000%", "5 minutes ago", "now"}},
		{"Work asked",
			"Work asked for a stamp at 127.0.0.1:8080 over the last 5 minutes: now 20.2 bits, about 1.2s on a phone, " +
				"at most 1.2s on a phone.",
			[]string{"line work", "area work"},
			[]string{"20.2 bits, about 1.2s", "nothing", "1ms", "10ms", "100ms", "1s", "10s"}},
		{"Let in",
			"Let in at 127.0.0.1:8080 over the last 5 minutes: now 88 requests a second with a stamp and 9.5 from " +
				"the general pool.",
			[]string{"line stamped", "area stamped", "line pool"},
			[]string{"98/s", "stamped 88", "pool 9.5", "100", "50", "0"}},
		{"Turned away",
			"Turned away at 127.0.0.1:8080 over the last 5 minutes, asked to pay or refused: now 818 requests a " +
				"second, at most 938.",
			[]string{"line away", "area away"}, []string{"818/s", "1000", "500"}},
	} {
		t.Run(c.title, func(t *testing.T) {
			h, _, _ := underFlood()
			g := fiveMinutes.plotsOf(h)
			var all []element
			for _, p := range g.Plots {
				if p.Title == c.title {
					all = render(t, p)
				}
			}
			var label, text string
			for _, e := range all {
				text += e.text + "\n"
				if e.attrs["role"] == "img" {
					label = e.attrs["aria-label"]
				}
				if e.attrs["style"] != "" {
					t.Errorf("<%s> has a style of its own, which the page's policy forbids", e.name)
				}
			}
			if label != c.label {
				t.Errorf("says %q\nwant %q", label, c.label)
			}
			for _, want := range c.words {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in %q", want, text)
				}
			}
			paths := lines(all)
			for _, class := range c.classes {
				inside(t, class, paths[class])
			}
		})
	}
}

var (
	wholePath = regexp.MustCompile(`^(M[\d.]+ [\d.]+(L[\d.]+ [\d.]+|H[\d.]+V[\d.]+|h0)*(V100H[\d.]+Z)?)+$`)
	alongPath = regexp.MustCompile(`[MLH]([\d.]+)`)
	downPath  = regexp.MustCompile(`(?:[ML][\d.]+ |V)([\d.]+)`)
)

// inside checks that a path is one, ends now, and does not leave the picture.
func inside(t *testing.T, class, path string) {
	t.Helper()
	if !wholePath.MatchString(path) {
		t.Errorf("%s: no path: %.200q", class, path)
		return
	}
	between := func(found [][]string, most float64) (highest float64) {
		for _, m := range found {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil || v < 0 || v > most {
				t.Errorf("%s: %q leaves the picture", class, m[0])
			}
			highest = max(highest, v)
		}
		return highest
	}
	if end := between(alongPath.FindAllStringSubmatch(path, -1), 100); end != 100 {
		t.Errorf("%s: ends at %v", class, end)
	}
	between(downPath.FindAllStringSubmatch(path, -1), 100)
}

func TestPlotsWithoutStamps(t *testing.T) {
	h := flooded()
	h.Stamps = ""
	var titles []string
	for _, p := range fiveMinutes.plotsOf(h).Plots {
		titles = append(titles, p.Title)
	}
	if got := strings.Join(titles, ", "); got != "Load, Let in, Turned away" {
		t.Errorf("shows %s", got)
	}
}

func TestPlotsOfNothing(t *testing.T) {
	for _, p := range fiveMinutes.plotsOf(GateHistory{Gate: "a", Address: "b", Stamps: "stamps"}).Plots {
		all := render(t, p)
		if p.Says != p.Title+" at b: no figures yet." || p.Now != "no figures yet" {
			t.Errorf("%s: %q, %q", p.Title, p.Says, p.Now)
		}
		for class, path := range lines(all) {
			if strings.HasPrefix(class, "line") && path != "" {
				t.Errorf("%s: draws %q", class, path)
			}
		}
	}
}

// TestStrokes: samples stand where their time is, whoever took them and how many there are.
func TestStrokes(t *testing.T) {
	at := func(second float64, load float64) Sample {
		return Sample{At: noon.Add(time.Duration(second * float64(time.Second))), Load: load}
	}
	drawn := func(h GateHistory, steps bool) plot.Series {
		s := fiveMinutes.past(h, "load", func(s Sample) float64 { return s.Load },
			func(s Sample) string { return percent(s.Load) })
		s.Steps = steps
		return fiveMinutes.draw("", "", "", noon, 1, []plot.Tick{{Value: 1}}, s).Series[0]
	}
	for name, c := range map[string]struct {
		samples    []Sample
		line, area string
	}{
		"one is a dot": {[]Sample{at(0, 0.5)}, "M100 50h0", "M100 50V100H100Z"},
		"a line": {[]Sample{at(0, 0), at(1, 0.25), at(2, 1)}, "M99.33 100L99.67 75L100 0",
			"M99.33 100L99.67 75L100 0V100H99.33Z"},
		"a little late": {[]Sample{at(0, 0), at(2.4, 0)}, "M99.2 100L100 100", "M99.2 100L100 100V100H99.2Z"},
		"a gap": {[]Sample{at(0, 0), at(1, 0), at(9, 0.5), at(10, 0.5)},
			"M96.67 100L97 100M99.67 50L100 50", "M96.67 100L97 100V100H96.67ZM99.67 50L100 50V100H99.67Z"},
		"too long ago": {[]Sample{at(-300.1, 0), at(-300, 0), at(0, 0)}, "M0 100h0M100 100h0",
			"M0 100V100H0ZM100 100V100H100Z"},
		"out of bounds": {[]Sample{at(0, -1), at(1, 7)}, "M99.67 100L100 0", "M99.67 100L100 0V100H99.67Z"},
		"the clock ran back": {[]Sample{at(0, 0), at(50, 0), at(1, 0)}, "M99.67 100L100 100",
			"M99.67 100L100 100V100H99.67Z"},
		"nothing at all":       {nil, "", ""},
		"the same time, twice": {[]Sample{at(0, 0), at(0, 1)}, "M100 100L100 0", "M100 100L100 0V100H100Z"},
	} {
		got := drawn(GateHistory{Samples: c.samples}, false)
		if got.Path != c.line {
			t.Errorf("%s: draws %q, want %q", name, got.Path, c.line)
		}
		if got.Fill != c.area {
			t.Errorf("%s: fills %q, want %q", name, got.Fill, c.area)
		}
	}
	steps := drawn(GateHistory{Samples: []Sample{at(0, 0), at(1, 0.5), at(2, 1)}}, true).Path
	if steps != "M99.33 100H99.67V50H100V0" {
		t.Errorf("steps: %q", steps)
	}
}

// TestScales: the picture of load always has room for all of the capacity, that of work for what a phone can bear.
func TestScales(t *testing.T) {
	one := func(s Sample) GateHistory {
		s.At = noon
		return GateHistory{Gate: "a", Stamps: "stamps", Samples: []Sample{s}}
	}
	ticks := func(p *gatePlot) (text string) {
		for _, k := range p.Y.Ticks {
			text += k.Text + "@" + k.At + " "
		}
		return strings.TrimSpace(text)
	}
	for load, want := range map[float64]string{
		0: "100%@20% 0%@100%", 0.3: "100%@20% 0%@100%", 1.2: "100%@50% 200%@0% 0%@100%", 4: "100%@80% 500%@0% 0%@100%",
		42: "100%@98% 5000%@0%",
	} {
		if got := ticks(fiveMinutes.loadPlot(one(Sample{Load: load}), "a")); got != want {
			t.Errorf("load %v: %s, want %s", load, got, want)
		}
	}
	for takes, want := range map[time.Duration]string{
		0:                     "M100 100h0",
		time.Nanosecond:       "M100 96h0", // little is not nothing
		100 * time.Nanosecond: "M100 96h0",
		time.Millisecond:      "M100 80h0",
		time.Second:           "M100 20h0",
		10 * time.Second:      "M100 0h0",
		100 * time.Second:     "M100 0h0", // with a line more
	} {
		p := fiveMinutes.workPlot(one(Sample{Work: uint64(takes), Takes: takes}), "a")
		if got := p.Series[0].Path; got != want {
			t.Errorf("work of %s: %s, want %s", takes, got, want)
		}
		if lines := len(p.Y.Ticks); lines != 6 && takes != 100*time.Second || lines != 7 && takes == 100*time.Second {
			t.Errorf("work of %s: %s", takes, ticks(p))
		}
	}
	if got := ticks(fiveMinutes.awayPlot(one(Sample{}), "a")); got != "1@0% 0.5@50% 0@100%" {
		t.Errorf("nobody was turned away: %s", got)
	}
	for v, want := range map[float64]float64{-1: 0, 0: 0, 0.3: 0.5, 1: 1, 1.01: 2, 2.5: 5, 7: 10, 10: 10, 640: 1000,
		1e6 + 1: 2e6} {
		if got := plot.RoundUp(v); got != want {
			t.Errorf("%v is rounded up to %v, want %v", v, got, want)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{asked(0, 0), "nothing"},
		{asked(1<<20, 0), "20 bits"},
		{asked(1<<20, 1048576*time.Microsecond), "20 bits, about 1s on a phone"},
		{asked(1_312_345, 1312345*time.Microsecond), "20.3 bits, about 1.3s on a phone"},
		{about(16 * time.Microsecond), "16µs"},
		{about(99_600 * time.Microsecond), "100ms"},
		{about(0), "0s"},
		{rate(0), "0"}, {rate(0.04), "0"}, {rate(9.44), "9.4"}, {rate(10.4), "10"}, {rate(1234.5), "1234"},
		{percent(0.005), "1%"}, {percent(9.333), "933%"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// TestPlotsEscape: a name is a name, whatever it looks like.
func TestPlotsEscape(t *testing.T) {
	const name = `"><script>&`
	for _, p := range fiveMinutes.plotsOf(GateHistory{Gate: name, Stamps: "stamps", Samples: flooded().Samples}).Plots {
		found := false
		for _, e := range render(t, p) {
			found = found || strings.Contains(e.attrs["aria-label"], name)
			if e.name == "script" {
				t.Errorf("%s: it became a script", p.Title)
			}
		}
		if !found {
			t.Errorf("%s: the name is lost", p.Title)
		}
	}
}
