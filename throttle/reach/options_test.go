package reach

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/identify"
)

func TestDefaults(t *testing.T) {
	o := Options{}.WithDefaults()
	want := Options{
		Windows: []Window{Hour, Day, Week}, Against: AgainstHistory, Floor: 50, Newcomers: 10_000, Over: HoldNew,
		Withheld: 500, WithheldSize: 50_000_000,
		Dynamic: Dynamic{From: FromCohort, Quantile: 0.999, Times: 2, Learn: weir.Duration(7 * day)},
		Limit:   weir.Rate{Count: 10, Per: time.Hour}, For: weir.Duration(time.Hour), Until: 0.5,
		Structure: HyperLogLog, Cells: 4096, Count: InverseProbability,
	}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("%+v", o)
	}
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
	if !reflect.DeepEqual(o.WithDefaults(), o) {
		t.Error("defaults of defaults")
	}
	if r := rules(t, Options{}); !reflect.DeepEqual(r.Options(), o) {
		t.Errorf("%+v", r.Options())
	}
	if floor := (Options{Threshold: Threshold{Count: 20}}).WithDefaults().Floor; floor != 20 {
		t.Error(floor)
	}
}

func TestNeedsKnown(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want bool
	}{
		{Options{}, true}, {Options{Over: KnownOnly}, true}, {Options{Over: Block}, false},
		{Options{Over: Flag, Known: true}, true},
		{Options{Over: KnownOnly, Structure: Bloom}, false},
	} {
		if rules(t, c.o).NeedsKnown() != c.want {
			t.Errorf("%+v", c.o)
		}
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	many := make([]string, weir.MaxListed+1)
	for i := range many {
		many[i] = fmt.Sprint("d", i, ".example")
	}
	share := func(s weir.Share) Options { return Options{Threshold: Threshold{Share: s}} }
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Windows: []Window{Hour, 3}}, "windows[1]: unknown window 3 (one of hour, day, week)"},
		{Options{Windows: []Window{Day, Hour, Day}}, "windows[2]: day is listed twice"},
		{Options{Threshold: Threshold{Share: 1, Count: 1}}, "threshold: a share and a count at once"},
		{share(1001), "threshold: 100100% is out of bounds (at most 100000%)"},
		{share(-1), "threshold: -100% is out of bounds"},
		{Options{Threshold: Threshold{Count: MaxThreshold + 1}},
			"threshold: 1000001 is out of bounds (between 1 and 1000000)"},
		{Options{Threshold: Threshold{Count: 20}, Floor: 30},
			"floor: 30 is above the threshold, which is never reached (at most 20)"},
		{Options{Against: "before"}, `against: unknown against "before" (one of history, previous)`},
		{Options{Against: AgainstPrevious},
			"against: a threshold of dynamic is not a share (write one in percent: threshold: 200%)"},
		{Options{Floor: -1}, "floor: -1 is out of bounds"},
		{Options{Floor: MaxThreshold + 1}, "floor: 1000001 is out of bounds"},
		{Options{Newcomers: MaxNewcomers + 1}, "newcomers: 10000001 is out of bounds"},
		{Options{Dynamic: Dynamic{From: "median"}}, `dynamic.from: unknown from "median" (one of cohort, average)`},
		{Options{Dynamic: Dynamic{Quantile: 0.4}}, "dynamic.quantile: 40% is out of bounds (between 50% and 99.99%)"},
		{Options{Dynamic: Dynamic{Quantile: 1}}, "dynamic.quantile: 100% is out of bounds"},
		{Options{Dynamic: Dynamic{Times: 0.5}}, "dynamic.times: 0.5 is out of bounds (between 1 and 1000)"},
		{Options{Dynamic: Dynamic{Learn: weir.Duration(time.Minute)}},
			"dynamic.learn: 1m is out of bounds (between 1h and 365d)"},
		{Options{Over: "hold"}, `over: unknown over "hold"`},
		{Options{Over: "known_only"}, `over: unknown over "known_only" (did you mean "known-only"?)`},
		{Options{Limit: weir.Rate{Per: time.Hour}},
			"limit: at this rate no message is ever sent (write 10/h, or over: block)"},
		{Options{Limit: weir.Rate{Count: 2e6, Per: time.Hour}}, "limit: 2000000/h is too fast"},
		{Options{Limit: weir.Rate{Count: 1, Per: time.Millisecond}}, "limit: 1/1ms is out of bounds"},
		{Options{For: weir.Duration(time.Second)}, "for: 1s is out of bounds (between 1m and 365d)"},
		{Options{For: weir.Duration(366 * day)}, "for: 366d is out of bounds"},
		{Options{Until: 1.1}, "until: 110% is out of bounds"},
		{Options{Identifier: []Identifier{"adress"}},
			`identifier[0]: unknown identifier "adress" (did you mean "address"?)`},
		{Options{Identifier: []Identifier{ByName, ByName}}, "identifier[1]: name is listed twice"},
		{Options{Identifier: []Identifier{ByAddress, ByDevice}}, "identifier: a recipient is an address or a device"},
		{Options{Same: []identify.AliasRule{{}}}, "same[0].domains: no domains"},
		{Options{Country: "Germany"}, `country: "Germany" is not the code of a country (write +49)`},
		{Options{Domains: many}, "domains: 1001 are too many (at most 1000)"},
		{Options{Domains: []string{"example.org", "Example.ORG"}},
			`domains[1]: "Example.ORG" is listed twice (it is domains[0] already)`},
		{Options{Domains: []string{"*.example.org"}},
			`domains[0]: "*.example.org" is not a domain (write .example.org)`},
		{Options{Internal: []string{"ann@example.org"}}, `internal[0]: "ann@example.org" is an address`},
		{Options{Internal: []string{"."}}, "internal[0]: a domain is missing"},
		{Options{Internal: []string{"example..org"}}, `internal[0]: "example..org" is not a domain`},
		{Options{Internal: many}, "internal: 1001 are too many"},
		{Options{Exempt: []string{""}}, "exempt[0]: a name is missing"},
		{Options{Exempt: []string{"ann smith"}}, `exempt[0]: "ann smith" is not a name`},
		{Options{Exempt: []string{strings.Repeat("a", weir.MaxName+1)}}, "is too long (at most 320 bytes)"},
		{Options{Exempt: many}, "exempt: 1001 are too many"},
		{Options{Structure: "set"}, `structure: unknown structure "set" (one of hyperloglog, bloom)`},
		{Options{Cells: 1000}, "cells: 1000 is not a number of cells (a power of two between 256 and 65536)"},
		{Options{Cells: 128}, "cells: 128 is not a number of cells"},
		{Options{Cells: 131072}, "cells: 131072 is not a number of cells"},
		{Options{Count: "hip"}, `count: unknown count "hip"`},
		{Options{Count: Cells, Structure: Bloom}, "count: a Bloom filter has no cells to count by cells"},
	} {
		if err := c.o.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
		if _, err := c.o.Rules(); err == nil {
			t.Errorf("rules of %+v", c.o)
		}
	}
	bad := Options{Floor: -1, Cells: 3, Over: "x", Dynamic: Dynamic{Times: -1}, Exempt: []string{"", " "}}
	if errs := weir.FieldErrors(bad.Validate()); len(errs) != 6 {
		t.Errorf("%d mistakes, want 6: %v", len(errs), errs)
	}
	good := Options{Exempt: many[:weir.MaxListed], Domains: many[:weir.MaxListed], Internal: many[:weir.MaxListed],
		Country:    "+49",
		Identifier: []Identifier{ByName, ByPhone}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

func TestThreshold(t *testing.T) {
	for text, want := range map[string]Threshold{"dynamic": {}, "200%": {Share: 2}, " 0.5% ": {Share: 0.005},
		"100": {Count: 100}} {
		var got Threshold
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		again, err := got.MarshalText()
		if err != nil || string(again) != strings.TrimSpace(text) {
			t.Errorf("%q becomes %q", text, again)
		}
	}
	for text, want := range map[string]string{
		"":         `"" is not a threshold (write dynamic, 200% or 100)`,
		"0":        "a threshold of 0 flags everybody",
		"0%":       "a threshold of 0 flags everybody",
		"-5":       `"-5" is not a threshold`,
		"dynamics": `(did you mean "dynamic"?)`,
		"1e3":      `"1e3" is not a threshold`,
		"x%":       `"x%" is not a share`,
	} {
		got := Threshold{Count: 7}
		if err := got.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) ||
			got.Count != 7 {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]Times{"2": 2, "1.5": 1.5} {
		var got Times
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want || got.String() != text {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if again, _ := got.MarshalText(); string(again) != text {
			t.Errorf("%q becomes %q", text, again)
		}
	}
	for _, text := range []string{"", "0", "inf", "1e9", "-1", "200%", "x"} {
		if new(Times).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is read", text)
		}
	}
}

func TestWindowText(t *testing.T) {
	for text, want := range map[string]Window{"hour": Hour, "day": Day, "week": Week, "1h": Hour, "60m": Hour,
		"24h": Day, "1d": Day, "7d": Week, "1w": Week} {
		var got Window
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"": "one of", "hours": `did you mean "hour"?`,
		"2d": "one of hour, day, week", "month": "one of"} {
		if err := new(Window).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, w := range Windows {
		b, err := w.MarshalText()
		if err != nil || string(b) != w.String() {
			t.Error(w, string(b), err)
		}
	}
	if Hour.Length() != time.Hour || Day.Length() != day || Week.Length() != 7*day ||
		Window(9).String() != "window(9)" {
		t.Error("lengths")
	}
}

func FuzzText(f *testing.F) {
	for _, text := range []string{"dynamic", "200%", "100", "hour", "7d", "1.5", "0", "-1%", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := ParseThreshold(text); err == nil {
			if b, err := ParseThreshold(a.String()); err != nil || a.Count != b.Count ||
				a.Share.String() != b.Share.String() {
				t.Errorf("%q is %s, which is %s: %v", text, a, b, err)
			}
		}
		var w, v Window
		if w.UnmarshalText([]byte(text)) == nil && (v.UnmarshalText([]byte(w.String())) != nil || v != w) {
			t.Errorf("%q is %s", text, w)
		}
		var x, y Times
		if x.UnmarshalText([]byte(text)) == nil && (y.UnmarshalText([]byte(x.String())) != nil || x != y) {
			t.Errorf("%q is %s", text, x)
		}
	})
}

func TestRecipient(t *testing.T) {
	r := rules(t, Options{
		Domains:  []string{"gmail.com", ".Big.example", "münchen.example", "other.example"},
		Internal: []string{".in.big.example"},
		Same: []identify.AliasRule{{Domains: []string{"other.example", "alias.example"}, Tags: "-",
			As: "one.example"}},
		Exempt: []string{"bulk"},
	})
	for address, want := range map[string]struct {
		normal  string
		counted bool
	}{
		"A.nn+shop@GoogleMail.com":           {"ann@gmail.com", true},
		"Ann <ann@big.example>":              {"ann@big.example", true},
		"ann@eu.big.example":                 {"ann@eu.big.example", true},
		"ann@notbig.example":                 {"ann@notbig.example", false},
		"ann@in.big.example":                 {"ann@in.big.example", false},
		"ann@a.in.big.example":               {"ann@a.in.big.example", false},
		"ann@xn--mnchen-3ya.example":         {"ann@xn--mnchen-3ya.example", true},
		"ann@MÜNCHEN.example":                {"ann@xn--mnchen-3ya.example", true},
		"ann-x@alias.example":                {"ann@one.example", true}, // the same people as in other.example
		"ann@elsewhere.example":              {"ann@elsewhere.example", false},
		"v%gmail.com@elsewhere.example":      {"v%gmail.com@elsewhere.example", true}, // whoever gets it
		"v%elsewhere.example@in.big.example": {"v%elsewhere.example@in.big.example", true},
		" No Address ":                       {"no address", true},
		// Neither a tag nor an internal domain says who gets what is passed on.
		"v+z%victim.example@in.example": {"v+z%victim.example@in.example", true},
		"x+victim.example!y@in.example": {"x+victim.example!y@in.example", true},
		"":                              {"", true},
	} {
		normal, counted := r.Recipient(address)
		if normal != want.normal || counted != want.counted {
			t.Errorf("%q: %q, %v, want %+v", address, normal, counted, want)
		}
	}
	if !r.Exempt("bulk") || !r.Exempt("Bulk") || r.Exempt("") {
		t.Error("exempt")
	}
	if _, counted := rules(t, Options{}).Recipient("ann@example.org"); !counted {
		t.Error("all are counted by default")
	}
}

func TestRecipients(t *testing.T) {
	general := Options{Country: "+49", Internal: []string{"in.example"}}
	by := func(ids ...Identifier) Options { o := general; o.Identifier = ids; return o }
	for _, c := range []struct {
		o    Options
		kind string
		m    weir.Message
		want string // joined by ", "; | is together
	}{
		{general, "mail", weir.Message{Recipients: []string{"B@x.example", "a@in.example", "b@X.example",
			"c@x.example"}}, "b@x.example, c@x.example"},
		{general, "mail", weir.Message{Recipients: []string{"a@in.example"}}, ""},
		{general, "mail", weir.Message{Name: "Ann", Phone: "1"}, "! the address of the recipient is missing"},
		{general, "sms", weir.Message{Phone: "030 123456"}, "+4930123456"},
		{general, "mms", weir.Message{Recipients: []string{"+49 30 123456", "030-123456", "4930123456"}},
			"+4930123456, 4930123456"},
		{general, "sms", weir.Message{Phone: "030 123456", Recipients: []string{"+49 30 123456", "030 123457"}},
			"+4930123456, +4930123457"},
		{general, "sms", weir.Message{Recipients: []string{"0049 (0)171 5550100", "0049 171 5550100"}},
			"+491715550100"},
		{Options{}, "sms", weir.Message{Recipients: []string{"0171 5550100", "0171-555-0100", "0171 5550101"}},
			"01715550100, 01715550101"},
		{general, "sms", weir.Message{Recipients: []string{"030 123456", "123"}}, "! not a telephone number: \"123\""},
		{general, "mms", weir.Message{Recipients: []string{"abc"}}, "! not a telephone number"},
		{general, "sms", weir.Message{Phone: "+", Recipients: []string{"030 123456"}}, "! not a telephone number"},
		{by(ByName, ByPhone), "sms", weir.Message{Name: "Ann", Phone: "123"}, "! not a telephone number"},
		{general, "social", weir.Message{Name: "Cid", Recipients: []string{"Ann"}}, "ann, cid"},
		{general, "sms", weir.Message{}, "! the phone of the recipient is missing"},
		{general, "social", weir.Message{Name: " Ann  SMITH"}, "ann smith"},
		{general, "social", weir.Message{Recipients: []string{"Ann", "ann", "Bob"}}, "ann, bob"},
		{general, "device", weir.Message{Recipients: []string{"02-00-5E-00-53-01", "0200.5e00.5301"}},
			"02:00:5e:00:53:01"},
		{general, "device", weir.Message{Name: "x"}, "! the device of the recipient is missing"},
		{general, "other", weir.Message{Recipients: []string{"Ann@x.example"}}, "ann@x.example"},
		{by(ByName, ByPhone), "sms", weir.Message{Name: "Ann", Phone: "030 123456"}, "ann|+4930123456"},
		{by(ByName, ByPhone), "sms", weir.Message{Name: "Ann", Recipients: []string{"030 123456", "030 123457"}},
			"ann|+4930123456, ann|+4930123457"},
		{by(ByName, ByPhone), "sms", weir.Message{Recipients: []string{"030 123456"}},
			"! the phone of the recipient is missing"},
		{by(ByName, ByAddress), "mail", weir.Message{Name: "Ann", Recipients: []string{"A@x.example", "a@in.example"}},
			"ann|a@x.example"},
		{by(ByName, ByAddress), "mail", weir.Message{Recipients: []string{"A@x.example"}},
			"! the name of the recipient is missing"},
		{by(ByPhone), "mail", weir.Message{Phone: "+4930123456", Recipients: []string{"A@x.example"}}, "+4930123456"},
	} {
		got, err := rules(t, c.o).Recipients(c.kind, &c.m)
		text := strings.ReplaceAll(strings.Join(got, ", "), together, "|")
		if want, fails := strings.CutPrefix(c.want, "! "); fails {
			if !errors.Is(err, ErrNobody) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %+v: %q, %v", c.kind, c.m, text, err)
			}
		} else if err != nil || text != want {
			t.Errorf("%s %+v: %q, %v, want %q", c.kind, c.m, text, err, want)
		}
	}
}

func FuzzRecipients(f *testing.F) {
	all := []*Rules{
		rules(f, Options{}), rules(f, Options{Identifier: []Identifier{ByName, ByPhone}, Country: "+49"}),
		rules(f, Options{Identifier: []Identifier{ByAddress, ByName, ByPhone}, Domains: []string{".example.org"}}),
	}
	f.Add("sms", "ann@example.org", "030 123456", "Ann", "+49 30 1")
	f.Add("mail", "\"a@b\"@example.org", "", "", "")
	f.Add("device", "02:00:5e:00:53:01", "\x00", "\xff", "x")
	f.Fuzz(func(t *testing.T, kind, a, b, name, phone string) {
		for _, r := range all {
			got, err := r.Recipients(kind, &weir.Message{Recipients: []string{a, b}, Name: name, Phone: phone})
			if err != nil {
				continue
			}
			slices.Sort(got)
			if len(got) > 3 || len(slices.Compact(got)) != len(got) {
				t.Errorf("%q", got)
			}
		}
	})
}
