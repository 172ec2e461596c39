package weir

import (
	"errors"
	"fmt"
	"testing"
)

func TestFieldErrorsFindsEveryMistake(t *testing.T) {
	a, b := &FieldError{Path: "a", Msg: "x"}, &FieldError{Path: "b", Msg: "y", Hint: "z"}
	plain := errors.New("plain")
	for _, c := range []struct {
		name string
		err  error
		want []string
	}{
		{"none", nil, nil},
		{"one", a, []string{"a: x"}},
		{"joined", errors.Join(a, b), []string{"a: x", "b: y (z)"}},
		{"joined twice", errors.Join(errors.Join(a, plain), b), []string{"a: x", "plain", "b: y (z)"}},
		{"wrapped", fmt.Errorf("while reading: %w", a), []string{"a: x"}},
		{"joined and wrapped", fmt.Errorf("while reading: %w", errors.Join(a, b)), []string{"a: x", "b: y (z)"}},
		{"wrapped without a mistake", fmt.Errorf("while reading: %w", plain), []string{"while reading: plain"}},
	} {
		got := FieldErrors(c.err)
		if len(got) != len(c.want) {
			t.Errorf("%s: %v", c.name, got)
			continue
		}
		for i := range got {
			if got[i].Error() != c.want[i] {
				t.Errorf("%s: %q; want %q", c.name, got[i], c.want[i])
			}
		}
	}
}

func TestUnder(t *testing.T) {
	for _, c := range []struct{ path, below, want string }{
		{"quota", "policies[0]", "quota.policies[0]"},
		{"quota", "", "quota"},
		{"policies", "[2].limit", "policies[2].limit"},
		{"", "limit", "limit"},
		{"", "", ""},
	} {
		original := &FieldError{Path: c.below, Msg: "m", Hint: "h"}
		got := FieldErrors(Under(c.path, original))
		if len(got) != 1 || got[0].Path != c.want || got[0].Msg != "m" || got[0].Hint != "h" {
			t.Errorf("%q under %q: %v", c.below, c.path, got)
		}
		if original.Path != c.below {
			t.Errorf("the original was changed to %q", original.Path)
		}
	}
	if Under("x", nil) != nil {
		t.Error("no mistake stays no mistake")
	}
}
