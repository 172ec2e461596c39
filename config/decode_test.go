package config

import (
	"reflect"
	"strings"
	"testing"

	"weir/internal/yamltree"
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
		path         string
		line, column int
		exact        bool
	}{
		{"", 1, 1, true},
		{"a", 1, 1, true},
		{"a.b", 1, 5, true},
		{"a.b[0]", 1, 9, true},
		{"a.b[1].c", 1, 16, true},
		{"a.b[1].d", 1, 12, false},
		{"a.b[7]", 1, 5, false},
		{"a.b[-1]", 1, 5, false},
		{"a.b[99999999999999999999]", 1, 5, false},
		{"a.b[0", 1, 5, false},
		{"a.z", 1, 1, false},
		{"z", 1, 1, false},
		{"o.acme.n", 3, 13, true},
		{"o.acme.com.n", 4, 17, true},
		{"o.x[0].n", 5, 15, true},
		{"ab", 1, 1, false},
	} {
		at := yamltree.Position{Line: c.line, Column: c.column}
		if p := locate(root, c.path); p.at != at || p.exact != c.exact {
			t.Errorf("%q: %v, %v; want %v, %v", c.path, p.at, p.exact, at, c.exact)
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
		d.value(&yamltree.Node{Kind: yamltree.Mapping,
			Pairs: []yamltree.Pair{{Key: "n", Value: &yamltree.Node{Text: c.text}}}}, reflect.ValueOf(&v).Elem())
		if got := d.errs.Error(); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: %s", c.text, got)
		}
	}
}
