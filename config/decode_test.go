package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"limit", "period", "max_wait", "on_error", "data"}
	for got, want := range map[string]string{
		"lmit": "limit", "limits": "limit", "liimt": "limit", "LIMIT": "limit", "maxWait": "max_wait", "max-wait": "max_wait", "onerror": "on_error",
		"perod": "period", "date": "data", "colour": "", "x": "", "": "", "time": "",
		strings.Repeat("limit", 1000): "",
	} {
		if close := nearest(got, known); close != want {
			t.Errorf("%q: %q; want %q", got, close, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "", 3}, {"", "abc", 3}, {"abc", "acb", 1}, {"abc", "xbc", 1}, {"abc", "ab", 1}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s, %s: %d", c.a, c.b, got)
		}
	}
}

func TestLocate(t *testing.T) {
	root, _, err := tree(`a: {b: [x, {c: 1}]}
o:
  acme: {n: 1}
  acme.com: {n: 2}
  "x[0]": {n: 3}
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path  string
		at    position
		exact bool
	}{
		{"", position{1, 1}, true},
		{"a", position{1, 1}, true},
		{"a.b", position{1, 5}, true},
		{"a.b[0]", position{1, 9}, true},
		{"a.b[1].c", position{1, 16}, true},
		{"a.b[1].d", position{1, 12}, false},
		{"a.b[7]", position{1, 5}, false},
		{"a.b[-1]", position{1, 5}, false},
		{"a.b[99999999999999999999]", position{1, 5}, false},
		{"a.b[0", position{1, 5}, false},
		{"a.z", position{1, 1}, false},
		{"z", position{1, 1}, false},
		{"o.acme.n", position{3, 13}, true},
		{"o.acme.com.n", position{4, 17}, true},
		{"o.x[0].n", position{5, 15}, true},
		{"ab", position{1, 1}, false},
	} {
		if p := locate(root, c.path); p.at != c.at || p.exact != c.exact {
			t.Errorf("%q: %v, %v; want %v, %v", c.path, p.at, p.exact, c.at, c.exact)
		}
	}
}

// The option types use few kinds of numbers; others may come.
func TestIntegersHaveTheirRange(t *testing.T) {
	for _, c := range []struct {
		text string
		want string
	}{
		{"127", ""}, {"-128", ""}, {"0", ""}, {"128", "too large"}, {"007", "write 7"}, {"+7", "write 7"}, {"", "not a whole number"}, {"1'000", "not a whole number"},
		{"1,0", "write 10"}, {"-0", ""}, {"x.5", "write it in digits"},
	} {
		d := newDecoder(".", 1)
		var v struct {
			N int8 `yaml:"n"`
		}
		d.value(&node{kind: mapping, pairs: []pair{{key: "n", value: &node{text: c.text}}}}, reflect.ValueOf(&v).Elem())
		if got := d.errs.Error(); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: %s", c.text, got)
		}
	}
}
