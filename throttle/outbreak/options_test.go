package outbreak

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir"
)

func TestDefaults(t *testing.T) {
	want := Params{
		Every: time.Minute, MultiEvery: time.Minute, WorkingSet: 5, MaxSlack: 1, MaxMSlack: 15, Stop: 20,
		Recipients: 100, Slow: 4,
		Nulls: Nulls{Per: time.Hour, Every: time.Minute},
	}
	for _, o := range []Options{{}, Options{}.WithDefaults()} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
		if p, err := o.Params("ann", ""); err != nil || p != want {
			t.Errorf("%+v, %v", p, err)
		}
	}
	o := Options{WorkingSet: new(0), MaxSlack: new(0), MaxMSlack: new(0), Stop: new(0)}.WithDefaults()
	p, err := o.Params("ann", "")
	if want.WorkingSet, want.MaxSlack, want.MaxMSlack, want.Stop = 0, 0, 0, 0; err != nil || p != want {
		t.Errorf("%+v, %v", p, err)
	}
	if again := o.WithDefaults(); !reflect.DeepEqual(again, o) {
		t.Error("defaults of defaults differ")
	}
}

func TestWhatGoesBefore(t *testing.T) {
	minute := func(n int64) weir.Rate { return weir.Rate{Count: n, Per: time.Minute} }
	o := Options{
		Rate: minute(2), Stop: new(30), Resume: weir.Duration(24 * time.Hour), Replace: FIFO, Large: LargeHold,
		Recipients: 50, Slow: 6,
		NullRate: weir.Rate{Count: 2, Per: time.Hour}, Exempt: []string{"bulk"},
		Users: map[string]Limits{
			"ann":  {Rate: minute(4), Stop: new(40), Resume: new(weir.Duration(0)), Replace: LRU},
			"news": {Exempt: new(true)},
			"bob":  {MultiRate: minute(6)},
		},
	}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	params := func(user, own string) Params {
		p, err := o.Params(user, own)
		if err != nil {
			t.Error(user, own, err)
		}
		return p
	}
	general := Params{
		Every: 30 * time.Second, MultiEvery: 30 * time.Second, WorkingSet: 5, FIFO: true, MaxSlack: 1, MaxMSlack: 15,
		Stop: 30, HoldLarge: true,
		Recipients: 50, Resume: 24 * time.Hour, Slow: 6, Nulls: Nulls{Per: time.Hour, Every: 30 * time.Minute},
	}
	if p := params("eve", ""); p != general {
		t.Errorf("%+v", p)
	}
	ann := general
	ann.Every, ann.MultiEvery, ann.Stop, ann.Resume, ann.FIFO = 15*time.Second, 15*time.Second, 40, 0, false
	if p := params("ann", ""); p != ann {
		t.Errorf("%+v", p)
	}
	ann.Stop, ann.Resume, ann.WorkingSet = 50, time.Hour, 0
	if p := params("ann", `{"stop":50,"resume":"1h","working_set":0}`); p != ann {
		t.Errorf("%+v", p)
	}
	if p := params("bob", `{"rate":"3/m"}`); p.Every != 20*time.Second || p.MultiEvery != 10*time.Second {
		t.Errorf("%+v", p)
	}
	for user, exempt := range map[string]bool{"bulk": true, "news": true, "ann": false, "Bulk": false} {
		if params(user, "").Exempt != exempt || params(user, `{"exempt":true}`).Exempt != true ||
			params(user, `{"exempt":false}`).Exempt {
			t.Errorf("%s: exempt %v", user, !exempt)
		}
	}
	// What cannot be read is told, and the others hold.
	if p, err := o.Params("eve", `{"stop":"none"}`); err == nil || p != general {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	many := make([]string, weir.MaxListed+1)
	users := map[string]Limits{}
	for i := range many {
		many[i] = fmt.Sprint("d", i, ".example")
	}
	for i := range MaxUsers + 1 {
		users[fmt.Sprint("u", i)] = Limits{Stop: new(1)}
	}
	user := func(l Limits) Options { return Options{Users: map[string]Limits{"ann": l}} }
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Rate: weir.Rate{Per: time.Minute}}, "rate: at this rate waiting messages never leave"},
		{Options{MultiRate: weir.Rate{Count: 1e7, Per: time.Second}}, "multi_rate: 10000000/s is too fast"},
		{Options{WorkingSet: new(-1)}, "working_set: -1 is out of bounds (between 0 and 1000)"},
		{Options{Replace: "LRU"}, `replace: unknown replace "LRU" (did you mean "lru"?)`},
		{Options{MaxSlack: new(-1)}, "max_slack: -1 is out of bounds"},
		{Options{MaxMSlack: new(10_001)}, "max_mslack: 10001 is out of bounds"},
		{Options{Stop: new(MaxStop + 1)}, "stop: 10001 is out of bounds"},
		{Options{Recipients: -1}, "recipients: -1 is out of bounds"},
		{Options{Large: "review"}, `large: unknown large "review" (one of stop, hold)`},
		{Options{Resume: weir.Duration(time.Second)}, "resume: 1s is out of bounds"},
		{Options{Slow: 1001}, "slow: 1001 is out of bounds"},
		{Options{NullRate: weir.Rate{Per: time.Hour}},
			"null_rate: at this rate no message without a sender goes on (write 60/h, or null_sender: counted)"},
		{Options{NullRate: weir.Rate{Count: 1001, Per: time.Second}}, "null_rate: 1001/s is too fast"},
		{Options{NullRate: weir.Rate{Count: 9, Per: MaxPeriod + time.Hour}}, "is too slow (the longest period is "},
		{Options{Exempt: many}, "exempt: 1001 are too many (at most 1000)"},
		{Options{Internal: many}, "internal: 1001 are too many"},
		{Options{Free: many}, "free: 1001 are too many"},
		{Options{Users: users}, "users: 10001 users are too many"},
		{Options{Exempt: []string{"ann", ""}}, "exempt[1]: a name is missing"},
		{Options{Exempt: []string{"ann", "bob", "ann"}},
			`exempt[2]: "ann" is listed twice (it is exempt[0] already)`},
		{Options{Exempt: []string{"ann smith"}}, `exempt[0]: "ann smith" is not a name`},
		{Options{Exempt: []string{strings.Repeat("a", 321)}}, "is too long (at most 320 bytes)"},
		{Options{Internal: []string{"."}}, "internal[0]: a domain is missing"},
		{Options{Internal: []string{"ann@example.org"}},
			`internal[0]: "ann@example.org" is an address (put single addresses under free)`},
		{Options{Internal: []string{"*.example.org"}},
			`internal[0]: "*.example.org" is not a domain (write .example.org)`},
		{Options{Internal: []string{"example.org."}}, `internal[0]: "example.org." is not a domain`},
		{Options{Internal: []string{"example.org", "EXAMPLE.org"}}, `internal[1]: "EXAMPLE.org" is listed twice`},
		{Options{Free: []string{"support"}},
			`free[0]: "support" is not an address (write support@example.org; put whole domains under internal)`},
		{Options{Free: []string{"@example.org"}}, `free[0]: "@example.org" is not an address`},
		{Options{Free: []string{""}}, "free[0]: an address is missing"},
		{Options{Free: []string{"a@b.example", "A@B.example"}}, `free[1]: "A@B.example" is listed twice`},
		{user(Limits{Stop: new(-1)}), "users.ann.stop: -1 is out of bounds"},
		{user(Limits{Stop: new(1), Exempt: new(true)}), "users.ann: is exempt: their other limits are never used"},
		{Options{Exempt: []string{"ann"}, Users: user(Limits{Slow: new(2)}).Users}, "users.ann: is exempt"},
		{Options{Exempt: []string{"ann"}, Users: user(Limits{Exempt: new(false)}).Users},
			"users.ann.exempt: the user is also under exempt"},
		{Options{Users: map[string]Limits{"": {}}}, "users.: a name is missing"},
	} {
		if err := c.o.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	bad := Options{Rate: weir.Rate{Per: 1}, Slow: -1, Free: []string{"x"},
		Users: map[string]Limits{"ann": {Stop: new(-1), Slow: new(0)}}}
	if errs := weir.FieldErrors(bad.Validate()); len(errs) != 5 {
		t.Errorf("%d mistakes, want 5: %v", len(errs), errs)
	}
	good := Options{
		Exempt: many[:weir.MaxListed], Internal: many[:weir.MaxListed],
		Free:  []string{"support@example.org", "grüße@bücher.example"},
		Users: map[string]Limits{"ann": {}, "192.0.2.1": {Stop: new(5)}, "ann@example.org": {Exempt: new(true)}},
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func TestCounted(t *testing.T) {
	o := Options{Internal: []string{"example.org", ".Corp.example"},
		Free: []string{"Support@help.example", "listed%elsewhere@example.org"}}
	for recipient, want := range map[string]bool{
		"ann@example.org":          false,
		"ann@EXAMPLE.ORG":          false,
		"ann@sub.example.org":      true,
		"ann@badexample.org":       true,
		"ann@corp.example":         false,
		"ann@a.b.corp.EXAMPLE":     false,
		"ann@badcorp.example":      true,
		"ann@.corp.example":        true, // no domain begins with a dot
		"support@help.example":     false,
		"SUPPORT@HELP.EXAMPLE":     false,
		"support2@help.example":    true,
		"eve@elsewhere.example":    true,
		"example.org@evil.example": true,
		`"a@example.org"@evil.net`: true,
		"example.org":              true,
		// Ways to somebody else.
		"v%gmail.example@example.org":    true,
		"gmail.example!v@example.org":    true,
		"v@gmail.example@example.org":    true, // was in quotes
		`"v@gmail.example"@example.org`:  true,
		"@gmail.example:v@example.org":   true,
		"a!support@help.example":         true,
		"v%gmail.example@a.corp.example": true,
		"listed%elsewhere@example.org":   false, // just so
		"Listed%Elsewhere@example.org":   false,
		`"listed%elsewhere"@example.org`: true,
		"x!listed%elsewhere@example.org": true,
		"":                               true,
		"@":                              true,
	} {
		if o.Counted(recipient) != want {
			t.Errorf("%s: counted %v", recipient, !want)
		}
	}
	if none := (Options{}); !none.Counted("ann@example.org") {
		t.Error("nobody is listed")
	}
}
