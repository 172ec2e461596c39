package app

import (
	"fmt"
	"testing"
)

// What is under way of a user is bounded, and nothing stays of it.
func TestUnderWay(t *testing.T) {
	t.Parallel()
	u := newUnderWay()
	yes := func([]string) (bool, error) { return true, nil }
	var many []string
	for i := range maxUnderWay {
		many = append(many, fmt.Sprint(i))
	}
	if ok, err := u.judge("ann", many, yes); !ok || err != nil {
		t.Error(ok, err)
	}
	if ok, _ := u.judge("ann", many[:1], yes); ok {
		t.Error("one more")
	}
	u.over("ann", many[1:])
	if ok, err := u.judge("ann", []string{"x"}, func(before []string) (bool, error) {
		return false, fmt.Errorf("under way are %q", before)
	}); !ok || err == nil || err.Error() != `under way are ["0"]` {
		t.Error(ok, err)
	}
	u.over("ann", []string{"0", "x"})
	for i := range u.shards {
		if len(u.shards[i].of) > 0 {
			t.Errorf("%v is left", u.shards[i].of)
		}
	}
}
