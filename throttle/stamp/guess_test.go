package stamp

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir"
)

// guessed is how often an answer that nobody worked for is right.
func guessed(a Algorithm, w Work) float64 {
	parts := func(h *hashes) float64 {
		return math.Pow(float64(h.target(w))/math.Exp2(64), float64(h.parts))
	}
	switch a {
	case SHA256K:
		return parts(sha256k)
	case EQS60: // sixteen sums of 60 bits are zero; less than a float can tell
		return 0
	case DLog:
		return 9 / math.Pow(2*float64(w), 2) // of the width
	}
	return 1
}

// TestGuess: however little work is meant, a puzzle asks for so much that a guess is right once in a million at most,
// and for no more than is needed for that.
func TestGuess(t *testing.T) {
	o := NewIssuer(Parts{})
	for _, a := range []Algorithm{SHA256K, DLog, EQS60} {
		least := a.Least()
		for _, meant := range []Work{1, 16, 1 << 10, least - 1, least, least + 1, 1 << 24} {
			text, err := o.Issue(start, ask(a, meant))
			if err != nil {
				t.Fatal(err)
			}
			c, err := ParseChallenge(text)
			if err != nil {
				t.Fatal(err)
			}
			if c.Work != max(meant, least) {
				t.Errorf("%s of %d asks for %d", a, meant, c.Work)
			}
			if p := guessed(a, c.Work); p > 1.000001e-6 {
				t.Errorf("%s of %d is guessed once in %.0f", a, c.Work, 1/p)
			}
		}
		if p := guessed(a, least); p < 0.9e-6 && a != EQS60 {
			t.Errorf("%s: the least work is too much: guessed once in %.0f", a, 1/p)
		}
		if took := least.Time(a); took > 2*time.Second {
			t.Errorf("%s: a phone works %s on the least", a, took)
		}
	}
}

// TestBlindStamps: answers that nobody worked for are refused, even where next to nothing is asked.
func TestBlindStamps(t *testing.T) {
	for _, a := range []Algorithm{SHA256K, DLog, EQS60} {
		o := NewIssuer(Parts{})
		as := ask(a, 1)
		_, size := puzzles[a].sizes()
		right := 0
		for i := range 20 {
			text, err := o.Issue(start, as)
			if err != nil {
				t.Fatal(err)
			}
			blind := make([]byte, size)
			blind[size-1] = byte(i)
			if err := verifyErr(o, text+"."+encoding.EncodeToString(blind), demand(as)); err == nil {
				right++
			} else if err != ErrWrong {
				t.Errorf("%s: %v", a, err)
			}
		}
		if right > 1 { // one may be, in fifty thousand runs
			t.Errorf("%s: %d of 20 guesses are right", a, right)
		}
	}
}

// TestLeastIsToldToo: what is shown and steered is what the puzzle really asks for, not what was meant.
func TestLeastIsToldToo(t *testing.T) {
	for name, o := range map[string]Options{
		"eqs60, steered":  {Algorithm: EQS60, FromLoad: new(weir.Share(0))},
		"eqs60, in steps": {Algorithm: EQS60, Schedule: []Step{{0, 1}}},
		"eqs60, doubling": {Algorithm: EQS60, FromLoad: new(weir.Share(0)),
			DoubleEvery: new(weir.Duration(time.Second))},
		"sha256-k, first":   {First: 1, FromLoad: new(weir.Share(0))},
		"dlog, for a quota": {Algorithm: DLog, First: 1},
		"eqs60, for quota":  {Algorithm: EQS60},
	} {
		th := newThrottle(t, o)
		ev := visit(th, "ann", "192.0.2.1", "")
		a := judged(t, th, ev)
		p, err := th.Ask(ev, "ann", "message")
		if err != nil {
			t.Fatal(err)
		}
		c, err := ParseChallenge(p.Text)
		if err != nil {
			t.Fatal(err)
		}
		if Work(p.Work) != c.Work || c.Work != c.Algorithm.Least() || p.Takes != c.Work.Time(c.Algorithm) {
			t.Errorf("%s: told %d in %s, asked for %d", name, p.Work, p.Takes, c.Work)
		}
		if a.Verdict == weir.Challenge && a.Limit != int64(c.Work) {
			t.Errorf("%s: the answer says %d", name, a.Limit)
		}
	}
	// On the way to dormancy, too.
	d := Options{Algorithm: EQS60}.Difficulty()
	s := d.Next(State{}, start, 1, 0)
	for i := range 3 {
		if s = d.Next(s, start.Add(time.Duration(i+1)*time.Second), 0, 0); s.Work != EQS60.Least() {
			t.Errorf("after %d s %d", i+1, s.Work)
		}
	}
	err := Options{Algorithm: EQS60, MaxTime: weir.Duration(50 * time.Millisecond)}.Validate()
	if err == nil || !strings.Contains(err.Error(),
		"max_time: a phone works 66ms on the least that eqs60 asks for, 65536 operations (give it more time, or "+
			"use sha256-k)") {
		t.Error(err)
	}
	if Algorithm(9).Least() != 1 || DLogClassic.Least() != 16 || Algorithm(0).Least() != SHA256K.Least() {
		t.Error("the least work")
	}
}
