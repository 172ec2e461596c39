package config

import (
	"reflect"
	"strings"
	"testing"
)

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
		{"127", ""}, {"-128", ""}, {"0", ""}, {"128", "too large"}, {"007", "write 7"}, {"+7", "write 7"},
		{"", "not a whole number"}, {"1'000", "not a whole number"},
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
