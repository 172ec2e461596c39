package admission

import (
	"math"
	"strings"
	"testing"
	"time"

	"weir"
)

func TestDefaults(t *testing.T) {
	want := Options{Concurrent: 64, Pool: 0.1, Waiting: 1000, Line: 10_000, MaxWait: weir.Duration(30 * time.Second),
		PoolWait: nil, PerClient: 64, Slowest: 4 << 10, Reload: weir.Duration(5 * time.Second)}
	got := (Options{Concurrent: 64}).WithDefaults()
	if *got.PoolWait != weir.Duration(5*time.Second) {
		t.Errorf("%s", *got.PoolWait)
	}
	if got.PoolWait = nil; got != want {
		t.Errorf("%+v", got)
	}
	if got := (Options{Concurrent: 1, PoolWait: new(weir.Duration)}).WithDefaults(); *got.PoolWait != 0 ||
		got.Validate() != nil {
		t.Errorf("0s is not the default: %s", *got.PoolWait)
	}
	if got := (Options{Learn: true}).WithDefaults(); got.Concurrent != 16 || got.Least != 4 || got.Most != 1000 {
		t.Errorf("%+v", got)
	}
	if got := (Options{Learn: true, Least: 2000}).WithDefaults(); got.Concurrent != 2000 || got.Most != 2000 ||
		got.Validate() != nil {
		t.Errorf("%+v", got)
	}
	if got := (Options{Learn: true, Most: 8}).WithDefaults(); got.Concurrent != 8 || got.Validate() != nil {
		t.Errorf("%+v", got)
	}
	if got := (Options{Concurrent: 1, Strict: true}).WithDefaults(); got.Pool != 0 || got.Validate() != nil {
		t.Errorf("%+v", got)
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want string // path and part of the message
	}{
		"nothing":       {Options{}, "concurrent: the capacity of the upstream is missing"},
		"below nothing": {Options{Concurrent: -1}, "concurrent: -1 is out of bounds"},
		"too many": {Options{Concurrent: MaxConcurrent + 1},
			"concurrent: 100001 is out of bounds (1 to 100000)"},
		"least, not learnt":  {Options{Concurrent: 1, Least: 1}, "least: there is a least only for what is learnt"},
		"most, not learnt":   {Options{Concurrent: 1, Most: 1}, "most: there is a most only for what is learnt"},
		"least above most":   {Options{Learn: true, Least: 10, Most: 5}, "least: 10 is more than the most, 5"},
		"begin below least":  {Options{Learn: true, Concurrent: 2}, "concurrent: learning begins at 2"},
		"begin above most":   {Options{Learn: true, Concurrent: 20, Most: 10}, "concurrent: learning begins at 20"},
		"most out of bounds": {Options{Learn: true, Most: MaxConcurrent + 1}, "most: 100001 is out of bounds"},
		"pool and strict":    {Options{Concurrent: 1, Strict: true, Pool: 0.1}, "pool: strict guarantees nothing"},
		"large pool":         {Options{Concurrent: 1, Pool: 0.51}, "pool: 51% is out of bounds (up to 50%"},
		"no number":          {Options{Concurrent: 1, Pool: weir.Share(math.NaN())}, "pool: "},
		"below no pool":      {Options{Concurrent: 1, Pool: -0.1}, "pool: -10% is out of bounds"},
		"waiting":            {Options{Concurrent: 1, Waiting: MaxWaiting + 1}, "waiting: 1000001 is out of bounds"},
		"line":               {Options{Concurrent: 1, Line: MaxLine + 1}, "line: 1000001 is out of bounds"},
		"per client":         {Options{Concurrent: 1, PerClient: -1}, "per_client: -1 is out of bounds"},
		"max wait": {Options{Concurrent: 1, MaxWait: weir.Duration(MaxMaxWait) + 1},
			"max_wait: 10m0.000000001s is out of bounds"},
		"pool wait": {Options{Concurrent: 1, PoolWait: new(weir.Duration(30*time.Second) + 1)},
			"pool_wait: 30.000000001s is out of bounds (up to max_wait, 30s)"},
		"short reload": {Options{Concurrent: 1, Reload: weir.Duration(MinReload) - 1},
			"reload: 999.999999ms is out of bounds (1s to 1m)"},
		"long reload": {Options{Concurrent: 1, Reload: weir.Duration(MaxReload) + 1},
			"reload: 1m0.000000001s is out of bounds"},
	} {
		err := c.o.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
		if _, err := New(c.o, epoch); err == nil {
			t.Errorf("%s: New took it", name)
		}
	}
	bad := Options{Concurrent: -1, Pool: 2, Waiting: -1, Line: -1, PerClient: -1, MaxWait: -1,
		PoolWait: new(weir.Duration(-1)), Reload: 1}
	if errs := weir.FieldErrors(bad.Validate()); len(errs) != 8 {
		t.Errorf("%d mistakes, want 8: %v", len(errs), errs)
	}
	edge := Options{Concurrent: MaxConcurrent, Pool: MaxPool, Waiting: MaxWaiting, Line: MaxLine, PerClient: 1,
		MaxWait: weir.Duration(MaxMaxWait), Reload: weir.Duration(MaxReload)}
	if err := edge.Validate(); err != nil {
		t.Error(err)
	}
}
