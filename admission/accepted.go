package admission

import (
	"hash/maphash"
	"math"
	"net/netip"
	"time"

	"weir/internal/tables"
)

// The table of accepted accounts: one set of entries for each network, 768 KiB.
const (
	acceptedSets = 1 << 13
	// acceptedWays is how many accounts of one network are clients of their own. So an attacker with one address gets
	// at most that many turns, even if the upstream accepts every name.
	acceptedWays = 8
	// acceptedFor is how long an account is known after the upstream last accepted it.
	acceptedFor = int64(10 * time.Minute)
)

// An acceptance is when the upstream last accepted an account.
type acceptance struct{ last int64 }

// Worth keeps an account in the table for acceptedFor. An account that finds no slot is known by its address. An entry
// from the future is worth nothing: the clock was set back after it was made.
func (a *acceptance) Worth(now int64) uint64 {
	if now-a.last < acceptedFor && a.last-now < acceptedFor {
		return tables.Stays
	}
	return 0
}

// accepted remembers which accounts the upstream has accepted, and from which networks. Goroutines may share it.
type accepted struct {
	seed  maphash.Seed
	table *tables.Sets[acceptance, *acceptance]
}

// lock locks the set of the client's network, and looks for an account there.
func (a *accepted) lock(who client, account string) tables.Set[acceptance, *acceptance] {
	network := who.hash(a.seed)
	return a.table.Lock(network&math.MaxUint32 | (maphash.String(a.seed, account)^network)&^math.MaxUint32)
}

func (a *accepted) has(who client, account string, at int64) bool {
	if a.table.Empty() || who.family == 0 {
		return false
	}
	set := a.lock(who, account)
	defer set.Unlock()
	return set.Find(at) != nil
}

func (a *accepted) note(who client, account string, good bool, at int64) {
	if who.family == 0 || !good && a.table.Empty() {
		return
	}
	set := a.lock(who, account)
	defer set.Unlock()
	if !good {
		set.Forget()
	} else if e := set.Enter(at); e != nil {
		e.last = at
	}
}

// Accepted notes whether the upstream accepted a request of an account (2xx) or turned it away (401, 403). An account
// that was accepted from a network is a client of its own there, for ten minutes or until it is turned away.
func (l *Lanes) Accepted(source netip.Addr, account string, good bool, now time.Time) {
	if account != "" {
		l.accepted.note(clientOf(source), account, good, nanos(now))
	}
}
