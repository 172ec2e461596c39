package golimiters

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	store "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"weir"
	"weir/throttle/quota"
)

// A side is a library that is measured. It makes limiters in the memory of the process that grant each key some events an
// hour. Each reads the clock by itself, or is given what time.Now says, as a program would do it.
type side struct {
	name string
	make func(perHour int) (allow func(key string) bool, end func(), err error)
}

// sides are weir, with the algorithms that others have, and the others.
func sides() []side {
	return []side{
		{"weir fixed", func(n int) (func(string) bool, func(), error) { return ofWeir(n, quota.Fixed) }},
		{"weir gcra", func(n int) (func(string) bool, func(), error) { return ofWeir(n, quota.GCRA) }},
		{"x/time/rate", ofRate},
		{"ulule/limiter", ofUlule},
		{"go-limiter", ofGoLimiter},
		{"throttled", ofThrottled},
	}
}

func ofWeir(perHour int, window quota.WindowKind) (func(string) bool, func(), error) {
	q, err := quota.New(quota.Options{Policies: []quota.Policy{
		{Name: "hourly", Limit: quota.Count(int64(perHour)), Period: weir.Period{Length: time.Hour}, Window: window},
	}})
	return func(key string) bool { return q.Allow(time.Now(), key) }, func() {}, err
}

// shards is a map of limiters as a program that takes care would write it: no lock is asked for by everybody.
type shards [256]struct {
	sync.Mutex
	m map[string]*rate.Limiter
}

// ofRate: x/time/rate has no keys.
func ofRate(perHour int) (func(string) bool, func(), error) {
	var all shards
	for i := range all {
		all[i].m = map[string]*rate.Limiter{}
	}
	seed := maphash.MakeSeed()
	return func(key string) bool {
		s := &all[maphash.String(seed, key)%uint64(len(all))]
		s.Lock()
		l := s.m[key]
		if l == nil {
			l = rate.NewLimiter(rate.Limit(perHour)/3600, perHour)
			s.m[key] = l
		}
		s.Unlock()
		return l.AllowN(time.Now(), 1)
	}, func() {}, nil
}

func ofUlule(perHour int) (func(string) bool, func(), error) {
	l := limiter.New(memory.NewStore(), limiter.Rate{Period: time.Hour, Limit: int64(perHour)})
	ctx := context.Background()
	return func(key string) bool {
		c, err := l.Get(ctx, key)
		return err == nil && !c.Reached
	}, func() {}, nil
}

func ofGoLimiter(perHour int) (func(string) bool, func(), error) {
	var s store.Store
	s, err := memorystore.New(&memorystore.Config{Tokens: uint64(perHour), Interval: time.Hour})
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	return func(key string) bool {
		_, _, _, ok, err := s.Take(ctx, key)
		return err == nil && ok
	}, func() { _ = s.Close(ctx) }, nil
}

// ofThrottled keeps as many keys as come, as the others do. With a bound it is a cache under one lock.
func ofThrottled(perHour int) (func(string) bool, func(), error) {
	s, err := memstore.NewCtx(0)
	if err != nil {
		return nil, nil, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(s,
		throttled.RateQuota{MaxRate: throttled.PerHour(perHour), MaxBurst: perHour - 1})
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	return func(key string) bool {
		limited, _, err := l.RateLimitCtx(ctx, key, 1)
		return err == nil && !limited
	}, func() {}, nil
}
