package flood

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/lab/machine"
)

// brief is a run that takes no time worth noticing. Its figures mean nothing, but they add up.
func brief(fronts ...string) Options {
	return Options{
		For: 300 * time.Millisecond, WarmUp: 100 * time.Millisecond, Fronts: fronts, Scenes: []Scene{UnderFlood},
		Kinds:      []Kind{Many},
		Concurrent: 2, Work: 5 * time.Millisecond, Queue: 4, Times: 2, Patience: 400 * time.Millisecond,
		Patient: 500 * time.Millisecond, Reload: 100 * time.Millisecond,
	}
}

// sound holds a round against what is true of any.
func sound(t *testing.T, o Options, r *Round) {
	t.Helper()
	for name, f := range map[string]Figures{"people": r.People, "without": r.Without, "flood": r.Flood} {
		if f.Offered == 0 || f.Offered != f.Served+f.Refused+f.Failed+f.Unsent {
			t.Errorf("%s: %s: the sum is wrong: %+v", r.Title, name, f)
		}
		if f.P50 > f.P95 || f.Share < 0 || f.Share > 1 {
			t.Errorf("%s: %s: %+v", r.Title, name, f)
		}
	}
	if r.People.Unsent+r.Without.Unsent != 0 {
		t.Errorf("%s: people were not sent", r.Title)
	}
	if want := int64(o.rate(flood) * o.For.Seconds()); r.Flood.Offered != want {
		t.Errorf("%s: the flood was %d, want %d", r.Title, r.Flood.Offered, want)
	}
	if len(r.Seconds) != 1 {
		t.Fatalf("%s: %d seconds", r.Title, len(r.Seconds))
	}
	// The second has the warm-up in it.
	s := r.Seconds[0]
	if s.People.Came < r.People.Offered || s.People.Got < r.People.Served || s.Flood.Came < r.Flood.Offered ||
		s.Flood.Got < r.Flood.Served {
		t.Errorf("%s: the second has less than the whole: %+v", r.Title, s)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	o := brief("none", "weir")
	looked := 0
	o.Watch = func(p Progress) {
		looked++
		if p.Round < 1 || p.Round > p.Rounds || p.Rounds != 2 || p.Scene != UnderFlood || p.Kind != Many {
			t.Errorf("progress %+v", p)
		}
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Floods) != 1 || len(r.Floods[0].Rounds) != 2 || len(r.LeftOut) != 0 || looked == 0 {
		t.Fatalf("%+v, looked %d times", r, looked)
	}
	for i := range r.Floods[0].Rounds {
		sound(t, o.WithDefaults(), &r.Floods[0].Rounds[i])
	}
	if one := r.Floods[0].Rounds[1]; one.Front != "weir" || len(one.Gauges) == 0 {
		t.Errorf("weir told nothing: %+v", one)
	}
}

// TestPeers runs the peers that are here, with the configurations that they are compared with.
func TestPeers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nginx", "haproxy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := machine.Find(name); err != nil {
				needs.Skip(t, name+" is not installed")
			}
			o := brief(name)
			r, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Floods[0].Rounds) != 1 || r.Floods[0].Rounds[0].Version == "" {
				t.Fatalf("%+v", r)
			}
			sound(t, o.WithDefaults(), &r.Floods[0].Rounds[0])
		})
	}
}

// TestMain gives the tests a folder for what is temporary, and looks whether anything was left behind in it.
func TestMain(m *testing.M) {
	if os.Getenv(asSolver) != "" {
		if err := ServeSolver(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "weir")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(folder)
		os.Setenv("TMPDIR", folder)
		code := browser.Main(m)
		if left, err := filepath.Glob(filepath.Join(folder, "weir-flood-*")); err != nil || len(left) > 0 {
			fmt.Fprintln(os.Stderr, "left behind:", left, err)
			code = max(code, 1)
		}
		return code
	}())
}

func TestLeftOut(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	p := peer{name: "no-such-program", title: "Nobody"}
	if _, err := p.front().find(Options{}); err == nil || err.Error() != "it is not installed" {
		t.Error(err)
	}
	if _, err := p.start(t.Context(), site{}); err == nil {
		t.Error("started")
	}
}

// TestStopped: who stops it gets what was finished, and nothing is left running.
func TestStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o := brief("none")
	o.Kinds = Kinds
	o.Watch = func(p Progress) {
		if p.Round == 2 {
			cancel()
		}
	}
	r, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) || len(r.Floods) != 1 || len(r.Floods[0].Rounds) != 1 {
		t.Errorf("%v, %+v", err, r.Floods)
	}
	if r, err := Run(ctx, o); !errors.Is(err, context.Canceled) || len(r.Floods) != 0 {
		t.Errorf("%v, %+v", err, r.Floods)
	}
}

func TestOptions(t *testing.T) {
	if err := (Options{}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{For: -1}, "for: -1ns is out of bounds"},
		{Options{Patience: 2 * time.Hour}, "patience: 2h0m0s is out of bounds"},
		{Options{Algorithm: 4},
			`algorithm: there is no puzzle "algorithm(4)" (one of sha256-k, dlog, dlog-classic, eqs60)`},
		{Options{Concurrent: -1}, "concurrent: -1 at a time"},
		{Options{Concurrent: maxConcurrent + 1}, "concurrent: 10001 at a time"},
		{Options{Queue: maxConcurrent + 1}, "queue: 10001 in line"},
		{Options{Work: time.Nanosecond}, "times: 10 times the capacity is 80000000000 requests a second"},
		{Options{People: -0.5}, "people: -0.5 times the capacity"},
		{Options{Times: 251},
			"times: 251 times the capacity is 100400 requests a second (more than nothing, at most 100000"},
		{Options{Haste: 0.5}, "haste: 0.5 times as fast cannot be played (1 to 1000)"},
		{Options{Haste: maxHaste + 1}, "haste: 1001 times as fast"},
		{Options{Scenes: []Scene{Keys, "during"}},
			`scene: there is no scene "during" (some of flood, after, keys, payer, turns, shared, uploads)`},
		{Options{Kinds: []Kind{"some"}}, `flood: there is no flood "some" (many, few or both)`},
		{Options{Fronts: []string{"varnish"}},
			`fronts: there is no "varnish" to compare (some of none, nginx, haproxy, weir)`},
	} {
		err := c.o.WithDefaults().Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.o, err, c.want)
		}
		if _, run := Run(t.Context(), c.o); run == nil || run.Error() != err.Error() {
			t.Errorf("Run: %v", run)
		}
	}
	if err := (Options{}).Validate(); err == nil {
		t.Error("options that say nothing are not filled in")
	}
}

// TestMeter: use is what was done between the first and the last look in the window.
func TestMeter(t *testing.T) {
	done := int64(0)
	m := meter{done: func() int64 { return done }, from: 10 * time.Second, to: 20 * time.Second}
	if m.use(10) != 0 {
		t.Error("nobody looked")
	}
	for at := range 30 {
		m.look(time.Duration(at) * time.Second)
		done += 5
	}
	if got := m.use(10); got != 0.5 {
		t.Errorf("use %g", got)
	}
}
