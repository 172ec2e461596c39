package outbreak

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"weir"
)

func TestLimits(t *testing.T) {
	for _, c := range []struct{ text, again string }{
		{"", ""},
		{"  ", ""},
		{"{}", ""},
		{"{" + strings.Repeat(" ", MaxLimitsText-2) + "}", ""},
		{`{"stop":50}`, `{"stop":50}`},
		{` { "exempt" : true, "rate" : "5/m" } `, `{"rate":"5/m","exempt":true}`},
		{`{"working_set":0,"max_slack":0,"max_mslack":0,"stop":0}`,
			`{"working_set":0,"max_slack":0,"max_mslack":0,"stop":0}`},
		{`{"resume":"0","exempt":false}`, `{"resume":"0s","exempt":false}`},
		{`{"resume":"never"}`, `{"resume":"0s"}`},
		{
			`{"slow":8,"resume":"48h","large":"hold","recipients":500,"multi_rate":"3/10s","rate":"60/h","replace":"fifo"}`,
			`{"rate":"60/h","multi_rate":"3/10s","replace":"fifo","recipients":500,"large":"hold","resume":"2d","slow":8}`,
		},
	} {
		l, err := ParseLimits(c.text)
		if err != nil || l.String() != c.again {
			t.Errorf("%s: %s, %v", c.text, l, err)
		}
		if again, err := ParseLimits(l.String()); err != nil || !reflect.DeepEqual(again, l) {
			t.Errorf("%s: %v, %v", l, again, err)
		}
	}
}

func TestLimitsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"stop=50":                             `not limits (write {"rate": "5/m", "stop": 50})`,
		`[1]`:                                 "not limits",
		`{"stop":50`:                          "not limits",
		`{"stop":}`:                           "not limits",
		`{"stop":50}{}`:                       "not limits",
		`{"stop":50} x`:                       "not limits",
		`{1:2}`:                               "not limits",
		`null`:                                "not limits",
		`{"stop":"50"}`:                       `stop: not a value of its kind (write {"stop": 20})`,
		`{"stop":null}`:                       "stop: not a value of its kind",
		`{"stop":[50]}`:                       "stop: not a value of its kind",
		`{"stop":{}}`:                         "stop: not a value of its kind",
		`{"rate":5}`:                          `rate: not a value of its kind (write {"rate": "1/m"})`,
		`{"exempt":"true"}`:                   `exempt: not a value of its kind (write {"exempt": true})`,
		`{"stop":2.5}`:                        `stop: "2.5" is not a whole number (as in 20)`,
		`{"stop":1e3}`:                        `stop: "1e3" is not a whole number`,
		`{"stop":-1}`:                         "stop: -1 is out of bounds (between 0 and 10000)",
		`{"stop":10001}`:                      "stop: 10001 is out of bounds",
		`{"working_set":1001}`:                "working_set: 1001 is out of bounds",
		`{"max_slack":10001}`:                 "max_slack: 10001 is out of bounds",
		`{"max_mslack":10001}`:                "max_mslack: 10001 is out of bounds",
		`{"recipients":0}`:                    "recipients: 0 is out of bounds (between 1 and 10000)",
		`{"slow":0}`:                          "slow: 0 is out of bounds (between 1 and 1000)",
		`{"rate":"0/m"}`:                      "rate: at this rate waiting messages never leave (write 1/m)",
		`{"rate":"1001/s"}`:                   "rate: 1001/s is too fast",
		`{"rate":"1/366d"}`:                   "rate: 1/366d is too slow (1/365d is the least)",
		`{"rate":"fast"}`:                     `rate: "fast" is not a rate`,
		`{"rate":""}`:                         `rate: "" is not a rate`,
		`{"resume":"59s"}`:                    "resume: 59s is out of bounds (between 1m and 365d, or 0 for never)",
		`{"resume":"24"}`:                     `resume: "24" has no unit`,
		`{"replace":"lfu"}`:                   `replace: unknown replace "lfu" (did you mean "lru"?)`,
		`{"replace":""}`:                      "replace: no value (as in lru)",
		`{"large":"keep"}`:                    `large: unknown large "keep" (one of stop, hold)`,
		`{"stpo":50}`:                         `there is no limit "stpo" (did you mean "stop"?)`,
		`{"Stop":50}`:                         `there is no limit "Stop" (did you mean "stop"?)`,
		`{"x":50}`:                            `there is no limit "x" (one of rate, multi_rate, `,
		`{"stop":50,"stop":51}`:               "stop: is there twice",
		`{` + strings.Repeat(" ", 1023) + `}`: "1025 bytes are too long for limits (at most 1024)",
	} {
		l, err := ParseLimits(text)
		if err == nil || !strings.HasPrefix(err.Error(), want) || l != (Limits{}) {
			t.Errorf("%.60s: %v, %v, want %s", text, l, err, want)
		}
		if err != nil && len(weir.FieldErrors(err)) != 1 {
			t.Errorf("%.60s: %v", text, weir.FieldErrors(err))
		}
	}
}

func TestSet(t *testing.T) {
	var l Limits
	for _, c := range []struct{ pair, want string }{
		{"stop=50", `{"stop":50}`},
		{" rate = 5/m ", `{"rate":"5/m","stop":50}`},
		{"exempt=yes", `{"rate":"5/m","stop":50,"exempt":true}`},
		{"exempt=false", `{"rate":"5/m","stop":50,"exempt":false}`},
		{"stop=", `{"rate":"5/m","exempt":false}`},
		{"exempt=default", `{"rate":"5/m"}`},
		{"resume=never", `{"rate":"5/m","resume":"0s"}`},
		{"replace=fifo", `{"rate":"5/m","replace":"fifo","resume":"0s"}`},
		{"rate=", `{"replace":"fifo","resume":"0s"}`},
		{"replace=default", `{"resume":"0s"}`},
		{"resume=", ""},
	} {
		if err := l.Set(c.pair); err != nil || l.String() != c.want {
			t.Errorf("%s: %s, %v, want %s", c.pair, l, err, c.want)
		}
	}
	l = Limits{Stop: new(50)}
	for pair, want := range map[string]string{
		"stop":         "stop: no value (write stop=20; stop= takes it back)",
		"stop=many":    `stop: "many" is not a whole number (as in 20)`,
		"stop=20000":   "stop: 20000 is out of bounds (between 0 and 10000)",
		"max-slak=3":   `there is no limit "max-slak" (did you mean "max_slack"?)`,
		"rate=5":       `rate: "5" does not say per what (did you mean 5/s or 5/m?)`,
		"exempt=maybe": `exempt: "maybe" is neither true nor false (write true or false)`,
		"=5":           `there is no limit "" (one of`,
		"":             `there is no limit "" (one of`,
	} {
		if err := l.Set(pair); err == nil || !strings.HasPrefix(err.Error(), want) || l.String() != `{"stop":50}` {
			t.Errorf("%s: %s, %v, want %s", pair, l, err, want)
		}
	}
}

// Every field of the limits has a name and an example that can be set.
func TestEveryLimitIsAField(t *testing.T) {
	var l Limits
	for field := range reflect.TypeFor[Limits]().Fields() {
		name := field.Tag.Get("yaml")
		if err := l.Set(name + "=" + field.Tag.Get("example")); err != nil {
			t.Error(err)
		}
		if reflect.ValueOf(l).FieldByIndex(field.Index).IsZero() || !strings.Contains(l.String(), `"`+name+`":`) {
			t.Errorf("%s is not set", name)
		}
		// What is general for all can be said for one, and the other way round; who is exempt is a list there.
		if f, ok := reflect.TypeFor[Options]().FieldByName(field.Name); !ok || f.Tag.Get("yaml") != name {
			t.Errorf("%s is not there for all", name)
		}
	}
	if n := len(l.String()); n > MaxLimitsText/2 {
		t.Errorf("limits may take %d bytes", n)
	}
	if again, err := ParseLimits(l.String()); err != nil || !reflect.DeepEqual(again, l) {
		t.Error(again, err)
	}
}

func FuzzParseLimits(f *testing.F) {
	for _, text := range []string{
		"", "{}", `{"rate":"5/m","stop":50,"exempt":true}`,
		`{"resume":"1w2d3h","slow":4,"replace":"fifo","large":"hold"}`,
		`{"multi_rate":"3/10s","working_set":0,"max_slack":2,"max_mslack":30,"recipients":10}`, `{"stop":"50"}`,
		`{"stop":[{}]}`, `[`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLimits(text)
		if err != nil {
			if l != (Limits{}) {
				t.Fatal("half of it was taken:", l)
			}
			return
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("%q was taken: %v", text, err)
		}
		again, err := ParseLimits(l.String())
		if err != nil || !reflect.DeepEqual(l, again) {
			t.Fatalf("%q, then %q: %v", l, again, err)
		}
		p, err := new(Options).Params("ann", text)
		if err != nil || p.Every < MinPeriod || p.MultiEvery > MaxPeriod || p.Slow < 1 || p.Recipients < 1 {
			t.Fatalf("%q: %+v, %v", text, p, err)
		}
		var s State
		s.Submit(&p, epoch, 1, []uint64{1, 2, 3}, nil, nil)
		s.Tick(&p, epoch.Add(time.Hour), nil)
	})
}

func FuzzSet(f *testing.F) {
	for _, pair := range []string{"stop=50", "rate=1/m", "exempt=yes", "resume=never", "large", "=", "slow=default"} {
		f.Add(pair)
	}
	f.Fuzz(func(t *testing.T, pair string) {
		l := Limits{Stop: new(7)}
		if err := l.Set(pair); err != nil && l.String() != `{"stop":7}` {
			t.Fatalf("%q changed it to %s: %v", pair, l, err)
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("%q was taken: %v", pair, err)
		}
	})
}
