package admission

import (
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
	// unpaid exchanges that lost their places, as they made no progress while others who paid waited
	Lost uint64 `json:"lost"`
}

// LaneStats are the figures of one lane.
type LaneStats struct {
	InUse   int    `json:"in_use"`
	Waiting int    `json:"waiting"`
	LetIn   uint64 `json:"let_in"`
	Expired uint64 `json:"expired"` // held for too long
	Full    uint64 `json:"full"`    // refused because the lane was full
}

// Stats returns the figures at a time.
func (l *Lanes) Stats(now time.Time) Stats {
	share, delay := l.Load(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tick(now)
	s := l.counts
	s.Capacity, s.InUse = l.wholeMeans(), l.used()
	if l.farm != nil {
		s.Here = l.farm.part
	}
	s.Load, s.Delay = share.Rounded(), weir.Duration(delay)
	s.InLine, s.Called, s.Visitors = l.room.order.len(), l.room.called, l.room.remembered()
	for in, into := range map[lane]*LaneStats{stamped: &s.Stamped, pool: &s.Pool} {
		*into = l.laneCounts[in]
		into.InUse, into.Waiting = l.inUse[in], l.inLane(in)
	}
	return s
}
