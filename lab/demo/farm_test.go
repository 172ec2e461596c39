package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir/config"
	"weir/console"
)

// aFarm sets the stage of the scene.
func aFarm(t *testing.T) *Stage {
	t.Helper()
	tidy(t)
	scene := farmScene()
	stage, err := setStage(&scene, slog.New(slog.DiscardHandler), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stage.close)
	return stage
}

// TestFarmCast: what the actors do in shadow and at work, at three nodes.
func TestFarmCast(t *testing.T) {
	s := aFarm(t)
	f := farmOf(s)
	play := func(enter func(*Stage) (func(context.Context) Result, func()), times int) (got map[Result]int) {
		t.Helper()
		act, leave := enter(s)
		defer leave()
		got = map[Result]int{}
		for range times {
			got[act(t.Context())]++
		}
		return got
	}
	if err := s.throttle(false); err != nil {
		t.Fatal(err)
	}
	for i, node := range f.asks {
		shadowed(t, node, nodeName(i), true)
	}
	for name, enter := range map[string]func(*Stage) (func(context.Context) Result, func()){
		"people": balanced, "copies": copiers, "forgers": forgers,
	} {
		if got := play(enter, 2*farmNodes); got[Served] != 2*farmNodes {
			t.Errorf("in shadow, %s: %v", name, got)
		}
	}
	if r := f.report(); *r != (Farm{}) {
		t.Errorf("in shadow: %+v", r)
	}

	if err := s.throttle(true); err != nil {
		t.Fatal(err)
	}
	for i, node := range f.asks {
		shadowed(t, node, nodeName(i), false)
	}
	if got := play(balanced, 2*farmNodes); got[Served] != 2*farmNodes {
		t.Errorf("people: %v", got)
	}
	if got := play(copiers, farmCopies+1); got[Refused]+got[Served] != farmCopies+1 || got[Served] > 2 {
		t.Errorf("copies: %v", got)
	}
	if r := f.report(); r.Stamps != 2 || r.Copies != farmCopies+1 || r.Accepted > 2 || r.Most > 1 {
		t.Errorf("copies: %+v", r)
	}

	act, leave := forgers(s)
	defer leave()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for f.chased.followed() < 2*farmForgers && ctx.Err() == nil { // until the word has come to all nodes
		if got := act(t.Context()); got != Refused {
			t.Fatalf("a forger: %d", got)
		}
	}
	r := f.report()
	if r.Followed < 2*farmForgers || r.Caught < r.Followed || r.Listed != r.Caught || r.Spread <= 0 {
		t.Errorf("forgers: %+v", r)
	}
	if got := play(balanced, farmNodes); got[Served] != farmNodes {
		t.Errorf("people, with forgers banned: %v", got)
	}
	f.chased.mu.Lock()
	f.chased.caught = make([]netip.Addr, farmCaught)
	f.chased.mu.Unlock()
	if got := act(t.Context()); got != Nothing {
		t.Errorf("one more than the most: %d", got)
	}
}

// shadowed fails the test unless all throttles of a node are in shadow, or none is.
func shadowed(t *testing.T, node *console.Client, name string, want bool) {
	t.Helper()
	status, err := console.StatusCall.Ask(t.Context(), node, console.None{})
	if err != nil {
		t.Fatal(err)
	}
	for _, throttle := range status.Throttles {
		if throttle.Shadow != want {
			t.Errorf("node %s: %s is in shadow: %t", name, throttle.Throttle, throttle.Shadow)
		}
	}
}

// TestFarmNodeFails: where a node cannot start, nothing of the others is left.
func TestFarmNodeFails(t *testing.T) {
	tidy(t)
	taken, err := net.Listen("tcp", loopback)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	scene := farmScene()
	scene.Setup = func(s *Stage) (config.Config, error) {
		cfg, err := setUpFarm(s)
		cfg.Farm.Listen = taken.Addr().String()
		return cfg, err
	}
	s, err := setStage(&scene, slog.New(slog.DiscardHandler), "")
	if err == nil {
		s.close()
		t.Fatal("two listen at one address")
	}
	if !strings.Contains(err.Error(), "farm.listen") {
		t.Error(err)
	}
}

// TestForge: a forged stamp differs from the real one in one place, before the dot.
func TestForge(t *testing.T) {
	for _, stamp := range []string{"0123456789.solution", "01A3456789.solution", "short.solution", ".", "", "A"} {
		forged := forge(stamp)
		head, tail, _ := strings.Cut(stamp, ".")
		gotHead, gotTail, _ := strings.Cut(forged, ".")
		if gotTail != tail || gotHead == head || len(gotHead) != max(len(head), 1) {
			t.Errorf("%q became %q", stamp, forged)
		}
	}
}

func TestTurnedAway(t *testing.T) {
	challenge := http.Header{"Stamp-Challenge": {"pay"}}
	for _, test := range []struct {
		status int
		header http.Header
		err    error
		want   Result
	}{
		{http.StatusOK, nil, nil, Served},
		{http.StatusForbidden, nil, nil, Refused},
		{http.StatusServiceUnavailable, challenge, nil, Refused},
		{http.StatusServiceUnavailable, nil, nil, Failed},
		{http.StatusForbidden, nil, errors.New("lost"), Failed},
	} {
		if got := turnedAway(test.status, test.header, test.err); got != test.want {
			t.Errorf("%d %v %v: %d, want %d", test.status, test.header, test.err, got, test.want)
		}
	}
}

func aFarmReport() SceneReport {
	return SceneReport{
		Name: "farm",
		Half: Half{
			People: Figures{120, 120, 0, 0, 31, 80, 0}, Flood: Figures{2583, 40, 2543, 0, 27, 90, 0}, Seconds: 2.31,
			Actors: []ActorReport{{"people", People, 0, Figures{120, 120, 0, 0, 31, 80, 0}, 0},
				{"copies", Flood, 0, Figures{2000, 40, 1960, 0, 27, 90, 0}, 0},
				{"forgers", Flood, 0, Figures{583, 0, 583, 0, 0, 0, 0}, 0}},
			Farm: &Farm{Stamps: 40, Copies: 2000, Accepted: 40, Most: 1, Caught: 71, Listed: 71, Followed: 70,
				Spread: 28.4},
		},
		Without: Half{
			People: Figures{20, 9, 0, 11, 65, 93, 0}, Flood: Figures{742, 210, 0, 532, 64, 98, 0}, Seconds: 0.8,
			Actors: []ActorReport{{"people", People, 0, Figures{20, 9, 0, 11, 65, 93, 0}, 0},
				{"copies", Flood, 0, Figures{700, 200, 0, 500, 64, 98, 0}, 0},
				{"forgers", Flood, 0, Figures{42, 10, 0, 32, 64, 98, 0}, 0}},
			Farm: new(Farm),
		},
	}
}

func TestFarmSummary(t *testing.T) {
	scene, r := farmScene(), aFarmReport()
	r.Checks = checkFarm(r)
	for _, width := range []int{0, 50} {
		golden(t, fmt.Sprintf("summary-farm-%d.txt", width),
			strings.Join(summary(&scene, &r, width, false), "\n")+"\n")
	}
}

func TestTellFarm(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*SceneReport)
		want   string
	}{
		"stopped":   {func(r *SceneReport) { r.Flood = Figures{} }, "stopped before the throttle was at work"},
		"one":       {func(r *SceneReport) { r.Farm.Stamps, r.Farm.Accepted = 1, 1 }, "paid for 1 stamp, "},
		"one taken": {func(r *SceneReport) { r.Farm.Accepted = 1 }, " 1 was accepted"},
		"twice":     {func(r *SceneReport) { r.Farm.Most = 2 }, "none more than 2 times"},
		"one forger": {func(r *SceneReport) { r.Farm.Caught, r.Farm.Followed = 1, 0 },
			"Node a caught 1 forger. In the end 71 "},
	} {
		r := aFarmReport()
		test.change(&r)
		scene := farmScene()
		if told := strings.Join(scene.tell(r), " "); !strings.Contains(told, test.want) {
			t.Errorf("%s: no %q in %q", name, test.want, told)
		}
	}
	r := aFarmReport()
	r.Farm = new(Farm)
	scene := farmScene()
	if told := scene.tell(r); len(told) != 2 {
		t.Errorf("where there was no time for stamps: %q", told)
	}
}

// TestCheckFarm: what must be so is not so when it is not.
func TestCheckFarm(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*SceneReport)
		not    int // which check; 3 is none
	}{
		"all is well":        {func(*SceneReport) {}, 3},
		"a person is lost":   {func(r *SceneReport) { r.People.Served-- }, 0},
		"accepted twice":     {func(r *SceneReport) { r.Farm.Most = 2 }, 1},
		"more than was paid": {func(r *SceneReport) { r.Farm.Stamps-- }, 1},
		"served unpaid":      {func(r *SceneReport) { r.Actors[1].Served++ }, 1},
		"not on all lists":   {func(r *SceneReport) { r.Farm.Listed-- }, 2},
		"a forger is served": {func(r *SceneReport) { r.Actors[2].Served++ }, 2},
	} {
		r := aFarmReport()
		test.change(&r)
		for i, c := range checkFarm(r) {
			if c.OK == (i == test.not) {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
	r := aFarmReport()
	r.Flood.Sent = 0
	if all := checkFarm(r); all != nil {
		t.Errorf("nothing has happened: %v", all)
	}
}

// TestFarmFigures: what the figures of the scene rest upon.
func TestFarmFigures(t *testing.T) {
	for what, ok := range map[string]bool{
		"the flood fills the service and its line": farmCopiers > farmPlaces+farmLine,
		"copies of one stamp come to all nodes":    farmCopies > farmNodes,
		"every forger has an address":              2*farmCaught+farmForgers < 1<<16,
	} {
		if !ok {
			t.Errorf("not so: %s", what)
		}
	}
}

// followed returns how many forgers were turned away by all nodes.
func (c *chased) followed() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spread.N
}
