package config

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A figure is a key whose value is a number, a length of time, a size or another amount.
type figure struct {
	path  string                // with [] for a list and NAME for a key that people choose
	text  func(v string) string // a configuration that has nothing else
	at    int                   // the column of the value in it
	value func(c Config) reflect.Value
}

// figuresOf returns the keys below a type. before and after are what stands around its value in the text.
func figuresOf(t reflect.Type, path, before, after string, value func(c Config) reflect.Value) (all []figure) {
	below := func(t reflect.Type, path, before, after string, step func(v reflect.Value) reflect.Value) {
		all = append(all, figuresOf(t, path, before, after, func(c Config) reflect.Value { return step(value(c)) })...)
	}
	isText := reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	switch {
	case t.Kind() == reflect.Pointer:
		below(t.Elem(), path, before, after, reflect.Value.Elem)
	case t.Kind() == reflect.Slice:
		below(t.Elem(), path+"[]", before+"[", "]"+after, func(v reflect.Value) reflect.Value { return v.Index(0) })
	case t.Kind() == reflect.Map:
		below(t.Elem(), path+".NAME", before+"{NAME: ", "}"+after,
			func(v reflect.Value) reflect.Value { return v.MapIndex(v.MapKeys()[0]) })
	case t.Kind() == reflect.Struct && !isText:
		for _, f := range fieldsOf(t) {
			below(f.t, strings.TrimPrefix(path+"."+f.name, "."), before+"{"+f.name+": ", "}"+after,
				func(v reflect.Value) reflect.Value { return v.Field(f.index) })
		}
	case isText || t.Kind() != reflect.String && t.Kind() != reflect.Bool:
		all = append(all, figure{path, func(v string) string { return before + v + after }, len(before) + 1, value})
	}
	return all
}

// zeros are the keys that take a 0, and what it means there.
var zeros = map[string]string{
	"http[].capacity.pool_wait":                      "a stamp is asked for whenever no place is free",
	"http[].routes[].capacity.pool_wait":             "the same",
	"http[].upstream.retries.body":                   "no body is kept",
	"http[].routes[].upstream.retries.body":          "no body is kept",
	"http[].upstream.retries.budget":                 "nothing is tried again",
	"http[].routes[].upstream.retries.budget":        "nothing is tried again",
	"rls[].max_wait":                                 "nothing is held",
	"smtp[].held.remind":                             "nobody is reminded",
	"smtp[].stamps.double_every":                     "nothing is doubled",
	"smtp[].stamps.schedule[].load":                  "from no load on",
	"throttles.NAME.mail.flagged.max_mslack":         "nothing passes at once",
	"throttles.NAME.mail.flagged.max_slack":          "nothing passes at once",
	"throttles.NAME.mail.flagged.resume":             "never",
	"throttles.NAME.mail.flagged.stop":               "nobody may wait",
	"throttles.NAME.mail.flagged.working_set":        "there is none",
	"throttles.NAME.mail.max_mslack":                 "nothing passes at once",
	"throttles.NAME.mail.max_slack":                  "nothing passes at once",
	"throttles.NAME.mail.resume":                     "never",
	"throttles.NAME.mail.stop":                       "nobody may wait",
	"throttles.NAME.mail.users.NAME.max_mslack":      "nothing passes at once",
	"throttles.NAME.mail.users.NAME.max_slack":       "nothing passes at once",
	"throttles.NAME.mail.users.NAME.resume":          "never",
	"throttles.NAME.mail.users.NAME.stop":            "nobody may wait",
	"throttles.NAME.mail.users.NAME.working_set":     "there is none",
	"throttles.NAME.mail.working_set":                "there is none",
	"throttles.NAME.quota.plans.NAME.NAME.burst":     "refused once there is a policy of that name",
	"throttles.NAME.quota.overrides.NAME.NAME.burst": "the same",
	"throttles.NAME.quota.plans.NAME.NAME.limit":     "nothing is allowed",
	"throttles.NAME.quota.overrides.NAME.NAME.limit": "nothing is allowed",
	"throttles.NAME.quota.policies[].limit":          "nothing is allowed",
	"throttles.NAME.stamp.double_every":              "nothing is doubled",
	"throttles.NAME.stamp.from_load":                 "stamps are always asked for",
	"throttles.NAME.stamp.schedule[].load":           "from no load on",
	"throttles.NAME.stamp.schedule[].work":           "nothing is asked for",
	"traces.sample":                                  "no request",
}

// A 0 is refused where it stands, with what to write instead, or it is a 0 after everything else was filled in.
func TestZeroIsNeverADefault(t *testing.T) {
	keys := figuresOf(reflect.TypeFor[Config](), "", "", "", func(c Config) reflect.Value { return reflect.ValueOf(c) })
	if len(keys) < 150 {
		t.Fatalf("only %d keys", len(keys))
	}
	taken := map[string]bool{}
	for _, key := range keys {
		for _, zero := range []string{"0", "0s", "0%", "0B", "0/s"} {
			if !refusesZero(t, key, zero) {
				taken[key.path] = true
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(taken)), slices.Sorted(maps.Keys(zeros)); !slices.Equal(got, want) {
		t.Errorf("keys that take 0:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// refusesZero reports whether a 0 is refused as the value of a key. One that is not has to stay a 0.
func refusesZero(t *testing.T, key figure, zero string) bool {
	text := key.text(zero)
	_, err := Parse("f.yaml", []byte(text))
	mistakes, _ := err.(Errors)
	for _, e := range mistakes {
		if e.Line == 1 && e.Column == key.at {
			if e.Hint == "" {
				t.Errorf("%s: no hint: %v", key.path, e)
			}
			return true
		}
	}
	root, size, broken := tree(text)
	if broken != nil {
		t.Fatal(text, broken)
	}
	var c Config
	d := newDecoder(".", size)
	d.value(root, reflect.ValueOf(&c).Elem())
	if err := d.errs; len(err) > 0 {
		t.Errorf("%s: %v", text, err)
		return true
	}
	full := key.value(c.WithDefaults())
	for full.Kind() == reflect.Pointer {
		full = full.Elem()
	}
	if s, ok := full.Interface().(fmt.Stringer); !full.IsZero() && !(ok && strings.HasPrefix(s.String(), "0")) {
		t.Errorf("%s: the written 0 becomes %v", text, full)
	}
	return false
}
