package admission

import (
	"cmp"
	"slices"
	"time"

	"weir"
)

// Stats are the figures of lanes for those who watch. Counters run since the start.
type Stats struct {
	Capacity   int           `json:"capacity"` // written, or learnt so far; in a farm, of the nodes heard
	Here       int           `json:"here"`     // in a farm: how much of it is this node's
	InUse      int           `json:"in_use"`
	Load       weir.Share    `json:"load"`
	Delay      weir.Duration `json:"delay"`
	Stamped    LaneStats     `json:"stamped"`
	Pool       LaneStats     `json:"pool"`
	InLine     int           `json:"in_line"`     // people in the waiting room, not called yet
	Called     int           `json:"called"`      // and called, but not come yet
	Admitted   uint64        `json:"admitted"`    // people let in from the waiting room
	Visitors   int           `json:"visitors"`    // of them and of those at other nodes, so many are remembered
	NoShows    uint64        `json:"no_shows"`    // people who lost their place because they did not come
	TurnedAway uint64        `json:"turned_away"` // requests challenged or refused for the load
	LineFull   uint64        `json:"line_full"`   // people who found the line full
	// requests and people refused because their client has too many waiting
	TooMany uint64 `json:"too_many"`
	// exchanges that lost their places to others who waited, as their clients were too slow or had more than their part
	Lost    uint64   `json:"lost"`
	Holders []Holder `json:"holders"` // who has most places, at most five
}

// A Holder is a client with places.
type Holder struct {
	Client  string `json:"client"` // its address, of IPv6 the /64; an account is not named
	Lane    string `json:"lane"`
	Places  int    `json:"places"`
	Waiting int    `json:"waiting"` // and so many requests more in the lane
}

// LaneStats are the figures of one lane.
type LaneStats struct {
	InUse   int           `json:"in_use"`
	Waiting int           `json:"waiting"`
	LetIn   uint64        `json:"let_in"`
	Longest weir.Duration `json:"longest"` // that a request has waited which waits now
	Expired uint64        `json:"expired"` // held for too long
	Full    uint64        `json:"full"`    // refused because the lane was full
}

// Stats returns the figures at a time.
func (l *Lanes) Stats(now time.Time) Stats {
	share, delay := l.Load(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(now)
	s := l.counts
	s.Capacity, s.InUse = l.wholeUsual(), l.used()
	if l.farm != nil {
		s.Here = l.farm.part
	}
	s.Load, s.Delay = share.Rounded(), weir.Duration(delay)
	s.InLine, s.Called, s.Visitors = l.room.order.len(), l.room.called, l.room.remembered()
	var longest [lanes]weir.Duration
	for i := range l.turns {
		in, t := round(i).lane(), &l.turns[i]
		l.laneCounts[in].InUse, l.laneCounts[in].Waiting = l.inUse[in], l.inLane(in)
		if first := t.age.First(); first != nil {
			longest[in] = max(longest[in], weir.Duration(at-first.since))
		}
		for who, c := range t.lines {
			if c.places > 0 {
				s.Holders = append(s.Holders, Holder{who.String(), [...]string{"pool", "stamped"}[in], c.places, c.n})
			}
		}
	}
	s.Pool, s.Stamped = l.laneCounts[pool], l.laneCounts[stamped]
	s.Pool.Longest, s.Stamped.Longest = longest[pool], longest[stamped]
	slices.SortFunc(s.Holders, func(a, b Holder) int {
		return cmp.Or(b.Places-a.Places, b.Waiting-a.Waiting, cmp.Compare(a.Client, b.Client))
	})
	s.Holders = slices.Clip(s.Holders[:min(len(s.Holders), 5)])
	return s
}
