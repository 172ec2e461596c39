package stamp

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// pricedIssuer is a issuer whose price is not fixed.
func pricedIssuer(t *testing.T, o MailOptions) *MailIssuer {
	t.Helper()
	d, err := NewMailIssuer(o, NewKeyring(time.Hour, []byte("mail")), nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestMailSchedules: both schedules of the document, over a price that is never undercut.
func TestMailSchedules(t *testing.T) {
	type step struct {
		after time.Duration
		load  weir.Share
		want  Work
	}
	for name, c := range map[string]struct {
		o     MailOptions
		steps []step
	}{
		"fixed": {MailOptions{Work: 64}, []step{{0, 0, 64}, {time.Hour, 9, 64}}},
		"4 bits, and 8 at 80%": {MailOptions{Algorithm: DLogClassic, Work: 1 << 4, Schedule: sourceSchedule()},
			[]step{{0, 0, 1 << 4}, {1, 0.79, 1 << 4}, {1, 0.8, 1 << 8}, {1, 3, 1 << 8}, {1, 0.5, 1 << 4}}},
		"16 bits at 90%, doubled": {MailOptions{Algorithm: DLogClassic, Work: 1 << 4, First: 1 << 16,
			DoubleEvery: weir.Duration(time.Minute)},
			[]step{{0, 0, 1 << 4}, {1, 0.89, 1 << 4}, {0, 0.9, 1 << 16}, {time.Minute - 1, 0.9, 1 << 16},
				{1, 0.9, 1 << 32}, {time.Minute, 0.9, 1 << 40}, {1, 0.5, 1 << 4}}},
		"work doubled from its own": {MailOptions{Work: 1 << 20, FromLoad: 2, DoubleEvery: weir.Duration(time.Second),
			Doubles: DoubleWork},
			[]step{{0, 1.9, 1 << 20}, {0, 2, 1 << 20}, {time.Second, 2, 1 << 21}, {time.Second, 2, 1 << 22},
				{time.Second, 1, 1 << 20}}},
		"no more than a phone can bear": {MailOptions{Work: 1 << 25, DoubleEvery: weir.Duration(time.Second),
			Doubles: DoubleWork},
			[]step{{0, 1, 1 << 25}, {time.Second, 1, Bearable(SHA256K, MaxMailTime)},
				{time.Second, 1, Bearable(SHA256K, MaxMailTime)}}},
	} {
		d, now := pricedIssuer(t, c.o), start
		for i, s := range c.steps {
			now = now.Add(s.after)
			d.Observe(now, s.load)
			if _, want := puzzles[d.price.algorithm].fit(s.want); d.Params(now).Work != want {
				t.Errorf("%s, step %d: %s, want %s", name, i, d.Params(now).Work, want)
			}
		}
	}
}

// TestMailGrace: the price before a rise is good for ten minutes after it, and no longer; what is more than asked is
// always good.
func TestMailGrace(t *testing.T) {
	d := pricedIssuer(t, MailOptions{Work: 64, Schedule: []Step{{0.5, 128}, {0.9, 512}}})
	l := MailBinding{Message: "m", Recipient: "a@example.com"}
	made := func(w Work) string {
		p := d.Params(start)
		p.Work = w
		return mailStampFor(t, p, l)
	}
	wants := func(at time.Duration, load weir.Share, good ...Work) {
		t.Helper()
		now := start.Add(at)
		d.Observe(now, load)
		for _, w := range []Work{63, 64, 128, 512, 1024} {
			_, err := d.Verify(bg, now, made(w), l)
			if want := slices.Contains(good, w); want != (err == nil) || !want && err != ErrTooEasy {
				t.Errorf("%s of work after %s: %v", w, at, err)
			}
		}
	}
	wants(0, 0, 64, 128, 512, 1024)
	wants(time.Minute, 0.5, 64, 128, 512, 1024) // the first rise
	wants(5*time.Minute, 0.9, 64, 128, 512, 1024)
	wants(time.Minute+MailGrace-1, 0.9, 64, 128, 512, 1024)
	wants(time.Minute+MailGrace, 0.9, 128, 512, 1024)
	wants(5*time.Minute+MailGrace-1, 0.9, 128, 512, 1024)
	wants(5*time.Minute+MailGrace, 0.9, 512, 1024)
	wants(20*time.Minute, 0.5, 128, 512, 1024) // it falls at once
	wants(21*time.Minute, 0.9, 128, 512, 1024)
	wants(31*time.Minute, 0.9, 512, 1024)
	// A clock that is set back does not make the grace longer than it is.
	wants(32*time.Minute, 0, 64, 128, 512, 1024)
	wants(33*time.Minute, 0.9, 64, 128, 512, 1024)
	wants(3*time.Minute, 0.9, 64, 128, 512, 1024)
	wants(3*time.Minute+MailGrace, 0.9, 512, 1024)
	// Where nobody came in between, the price rose when it was first asked.
	d = pricedIssuer(t, MailOptions{Work: 64, Schedule: []Step{{0.9, 512}}})
	wants(0, 0, 64, 128, 512, 1024)
	wants(30*time.Minute, 0.9, 64, 128, 512, 1024)
	wants(40*time.Minute, 0.9, 512, 1024)
	// Nobody has to look for the grace to end.
	d.Observe(start.Add(41*time.Minute), 0)
	d.Observe(start.Add(42*time.Minute), 0.9)
	if _, err := d.Verify(bg, start.Add(52*time.Minute), made(64), l); err != ErrTooEasy {
		t.Error(err)
	}
}

// TestMailConfigure: a reload changes the price with the same grace, keeps what is spent, and takes new keys where
// there are some.
func TestMailConfigure(t *testing.T) {
	d := pricedIssuer(t, MailOptions{Work: 16})
	l := MailBinding{Message: "m", Recipient: "a@example.com"}
	before := d.Params(start)
	spent, cheap := mailStampFor(t, before, l), mailStampFor(t, before, l)
	if _, err := d.Verify(bg, start, spent, l); err != nil {
		t.Fatal(err)
	}
	change := func(o MailOptions, keys *Keyring) {
		t.Helper()
		if err := d.Configure(o, keys, start); err != nil {
			t.Fatal(err)
		}
	}
	change(MailOptions{Work: 64}, nil)
	if _, err := d.Verify(bg, start, spent, l); err != ErrReplayed {
		t.Errorf("spent before: %v", err)
	}
	if _, err := d.Verify(bg, start.Add(MailGrace-1), cheap, l); err != nil {
		t.Errorf("the price before: %v", err)
	}
	if _, err := d.Verify(bg, start.Add(MailGrace), mailStampFor(t, before, l), l); err != ErrTooEasy {
		t.Errorf("the price before, later: %v", err)
	}
	if d.Configure(MailOptions{Work: 0}, nil, start) == nil || d.Params(start).Work != 64 {
		t.Error("a mistake changed something")
	}
	change(MailOptions{Work: 64}, NewKeyring(time.Hour, []byte("other")))
	if after := d.Params(start); after.Seed == before.Seed {
		t.Error("the same seed")
	}
	change(MailOptions{Algorithm: DLogClassic, Work: 16}, nil) // nothing of another puzzle is compared with this one
	if p := d.price; p.work() != 16 || p.good() != 16 || len(p.asked) != 1 {
		t.Errorf("%+v", p)
	}
	for i := range maxAsked + 1 {
		change(MailOptions{Algorithm: SHA256K, Work: Work(100 + i)}, nil)
	}
	if n := len(d.price.asked); n != maxAsked || d.price.good() != 101 || d.price.work() != 100+maxAsked {
		t.Errorf("%d prices are known, from %s to %s", n, d.price.good(), d.price.work())
	}
}

// TestMailPriceIsTheLowestOfLate holds the prices that are good against a plain list of all that were asked.
func TestMailPriceIsTheLowestOfLate(t *testing.T) {
	needs.Unwatched(t)
	var steps []Step
	for i := range MaxSteps {
		steps = append(steps, Step{weir.Share(i+1) / MaxSteps, Work(100 + i)})
	}
	random := rand.New(rand.NewPCG(1, 2))
	d, now := pricedIssuer(t, MailOptions{Work: 50, Schedule: steps}), start
	type was struct {
		work Work
		end  time.Time
	}
	all := []was{{work: 50}}
	for range 20_000 {
		now = now.Add(time.Duration(random.Int64N(int64(20 * time.Second))))
		d.Observe(now, weir.Share(random.Float64()*random.Float64()))
		if w := d.Params(now).Work; w != all[len(all)-1].work {
			all[len(all)-1].end = now
			all = append(all, was{work: w})
		}
		good := all[len(all)-1].work
		for i := len(all) - 2; i >= 0 && now.Sub(all[i].end) < MailGrace; i-- {
			good = min(good, all[i].work)
		}
		if d.terms(now).good != good || len(d.price.asked) > MaxSteps+1 {
			t.Fatalf("at %s %s is good, want %s; %d prices", now, d.terms(now).good, good, len(d.price.asked))
		}
	}
}

// TestLookEach: what is spent elsewhere is asked for, and nothing is spent here.
func TestLookEach(t *testing.T) {
	d := newMailIssuer(t, SHA256K, 64)
	l := MailBinding{Message: "m", Recipient: "a@example.com"}
	one, other := mailStampFor(t, d.Params(start), l), mailStampFor(t, d.Params(start), l)
	spent := map[Nonce]bool{}
	look := func(stamps ...string) (Receipt, error) {
		receipts, errs := d.LookEach(bg, start, stamps, l, []string{l.Recipient},
			func(_ context.Context, n Nonce) (bool, error) { return spent[n], nil })
		return receipts[0], errs[0]
	}
	first, err := look(one)
	again, err2 := look(one)
	if err != nil || err2 != nil || first.Nonce != again.Nonce || first.Nonce == (Nonce{}) ||
		!first.Expires.Equal(time.Unix(d.Params(start).Hour*3600, 0).Add(2*time.Hour)) {
		t.Fatalf("%+v, %v; %+v, %v", first, err, again, err2)
	}
	spent[first.Nonce] = true
	if _, err := look(one); err != ErrReplayed {
		t.Error(err)
	}
	if r, err := look(one, other); err != nil || r.Nonce == first.Nonce { // a fresh one beside it counts
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := d.Verify(bg, start, one, l); err != nil {
		t.Errorf("it was spent here: %v", err)
	}
}

// TestMailOptionsMistakes: every combination that does nothing, or harm, is reported with a hint.
func TestMailOptionsMistakes(t *testing.T) {
	most := Bearable(SHA256K, MaxMailTime)
	steps := func(n int) (all []Step) {
		for i := range n {
			all = append(all, Step{weir.Share(i) / 1000, 100})
		}
		return all
	}
	ten := weir.Duration(10 * time.Second)
	for _, c := range []struct {
		o    MailOptions
		want string // empty: nothing is wrong
	}{
		{MailOptions{Work: 1}, ""},
		{MailOptions{}, "work: "},
		{MailOptions{Work: MaxWork}, ""},
		{MailOptions{Work: MaxWork + 1}, "work: "},
		{MailOptions{Algorithm: DLog, Work: 64}, "algorithm: "},
		{MailOptions{Work: 64, Schedule: steps(MaxSteps)}, ""},
		{MailOptions{Work: 64, Schedule: steps(MaxSteps + 1)}, "schedule: "},
		{MailOptions{Work: 64, Schedule: []Step{{0.5, most}}}, ""},
		{MailOptions{Work: 64, Schedule: []Step{{0.5, most + 1}}}, "schedule[0].work: "},
		{MailOptions{Work: 64, Schedule: []Step{{0.5, 64}}}, ""},
		{MailOptions{Work: 64, Schedule: []Step{{0.5, 63}}}, "schedule[0].work: 63 is less than work"},
		{MailOptions{Work: 64, Schedule: []Step{{0.5, 64}, {0.5, 65}}}, "schedule[1].load: "},
		{MailOptions{Work: 64, Schedule: []Step{{1, 64}}}, ""},
		{MailOptions{Work: 64, Schedule: []Step{{1.01, 64}}}, "schedule[0].load: "},
		{MailOptions{Work: 64, Schedule: []Step{{0.5, 64}}, DoubleEvery: ten},
			"double_every: there is a schedule already"},
		{MailOptions{Work: 64, First: 64}, "first: there is nothing to double"},
		{MailOptions{Work: 64, Doubles: DoubleWork}, "doubles: there is nothing to double"},
		{MailOptions{Work: 64, DoubleEvery: ten, Doubles: "word"},
			`doubles: "word" cannot be doubled (did you mean "work"?)`},
		{MailOptions{Work: 64, DoubleEvery: ten, First: 63}, "first: 63 is less than work"},
		{MailOptions{Work: 64, DoubleEvery: ten, First: most + 1}, "first: "},
		{MailOptions{Work: most, DoubleEvery: ten}, ""},
		{MailOptions{Work: most + 1, DoubleEvery: ten}, "work: "},
		{MailOptions{Work: 64, DoubleEvery: ten, FromLoad: -1}, "from_load: "},
		{MailOptions{Work: 64, DoubleEvery: weir.Duration(time.Second)}, ""},
		{MailOptions{Work: 64, DoubleEvery: weir.Duration(time.Second - 1)}, "double_every: "},
		{MailOptions{Work: 64, DoubleEvery: weir.Duration(time.Hour)}, ""},
		{MailOptions{Work: 64, DoubleEvery: weir.Duration(time.Hour + 1)}, "double_every: "},
	} {
		got := fmt.Sprint(c.o.Validate())
		if c.want == "" && got != "<nil>" || !strings.HasPrefix(got, c.want) || c.want != "" &&
			!strings.HasSuffix(got, ")") || strings.Contains(got, "\n") {
			t.Errorf("%+v: %s, want %q", c.o, got, c.want)
		}
	}
}
