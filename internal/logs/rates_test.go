package logs

import (
	"fmt"
	"reflect"
	"testing"
)

func TestRates(t *testing.T) {
	var r Rates
	if got := r.Hidden(); len(got) != 0 {
		t.Error(got)
	}
	passed := map[string]int{}
	for second := range int64(3) {
		for range 15 {
			for name, most := range map[string]int{"a": 10, "b": 20} {
				if r.Pass(name, most, second) {
					passed[name]++
				}
			}
		}
	}
	if want := map[string]int{"a": 30, "b": 45}; !reflect.DeepEqual(passed, want) {
		t.Error(passed)
	}
	if got, want := r.Hidden(), map[string]int64{"a": 15}; !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
	// Names that clients can choose do not make it grow.
	for i := range 10 * maxNames {
		for range 3 {
			r.Pass(fmt.Sprint("name ", i), 1, 9)
		}
	}
	hidden := r.Hidden()
	all := int64(0)
	for _, n := range hidden {
		all += n
	}
	if len(hidden) > maxNames+1 || len(r.passed) > maxNames+1 || all != 10*maxNames*3-maxNames-1 {
		t.Errorf("%d names, %d in this second, %d lines hidden", len(hidden), len(r.passed), all)
	}
}
