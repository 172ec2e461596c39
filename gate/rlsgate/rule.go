package rlsgate

import (
	"strconv"
	"strings"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// A Unit is per how long a rule counts: second, minute, hour, day, week, month (30 days) or year (365 days). Windows
// begin at whole multiples of it since the epoch, as those of the original do.
type Unit uint8

// The units, with the numbers that they have on the wire.
const (
	Second = Unit(rls.RateLimitResponse_RateLimit_SECOND)
	Minute = Unit(rls.RateLimitResponse_RateLimit_MINUTE)
	Hour   = Unit(rls.RateLimitResponse_RateLimit_HOUR)
	Day    = Unit(rls.RateLimitResponse_RateLimit_DAY)
	Week   = Unit(rls.RateLimitResponse_RateLimit_WEEK)
	Month  = Unit(rls.RateLimitResponse_RateLimit_MONTH)
	Year   = Unit(rls.RateLimitResponse_RateLimit_YEAR)
)

const day = 24 * time.Hour

var units = [...]struct {
	name   string
	period time.Duration
}{
	Second: {"second", time.Second},
	Minute: {"minute", time.Minute},
	Hour:   {"hour", time.Hour},
	Day:    {"day", day},
	Week:   {"week", 7 * day},
	Month:  {"month", 30 * day},
	Year:   {"year", 365 * day},
}

// unitNames are those that a file may name.
var unitNames = []string{"second", "minute", "hour", "day", "week", "month", "year"}

// parseUnit reads a unit in any case.
func parseUnit(s string) (Unit, bool) {
	for u, known := range units {
		if known.name != "" && strings.EqualFold(known.name, s) {
			return Unit(u), true
		}
	}
	return 0, false
}

func (u Unit) valid() bool { return int(u) < len(units) && units[u].period > 0 }

func (u Unit) String() string {
	if !u.valid() {
		return "unknown"
	}
	return units[u].name
}

// Period is how long it is.
func (u Unit) Period() time.Duration {
	if !u.valid() {
		return 0
	}
	return units[u].period
}

// untilReset is how many seconds of the window are left at now, at least 1.
func (u Unit) untilReset(now time.Time) int64 {
	seconds := int64(u.Period() / time.Second)
	return seconds - now.Unix()%seconds
}

// A Rule is what is counted for a limit of an imported file, or an override in a request: so many requests per unit, in
// fixed windows that begin at multiples of the unit since the epoch. Many limits may have the same rule: events carry
// the domain, keys and values that are counted apart in Account, and what Plan returns in Plan. So one throttle may
// count all rules of a unit, and a limit that changes keeps its counters, as with the original; or each limit has its
// own throttle.
//
// The throttle has room for one more than the limit (Room): the counter of the original goes on beyond the limit, and a
// request that charges nothing sees whether the limit was just reached or passed.
type Rule struct {
	Unit  Unit
	Limit uint32
}

// Room is what the throttle allows per unit: one more than the limit.
func (r Rule) Room() int64 { return int64(r.Limit) + 1 }

// Plan names the limit in events.
func (r Rule) Plan() string { return strconv.FormatUint(uint64(r.Limit), 10) }

func (r Rule) String() string { return r.Plan() + "/" + r.Unit.String() }
