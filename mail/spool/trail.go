package spool

import (
	"strings"
	"sync"
	"time"

	"weir/mail/nexthop"
	"weir/store"
)

// MaxTrail is how many ends of deliveries are remembered, in about 3 MB of memory. They are not stored: what happened
// longer ago is in the logs of the next server.
const MaxTrail = 10_000

// A Step is one attempt to deliver a message to a recipient, with its result.
type Step struct {
	At      time.Time    `json:"at"`
	Mail    store.MailID `json:"mail"`
	User    string       `json:"user,omitempty"`
	Address string       `json:"address"`
	Result  string       `json:"result"`           // delivered, deferred, failed or ambiguous
	Status  string       `json:"status,omitempty"` // what the next server said
}

// A trail is the last attempts. The zero value is ready for use.
type trail struct {
	mu   sync.Mutex
	ring []Step
	next int // where the oldest is, once it is full
}

var stepResults = map[nexthop.Outcome]string{nexthop.Done: "delivered", nexthop.Failed: "failed",
	nexthop.Ambiguous: "ambiguous"}

// note remembers the results of a delivery.
func (t *trail) note(j *job, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range j.to {
		r := &j.results[i]
		s := Step{At: now, Mail: j.message.ID, User: j.message.User, Address: j.to[i].Address, Status: status(r)}
		if s.Result = stepResults[r.Outcome]; s.Result == "" {
			s.Result = "deferred"
		}
		if len(t.ring) < MaxTrail {
			t.ring = append(t.ring, s)
			continue
		}
		t.ring[t.next] = s
		t.next = (t.next + 1) % MaxTrail
	}
}

// Trail returns up to limit of the last attempts to deliver a message, or to deliver to an address that has a text in
// it, the latest first. It knows of the last MaxTrail since the start.
func (d *delivery) Trail(id store.MailID, address string, limit int) (found []Step) {
	address = strings.ToLower(address)
	t := &d.trail
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.ring {
		s := &t.ring[(t.next+len(t.ring)-1-i)%len(t.ring)]
		if (id == 0 || s.Mail == id) && (address == "" || strings.Contains(strings.ToLower(s.Address), address)) {
			if found = append(found, *s); len(found) == limit {
				break
			}
		}
	}
	return found
}
