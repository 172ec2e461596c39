package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir"
)

func TestValidateNamesEveryMistake(t *testing.T) {
	second := weir.Period{Length: time.Second}
	month := weir.Period{Calendar: weir.Month}
	many := Options{}
	for i := range MaxPolicies + 1 {
		p := perSecond(1)
		p.Name = fmt.Sprint("p", i)
		many.Policies = append(many.Policies, p)
	}
	for _, c := range []struct {
		name string
		o    Options
		want string // path and part of the message
	}{
		{"no policy", Options{}, "policies: a quota without a policy"},
		{"one too many", many, "policies: 65 policies are too many"},
		{"no name", one(Policy{Limit: Count(1), Period: second}), "policies[0]: the policy has no name"},
		{"bad name", one(Policy{Name: "a b", Limit: Count(1), Period: second}),
			`policies[0].name: "a b" is not a name`},
		{"same name", one(perSecond(1), perSecond(2)), `policies[1].name: there is another policy "per-second"`},
		{"kind", one(Policy{Name: "a", Kind: "request", Limit: Count(1), Period: second}),
			`policies[0].kind: unknown kind "request"`},
		{"no limit", one(Policy{Name: "a", Period: second}), "policies[0].limit: kind requests needs a limit"},
		{"no period", one(Policy{Name: "a", Limit: Count(1)}), "policies[0].period: kind requests needs a period"},
		{"short period", one(Policy{Name: "a", Limit: Count(1), Period: weir.Period{Length: 1}}),
			"policies[0].period: 1ns is too short"},
		{"unit forgotten", one(Policy{Name: "a", Kind: Volume, Limit: Count(10), Period: second}),
			"policies[0].limit: 10 has no unit (did you mean 10KB or 10MB?)"},
		{"unit too many", one(Policy{Name: "a", Limit: Bytes(10), Period: second}), "policies[0].limit: 10B is a size"},
		{"too large", one(Policy{Name: "a", Limit: Count(MaxLimit + 1), Period: second}), "is too large"},
		{"idle without gap", one(Policy{Name: "a", Kind: Idle}), "policies[0].gap: kind idle needs a gap"},
		{"gap without idle", one(Policy{Name: "a", Limit: Count(1), Period: second, Gap: 1}),
			"policies[0].gap: only kind idle has a gap"},
		{"idle with limit", one(Policy{Name: "a", Kind: Idle, Gap: 1, Limit: Count(1)}),
			"policies[0].limit: kind idle has no limit"},
		{"concurrent with period", one(Policy{Name: "a", Kind: Concurrent, Limit: Count(1), Period: second}),
			"policies[0].period: kind concurrent has no period"},
		{"window", one(Policy{Name: "a", Limit: Count(1), Period: second, Window: "slide"}),
			`policies[0].window: unknown window "slide"`},
		{"calendar slides", one(Policy{Name: "a", Limit: Count(1), Period: month, Window: Sliding}),
			"policies[0].window: a period of the calendar needs window fixed"},
		{"burst", one(Policy{Name: "a", Limit: Count(1), Period: second, Burst: Count(2)}),
			"policies[0].burst: only window gcra has a burst"},
		{"no burst", one(Policy{Name: "a", Limit: Count(1), Period: second, Window: GCRA, Burst: Count(0)}),
			"policies[0].burst: a burst of nothing"},
		{"zone", one(Policy{Name: "a", Limit: Count(1), Period: month, TimeZone: "Mars/Base"}),
			`policies[0].time_zone: "Mars/Base" is not a time zone`},
		{"zone without calendar", one(Policy{Name: "a", Limit: Count(1), Period: second, TimeZone: "UTC"}),
			"policies[0].time_zone: only periods of the calendar"},
		{"over", one(Policy{Name: "a", Limit: Count(1), Period: second, Over: "drop"}),
			`policies[0].over: unknown over "drop"`},
		{"stamp for a place", one(Policy{Name: "a", Kind: Concurrent, Limit: Count(1), Over: OverStamp}),
			"policies[0].over: a stamp cannot pay for kind concurrent (write over: delay, or refuse)"},
		{"stamp for bytes", one(Policy{Name: "a", Kind: Volume, Limit: Bytes(1), Period: second, Over: OverStamp}),
			"policies[0].over: a stamp cannot pay for kind volume: the bytes are known only afterwards"},
		{"an exact gap", one(Policy{Name: "a", Kind: Idle, Gap: weir.Duration(second.Length), Farm: FarmExact}),
			"policies[0].farm: kind idle cannot be counted exactly"},
		{"an exact sliding window on loss", one(Policy{Name: "a", Limit: Count(1), Period: second, Window: Sliding,
			Farm: FarmExact, OnLoss: LossShare}),
			"policies[0].on_loss: a node cannot count window sliding without the engine that counts it"},
		{"exact bytes", one(Policy{Name: "a", Kind: Volume, Limit: Bytes(1), Period: second, Farm: FarmExact}),
			"policies[0].farm: kind volume cannot be counted exactly: bytes have flowed when they are counted"},
		{"almost a stamp", one(Policy{Name: "a", Limit: Count(1), Period: second, Over: "stamps"}),
			`policies[0].over: unknown over "stamps" (did you mean "stamp"?)`},
		{"waiting", one(delayed(perSecond(1), MaxWaiting+1, time.Second)), "policies[0].delay.max: must lie between"},
		{"wait", one(delayed(perSecond(1), 1, MaxWait+1)), "policies[0].delay.max_wait: must lie between"},
		{"method", one(Policy{Name: "a", Limit: Count(1), Period: second, Match: Match{Methods: []string{"get"}}}),
			"policies[0].match.methods[0]"},
		{"host", one(Policy{Name: "a", Limit: Count(1), Period: second, Match: Match{Hosts: []string{"a.*.b"}}}),
			"policies[0].match.hosts[0]"},
		{"path", one(Policy{Name: "a", Limit: Count(1), Period: second, Match: Match{Paths: []string{"/a", "v1"}}}),
			"policies[0].match.paths[1]"},
		{"path stars",
			one(Policy{Name: "a", Limit: Count(1), Period: second, Match: Match{Paths: []string{"/a/**/b"}}}),
			"** in the middle"},
		{"path dots", one(Policy{Name: "a", Limit: Count(1), Period: second, Match: Match{Paths: []string{"/a/../b"}}}),
			"never matches"},
		{"plan", one(Policy{Name: "a", Limit: Count(1), Period: second, Match: Match{Plans: []string{"gold"}}}),
			`no account is on plan "gold"`},
		{"override", Options{Policies: []Policy{perSecond(1)},
			Overrides: map[string]map[string]Override{"acme": {"x": {}}}}, `overrides.acme.x: there is no policy "x"`},
		{"plan override", Options{Policies: []Policy{perSecond(1)},
			Plans: map[string]map[string]Override{"gold": {"per-second": {Limit: Bytes(1)}}}},
			"plans.gold.per-second.limit: 1B is a size"},
		{"on missing", Options{Policies: []Policy{perSecond(1)}, OnMissing: "ignore"},
			`on_missing: unknown on_missing "ignore"`},
		{"accounts", Options{Policies: []Policy{perSecond(1)}, MaxAccounts: MaxAccountsCap + 1},
			"max_accounts: must lie between"},
		{"no new accounts", Options{Policies: []Policy{perSecond(1)}, NewAccounts: weir.Rate{Per: time.Hour}},
			"new_accounts: 0/h is out of bounds"},
		{"new accounts", Options{Policies: []Policy{perSecond(1)},
			NewAccounts: weir.Rate{Count: MaxAccountsCap + 1, Per: time.Hour}},
			"new_accounts: 100000001/h is out of bounds"},
		{"new soon", Options{Policies: []Policy{perSecond(1)}, NewAccounts: weir.Rate{Count: 1, Per: time.Second - 1}},
			"new_accounts: 1/"},
		{"new late", Options{Policies: []Policy{perSecond(1)}, NewAccounts: weir.Rate{Count: 1, Per: MaxNewPer + 1}},
			"accounts per 1s to 1d"},
		{"v4", Options{Policies: []Policy{perSecond(1)}, SourceV4: 33}, "source_v4"},
		{"v6", Options{Policies: []Policy{perSecond(1)}, SourceV6: 129}, "source_v6"},
	} {
		err := c.o.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
		if _, err := New(c.o); err == nil {
			t.Errorf("%s: New took it", c.name)
		}
	}
	if err := one(Policy{Name: "a", Limit: Count(1),
		Period: weir.Period{Length: time.Millisecond}}).Validate(); err != nil {
		t.Errorf("the shortest period: %v", err)
	}
	bad := one(Policy{Name: "a b"}, Policy{Name: "c", Over: "x"})
	if errs := weir.FieldErrors(bad.Validate()); len(errs) != 6 {
		t.Errorf("%d mistakes, want 6: %v", len(errs), errs)
	}
}

func TestStampsAreTakenByWhatCountsRequests(t *testing.T) {
	for name, p := range eachWindow() {
		if err := one(p).Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	month := Policy{Name: "a", Limit: Count(1), Period: weir.Period{Calendar: weir.Month}, Over: OverStamp}
	if err := one(month).Validate(); err != nil {
		t.Error(err)
	}
}

func TestAmount(t *testing.T) {
	for text, want := range map[string]Amount{"5": Count(5), "1e6": Count(1e6), "1_000_000": Count(1e6),
		"2.5k": Count(2500), "10MB": Bytes(10e6), "0": Count(0)} {
		var got Amount
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"-1": "-1 is below zero", "1.5": "neither a number nor a size",
		"": "neither", "1e-3": "neither"} {
		if err := new(Amount).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzAmount(f *testing.F) {
	for _, s := range []string{"5", "10MB", "-1", "1e3", "99999999999999999999", "1.5GiB", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var a, again Amount
		if a.UnmarshalText([]byte(s)) != nil {
			return
		}
		if a.N < 0 {
			t.Fatalf("%q is %d", s, a.N)
		}
		if err := again.UnmarshalText([]byte(a.String())); err != nil || again != a {
			t.Fatalf("%q is %v, written %s, read again %v (%v)", s, a, a, again, err)
		}
	})
}
