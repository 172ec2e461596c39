package simulate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/throttle/outbreak"
)

// run replays a log.
func run(t testing.TB, o ReplayOptions, log iter.Seq[Entry]) *Study {
	t.Helper()
	r, err := NewReplay(o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for e := range log {
		if err := r.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	return r.Study()
}

// realLog is a real mail log. It is no part of the project: WEIR_DATA names the folder that it lies in.
func realLog(t testing.TB) []Entry {
	t.Helper()
	path := filepath.Join(cmp.Or(os.Getenv("WEIR_DATA"), filepath.Join("..", "..", "shared", "data")), "mail-eu.csv")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs the mail log, in the folder that WEIR_DATA names: %v", err)
	}
	log, _ := readLog(t, LogOptions{}, path)
	return log
}

// TestRealLog holds the reference model's figures for a real mail log against ours: all three in one pass.
func TestRealLog(t *testing.T) {
	log := realLog(t)
	spec, err := ParseSweep("working_set=0,1,5")
	if err != nil {
		t.Fatal(err)
	}
	study := run(t, ReplayOptions{Params: DocumentParams(), Sweeps: []SweepSpec{spec}}, slices.Values(log))
	if study.Mails != 53_633 || study.Users != 672 {
		t.Fatal(study.Mails, study.Users)
	}
	for i, c := range []struct {
		delayed float64 // percent of the mails
		stops   int
		mean    float64
	}{{4.80, 39, 220}, {2.96, 38, 250}, {1.69, 36, 277}} {
		got := study.Sweeps[0].Points[i]
		t.Logf("working set %s: %+v", got.Value, got.Figures)
		if math.Abs(100*got.DelayedShare-c.delayed) > 0.1 || got.Stops < c.stops-1 || got.Stops > c.stops+1 {
			t.Errorf("working set %s: %.2f %% delayed and %d stops, want %.2f %% and %d",
				got.Value, 100*got.DelayedShare, got.Stops, c.delayed, c.stops)
		}
		if math.Abs(got.MeanDelay-c.mean) > 5 {
			t.Errorf("working set %s: mean delay %.1f s, want %.0f s", got.Value, got.MeanDelay, c.mean)
		}
	}
}

// plain is a replay without anything clever: one user at a time, tick by tick.
type plain struct {
	mails, delayed, stops, waited int
	left                          int64
	sum                           time.Duration
	delays                        []time.Duration
}

func plainReplay(p outbreak.Params, log []Entry) (all plain) {
	type user struct {
		outbreak.State
		since map[outbreak.Item]time.Time
	}
	users, keys := map[string]*user{}, map[string]uint64{}
	tick := func(u *user, now time.Time) {
		for due := u.Due(&p); !due.IsZero() && !due.After(now); due = u.Due(&p) {
			for _, it := range u.Tick(&p, due, nil) {
				all.left++
				all.sum += due.Sub(u.since[it])
				all.delays = append(all.delays, due.Sub(u.since[it]))
			}
		}
		u.Tick(&p, now, nil)
	}
	for i, e := range log {
		u := users[e.User]
		if u == nil {
			u = &user{since: map[outbreak.Item]time.Time{}}
			users[e.User] = u
		}
		tick(u, e.At)
		var to []uint64
		for _, name := range e.To {
			if keys[name] == 0 {
				keys[name] = uint64(len(keys) + 1)
			}
			to = append(to, keys[name])
		}
		d := u.Submit(&p, e.At, uint64(i)+1, to, nil, nil)
		all.mails++
		if d.Delayed > 0 {
			all.delayed++
			all.waited += d.Delayed
			for _, it := range u.Waiting()[len(u.Waiting())-d.Delayed:] {
				u.since[it] = e.At
			}
		}
		if d.Stopped {
			all.stops++
			u.Take(func(outbreak.Item) bool { return true })
			u.Resume(&p, e.At, false)
		}
	}
	for _, u := range users {
		tick(u, latest)
	}
	return all
}

// Whatever the parameters are, a replay is what the throttle would do tick by tick; and a value of a sweep is what it
// would be by itself.
func TestReplayProperty(t *testing.T) {
	log := slices.Collect(generateLog(12, 12))
	r := rand.New(rand.NewPCG(6, 1))
	for range 3 {
		p := outbreak.Params{
			Every: time.Duration(5+r.IntN(200)) * time.Second, WorkingSet: r.IntN(7), FIFO: r.IntN(2) == 0,
			MaxSlack:  r.IntN(3),
			MaxMSlack: r.IntN(20), Stop: r.IntN(40),
		}
		if p.MultiEvery = p.Every; r.IntN(2) == 0 {
			p.MultiEvery = time.Duration(5+r.IntN(200)) * time.Second
		}
		var sweeps []SweepSpec
		for _, text := range []string{"working_set=0,3", "max_slack=0..2", "max_mslack=1,7", "rate=1/m,7/m",
			"multi_rate=30/h", "stop=0,3,50"} {
			spec, err := ParseSweep(text)
			if err != nil {
				t.Fatal(err)
			}
			sweeps = append(sweeps, spec)
		}
		study := run(t, ReplayOptions{Params: p, Sweeps: sweeps}, slices.Values(log))
		holds(t, p, study.Figures, log)
		for i, sweep := range study.Sweeps {
			for j, point := range sweep.Points {
				alone := sweeps[i].Values[j].with(sweep.Parameter, p)
				holds(t, alone, point.Figures, log)
				if got := run(t, ReplayOptions{Params: alone}, slices.Values(log)); got.Figures != point.Figures {
					t.Errorf("%s=%s: %+v, by itself %+v", sweep.Parameter, point.Value, point.Figures, got.Figures)
				}
			}
		}
	}
}

// holds holds figures against the plain replay.
func holds(t *testing.T, p outbreak.Params, got Figures, log []Entry) {
	t.Helper()
	want := plainReplay(p, log)
	median, longest := 0.0, 0.0
	if slices.Sort(want.delays); len(want.delays) > 0 {
		median, longest = want.delays[(len(want.delays)-1)/2].Seconds(), want.delays[len(want.delays)-1].Seconds()
	}
	if got.Mails != want.mails || got.Delayed != want.delayed || got.Stops != want.stops || got.Waited != want.waited ||
		math.Abs(got.MeanDelay-want.sum.Seconds()/float64(max(1, want.left))) > 0.001 ||
		math.Abs(got.MaxDelay-longest) > 0.001 ||
		math.Abs(got.MedianDelay-median) > 1+median/50 {
		t.Errorf("%s: %+v, want %+v, median %v, longest %v", p.String(), got, want, median, longest)
	}
}

// The result is the same for any number of workers.
func TestReplayWorkers(t *testing.T) {
	var want *Study
	for _, workers := range []int{1, 4, 7} {
		o := ReplayOptions{Params: DocumentParams(), Sweeps: DefaultSweeps(), Share: DefaultShare, Workers: workers}
		got := run(t, o, generateLog(20, 6))
		if want == nil {
			want = got
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d workers: %+v, want %+v", workers, got, want)
		}
	}
	if want.Delayed == 0 || want.Stops == 0 || len(want.Worst) == 0 || want.MostWaiting < want.Worst[0].Most {
		t.Errorf("%+v", want)
	}
}

// at is a mail so many seconds after nine.
func at(seconds float64, user string, to ...string) Entry {
	return Entry{generatedStart.Add(9*time.Hour + time.Duration(seconds*float64(time.Second))), user, to}
}

// people are so many recipients that nobody has written to.
func people(n int) (to []string) {
	for i := range n {
		to = append(to, fmt.Sprint("p", i))
	}
	return to
}

func TestReplaySmall(t *testing.T) {
	log := []Entry{
		at(0, "ann", "x"),            // passes; the clock starts
		at(10, "ann", "y"),           // waits until 60
		at(20, "ann", "z"),           // waits until 120
		at(30, "ben", people(18)...), // 15 pass, three wait until 90, 150, 210
		at(40, "cid", people(40)...), // 15 pass, 25 wait: stopped, and released
		at(300, "ann", "x", "y"),
		at(300.5, "dan", "x"),
	}
	s := run(t, ReplayOptions{Params: defaultParams(t)}, slices.Values(log))
	want := Figures{
		Mails: 7, Delayed: 4, DelayedShare: 0.571429, Stops: 1, MeanDelay: (50 + 100 + 60 + 120 + 180) / 5.0, Users: 4,
		Recipients: 64, Waited: 30,
		MedianDelay: 100, MaxDelay: 180, MostWaiting: 30, StoppedUsers: 1, DelayedUsers: 3, StopsMonthly: 30 / 4.0,
		Left: 5, StopsRange: Interval{0.189884, 41.787325}, // 0.0253 and 5.57 stops, of 4 users in a day
	}
	if s.Figures != want {
		t.Errorf("%+v\nwant %+v", s.Figures, want)
	}
	users := []UserStudy{{"cid", 1, 1, 1, 0, 0, 25}, {"ann", 4, 2, 0, 75, 100, 2}, {"ben", 1, 1, 0, 120, 180, 3}}
	if !slices.Equal(s.Worst, users) {
		t.Errorf("%+v", s.Worst)
	}
	if !slices.Equal(s.Delays, []DelayPoint{{50, 0.2}, {60, 0.4}, {100, 0.6}, {120, 0.8}, {180, 1}}) {
		t.Errorf("%+v", s.Delays)
	}
	if s.Log.From != log[0].At || s.Log.To != log[6].At || s.Log.Mails != 7 || s.Log.Users != 4 {
		t.Errorf("%+v", s.Log)
	}
	// In the first minute one waits for 50 seconds, one for 40, three for 30; in the second one for 60, three for 30
	// and two for 30.
	if got := s.Queue[9*60 : 9*60+4]; !slices.Equal(got,
		[]QueuePoint{{540, 3, 30}, {541, 3.5, 4}, {542, 1.5, 2}, {543, 0.5, 1}}) {
		t.Errorf("%+v", got)
	}
}

// Somebody who is named twice in a mail is one, as at a gate: in any case, and however their address is written. Others
// are not.
func TestReplayNamedTwice(t *testing.T) {
	twice := func(to []string) (all []string) {
		for _, one := range to {
			all = append(all, one+"@example.org", strings.ToUpper(one)+"@Example.org")
		}
		return all
	}
	o := ReplayOptions{Params: defaultParams(t), Counted: func(to string) bool { return to != "in@example.org" }}
	for _, c := range []struct {
		to                 []string
		recipients, waited int
	}{
		{twice(people(15)), 15, 0},
		{twice(people(16)), 16, 1},
		{twice(people(18)), 18, 3}, // more than are looked through
		{append(twice(people(15)), `"p3"@example.org`, "P 3 <p3@example.org>"), 15, 0},
		{append(twice(people(15)), "p3+x@example.org"), 16, 1},
		{append(twice(people(15)), "in@example.org", "IN@example.org"), 16, 0},
		{[]string{"p0@example.org", "P0@example.org"}, 1, 0}, // a mail to one has another credit
	} {
		log := []Entry{at(0, "ann", c.to...)}
		if s := run(t, o, slices.Values(log)); s.Recipients != c.recipients || s.Waited != c.waited {
			t.Errorf("%d named: %d recipients, %d waited, want %d and %d", len(c.to), s.Recipients, s.Waited,
				c.recipients, c.waited)
		}
	}
}

// Much happens: what was asked about is told to the second, and each swept value still finds room.
func TestReplayQueueEvery(t *testing.T) {
	spec, err := ParseSweep("max_mslack=14")
	if err != nil {
		t.Fatal(err)
	}
	var log []Entry
	const mails = maxChanges/2 + 100 // each has somebody come, and leave a minute later
	for i := range mails {
		log = append(log, at(float64(3*i), fmt.Sprint("u", i), people(16)...))
	}
	s := run(t, ReplayOptions{Params: defaultParams(t), Sweeps: []SweepSpec{spec}, Workers: 3}, slices.Values(log))
	if s.QueueEvery != 1 || s.MostWaiting != 20 || s.Waited != mails {
		t.Errorf("every %d s, %d at once of %d", s.QueueEvery, s.MostWaiting, s.Waited)
	}
	if b, _ := json.Marshal(s); !strings.Contains(string(b), `"queue_every_s":1,`) {
		t.Error("the JSON does not say it")
	}
}

// Users with parameters of their own keep them, whatever is tried for everybody; some recipients are never counted.
func TestReplayOwn(t *testing.T) {
	log := []Entry{
		at(0, "bulk", people(90)...), at(1, "bulk", people(90)...), at(2, "bulk", "a"), at(2, "bulk", "b"),
		at(3, "large", people(30)...), at(4, "usual", people(30)...),
		at(5, "inside", "a@in", "b@in", "a"), at(6, "inside", "c@in"), at(6, "inside", "d@in"), at(7, "inside", "b"),
	}
	var mu sync.Mutex
	asked := map[string]int{}
	o := ReplayOptions{
		Params: defaultParams(t),
		Of: func(user string) outbreak.Params {
			mu.Lock()
			defer mu.Unlock()
			asked[user]++
			p := defaultParams(t)
			switch user {
			case "bulk":
				p.Exempt = true
			case "large":
				p.MaxMSlack = 30
			}
			return p
		},
		Counted: func(to string) bool { return !strings.HasSuffix(to, "@in") },
	}
	spec, err := ParseSweep("max_mslack=0,15,50")
	if err != nil {
		t.Fatal(err)
	}
	o.Sweeps = []SweepSpec{spec}
	s := run(t, o, slices.Values(log))
	if s.Delayed != 2 || s.Waited != 16 || s.Mails != 10 || s.Users != 4 || s.Recipients != 248 {
		t.Errorf("%+v", s.Figures)
	}
	for i, waited := range []int{31, 16, 1} {
		if got := s.Sweeps[0].Points[i]; got.Waited != waited || got.Mails != 10 {
			t.Errorf("%+v", got)
		}
	}
	if !reflect.DeepEqual(asked, map[string]int{"bulk": 1, "large": 1, "usual": 1, "inside": 1}) {
		t.Error(asked)
	}
	o.Params.Exempt, o.Of = true, nil
	if s := run(t, o, slices.Values(log)); s.Delayed != 0 || s.Mails != 10 || s.Sweeps[0].Points[0].Delayed != 0 {
		t.Errorf("%+v", s.Figures)
	}
}

// A mail that is held for review is delayed, and stops nobody.
func TestReplayLarge(t *testing.T) {
	p := defaultParams(t)
	p.HoldLarge = true
	s := run(t, ReplayOptions{Params: p},
		slices.Values([]Entry{at(0, "ann", people(40)...), at(1, "ann", people(15)...)}))
	if s.Delayed != 1 || s.Large != 1 || s.Stops != 0 || s.Waited != 0 {
		t.Errorf("%+v", s.Figures)
	}
}

func TestReplayEmpty(t *testing.T) {
	s := run(t, ReplayOptions{Params: defaultParams(t), Sweeps: DefaultSweeps(), Share: 0.01}, slices.Values([]Entry{}))
	if s.Figures != (Figures{}) || len(s.Queue) != 24*60 || s.Worst == nil || !s.Advice.Met {
		t.Errorf("%+v", s.Figures)
	}
}

// Every bound, and one more. What is refused leaves everything else as it was.
func TestReplayBounds(t *testing.T) {
	r, err := NewReplay(ReplayOptions{Params: defaultParams(t), Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.users.most, r.most = 3, 2
	want := 0
	add := func(e Entry, want error) {
		t.Helper()
		if err := r.Add(e); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	for i, user := range []string{"a", "b", "c"} {
		add(at(float64(i), user, "x"), nil)
		want++
	}
	add(at(3, "d", "x"), ErrUsers)
	add(Entry{time.Unix(0, -1), "a", nil}, ErrTime)
	add(Entry{latest.Add(1), "a", nil}, ErrTime)
	add(at(4, "a", make([]string, MaxMailRecipients+1)...), ErrRecipients)
	add(at(5, "a", people(MaxMailRecipients)...), nil)
	add(at(5-MaxBackwards.Seconds(), "b", "y"), nil)
	add(at(5-MaxBackwards.Seconds()-1, "b", "y"), ErrOrder)
	want += 2
	add(at(6, "a", "x"), nil) // the large mail is run now, and is the first state
	add(at(7, "b", people(maxPending)...), nil)
	add(at(8, "b", "x"), nil)
	want += 3
	add(at(9, "c", people(maxPending)...), ErrStates)
	add(at(10, "c", "x"), nil) // there is still room where it waits to be run
	want++
	s := r.Study()
	if s.Mails != want || s.Users != 3 || s.Stops != 2 {
		t.Errorf("%+v, want %d mails", s.Figures, want)
	}
	if r.Study() != s {
		t.Error("another study")
	}
	add(at(11, "a", "x"), ErrEnded)
	r.Close()
}

func TestReplayOptions(t *testing.T) {
	spec := func(text string) SweepSpec {
		s, err := ParseSweep(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	many := make([]SweepSpec, MaxSweeps+1)
	for i := range many {
		many[i] = spec("stop=1")
	}
	for _, c := range []struct {
		o    ReplayOptions
		want string
	}{
		{ReplayOptions{}, ""},
		{ReplayOptions{Sweeps: DefaultSweeps(), Share: 1, Workers: maxWorkers}, ""},
		{ReplayOptions{Sweeps: many}, "sweep: 9 sweeps are too many (at most 8)"},
		{ReplayOptions{Sweeps: many[:2]}, "sweep: stop is swept twice (put all its values into one)"},
		{ReplayOptions{Sweeps: make([]SweepSpec, 1)}, `unknown parameter ""`},
		{ReplayOptions{Share: 1.01}, "share: 1.01 is not a share"},
		{ReplayOptions{Share: math.NaN()}, "share: NaN is not a share"},
		{ReplayOptions{Workers: maxWorkers + 1}, "workers: 65 is out of bounds (between 1 and 64)"},
	} {
		r, err := NewReplay(c.o)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
		if err == nil {
			r.Close()
			r.Close()
			if r.Study() != nil || !errors.Is(r.Add(Entry{}), ErrEnded) {
				t.Error("goes on")
			}
		}
	}
}

func BenchmarkReplay(b *testing.B) {
	log := slices.Collect(generateLog(400, 10))
	for b.Loop() {
		s := run(b, ReplayOptions{Params: DocumentParams(), Sweeps: DefaultSweeps(), Share: DefaultShare},
			slices.Values(log))
		if s.Mails != len(log) {
			b.Fatal(s.Mails)
		}
	}
	b.ReportMetric(float64(len(log))*float64(b.N)/b.Elapsed().Seconds(), "mails/s")
}
