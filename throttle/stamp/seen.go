package stamp

import (
	"hash/maphash"
	"math"
	"time"

	"weir/internal/tables"
)

// patienceWindow is how long an unpaid challenge is held against a client.
const patienceWindow = time.Minute

// The table of clients that were asked: 2 MiB.
const (
	unpaidSets = 1 << 16
	unpaidWays = 4
)

// An unpaid is how many challenges a client has left unpaid in one minute.
type unpaid struct {
	minute, challenges uint16
}

// Worth makes the client with the fewest go first.
func (u *unpaid) Worth(minute int64) uint64 {
	if u.minute != uint16(minute) {
		return 0
	}
	return uint64(u.challenges)
}

// seen counts the challenges that clients have recently left unpaid. Goroutines may share it. Make it with newSeen.
type seen struct {
	seed  maphash.Seed
	table *tables.Sets[unpaid, *unpaid]
}

func newSeen() seen { return seen{maphash.MakeSeed(), tables.NewSets[unpaid](unpaidSets, unpaidWays)} }

func minute(now time.Time) int64 { return now.Unix() / int64(patienceWindow/time.Second) }

// note counts a challenge and returns how many the client has left unpaid in this minute.
func (s *seen) note(client string, now time.Time) int {
	set := s.table.Lock(maphash.String(s.seed, client))
	defer set.Unlock()
	u := set.Enter(minute(now))
	u.minute, u.challenges = uint16(minute(now)), min(u.challenges, math.MaxUint16-1)+1
	return int(u.challenges)
}

// unpaid returns how many challenges a client has left unpaid in this minute.
func (s *seen) unpaid(client string, now time.Time) int {
	set := s.table.Lock(maphash.String(s.seed, client))
	defer set.Unlock()
	if u := set.Find(minute(now)); u != nil {
		return int(u.challenges)
	}
	return 0
}

// forget drops the count of a client that paid.
func (s *seen) forget(client string) {
	if s.table.Empty() {
		return
	}
	set := s.table.Lock(maphash.String(s.seed, client))
	defer set.Unlock()
	set.Forget()
}
