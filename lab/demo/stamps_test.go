package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/admission"
	"weir/config"
	"weir/console"
	"weir/throttle/stamp"
)

// TestTurn: an actor comes when it is its turn, and in every round where the end is open.
func TestTurn(t *testing.T) {
	began := time.Unix(1_000_000_000, 0)
	const half = 10 * time.Second
	part := func(from, to time.Duration) func(bool, time.Duration) Span {
		return func(atWork bool, length time.Duration) Span {
			if !atWork {
				return Span{}
			}
			return Span{from, to}
		}
	}
	for name, test := range map[string]struct {
		turn   func(bool, time.Duration) Span
		on     bool
		length time.Duration
		at     time.Duration
		there  bool
		next   time.Duration // until it comes
	}{
		"always":           {nil, true, half, 20 * time.Second, true, 0},
		"never":            {part(0, half), false, half, 5 * time.Second, false, half + 1},
		"before":           {part(2*time.Second, 4*time.Second), true, half, time.Second, false, time.Second},
		"from the start":   {part(2*time.Second, 4*time.Second), true, half, 2 * time.Second, true, 0},
		"gone":             {part(2*time.Second, 4*time.Second), true, half, 4 * time.Second, false, 8*time.Second + 1},
		"gone for good":    {part(0, half), true, half, half, false, 1},
		"in another round": {part(2*time.Second, 4*time.Second), true, 0, 5*round + 3*time.Second, true, 0},
		"between rounds": {part(2*time.Second, 4*time.Second), true, 0, round + 29*time.Second, false,
			3*time.Second + 1},
	} {
		a := &player{Actor: Actor{Turn: test.turn}}
		a.begin(test.on, newHalfTime(began, test.length))
		if got := a.away(began.Add(test.at)); got != test.next || (got == 0) != test.there {
			t.Errorf("%s: away for %s, want %s", name, got, test.next)
		}
	}
}

// TestWorkInTurn: what an actor does, it does in its turn only.
func TestWorkInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var at []time.Duration
		a := &player{Actor: Actor{Pause: func(Result) time.Duration { return time.Second },
			Turn: func(bool, time.Duration) Span {
				return Span{3 * time.Second, 6 * time.Second}
			}}}
		a.begin(true, newHalfTime(began, 10*time.Second))
		a.work(ctx, func(context.Context) Result {
			at = append(at, time.Since(began))
			return Served
		})
		if want := []time.Duration{4 * time.Second, 5 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("acted at %v, want %v", at, want)
		}
	})
}

// aStatus is what a weir with stamps says.
func aStatus(load, delay float64, work, n uint64) *console.Status {
	return &console.Status{
		Gates: []console.GateStatus{{Capacity: &console.Capacity{Load: load, Delay: delay,
			LetIn: map[string]uint64{"stamped": n, "pool": 2 * n}}}},
		Throttles: []console.ThrottleStatus{{Throttle: "other"},
			{Throttle: "stamps", Stamp: &console.Stamp{Stats: stamp.Stats{Algorithm: "sha256-k",
				Work: map[string]uint64{"127.0.0.1:0": work}, Challenged: 3 * n}}}},
	}
}

func TestStrain(t *testing.T) {
	var s strain
	began := time.Unix(1_000_000_000, 0)
	s.look(&console.Status{Gates: []console.GateStatus{{}}, Throttles: []console.ThrottleStatus{{}}}, true, began)
	if s.report() != nil {
		t.Error("a scene without stamps has figures of them")
	}
	see := func(at int64, load, delay float64, work, n uint64, flooded bool) Stamps {
		s.look(aStatus(load, delay, work, n), flooded, began.Add(time.Duration(at)*time.Second))
		return *s.report()
	}
	see(0, 0.1, 0, 0, 10, true)
	s.begin()
	if got := see(1, 0.1, 0, 0, 10, false); got != (Stamps{PeakLoad: 0.1}) {
		t.Errorf("nothing was asked yet: %+v", got)
	}
	see(2, 3, 0, 32768, 12, true)
	see(3, 5, 200, 131072, 20, true)
	if got := see(4, 4, 100, 131072, 20, true); got.Calm != 0 || got.Dormant != nil {
		t.Errorf("with the flood there: %+v", got)
	}
	see(5, 0.5, 0, 65536, 21, false)
	got := see(6, 0.5, 0, 65536, 21, false)
	want := Stamps{PeakLoad: 5, PeakDelay: 200, LeastWork: 32768, PeakWork: 131072, EndWork: 65536, LeastMS: 32.8,
		PeakMS: 131.1, EndMS: 65.5,
		Asked: 33, Paid: 11, Pool: 22, Calm: 1}
	if got != want {
		t.Errorf("not dormant yet: %+v, want %+v", got, want)
	}
	see(8, 0.1, 0, 0, 21, false)
	if got := see(9, 0.1, 0, 0, 21, false); got.Dormant == nil || *got.Dormant != 3 || got.Calm != 4 ||
		got.EndWork != 0 {
		t.Errorf("dormant: %+v", got)
	}
	if got := see(10, 2, 0, 32768, 21, true); got.Dormant != nil || got.Calm != 0 {
		t.Errorf("the flood came again: %+v", got)
	}
	see(11, 0.1, 0, 0, 21, false)
	if got := see(12, 0.1, 0, 32768, 21, false); got.Dormant != nil {
		t.Errorf("it woke up again: %+v", got)
	}
	s.begin()
	if got := see(13, 0.1, 0, 0, 21, false); got != (Stamps{PeakLoad: 0.1}) {
		t.Errorf("a new half: %+v", got)
	}
}

// asking sets the stage of the scene, with a weir that always asks for stamps, which cost nothing worth noticing.
func asking(t *testing.T) *Stage {
	t.Helper()
	tidy(t)
	scene := stampScene()
	scene.Setup = func(s *Stage) (config.Config, error) {
		cfg, err := setUpStamps(s)
		cfg.Throttles["stamps"] = config.Throttle{Stamp: &stamp.Options{Schedule: []stamp.Step{{Load: 0, Work: 16}},
			Covers: stampCovers}}
		return cfg, err
	}
	stage, err := setStage(&scene, slog.New(slog.DiscardHandler), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stage.close)
	return stage
}

// TestVisits: people who pay, or wait with their ticket, are served. Others are not.
func TestVisits(t *testing.T) {
	s := asking(t)
	again := func(context.Context, *person, http.Header) error { return nil }
	leaves := func(context.Context, *person, http.Header) error { return errors.New("too expensive") }
	enter := map[string]func(*Stage) (func(context.Context) Result, func()){
		"pays": people(19, pays), "comes again": people(18, again), "leaves": people(19, leaves), "flood": swarm,
		"bots": bots,
	}
	try := func(name string) Result {
		t.Helper()
		act, leave := enter[name](s)
		defer leave()
		return act(t.Context())
	}
	for _, half := range []struct {
		on   bool
		want map[string]Result
	}{
		{false, map[string]Result{"pays": Served, "comes again": Served, "leaves": Served, "flood": Served,
			"bots": Served}},
		{true, map[string]Result{"pays": Served, "comes again": Served, "leaves": Refused, "flood": Refused,
			"bots": Served}},
	} {
		if err := s.throttle(half.on); err != nil {
			t.Fatal(err)
		}
		for name, want := range half.want {
			if got := try(name); got != want {
				t.Errorf("at work: %t, %s: %d, want %d", half.on, name, got, want)
			}
		}
	}
	if s.Props.(*spending).bots.Load() == 0 {
		t.Error("bots have paid nothing")
	}
	if status, err := s.status(); err != nil || status.Gates[0].Capacity.LetIn["stamped"] != 2 {
		t.Errorf("let in: %+v %v", status.Gates[0].Capacity, err)
	}
	s.weir.Stop(t.Context())
	for _, name := range []string{"pays", "flood", "bots"} {
		if got := try(name); got != Failed {
			t.Errorf("with the gate gone, %s: %d", name, got)
		}
	}
}

// TestWaits: people who are told when to come again come then.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := waits(t.Context(), nil, http.Header{"Retry-After": {"3"}}); err != nil ||
			time.Since(began) != 3*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := waits(ctx, nil, http.Header{"Retry-After": {"3"}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("out of patience: %v", err)
		}
		if waits(t.Context(), nil, http.Header{}) == nil {
			t.Error("nobody said when")
		}
	})
}

func aStampReport() SceneReport {
	after := 1.2
	return SceneReport{
		Name: "stamps",
		Half: Half{
			People: Figures{92, 92, 0, 0, 210, 2000, 0}, Flood: Figures{2683, 400, 2283, 0, 340, 900, 0}, Seconds: 8.91,
			Actors: []ActorReport{{"people", People, 0, Figures{74, 74, 0, 0, 182, 690, 0}, 9.3},
				{"no scripts", People, 0, Figures{18, 18, 0, 0, 1079, 2100, 0}, 0},
				{"flood", Flood, 0, Figures{2283, 0, 2283, 0, 0, 0, 0}, 0},
				{"paying flood", Flood, 0, Figures{400, 400, 0, 0, 340, 900, 0}, 10.7}},
			Stamps: &Stamps{PeakLoad: 8.4, PeakDelay: 312.4, LeastWork: 65536, PeakWork: 400000, LeastMS: 65.5,
				PeakMS: 400, Asked: 2400, Paid: 474, Pool: 40,
				Calm: 3.5, Dormant: &after},
		},
		Without: Half{
			People: Figures{14, 3, 0, 11, 489, 529, 0}, Flood: Figures{742, 210, 0, 532, 479, 658, 0}, Seconds: 2.6,
			Actors: []ActorReport{{"people", People, 0, Figures{10, 2, 0, 8, 489, 529, 0}, 0},
				{"no scripts", People, 0, Figures{4, 1, 0, 3, 489, 489, 0}, 0},
				{"flood", Flood, 0, Figures{742, 210, 0, 532, 479, 658, 0}, 0}, {Name: "paying flood", Role: Flood}},
			Stamps: &Stamps{PeakLoad: 9.6, LeastWork: 32768, PeakWork: 65536, EndWork: 65536, LeastMS: 32.8,
				PeakMS: 65.5, EndMS: 65.5},
		},
	}
}

func TestStampSummary(t *testing.T) {
	scene, r := stampScene(), aStampReport()
	for _, width := range []int{0, 50} {
		golden(t, fmt.Sprintf("summary-stamps-%d.txt", width),
			strings.Join(summary(&scene, &r, width, false), "\n")+"\n")
	}
}

func TestTellStamps(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*SceneReport)
		want   string
	}{
		"stopped": {func(r *SceneReport) { r.Flood = Figures{} }, "stopped before the throttle was at work"},
		"short":   {func(r *SceneReport) { r.Stamps = &Stamps{PeakLoad: 0.5} }, "nothing was asked of anybody"},
		"steady": {func(r *SceneReport) { r.Stamps.PeakWork = r.Stamps.LeastWork },
			"66 ms of a phone for a stamp, at a load"},
		"dormant": {func(r *SceneReport) {}, "1.2 s later weir was dormant again"},
		"not yet": {func(r *SceneReport) { r.Stamps.Dormant, r.Stamps.EndMS = nil, 131.1 },
			"3.5 s later, weir was not dormant yet: it asked for 131 ms"},
		"still there": {func(r *SceneReport) { r.Stamps.Dormant, r.Stamps.Calm = nil, 0 },
			"was still there at the end"},
	} {
		r := aStampReport()
		test.change(&r)
		scene := stampScene()
		if told := strings.Join(scene.tell(r), " "); !strings.Contains(told, test.want) {
			t.Errorf("%s: no %q in %q", name, test.want, told)
		}
	}
}

// TestStampFigures: what the figures of the scene rest upon.
func TestStampFigures(t *testing.T) {
	const room = float64(stampPlaces) / (float64(stampWork) / float64(time.Second))
	first := stamp.Work(stampFirst).Time(stamp.SHA256K)
	// requests a second that bots can pay for
	paid := func(price time.Duration) float64 { return stampBots * stampCovers / price.Seconds() }
	clients := admission.Options{}.WithDefaults()
	for what, ok := range map[string]bool{
		"the flood asks for several times what there is": stampFlooders/stampRest.Seconds() > 4*room,
		"people alone are no load": (stampPeople+
			stampUnscript)/between(Served).Seconds()*stampWork.Seconds() < stampFrom*stampPlaces,
		"at the first price, bots fill the service":          paid(first) > 2*room,
		"at the highest, they cannot":                        paid(stampMost) < room,
		"the first price is not the highest":                 4*first < stampMost,
		"a bot has no more waiting than one client may have": stampTogether < clients.PerClient,
		"everybody finds room in the lanes": stampFlooders+stampBots*stampTogether+stampPeople+
			stampUnscript <= clients.Waiting,
		"the flood fills the service and its line":          stampFlooders > stampPlaces+stampLine,
		"who waits without scripts has the patience for it": 10*stampReload <= patience,
		"the flood has an address for each worker":          stampFlooders < 256,
		"the flood comes, and goes while it is still watched": floodTurn(true, round).To < round &&
			botsTurn(true, round).From > 0,
	} {
		if !ok {
			t.Errorf("not so: %s", what)
		}
	}
}
