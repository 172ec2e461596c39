package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/farm"
)

// TestRuleIDs: a rule is called the same whether it is known already or not, and not more than so many are known.
func TestRuleIDs(t *testing.T) {
	p, err := Open("redis://127.0.0.1:1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := func(n int) *farm.Want {
		return &farm.Want{Rule: fmt.Sprint("rule ", n), Way: farm.Fixed, Period: time.Second}
	}
	first, all := p.id(want(0)), map[string]bool{}
	for n := range maxIDs + 1 {
		all[p.id(want(n))] = true
	}
	known := 0
	p.ids.Range(func(any, any) bool { known++; return true })
	if len(all) != maxIDs+1 || known > maxIDs || p.id(want(0)) != first {
		t.Errorf("%d names, %d known, the first is %x and was %x", len(all), known, p.id(want(0)), first)
	}
	longer := want(0)
	longer.Period *= 2
	if p.id(longer) == first {
		t.Error("a rule that counts another way has the same name")
	}
}

// TestMarks: what cannot be a mark of the script is not sent to it.
func TestMarks(t *testing.T) {
	good := string(number(number(number(nil, 5), 7), farm.MaxNumber))
	if err := errors.Join(checkMark(""), checkMark(good), checkMark(good+good)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"1 2 3", good[:16], good + "x", good[:16] + string(number(nil, -1)),
		good[:16] + string(number(nil, farm.MaxNumber+2)), good[:16] + strings.Repeat("\xff", 8)} {
		if err := checkMark(bad); !errors.Is(err, farm.ErrAsk) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Names of keys are the same whether they are known or worked out, also when more keys are asked for than are known.
func TestNamesOfKeys(t *testing.T) {
	p, err := Open("redis://127.0.0.1:1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	type place struct {
		names [2]string
		tag   int
	}
	first := map[string]place{}
	for range 3 {
		for i := range 2*keptNames + 1 {
			key := fmt.Sprint("plans/account-", i)
			var at place
			at.names, at.tag = p.keys(key)
			if before, known := first[key]; known && before != at {
				t.Fatalf("%s is kept as %v, and was as %v", key, at, before)
			}
			first[key] = at
		}
	}
	seen := map[string]bool{}
	for key, at := range first {
		if seen[at.names[0]] {
			t.Errorf("%s has the name of another key", key)
		}
		seen[at.names[0]] = true
	}
}
