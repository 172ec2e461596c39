package stamp

import (
	"strings"
	"testing"
	"time"

	"weir"
)

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want []string
	}{
		"nothing given": {},
		"as documented": {o: Options{Algorithm: SHA256K, FromLoad: new(weir.Share(0.9)),
			TargetWait: weir.Duration(200 * time.Millisecond), Covers: 50,
			Expires: weir.Duration(5 * time.Minute), MaxTime: weir.Duration(5 * time.Second),
			Secret: strings.Repeat("s", 32)}},
		"classic": {o: Options{Classic: true}},
		"source":  {o: Options{Schedule: sourceSchedule(), Algorithm: DLogClassic}},
		"everything wrong": {Options{FromLoad: new(weir.Share(1.5)), TargetWait: 1, Covers: -1, Expires: 1, MaxTime: 1,
			First: 1 << 40, DoubleEvery: new(weir.Duration(1)), Doubles: "bit",
			Secret: "short", OldSecret: "short", Rotate: 1, MaxSpent: -1,
			Schedule: []Step{{0.5, 16}, {0.5, 1 << 30}, {-1, 0}}}, []string{
			"from_load: 150% is out of bounds (0% to 100%)",
			"target_wait: 1ns is out of bounds (1ms to 1m)",
			"expires: 1ns is out of bounds (10s to 1d)",
			"max_time: 1ns is out of bounds (10ms to 10m)",
			"double_every: 1ns is out of bounds (1s to 1h)",
			`doubles: "bit" cannot be doubled (did you mean "bits"?)`,
			"rotate: 1ns is out of bounds (10s to 30d)",
			"covers: -1 is out of bounds (1 to 10000)",
			"max_spent: -1 is out of bounds (1 to 100000000)",
			"secret: a secret of 5 characters is too short or too long (16 to 4096; 'openssl rand -base64 32' makes " +
				"one)",
			"old_secret: a secret of 5 characters is too short or too long (16 to 4096; 'openssl rand -base64 32' " +
				"makes one)",
			"first: a phone would work 305h25m11.628s on 40 bits (at most 0 within max_time 1ns)",
			"double_every: there is a schedule already (either schedule or double_every)",
			"schedule[0].work: a phone would work 0s on 4 bits (at most 0 within max_time 1ns)",
			"schedule[1].load: 50% is not above 50% (from the lowest load to the highest)",
			"schedule[1].work: a phone would work 17m53.742s on 30 bits (at most 0 within max_time 1ns)",
			"schedule[2].load: -100% is out of bounds (0% to 100%)",
			"schedule[2].load: -100% is not above 50% (from the lowest load to the highest)",
		}},
		"rotates too fast": {Options{Rotate: weir.Duration(time.Minute)},
			[]string{"rotate: challenges live for 5m, their key only for 1m (at least expires)"}},
		"no secret": {Options{OldSecret: strings.Repeat("s", 16)},
			[]string{"old_secret: there is no secret that replaces it (give secret, too)"}},
		"unknown": {Options{Algorithm: 7},
			[]string{"algorithm: unknown algorithm 7 (one of sha256-k, dlog, dlog-classic, eqs60)"}},
		"too many steps": {Options{Schedule: make([]Step, MaxSteps+1)},
			[]string{"schedule: 65 steps are too many (at most 64)"}},
	} {
		var got []string
		for _, e := range weir.FieldErrors(c.o.Validate()) {
			got = append(got, e.Error())
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		if _, err := New(c.o, time.Time{}); (err == nil) != (c.want == nil) {
			t.Errorf("%s: New says %v", name, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	o := Options{}.WithDefaults()
	if o.Algorithm != SHA256K || *o.FromLoad != 0.9 || o.Covers != 50 || o.First != 1<<16 || o.DoubleEvery != nil ||
		o.Rotate.Std() != time.Hour {
		t.Errorf("%+v", o)
	}
	o = Options{Classic: true, Expires: weir.Duration(3 * time.Hour)}.WithDefaults()
	if o.Algorithm != DLogClassic || o.DoubleEvery.Std() != 10*time.Second || o.Rotate.Std() != 3*time.Hour {
		t.Errorf("classic: %+v", o)
	}
	if o := (Options{Classic: true, Algorithm: SHA256K}).WithDefaults(); o.Algorithm != SHA256K {
		t.Errorf("what is written is not what is taken: %s", o.Algorithm)
	}
}

// TestZeroIsNotTheDefault: a zero that is written means what it says; only what is left out is filled in.
func TestZeroIsNotTheDefault(t *testing.T) {
	zero := Options{FromLoad: new(weir.Share(0)), Classic: true,
		DoubleEvery: new(weir.Duration(0))}
	if err := zero.Validate(); err != nil {
		t.Fatal(err)
	}
	o := zero.WithDefaults()
	if *o.FromLoad != 0 || *o.DoubleEvery != 0 {
		t.Errorf("from_load %s, double_every %s", *o.FromLoad, *o.DoubleEvery)
	}
	if d := zero.Difficulty(); d.from != 0 || d.doubling.Interval != 0 {
		t.Errorf("the difficulty starts at %s and doubles every %s", d.from, d.doubling.Interval)
	}
	for want, all := range map[bool][]Options{
		true: {zero, {Schedule: sourceSchedule()}},
		false: {{}, {Classic: true}, {FromLoad: new(weir.Share(0.01))},
			{FromLoad: new(weir.Share(0)), Schedule: []Step{{0, 0}, {0.5, 9}}}},
	} {
		for _, o := range all {
			if o.AlwaysAsks() != want {
				t.Errorf("always asks: %t for %+v", !want, o)
			}
		}
	}
}

// TestRenew: over a reload, what is spent stays spent and what is out stays good; where that cannot be told, it is
// refused.
func TestRenew(t *testing.T) {
	before := Options{Secret: strings.Repeat("a", 16)}
	a := ask(SHA256K, 256)
	for name, c := range map[string]struct {
		after       Options
		spent, open error
	}{
		"nothing changed":  {before, ErrReplayed, nil},
		"other difficulty": {Options{Secret: before.Secret, FromLoad: new(weir.Share(0.5))}, ErrReplayed, nil},
		"a new secret":     {Options{Secret: strings.Repeat("b", 16)}, ErrReplayed, nil},
		"a longer life":    {Options{Secret: before.Secret, Expires: weir.Duration(time.Hour)}, ErrExpired, ErrExpired},
	} {
		old, err := New(before, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		spent, open := solved(t, old, a), solved(t, old, a)
		if _, err := old.Verify(bg, start, spent, demand(a)); err != nil {
			t.Fatal(err)
		}
		next, err := Renew(old, before, c.after, start.Add(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := next.Verify(bg, start.Add(2*time.Second), spent, demand(a)); err != c.spent {
			t.Errorf("%s: spent: %v", name, err)
		}
		if _, err := next.Verify(bg, start.Add(2*time.Second), open, demand(a)); err != c.open {
			t.Errorf("%s: open: %v", name, err)
		}
	}
	if _, err := Renew(nil, before, Options{Covers: -1}, start); err == nil {
		t.Error("options that are wrong are taken")
	}
}

// TestRenewDropsOldSecrets: what was signed with the secret before stays good after a reload, unless it was listed as
// the old one and is no longer.
func TestRenewDropsOldSecrets(t *testing.T) {
	const a, b = "the secret of last year", "the secret of this year"
	steps := []Options{{Secret: a}, {Secret: a, OldSecret: b}, {Secret: b, OldSecret: a}, {Secret: b}}
	o, err := New(steps[0], start)
	if err != nil {
		t.Fatal(err)
	}
	stamps := make([]string, len(steps))
	for i := range stamps {
		stamps[i] = solved(t, o, ask(SHA256K, 64))
	}
	for i, next := range steps {
		if i > 0 {
			if o, err = Renew(o, steps[i-1], next, start); err != nil {
				t.Fatal(err)
			}
		}
		want := error(nil)
		if i == 3 {
			want = ErrUnknown
		}
		if _, err := o.Verify(bg, start, stamps[i], demand(ask(SHA256K, 64))); err != want {
			t.Errorf("step %d: %v, want %v", i, err, want)
		}
	}
	replaced, err := New(Options{Secret: a}, start)
	if err != nil {
		t.Fatal(err)
	}
	s := solved(t, replaced, ask(SHA256K, 64))
	if replaced, err = Renew(replaced, Options{Secret: a}, Options{Secret: b}, start); err != nil {
		t.Fatal(err)
	}
	if _, err := replaced.Verify(bg, start, s, demand(ask(SHA256K, 64))); err != nil {
		t.Errorf("a secret that was replaced: %v", err)
	}
}
