package sqlite_test

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/store"
)

func ceilingOf(account string, seq int64) store.Ceiling {
	return store.Ceiling{Throttle: "api", Rule: "month", Account: account, Run: "a+1", State: []byte{1, 0, 255}, Slice: 7,
		Used: 5, Seq: seq, Accepted: seq%2 == 0, Until: epoch.Add(time.Hour)}
}

// ceils wants exactly these to be loaded at a time, in this order.
func (s *subject) ceils(now time.Time, want ...store.Ceiling) {
	s.Helper()
	var got []store.Ceiling
	s.must(s.ceilings.Load(s.Context(), "api", now, func(c store.Ceiling) error {
		c.Until = c.Until.UTC()
		got = append(got, c)
		return nil
	}))
	same := func(a, b store.Ceiling) bool { a.Until = b.Until; return reflect.DeepEqual(a, b) }
	if !slices.EqualFunc(got, want, same) {
		s.Fatalf("ceilings %+v, want %+v", got, want)
	}
}

func ceilingsAreKept(_ *testing.T, s *subject) {
	ctx := s.Context()
	s.ceils(epoch)
	a, b := ceilingOf("a", 1), ceilingOf("b", 2)
	b.Account, b.Source = "", netip.MustParseAddr("192.0.2.1")
	other := ceilingOf("a", 9)
	other.Throttle = "other"
	s.must(s.ceilings.Save(ctx, []store.Ceiling{a, b, other}))
	s.reopen()
	s.ceils(epoch, b, a) // the latest call first
	a.Run, a.Used, a.Seq, a.State = "a+2", 3, 3, []byte{7}
	s.must(s.ceilings.Save(ctx, []store.Ceiling{a}))
	s.ceils(epoch, a, b)
	s.must(s.ceilings.Forget(ctx, []store.Ceiling{ceilingOf("a", 1), b})) // another run has replaced the first
	s.ceils(epoch, a)
	s.ceils(a.Until)
	s.pruned(s.ceilings.Prune, epoch, 0)
	s.pruned(s.ceilings.Prune, a.Until, 2)
	s.ceils(epoch)
}

func ceilingsMistakes(_ *testing.T, s *subject) {
	invalid, tooLarge := store.ErrInvalid, store.ErrTooLarge
	for name, c := range map[string]struct {
		change func(*store.Ceiling)
		want   error
	}{
		"neither":           {func(c *store.Ceiling) { c.Account = "" }, invalid},
		"both":              {func(c *store.Ceiling) { c.Source = netip.MustParseAddr("192.0.2.1") }, invalid},
		"no run":            {func(c *store.Ceiling) { c.Run = "" }, invalid},
		"less than nothing": {func(c *store.Ceiling) { c.Used = -1 }, invalid},
		"no end":            {func(c *store.Ceiling) { c.Until = time.Time{} }, invalid},
		"a longer account":  {func(c *store.Ceiling) { c.Account = strings.Repeat("a", store.MaxAccount+1) }, tooLarge},
		"a longer state":    {func(c *store.Ceiling) { c.State = make([]byte, store.MaxCeilingState+1) }, tooLarge},
	} {
		bad := ceilingOf("a", 1)
		c.change(&bad)
		if err := s.ceilings.Save(s.Context(), []store.Ceiling{ceilingOf("b", 1), bad}); !errors.Is(err, c.want) {
			s.Errorf("%s: %v", name, err)
		}
	}
	many := make([]store.Ceiling, store.MaxBatch+1)
	for i := range many {
		many[i] = ceilingOf(fmt.Sprint(i), 1)
	}
	s.fails(s.ceilings.Save(s.Context(), many), store.ErrTooLarge)
	s.ceils(epoch)
	most := ceilingOf(strings.Repeat("a", store.MaxAccount), 1)
	most.State = make([]byte, store.MaxCeilingState)
	s.must(s.ceilings.Save(s.Context(), []store.Ceiling{most}))
	s.ceils(epoch, most)
}
