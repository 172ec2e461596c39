package farm

import (
	"context"
	"log/slog"
	"time"
)

// A Node is one run of a member. After a restart it is another one.
type Node struct {
	Name string `json:"name"`
	Boot uint64 `json:"boot"` // when it started, in microseconds since the epoch
}

// How members watch each other.
const (
	HeartbeatEvery = 200 * time.Millisecond
	LostAfter      = time.Second
)

// A State is what a node thinks of a member.
type State string

const (
	Here    State = "here" // this node itself
	Up      State = "up"
	Lost    State = "lost"    // silent for LostAfter
	Left    State = "left"    // it said goodbye; forgotten after a minute
	Refused State = "refused" // another secret, an incompatible version, or a name that is taken
)

// A Member is a node as this one sees it.
type Member struct {
	Node
	State   State
	Version string        // of weir
	Config  string        // the fingerprint of its configuration
	Offset  time.Duration // how far its clock is ahead of this one's
	Lag     time.Duration // how long its last heartbeat was under way, as far as the clocks tell
	Heard   time.Time     // when it was last heard
	Why     string        // it is refused
}

// A Joining is what a Farm is made of.
type Joining struct {
	Bus     Bus
	Node    Node
	Secrets [][]byte      // the first one seals, all open
	Version string        // of weir
	Config  func() string // the fingerprint of the configuration, told with every heartbeat
	Log     *slog.Logger
	// Expected is how many nodes the configuration lists; 0 where it names none. Shares are made of it, or of the most
	// nodes that were seen.
	Expected int
}

// A Shared is a state that all nodes have. Each tells the others what happens to its own, by Farm.Send under the
// state's topic; whoever joins, comes back or has missed something is given a snapshot.
type Shared interface {
	// Hear takes what another node tells. It may come late, twice and in any order. An error is counted and logged.
	Hear(from Node, msg []byte, now time.Time) error
	// Snapshot gives messages that together say all there is, of at most MaxPlain bytes each, until give returns false.
	Snapshot(now time.Time, give func(msg []byte) bool)
}

// MaxPlain is how many bytes a message may have before it is sealed.
const MaxPlain = MaxMessage - 1024

// A Farm is this node's view of the farm. Make it with Join. Goroutines may share it.
type Farm struct{ todo int }

// Join makes this node known to the others.
func Join(j Joining, now time.Time) (*Farm, error) { panic("todo") }

// Advance sends heartbeats, notices who is lost, asks for what was missed. It returns when to call it again.
func (f *Farm) Advance(now time.Time) time.Time { panic("todo") }

// Alarm registers the one function that is called when Advance is due earlier than it said.
func (f *Farm) Alarm(told func(due time.Time)) { panic("todo") }

// Self returns this node.
func (f *Farm) Self() Node { panic("todo") }

// Members returns all members, this node first, then by name.
func (f *Farm) Members(now time.Time) []Member { panic("todo") }

// Share returns among how many nodes a limit is to be divided, and which of them this one is, from 0.
func (f *Farm) Share() (of, rank int) { panic("todo") }

// Offset is what to add to the machine's clock to get the farm's time. It moves slowly; with fewer than three nodes it
// stays where it is.
func (f *Farm) Offset() time.Duration { panic("todo") }

// Keep makes a state one that the farm shares. stop ends that.
func (f *Farm) Keep(topic string, s Shared) (stop func(), err error) { panic("todo") }

// Send tells the other nodes something about a shared state.
func (f *Farm) Send(topic string, msg []byte) error { panic("todo") }

// Ask asks one node. It fails at once with ErrGone when that run of the node is not up.
func (f *Farm) Ask(ctx context.Context, to Node, topic string, msg []byte) ([]byte, error) {
	panic("todo")
}

// Answer answers what members ask, each on a goroutine of its own. The text of an error is told to whoever asks.
func (f *Farm) Answer(topic string, answer func(from Node, msg []byte) ([]byte, error)) (stop func(), err error) {
	panic("todo")
}

// Tag is what a run of a node is known by in few bytes: in the nonces of stamps.
func (n Node) Tag() [8]byte { panic("todo") }

// Tagged returns the node with a tag, if it is this one or is up.
func (f *Farm) Tagged(tag [8]byte) (Node, bool) { panic("todo") }

// Watch registers the one function that is called when a member changes its state, and once for each that there is.
// It is called under a lock.
func (f *Farm) Watch(told func(Member)) { panic("todo") }

// Forget removes a lost member, so that shares are made without it. ErrGone when there is none of that name.
func (f *Farm) Forget(name string) error { panic("todo") }

// Leave says goodbye and lets go of the bus.
func (f *Farm) Leave(ctx context.Context) error { panic("todo") }

// Stats say what went wrong.
type Stats struct {
	BusStats
	Missed    uint64 // messages of others that never came, and were made up for by snapshots
	Snapshots uint64 // that were asked for
	Malformed uint64
	Strangers uint64 // messages under another secret, or of an incompatible version
}

// Stats returns what went wrong.
func (f *Farm) Stats() Stats { panic("todo") }
