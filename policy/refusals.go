package policy

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"weir"
)

// What is kept of a throttle's refusals: the last RefusalsKept. In a flood they are a sample of RefusalsPerSecond,
// after the first RefusalsAtOnce.
const (
	RefusalsKept      = 256
	RefusalsPerSecond = 4
	RefusalsAtOnce    = 32

	maxPartyName = 256
	maxRefusalID = 64
	refusalBytes = 640
)

// A Refusal is an event that was refused or asked to pay, or in shadow would have been.
type Refusal struct {
	Time    time.Time
	Gate    string // empty where the chain stands at none
	Verdict weir.Verdict
	Reason  weir.Reason
	weir.Figure
	Until  time.Time // not worth coming back before; zero where that is not known
	Shadow bool
	Who    Party
	Source netip.Addr // where it came from; invalid where that is not known
	ID     string     // the one that the answer shows; of one that is too long, the beginning
}

// refusals are the last ones of a throttle.
type refusals struct {
	due  atomic.Int64 // when the next one would be kept if they came evenly, in nanoseconds since the epoch
	left atomic.Uint64
	mu   sync.Mutex
	kept []keptRefusal
	next int // where the oldest is, once it is full
}

// A keptRefusal has copies of what a client chose: a string may be a small part of something large.
type keptRefusal struct {
	Refusal
	name       [maxPartyName]byte
	id         [maxRefusalID]byte
	nameN, idN uint16
}

// It compiles only while a kept refusal has the size that is promised.
var _ [refusalBytes - unsafe.Sizeof(keptRefusal{})]byte

// admit reports whether one more refusal is kept.
func (r *refusals) admit(now time.Time) bool {
	const (
		every = int64(time.Second / RefusalsPerSecond)
		ahead = every * (RefusalsAtOnce - 1)
	)
	at, due := now.UnixNano(), r.due.Load()
	if due > at+2*ahead { // the clock was set back
		due = 0
	}
	if due > at+ahead {
		r.left.Add(1)
		return false
	}
	r.due.Store(max(due, at) + every) // of two at once, one may be too many
	return true
}

// Refused keeps a refusal, unless there are too many. The strings of Gate and Figure must be those of the
// configuration; of those in Who and ID, copies are made.
func (w *Watch) Refused(r *Refusal) {
	if w == nil || !w.refusals.admit(r.Time) {
		return
	}
	w.refusals.put(r)
}

func (r *refusals) put(n *Refusal) {
	if !r.mu.TryLock() {
		r.left.Add(1)
		return
	}
	defer r.mu.Unlock()
	if r.kept == nil {
		r.kept = make([]keptRefusal, 0, RefusalsKept)
	}
	at := len(r.kept)
	if at < RefusalsKept {
		r.kept = r.kept[:at+1]
	} else {
		at = r.next
		r.next = (at + 1) % RefusalsKept
	}
	k := &r.kept[at]
	k.Refusal = *n
	k.nameN, k.idN = uint16(copy(k.name[:], n.Who.Name)), uint16(copy(k.id[:], n.ID))
	k.Who.Name, k.ID = "", ""
}

// Refusals returns the last refusals, the latest first, and how many more there were that were not kept.
func (w *Watch) Refusals() (all []Refusal, left uint64) {
	if w == nil {
		return nil, 0
	}
	r := &w.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.kept {
		k := &r.kept[(r.next+i)%len(r.kept)]
		n := k.Refusal
		n.Who.Name, n.ID = string(k.name[:k.nameN]), string(k.id[:k.idN])
		all = append(all, n)
	}
	slices.Reverse(all)
	return all, r.left.Load()
}
