package weir

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"limit", "period", "max_wait", "on_error", "data"}
	for got, want := range map[string]string{
		"lmit": "limit", "limits": "limit", "liimt": "limit", "LIMIT": "limit", "maxWait": "max_wait",
		"max-wait": "max_wait", "onerror": "on_error",
		"perod": "period", "date": "data", "colour": "", "x": "", "": "", "time": "",
		strings.Repeat("limit", 1000): "",
	} {
		if close := Nearest(got, known...); close != want {
			t.Errorf("%q: %q; want %q", got, close, want)
		}
	}
}

func TestSuggest(t *testing.T) {
	for got, want := range map[string]string{"fist": `did you mean "first"?`, "least": "one of first, in-turn"} {
		if hint := Suggest(got, "", "first", "in-turn"); hint != want {
			t.Errorf("%s: %s; want %s", got, hint, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "", 3}, {"", "abc", 3}, {"abc", "acb", 1}, {"abc", "xbc", 1},
		{"abc", "ab", 1}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s, %s: %d", c.a, c.b, got)
		}
	}
}
