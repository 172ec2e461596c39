package policy

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"weir"
)

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// A script is a throttle that says what it is told to, and writes down what it is asked.
type script struct {
	answer  weir.Answer
	enter   weir.Answer
	err     error
	log     *[]string
	name    string
	settled []weir.Outcome
	bytes   int64
	pause   time.Time
}

func (s *script) note(what string) {
	if s.log != nil {
		*s.log = append(*s.log, s.name+" "+what)
	}
}

func (s *script) Judge(_ context.Context, _ *weir.Event, a *weir.Answer) error {
	s.note("judge")
	figures := a.Figures
	*a = s.answer
	a.Figures = append(figures, s.answer.Figures...)
	if a.Verdict < weir.Challenge {
		a.Hold.Ref = s
	}
	return s.err
}

func (s *script) Enter(h *weir.Hold, _ time.Time, a *weir.Answer) {
	s.note("enter")
	h.Enter = false
	*a = s.enter
}

func (s *script) Settle(_ weir.Hold, o weir.Outcome) {
	s.note("settle")
	s.settled = append(s.settled, o)
}
func (s *script) Away(weir.Hold, time.Time)          { s.note("away") }
func (s *script) Peek(_ *weir.Event, a *weir.Answer) { *a = s.answer }
func (s *script) Flow(_ weir.Hold, n int64, _ time.Time) time.Time {
	s.bytes += n
	return s.pause
}

func verdict(v weir.Verdict) weir.Answer { return weir.Answer{Verdict: v} }

func waits(d time.Duration) weir.Answer {
	return weir.Answer{Verdict: weir.Wait, Reason: weir.OverLimit, Until: start.Add(d), Turn: weir.NewTurn(),
		Figure: weir.Figure{Rule: d.String()}}
}

func chain(t *testing.T, throttles ...*script) *Chain {
	t.Helper()
	var links []*Link
	for i, s := range throttles {
		s.name = string(rune('a' + i))
		links = append(links, NewLink(s.name, s, Closed))
	}
	c, err := New(links, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func judge(c *Chain) *Pass {
	p := new(Pass)
	c.Judge(context.Background(), &weir.Event{Time: start}, p)
	return p
}

func now() time.Time { return start.Add(time.Second) }

func TestRefusalStopsAndGivesBack(t *testing.T) {
	for _, v := range []weir.Verdict{weir.Challenge, weir.Refuse} {
		first, second, third := &script{}, &script{answer: verdict(v)}, &script{}
		var log []string
		first.log, second.log, third.log = &log, &log, &log
		p := judge(chain(t, first, second, third))
		if p.Answer.Verdict != v || p.Answer.By != "b" {
			t.Errorf("got %s", p.Answer.Explain())
		}
		p.Settle(weir.Outcome{Time: start, Done: true})
		p.Settle(weir.Outcome{Time: start, Done: true})
		if len(first.settled) != 1 || first.settled[0].Done {
			t.Errorf("the first was settled as %+v, want given back once", first.settled)
		}
		if len(log) != 3 {
			t.Errorf("the third was asked, or the second settled: %v", log)
		}
	}
}

// TestFiguresSayWhose: two throttles may have rules of the same name, and clients are told both.
func TestFiguresSayWhose(t *testing.T) {
	throttle := func() *script {
		return &script{answer: weir.Answer{Figures: []weir.Figure{{Rule: "per-second"}, {Rule: "per-month"}}}}
	}
	c := chain(t, throttle(), throttle())
	const want = "a/per-second a/per-month b/per-second b/per-month "
	var got, explained string
	for _, f := range judge(c).Answer.Figures {
		got += f.By + "/" + f.Rule + " "
	}
	steps, _ := c.Explain(&weir.Event{Time: start})
	for _, s := range steps {
		for _, f := range s.Answer.Figures {
			explained += f.By + "/" + f.Rule + " "
		}
	}
	if got != want || explained != want {
		t.Errorf("judged %s\nexplained %s\nwant %s", got, explained, want)
	}
}

func TestLongestWaitCountsAndLevelsComeLast(t *testing.T) {
	var log []string
	short, long := &script{answer: waits(time.Second), log: &log}, &script{answer: waits(time.Minute), log: &log}
	level := &script{answer: weir.Answer{Hold: weir.Hold{Enter: true}}, log: &log}
	c := chain(t, level, short, long)
	p := judge(c)
	if p.Answer.Verdict != weir.Wait || p.Answer.Rule != "1m0s" {
		t.Fatalf("got %s", p.Answer.Explain())
	}
	short.answer.Turn.Grant()
	long.answer.Turn.Grant()
	if err := p.Await(context.Background(), now); err != nil || p.Answer.Verdict != weir.Admit {
		t.Fatalf("%v, %s", err, p.Answer.Explain())
	}
	if got := log[len(log)-1]; got != "a enter" || len(log) != 4 {
		t.Errorf("a place is taken after all waits: %v", log)
	}
	p.Settle(weir.Outcome{Time: now(), Done: true})
	for i, s := range []*script{level, short, long} {
		if len(s.settled) != 1 || !s.settled[0].Done {
			t.Errorf("throttle %d was settled as %+v", i, s.settled)
		}
	}
	counts := c.Links()[0].Counts
	if counts.Verdicts[weir.Admit].Load() != 1 || c.Links()[1].Counts.Verdicts[weir.Wait].Load() != 1 {
		t.Error("each throttle counts one verdict")
	}
}

func TestWaitForAPlace(t *testing.T) {
	place := waits(0)
	level := &script{answer: weir.Answer{Hold: weir.Hold{Enter: true}}, enter: place}
	other := &script{}
	c := chain(t, other, level)
	p := judge(c)
	if p.Answer.Verdict != weir.Wait || p.Answer.By != "b" {
		t.Fatalf("got %s", p.Answer.Explain())
	}
	place.Turn.Refuse(weir.WaitTooLong)
	if err := p.Await(context.Background(), now); err != nil {
		t.Fatal(err)
	}
	if p.Answer.Verdict != weir.Refuse || p.Answer.Reason != weir.WaitTooLong {
		t.Errorf("got %s", p.Answer.Explain())
	}
	if len(other.settled) != 1 || other.settled[0].Done || len(level.settled) != 1 {
		t.Errorf("not given back: %+v %+v", other.settled, level.settled)
	}
	link := c.Links()[1]
	if link.Counts.Expired.Load() != 1 || link.Counts.Verdicts[weir.Wait].Load() != 1 ||
		link.Counts.Verdicts[weir.Admit].Load() != 0 {
		t.Error("the throttle made it wait once, and called it off once")
	}
}

func TestPlaceRefused(t *testing.T) {
	level := &script{answer: weir.Answer{Hold: weir.Hold{Enter: true}}, enter: verdict(weir.Refuse)}
	other := &script{}
	p := judge(chain(t, other, level))
	if p.Answer.Verdict != weir.Refuse || len(other.settled) != 1 || len(level.settled) != 1 {
		t.Errorf("%s, settled %d and %d", p.Answer.Explain(), len(other.settled), len(level.settled))
	}
}

// TestLeave: an event gives up its place, and stays with the other throttles.
func TestLeave(t *testing.T) {
	level := &script{answer: weir.Answer{Hold: weir.Hold{Enter: true}}, enter: verdict(weir.Admit)}
	other := &script{}
	p := judge(chain(t, other, level))
	for range 2 {
		if !p.Leave(weir.Outcome{Time: now(), Done: true}) || len(level.settled) != 1 || len(other.settled) != 0 {
			t.Errorf("settled %d and %d", len(level.settled), len(other.settled))
		}
	}
	p.Settle(weir.Outcome{Time: now()})
	if len(level.settled) != 1 || len(other.settled) != 1 {
		t.Errorf("settled %d and %d in the end", len(level.settled), len(other.settled))
	}
}

// TestFiguresOfWhatIsGivenBack: a client that is refused is told what is left after it was given back.
func TestFiguresOfWhatIsGivenBack(t *testing.T) {
	first := &script{answer: weir.Answer{Hold: weir.Hold{N: 2}, Figures: []weir.Figure{
		{Unit: "requests", Limit: 9, Remaining: 5, Window: 1}, {Unit: "requests", Limit: 6, Remaining: 5, Window: 1},
		{Unit: "at once", Limit: 9, Remaining: 5}, {Unit: "bytes", Limit: 9, Remaining: 5, Window: 1}}}}
	last := &script{answer: weir.Answer{Verdict: weir.Refuse,
		Figures: []weir.Figure{{Unit: "requests", Limit: 9, Window: 1}}}}
	var got []int64
	for _, f := range judge(chain(t, first, last)).Answer.Figures {
		got = append(got, f.Remaining)
	}
	if want := []int64{7, 6, 6, 5, 0}; !slices.Equal(got, want) {
		t.Errorf("%v are left, want %v", got, want)
	}
}

func TestLeavingGivesBack(t *testing.T) {
	s := &script{answer: waits(time.Second)}
	p := judge(chain(t, s))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Await(ctx, now); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	p.Settle(weir.Outcome{Time: now(), Done: true})
	if len(s.settled) != 1 || s.settled[0].Done || !s.settled[0].Time.Equal(now()) {
		t.Errorf("settled as %+v", s.settled)
	}
}

func TestShadowAdmits(t *testing.T) {
	refuses, delays, ok := &script{answer: verdict(weir.Refuse)}, &script{answer: waits(time.Second)}, &script{}
	refuses.answer.Figures = []weir.Figure{{Rule: "hidden"}}
	c := chain(t, refuses, delays, ok)
	c.Links()[0].Shadow.Store(true)
	c.Links()[1].Shadow.Store(true)
	p := judge(c)
	if p.Answer.Verdict != weir.Admit || len(p.Answer.Figures) != 0 {
		t.Errorf("got %s, %v", p.Answer.Explain(), p.Answer.Figures)
	}
	if len(delays.settled) != 1 || delays.settled[0].Done {
		t.Errorf("a shadow keeps nobody in line: %+v", delays.settled)
	}
	for i, v := range []weir.Verdict{weir.Refuse, weir.Wait} {
		if n := c.Links()[i].Counts.Shadowed[v].Load(); n != 1 {
			t.Errorf("%d in shadow, want 1", n)
		}
		if n := c.Links()[i].Counts.Verdicts[v].Load(); n != 0 {
			t.Errorf("%d acted upon, want 0", n)
		}
	}
	p.Settle(weir.Outcome{Time: start, Done: true})
	if len(ok.settled) != 1 || !ok.settled[0].Done {
		t.Errorf("settled as %+v", ok.settled)
	}
}

// TestShadowKeepsNobodyWaiting: who waits when a throttle is taken into shadow goes on, also where the turn was refused
// at the same time.
func TestShadowKeepsNobodyWaiting(t *testing.T) {
	for _, refused := range []bool{false, true} {
		delays := &script{answer: waits(time.Hour)}
		c := chain(t, delays)
		shadow := c.Links()[0].Shadow
		shadow.Store(true)
		shadow.Store(false)
		p := judge(c)
		gone := make(chan error)
		go func() { gone <- p.Await(t.Context(), func() time.Time { return start }) }()
		shadow.Store(true)
		if refused {
			delays.answer.Turn.Refuse(weir.WaitTooLong)
		}
		if err := <-gone; err != nil || p.Answer.Verdict != weir.Admit {
			t.Errorf("%s, %v", p.Answer.Explain(), err)
		}
		if len(delays.settled) != 1 || delays.settled[0].Done || c.Links()[0].Counts.Expired.Load() != 0 {
			t.Errorf("%+v, %d expired", delays.settled, c.Links()[0].Counts.Expired.Load())
		}
	}
}

func TestFailingThrottle(t *testing.T) {
	broken := errors.New("broken")
	for _, onError := range []OnError{Open, Closed} {
		s := &script{err: broken}
		link := NewLink("s", s, onError)
		var told error
		c, err := New([]*Link{link}, func(_ string, err error) { told = err })
		if err != nil {
			t.Fatal(err)
		}
		p := judge(c)
		if open := p.Answer.Verdict == weir.Admit; open != (onError == Open) {
			t.Errorf("%s: %s", onError, p.Answer.Explain())
		}
		if !errors.Is(told, broken) || link.Counts.Errors.Load() != 1 {
			t.Errorf("nobody was told: %v", told)
		}
		p.Settle(weir.Outcome{Time: start})
		if len(s.settled) != 0 {
			t.Error("what failed holds nothing")
		}
	}
}

func TestAwayIsToldOnceToThoseWhoMadeItWait(t *testing.T) {
	var log []string
	waited, admitted := &script{answer: waits(time.Second), log: &log}, &script{log: &log}
	p := judge(chain(t, waited, admitted))
	waited.answer.Turn.Grant()
	if err := p.Await(context.Background(), now); err != nil {
		t.Fatal(err)
	}
	p.Away(now())
	p.Away(now())
	p.Settle(weir.Outcome{Time: now(), Done: true})
	p.Away(now())
	if want := []string{"a judge", "b judge", "a away", "a settle", "b settle"}; !slices.Equal(log, want) {
		t.Errorf("got %v, want %v", log, want)
	}
}

func TestFlow(t *testing.T) {
	a, b := &script{pause: start.Add(time.Second)}, &script{pause: start.Add(time.Minute)}
	c := chain(t, a, b)
	c.Links()[1].Shadow.Store(true)
	p := judge(c)
	if until := p.Flow(100, start); !until.Equal(start.Add(time.Second)) {
		t.Errorf("pause until %s: a shadow pauses nobody", until)
	}
	p.Settle(weir.Outcome{Time: start, Done: true})
	p.Flow(100, start)
	if a.bytes != 100 || b.bytes != 100 {
		t.Errorf("%d and %d bytes, want 100: after the end nothing flows", a.bytes, b.bytes)
	}
}

func TestExplain(t *testing.T) {
	c := chain(t, &script{answer: waits(time.Second)}, &script{answer: verdict(weir.Refuse)},
		&script{answer: waits(time.Hour)})
	c.Links()[1].Shadow.Store(true)
	steps, v := c.Explain(&weir.Event{Time: start})
	if len(steps) != 3 || !steps[1].Shadow || v.Verdict != weir.Wait || v.By != "c" {
		t.Errorf("%+v, %s", steps, v.Explain())
	}
}

func TestTooManyLinks(t *testing.T) {
	links := slices.Repeat([]*Link{NewLink("a", &script{}, Closed)}, MaxLinks+1)
	if _, err := New(links, nil); !errors.Is(err, ErrTooManyLinks) {
		t.Errorf("got %v", err)
	}
	if _, err := New(links[:MaxLinks], nil); err != nil {
		t.Error(err)
	}
}

func TestAdmittedPassAllocatesNothing(t *testing.T) {
	c := chain(t, &script{}, &script{answer: weir.Answer{Hold: weir.Hold{Enter: true}}})
	p := new(Pass)
	ev := &weir.Event{Time: start}
	settle := func() { p.Settle(weir.Outcome{Time: start, Done: true}) }
	c.Judge(context.Background(), ev, p)
	settle()
	for _, l := range c.Links() {
		l.Throttle.(*script).settled = make([]weir.Outcome, 0, 10_000)
	}
	if n := testing.AllocsPerRun(1000, func() {
		c.Judge(context.Background(), ev, p)
		settle()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkJudge(b *testing.B) {
	links := []*Link{NewLink("a", quiet{}, Closed), NewLink("b", quiet{}, Closed)}
	c, err := New(links, nil)
	if err != nil {
		b.Fatal(err)
	}
	p := new(Pass)
	ev := &weir.Event{Time: start}
	b.ReportAllocs()
	for b.Loop() {
		c.Judge(context.Background(), ev, p)
		p.Settle(weir.Outcome{Time: start, Done: true})
	}
}

type quiet struct{}

var held1 = new(int)

func (quiet) Judge(_ context.Context, _ *weir.Event, a *weir.Answer) error {
	a.Hold.Ref = held1
	return nil
}
func (quiet) Settle(weir.Hold, weir.Outcome)     {}
func (quiet) Peek(_ *weir.Event, a *weir.Answer) {}
