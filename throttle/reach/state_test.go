package reach

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// The action holds from the first recipient that is too many; those before it pass.
func TestOverTheThreshold(t *testing.T) {
	for _, c := range []struct {
		over          Action
		held, refused int // of a message to 5 new ones and 5 known ones with which the user crosses a threshold of 13
		cause         Cause
	}{
		{Flag, 0, 0, NoCause}, {Limit, 0, 0, NoCause}, {KnownOnly, 0, 2, IsNew}, {HoldNew, 2, 0, IsNew},
		{Block, 0, 7, AllBlocked},
	} {
		t.Run(string(c.over), func(t *testing.T) {
			g := newRig(t, counted(13, c.over))
			friends := g.many(10)
			if v := g.send(friends...); v.Flagged || v.New != 10 || v.Known != 0 || v.Figure != (Figure{Hour, 10, 13}) {
				t.Fatalf("%+v", v)
			}
			v := g.send(append(g.many(5), friends[:5]...)...)
			if !v.Flagged || !v.Now || v.New != 5 || v.Known != 5 || v.Held != c.held || v.Refused != c.refused ||
				v.Cause != c.cause {
				t.Errorf("%+v", v)
			}
			if since, by, flagged := g.s.Flagged(); !flagged || !since.Equal(g.now) || by != (Figure{Hour, 14, 13}) {
				t.Error(since, by, flagged)
			}
			if v := g.send(friends...); !v.Flagged || v.Now {
				t.Errorf("the next one: %+v", v)
			}
		})
	}
}

func TestRefusedAndHeldStayNew(t *testing.T) {
	for _, over := range []Action{KnownOnly, HoldNew} {
		g := newRig(t, counted(10, over))
		friends := g.many(10)
		g.send(friends...)
		strangers := g.many(5)
		for try := range 4 {
			v := g.wait(time.Minute).send(strangers...)
			if v.Held+v.Refused != 5 || v.New != 5 || v.Cause != IsNew {
				t.Errorf("%s, try %d: %+v", over, try, v)
			}
			if want := float64(10 + 5); v.Figure.New != want { // an attempt counts, once
				t.Errorf("%s, try %d: %v new, want %v", over, try, v.Figure.New, want)
			}
		}
		if g.s.Count() != 10 {
			t.Errorf("%s: %v recipients", over, g.s.Count())
		}
		// Somebody looked at them.
		g.s.Learn(g.r, g.now, strangers)
		if v := g.send(strangers...); v.Held+v.Refused != 0 || v.Known != 5 || v.Figure.New != 15 {
			t.Errorf("%s, let go: %+v", over, v)
		}
	}
}

// A limited user sends so many messages in a time. What was sent in it before the flag counts, and so does the message
// that crosses the threshold.
func TestLimit(t *testing.T) {
	o := counted(10, Limit)
	o.Limit = weir.Rate{Count: 3, Per: time.Hour}
	g := newRig(t, o)
	friends := g.many(10)
	g.send(friends...)
	if v := g.send(g.many(1)...); !v.Now || v.Refused != 0 {
		t.Fatalf("%+v", v)
	}
	for i, refused := range []int{0, 2, 2} {
		if v := g.wait(time.Minute).send(friends[:2]...); v.Refused != refused ||
			(v.Cause == TooMany) != (refused > 0) {
			t.Errorf("message %d: %+v", i, v)
		}
	}
	if v := g.send(); v.Cause != NoCause { // nobody in it is counted
		t.Errorf("%+v", v)
	}
	g.wait(time.Hour)
	for i, refused := range []int{0, 0, 0, 2} {
		if v := g.send(friends[:2]...); v.Refused != refused {
			t.Errorf("message %d in the next hour: %+v", i, v)
		}
	}
	if v := g.send(g.many(4)...); v.Refused != 4 || v.Figure.New != 15 {
		t.Errorf("attempts: %+v", v)
	}
	if g.s.Count() != 11 {
		t.Error(g.s.Count())
	}
}

// A user who has sent more than the limit before the flag sends nothing more in the period, which begins with the flag:
// also not to the recipient that crosses the threshold. What is older than the period is forgotten.
func TestLimitCountsWhatWasSent(t *testing.T) {
	o := counted(10, Limit)
	o.Limit = weir.Rate{Count: 3, Per: time.Hour}
	g := newRig(t, o)
	for i := range 10 {
		if v := g.wait(5 * time.Minute).send(g.many(1)...); v.Flagged || v.Refused != 0 {
			t.Fatalf("message %d: %+v", i, v)
		}
	}
	b, err := g.s.AppendBinary(nil) // what was sent is not forgotten by a crash
	if err != nil {
		t.Fatal(err)
	}
	g.s = State{}
	if err := g.s.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	if v := g.wait(5 * time.Minute).send(g.many(1)...); !v.Now || v.Refused != 1 || v.Cause != TooMany {
		t.Errorf("the one with which there are too many: %+v", v)
	}
	if v := g.wait(59 * time.Minute).send(g.many(1)...); v.Refused != 1 || v.Cause != TooMany {
		t.Errorf("within the period: %+v", v)
	}
	if v := g.wait(time.Minute).send(g.many(1)...); v.Refused != 0 {
		t.Errorf("after it: %+v", v)
	}

	g = newRig(t, o)
	for range 3 {
		g.send(g.many(1)...)
	}
	g.wait(2 * time.Hour)
	g.s.SetFlag(g.now)
	for i, refused := range []int{0, 0, 0, 1} {
		if v := g.wait(time.Minute).send(g.many(1)...); v.Refused != refused {
			t.Errorf("message %d after a flag by hand: %+v", i, v)
		}
	}
}

// Whoever waits for the end of a period with the message that flags them has sent what they sent before, and so has
// whoever is flagged again soon after a flag has ended.
func TestLimitOverTheEndOfAPeriod(t *testing.T) {
	o := counted(10, Limit)
	o.Windows, o.Limit, o.For = []Window{Hour}, weir.Rate{Count: 3, Per: time.Hour}, weir.Duration(3*time.Hour)
	g := newRig(t, o)
	friends := g.many(9)
	g.send(friends...)
	g.wait(time.Hour - time.Second)
	for range 5 {
		g.send(friends[0])
	}
	if b, err := g.s.AppendBinary(nil); err != nil || g.s.UnmarshalBinary(b) != nil {
		t.Fatal(err)
	}
	g.wait(time.Second) // the period that began with the first message is over
	if v := g.send(g.many(11)...); !v.Now || v.Refused != 1 || v.Cause != TooMany {
		t.Errorf("the one that is too many: %+v", v)
	}
	if v := g.wait(time.Minute).send(friends[0]); v.Refused != 1 {
		t.Errorf("after the flag: %+v", v)
	}

	g.wait(time.Hour) // the flag holds, and the next period begins
	for i, refused := range []int{0, 0, 0, 1} {
		if v := g.send(friends[0]); v.Refused != refused {
			t.Errorf("message %d: %+v", i, v)
		}
		g.wait(time.Second)
	}
	o.For, o.Until = weir.Duration(time.Minute), 1 // the flag is over
	g.r = rules(t, o)
	if v := g.send(friends[0]); v.Flagged {
		t.Errorf("%+v", v)
	}
	if v := g.send(g.many(11)...); !v.Now || v.Refused != 1 {
		t.Errorf("flagged again: %+v", v)
	}
}

// Somebody new who was refused counts again when a message gets through: the refusal has left the window by then.
func TestWhoWasTriedCountsWhenReached(t *testing.T) {
	o := counted(2, Limit)
	o.Windows, o.Limit, o.For = []Window{Hour}, weir.Rate{Count: 1, Per: time.Minute}, weir.Duration(10*time.Hour)
	g := newRig(t, o)
	g.send(g.many(3)...)
	tried := g.many(4)
	if v := g.send(tried...); v.Refused != 4 {
		t.Fatalf("%+v", v)
	}
	g.wait(2 * time.Hour)
	if v := g.send(tried...); v.Refused != 0 || v.Figure.New != 4 {
		t.Errorf("%+v", v)
	}
}

// A flag ends when it is old enough and the rate has fallen far enough, in every window, and not before.
func TestFallsBack(t *testing.T) {
	o := counted(100, KnownOnly)
	o.For = weir.Duration(2 * time.Hour)
	g := newRig(t, o)
	friends := g.many(60)
	g.send(friends...)
	g.wait(20 * time.Hour).send(g.many(41)...) // 101 in the day
	if _, by, flagged := g.s.Flagged(); !flagged || by.Window != Day || by.New != 101 {
		t.Fatal(by, flagged)
	}
	flagged := func() bool { return g.send(friends[0]).Flagged }
	if !flagged() {
		t.Error("at once")
	}
	g.wait(2 * time.Hour)
	if !flagged() {
		t.Error("the day still has 101")
	}
	g.wait(2 * time.Hour) // the first 60 are a day ago: 41 are less than half
	if ended, _ := g.s.Advance(g.r, g.p, g.now); !ended {
		t.Error("it should be over")
	}
	if v := g.send(g.many(1)...); v.Flagged || v.Refused != 0 {
		t.Errorf("%+v", v)
	}

	// For as long as it must, though the rate has fallen.
	o.Windows, o.For = []Window{Hour}, weir.Duration(3*time.Hour)
	g = newRig(t, o)
	g.send(g.many(101)...)
	for _, still := range []bool{true, true, false} {
		if g.wait(time.Hour); flagged() != still {
			t.Errorf("flagged %v after %s", !still, g.now.Sub(epoch))
		}
	}
}

// Attempts keep a flag up: who goes on is not let go.
func TestGoesOn(t *testing.T) {
	g := newRig(t, counted(50, HoldNew))
	for range 48 {
		g.wait(time.Hour).send(g.many(30)...)
	}
	if v := g.send(g.many(1)...); !v.Flagged || g.s.Count() != 50 {
		t.Errorf("%+v, %v recipients", v, g.s.Count())
	}
	g.wait(25 * time.Hour)
	if v := g.send(g.many(1)...); v.Flagged {
		t.Errorf("a day later: %+v", v)
	}
}

// Around the threshold a flag does not come and go.
func TestHysteresis(t *testing.T) {
	needs.Unwatched(t)
	o := counted(50, Flag)
	o.Windows, o.Known = []Window{Hour}, true
	g := newRig(t, o)
	changes, was := 0, false
	for i := range 7 * 24 * 12 {
		n := 4 // 48 an hour
		if i%40 == 0 {
			n = 8
		}
		v := g.wait(5 * time.Minute).send(g.many(n)...)
		if v.Flagged != was {
			changes, was = changes+1, v.Flagged
		}
	}
	if changes != 1 {
		t.Errorf("the flag changed %d times", changes)
	}
	g.wait(2 * time.Hour)
	if v := g.send(g.many(1)...); v.Flagged {
		t.Errorf("%+v", v)
	}
}

func TestOperator(t *testing.T) {
	g := newRig(t, counted(50, KnownOnly))
	friends := g.many(50)
	g.send(friends...)
	g.s.SetFlag(g.now)
	if since, by, flagged := g.s.Flagged(); !flagged || by.Limit != 0 || !since.Equal(g.now) {
		t.Error(since, by, flagged)
	}
	for range 10 {
		g.wait(30 * day)
		if v := g.send(g.many(1)[0], friends[0]); !v.Flagged || v.Refused != 1 {
			t.Errorf("%+v", v)
		}
	}
	g.s.Clear(g.now)
	if _, _, flagged := g.s.Flagged(); flagged {
		t.Error("cleared")
	}
	if v := g.send(append(g.many(50), friends...)...); v.Flagged || v.Known != 50 || v.New != 50 { // counted anew
		t.Errorf("%+v", v)
	}
	if v := g.send(g.many(1)...); !v.Now {
		t.Errorf("%+v", v)
	}
	g.s.SetFlag(g.now) // one more hand on it
	if v := g.wait(30 * day).send(g.many(1)...); !v.Flagged {
		t.Errorf("%+v", v)
	}
}

// What is judged a thousand times changes nothing.
func TestJudgeChangesNothing(t *testing.T) {
	g := newRig(t, counted(50, HoldNew))
	g.send(g.many(20)...)
	before, _ := g.s.AppendBinary(nil)
	first := g.s.Judge(g.r, g.p, g.now.Add(day), g.many(100), nil)
	for range 1000 {
		if v := g.s.Judge(g.r, g.p, g.now.Add(day), g.many(100), make([]Fate, 100)); v != first {
			t.Fatalf("%+v after %+v", v, first)
		}
	}
	if after, _ := g.s.AppendBinary(nil); string(after) != string(before) {
		t.Error("changed")
	}
	if first.Held != 50 {
		t.Errorf("%+v", first)
	}
}

// However the clock runs, nobody is flagged for it, and a flag ends.
func TestClocks(t *testing.T) {
	g := newRig(t, counted(50, KnownOnly))
	friend := g.many(1)
	g.send(friend...)
	// Back and forth by minutes: as though it stood still.
	for i := range 40 {
		g.now = epoch.Add(time.Duration(i%2) * -10 * time.Minute)
		g.send(g.many(1)...)
	}
	if f := g.s.Figures(g.r, g.p, epoch)[0]; f.New != 41 {
		t.Errorf("%+v", f)
	}
	g.now = epoch.Add(2 * time.Hour)
	if f := g.s.Figures(g.r, g.p, g.now)[0]; f.New != 0 {
		t.Errorf("%+v", f)
	}
	// A year ahead, and back: windows go on.
	g.now = epoch.Add(365 * day)
	g.send(g.many(51)...)
	g.now = epoch.Add(3 * time.Hour)
	if v := g.send(friend...); !v.Flagged {
		t.Errorf("%+v", v)
	}
	for range 30 {
		g.wait(time.Hour).send(friend...)
	}
	if v := g.send(g.many(1)...); v.Flagged || v.Figure.New != 1 {
		t.Errorf("30 hours later: %+v", v)
	}
	// A clock that lost the time, as after a start: as though it stood still.
	since, at := g.s.Since(), g.now
	g.now = time.Unix(100, 0)
	g.send(friend...)
	if v := g.send(g.many(1)...); v.Figure.New != 2 || !g.s.Since().Equal(since) {
		t.Errorf("%+v since %s", v, g.s.Since())
	}
	g.now = at
	// Times that no clock shows.
	for _, at := range []time.Time{{}, time.Unix(-1<<40, 0), time.Unix(1<<60, 0), epoch} {
		g.now = at
		g.send(friend...)
		g.send(g.many(1)...)
		b, _ := g.s.AppendBinary(nil)
		if err := new(State).UnmarshalBinary(b); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
}

func TestZeroState(t *testing.T) {
	var s State
	if _, _, flagged := s.Flagged(); flagged || s.Count() != 0 || !s.Since().IsZero() || s.NeedsKnown() ||
		s.KnownChanged() {
		t.Error("not zero")
	}
	g := newRig(t, Options{})
	if f := s.Figures(g.r, nil, epoch); len(f) != 3 || f[0] != (Figure{Hour, 0, 10_000}) ||
		f[1] != (Figure{Day, 0, 10_000}) || f[2] != (Figure{Week, 0, 10_000}) {
		t.Error(f)
	}
	s.Clear(epoch)
	if v := s.Judge(g.r, nil, epoch, nil, nil); v.Flagged {
		t.Errorf("%+v", v)
	}
	if ended, samples := s.Advance(g.r, nil, epoch.Add(day)); ended || samples != nil {
		t.Error(ended, samples)
	}
	g.send(g.many(1)...)
	if !g.s.Since().Equal(epoch) || g.s.Count() != 1 {
		t.Error(g.s.Since(), g.s.Count())
	}
}

// Judging and committing allocate nothing once the structures exist.
func TestAllocations(t *testing.T) {
	for _, o := range []Options{{Over: Flag}, {Over: HoldNew}, {Over: HoldNew, Structure: Bloom}} {
		g := newRig(t, o).learnt(20)
		all := g.many(2000)
		g.s.Learn(g.r, g.now, all)
		message, fates := append(g.many(5), all[:95]...), make([]Fate, 100)
		g.s.Judge(g.r, g.p, g.now, message, fates)
		if n := testing.AllocsPerRun(100, func() { g.s.Judge(g.r, g.p, g.now, message, fates) }); n != 0 {
			t.Errorf("%s, %s: Judge allocates %v times", o.Over, o.Structure, n)
		}
		g.s.Commit(g.r, g.p, g.now, message, fates)
		if n := testing.AllocsPerRun(100, func() { g.s.Commit(g.r, g.p, g.now, message, nil) }); n != 0 {
			t.Errorf("%s, %s: Commit allocates %v times", o.Over, o.Structure, n)
		}
	}
}

func TestSamples(t *testing.T) {
	g := newRig(t, Options{Over: Flag})
	g.send(g.many(3)...)
	g.wait(30 * time.Minute).send(g.many(2)...)
	if g.samples != nil {
		t.Fatal(g.samples)
	}
	g.wait(30 * time.Minute).send(g.many(4)...) // ten o'clock
	if want := []Sample{{Hour, time.Hour, 0, 5}}; fmt.Sprint(g.samples) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", g.samples, want)
	}
	g.samples = nil
	g.wait(5*day + time.Hour).send(g.many(7)...) // Saturday
	if want := []Sample{{Hour, 2 * time.Hour, 5, 4},
		{Day, 15 * time.Hour, 0, 9}}; fmt.Sprint(g.samples) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", g.samples, want)
	}
	g.samples = nil
	_, samples := g.s.Advance(g.r, g.p, g.now.Add(2*day)) // Monday
	if want := []Sample{{Hour, 5*day + 3*time.Hour, 9, 7}, {Day, 5*day + 15*time.Hour, 9, 7},
		{Week, 6*day + 15*time.Hour, 0, 16}}; fmt.Sprint(samples) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", samples, want)
	}
	g.wait(3 * day).send() // who sends nothing counted sends something all the same
	g.wait(time.Hour).send()
	if want := []Sample{{Hour, 8*day + 3*time.Hour, 16, 0}}; fmt.Sprint(g.samples) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", g.samples, want)
	}
	// A flagged user is no example, also not for the rest of the day on which the flag ended.
	g.samples = nil
	g.s.SetFlag(g.now)
	g.wait(61 * time.Minute).send(g.many(1)...)
	g.s.Clear(g.now)
	g.send(g.many(1)...)
	g.wait(2 * time.Hour).send(g.many(1)...)
	g.wait(time.Hour).send(g.many(1)...)
	if len(g.samples) != 1 || g.samples[0].New != 1 || g.samples[0].Window != Hour {
		t.Error(g.samples)
	}
}

// What became of recipients counts, whatever was judged: a message that somebody else refused makes nobody known, and
// one that was sent all the same makes everybody known.
func TestCommitTakesWhatBecame(t *testing.T) {
	g := newRig(t, Options{Threshold: Threshold{Count: 5}, Over: KnownOnly})
	keys := g.many(10)
	v, _ := g.s.Commit(g.r, g.p, g.now, keys, slices.Repeat([]Fate{Refuse}, 10))
	if !v.Now || v.Refused != 5 {
		t.Errorf("%+v", v)
	}
	if v := g.s.Judge(g.r, g.p, g.now, keys, nil); v.New != 10 {
		t.Errorf("%d of 10 are new after a message that was refused", v.New)
	}
	g.s.Commit(g.r, g.p, g.now, keys, make([]Fate, 10))
	if v := g.s.Judge(g.r, g.p, g.now, keys, nil); v.Known != 10 || v.Refused != 0 {
		t.Errorf("%+v after a message that was sent", v)
	}
}

// Who keeps trying the same new recipients is not flagged for ever.
func TestRetriesCountOnce(t *testing.T) {
	o := counted(5, KnownOnly)
	o.Windows = []Window{Hour}
	g := newRig(t, o)
	g.send(g.many(5)...)
	stranger := g.many(1)
	if v := g.send(stranger...); !v.Now || v.Refused != 1 {
		t.Fatalf("%+v", v)
	}
	for range 12 {
		g.wait(15 * time.Minute)
		if b, err := g.s.AppendBinary(nil); err != nil || g.s.UnmarshalBinary(b) != nil { // a restart forgets nothing
			t.Fatal(err)
		}
		if known, err := g.s.AppendKnown(nil); err == nil && g.s.NeedsKnown() {
			if err := g.s.SetKnown(known); err != nil {
				t.Fatal(err)
			}
		}
		if v := g.send(stranger...); v.Refused == 0 {
			return
		}
	}
	t.Error("still flagged after three hours")
}

// More than can be remembered of those who were tried count again, and no more is kept.
func TestTriedIsBounded(t *testing.T) {
	g := newRig(t, counted(5, KnownOnly))
	g.send(g.many(6)...)
	g.send(g.many(maxTried + 1)...)
	if len(g.s.tried) != maxTried {
		t.Errorf("%d are remembered, at most %d", len(g.s.tried), maxTried)
	}
	g.s.Clear(g.now)
	if g.s.tried != nil {
		t.Error("who was tried is remembered without a flag")
	}
}

// A thief who always takes as much as is allowed does not become usual soon, and one import is forgotten.
func TestUsualIsNotTrained(t *testing.T) {
	var m meter
	for range usualOf {
		m.learn(Day, 5)
	}
	for range 30 {
		limit := max(DefaultFloor, ownTimes*float64(m.usual[Day])/fraction)
		m.learn(Day, limit)
	}
	if limit := ownTimes * float64(m.usual[Day]) / fraction; limit > 150 {
		t.Errorf("after a month at the limit it is %.0f", limit)
	}
	m = meter{}
	m.learn(Day, 9000)
	for range usualOf - 1 {
		m.learn(Day, 2)
	}
	if usual := float64(m.usual[Day]) / fraction; usual > 10 {
		t.Errorf("an import is usual: %.1f", usual)
	}
	m = meter{}
	for range usualOf {
		m.learn(Day, 1000)
	}
	if usual := float64(m.usual[Day]) / fraction; usual < 990 || usual > 1010 {
		t.Errorf("what is usual: %.1f, want 1000", usual)
	}
}
