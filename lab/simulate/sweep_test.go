package simulate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/throttle/outbreak"
)

func TestParseSweep(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"working_set=0..10", "0 1 2 3 4 5 6 7 8 9 10"},
		{" max_mslack = 0..30/5 ", "0 5 10 15 20 25 30"},
		{"max_mslack=0..29/5,40", "0 5 10 15 20 25 40"},
		{"stop=5, 10,20", "5 10 20"},
		{"stop=1..64",
			"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 " +
				"38 39 40 41 42 43 " +
				"44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64"},
		{"max_slack=7", "7"},
		{"max_slack=10000", "10000"},
		{"rate=1/m,2/m,30/h", "1/m 2/m 30/h"},
		{"rate=1/5m,1/m..3/m", "1/5m 1/m 2/m 3/m"},
		{"multi_rate=1000/s,1/365d", "1000/s 1/365d"},
		{"speed=1",
			`sweep: unknown parameter "speed" (one of working_set, max_slack, max_mslack, rate, multi_rate, stop)`},
		{"workingset=1", `sweep: unknown parameter "workingset" (did you mean "working_set"?)`},
		{"", `sweep: unknown parameter "" (one of working_set, max_slack, max_mslack, rate, multi_rate, stop)`},
		{"stop", "stop: values are missing (write stop=0..10, or =5,10,20)"},
		{"rate=", "rate: values are missing (write rate=30/h,1/m,2/m)"},
		{"stop=1..65", "stop: too many values (at most 64; 0..100/10 takes each tenth)"},
		{"stop=1..64,70", "stop: too many values (at most 64; 0..100/10 takes each tenth)"},
		{"rate=1/m..65/m", "rate: too many values (at most 64; 0..100/10 takes each tenth)"},
		{"stop=1,,2", `stop: "" is not a number (write stop=0..10, or =5,10,20)`},
		{"stop=1,2,1", "stop: 1 is there twice (leave one out)"},
		{"rate=1/m,60/h", "rate: 60/h is there twice (leave one out)"},
		{"stop=10001", "stop: 10001 is out of bounds (between 0 and 10000)"},
		{"working_set=-1", "working_set: -1 is out of bounds (between 0 and 1000)"},
		{"working_set=0..1001/100", "working_set: 1001 is out of bounds (between 0 and 1000)"},
		{"max_mslack=..3", `max_mslack: "" is not a number (write max_mslack=0..10, or =5,10,20)`},
		{"stop=10..5", "stop: 10..5 goes down (write 5..10)"},
		{"stop=0..5/0", `stop: "0" is not a step (0..30/5 takes each fifth)`},
		{"stop=0..5/", `stop: "" is not a step (0..30/5 takes each fifth)`},
		{"stop=99999999999999999999", `stop: "99999999999999999999" is not a number (write stop=0..10, or =5,10,20)`},
		{"rate=5", `rate: "5" does not say per what (did you mean 5/s or 5/m?)`},
		{"rate=5..6/m", `rate: "5" does not say per what (did you mean 5/s or 5/m?)`},
		{"rate=1/m..x", `rate: "x" is not a rate (write 100/s, 5/m or 3/10s)`},
		{"rate=1/m..2/h", "rate: 1/m..2/h is not a range (write 1/m..5/m, or list the rates: 1/5m,1/m,5/m)"},
		{"rate=2/m..1/m", "rate: 2/m..1/m is not a range (write 1/m..5/m, or list the rates: 1/5m,1/m,5/m)"},
		{"rate=0/m", "rate: 0/m is too slow (1/365d is the least)"},
		{"rate=1/366d", "rate: 1/366d is too slow (1/365d is the least)"},
		{"rate=1001/s", "rate: 1001/s is too fast (1000/s is the most)"},
	} {
		spec, err := ParseSweep(c.text)
		got := fmt.Sprint(err)
		if err == nil {
			var all []string
			for _, v := range spec.Values {
				all = append(all, v.Text)
			}
			got = strings.Join(all, " ")
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
		if err != nil {
			if fe := weir.FieldErrors(err); len(fe) != 1 || fe[0].Path == "" {
				t.Errorf("%s: %v", c.text, fe)
			}
		}
	}
}

// A value changes the parameter that it is of. A rate is that of mails to several as well, unless they have their own.
func TestSweepValue(t *testing.T) {
	for text, want := range map[string]string{
		"working_set=9": "one recipient per 1m, working_set 9, max_slack 1, max_mslack 15, stop 20, recipients 100",
		"max_slack=9":   "one recipient per 1m, working_set 4, max_slack 9, max_mslack 15, stop 20, recipients 100",
		"max_mslack=9":  "one recipient per 1m, working_set 4, max_slack 1, max_mslack 9, stop 20, recipients 100",
		"stop=9":        "one recipient per 1m, working_set 4, max_slack 1, max_mslack 15, stop 9, recipients 100",
		"rate=2/m":      "one recipient per 30s, working_set 4, max_slack 1, max_mslack 15, stop 20, recipients 100",
		"multi_rate=2/m": "one recipient per 1m, one recipient of several per 30s, working_set 4, max_slack 1, " +
			"max_mslack 15, stop 20, " +
			"recipients 100",
	} {
		spec, err := ParseSweep(text)
		if err != nil {
			t.Fatal(err)
		}
		if p := spec.Values[0].with(spec.Parameter, DocumentParams()); p.String() != want {
			t.Errorf("%s: %s", text, p.String())
		}
		x := 9.0
		if spec.Values[0].Every > 0 {
			x = 2
		}
		if got := spec.Values[0].x(); got != x {
			t.Errorf("%s: %v", text, got)
		}
	}
	p := DocumentParams()
	p.MultiEvery = time.Hour
	if p = (SweepValue{Every: time.Second}).with("rate", p); p.Every != time.Second || p.MultiEvery != time.Hour {
		t.Error(p)
	}
}

func TestSweepSpec(t *testing.T) {
	for _, c := range []struct {
		s    SweepSpec
		want string
	}{
		{SweepSpec{"stop", []SweepValue{{Text: "1", Count: 1}}}, "<nil>"},
		{SweepSpec{"stop", nil}, "stop: values are missing (write stop=0..10, or =5,10,20)"},
		{SweepSpec{"stopp", nil}, `sweep: unknown parameter "stopp" (did you mean "stop"?)`},
		{SweepSpec{"stop", make([]SweepValue, MaxSweepValues+1)},
			"stop: too many values (at most 64; 0..100/10 takes each tenth)"},
		{SweepSpec{"rate", []SweepValue{{Text: "no"}}}, "rate: no is too fast (1000/s is the most)"},
	} {
		if err := c.s.Validate(); fmt.Sprint(err) != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func FuzzParseSweep(f *testing.F) {
	for _, text := range []string{
		"working_set=0..10", "max_mslack=0..30/5", "rate=1/m,2/m,30/h", "multi_rate=1/m..5/m", "stop=5,10,20",
		"stop=0..9999999999", "rate=0/m", "=,..",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseSweep(text)
		if err != nil {
			if len(weir.FieldErrors(err)) == 0 {
				t.Error(err)
			}
			return
		}
		if len(spec.Values) == 0 || len(spec.Values) > MaxSweepValues {
			t.Error(len(spec.Values))
		}
		for _, v := range spec.Values {
			p := v.with(spec.Parameter, DocumentParams())
			if p.Every < outbreak.MinPeriod || p.Every > outbreak.MaxPeriod || p.MultiEvery < outbreak.MinPeriod ||
				p.MultiEvery > outbreak.MaxPeriod ||
				p.Stop < 0 || p.WorkingSet < 0 || p.MaxSlack < 0 || p.MaxMSlack < 0 {
				t.Errorf("%q: %s", text, p.String())
			}
			// What it is called means the same again.
			again, err := ParseSweep(spec.Parameter + "=" + v.Text)
			if err != nil || again.Values[0].with(spec.Parameter, DocumentParams()) != p {
				t.Errorf("%q: %q: %v", text, v.Text, err)
			}
		}
	})
}
