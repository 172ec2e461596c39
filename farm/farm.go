package farm

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	// Expected is how many nodes the configuration lists; 0 where it names none.
	Expected int
	// Kept is what Keep was last given, also by an earlier run; nil where there is nothing.
	Kept []byte
	// Keep puts who belongs to the farm on a disk, and calls done when it is there, from any goroutine. The last call
	// counts. Without Keep, nothing outlives the run.
	Keep func(roll []byte, done func(error))
}

// A Shared is a state that all nodes have. Each tells the others what happens to its own, by Farm.Send under the
// state's topic; whoever joins, comes back or has missed something is given a snapshot. A state changes first and tells
// it then: a snapshot that is made in between has the change. Hear and Snapshot may call Farm.Send, but not Advance.
type Shared interface {
	// Hear takes what another node tells. It may come late, twice and in any order. An error is counted and logged.
	Hear(from Node, msg []byte, now time.Time) error
	// Snapshot gives messages that together say all there is, of at most MaxPlain bytes each, until give returns false.
	Snapshot(now time.Time, give func(msg []byte) bool)
}

// A Lasting is a Shared that may keep what a node told while that is lost. If it does, it needs no snapshot when
// the same run comes back and nothing was missed: a node that is too busy to be heard in time must not cost all
// others a snapshot each time, which would make them busier still.
type Lasting interface {
	Shared
	// Lasting reports whether losing a node and finding it again changes nothing. It is called under a lock.
	Lasting() bool
}

// MaxPlain is how many bytes a message may have before it is sealed.
const MaxPlain = MaxMessage - 1024

// More bounds.
const (
	MaxTopics   = 64       // that are shared, and as many that are answered
	MaxSnapshot = 32 << 20 // bytes of one state; what is more is left out, and logged
)

const (
	greetEvery    = HeartbeatEvery / 4 // heartbeats for those who are new
	forgetAfter   = time.Minute        // members that left, and strangers
	reorderGrace  = HeartbeatEvery / 2
	tailGrace     = LostAfter / 2
	askAgainAfter = time.Second
	maxText       = 128 // bytes of a version and the like
)

// ErrRefused is returned by a node whose name is taken.
var ErrRefused = errors.New("this node is not in the farm, as its name is taken: give it another farm.node")

// The farm's own topics.
const (
	ownTopics    = "farm."
	beatTopic    = ownTopics + "heartbeat"
	goodbyeTopic = ownTopics + "goodbye"
	requestTopic = ownTopics + "snapshot." // and the address of the node that is asked
	partTopic    = ownTopics + "part"
	// With the address of the node that is asked for a proof, or gets it.
	challengeTopic = ownTopics + "challenge."
	proofTopic     = ownTopics + "proof."
)

// A tick is time as a farm counts it: what passed between calls of Advance. Jumps of the machine's clock and sleep do
// not count.
type tick = time.Duration

// A Farm is this node's view of the farm. Make it with Join. Goroutines may share it.
//
// Messages wait in an inbox for the next call of Advance, which the Alarm asks for at once: so everything has a time,
// and Shared.Hear is called by Advance only.
type Farm struct {
	bus      Bus
	self     Node
	sealer   *Sealer
	version  string
	configOf func() string
	host     string
	expected int
	log      *slog.Logger
	stops    []func()

	step sync.Mutex // held by Advance, taken before mu

	mu     sync.Mutex // never held while a Bus or a Shared is called
	alarm  func(due time.Time)
	watch  func(Member)
	last   time.Time // when Advance was last called
	due    time.Time // when it is to be called
	now    tick
	closed bool
	inbox  inbox
	stats  Stats

	config    string
	lastBeat  tick
	nextBeat  tick
	members   map[string]*member
	order     []*member // by name; nil after a change
	strangers map[string]*stranger
	graves    map[Node]uint64 // the last heartbeats of runs that are not members any more
	roster
	aware   bool         // what there was to know when this node started, it knows
	offset  atomic.Int64 // a time.Duration; set under mu
	rival   *rival
	prover  prover
	proofs  []note // asked for and given, to be sent
	why     string // this node is refused
	leaving bool   // a goodbye is to be said

	topics    map[string]*topic
	answers   map[string]bool
	sent      map[string]uint64 // the last number of each topic
	nones     []string          // topics that others asked for, and this node does not keep
	asks      uint64
	snaps     uint64
	nextParts tick   // when parts of snapshots may be sent again
	ending    tick   // when to say that a run of a node ended; 0: none did
	ended     uint64 // how often that was said
	back      tick   // when a node was last heard that was lost or new
}

// Join makes this node known to the others.
func Join(j Joining, now time.Time) (*Farm, error) {
	switch {
	case j.Bus == nil:
		return nil, errors.New("a farm needs a bus")
	case !namable(j.Node.Name):
		return nil, fmt.Errorf("%q is not a name for a node: write up to %d letters, digits, '-' and '_' in farm.node",
			j.Node.Name, MaxNode)
	case j.Expected < 0 || j.Expected > MaxNodes:
		return nil, fmt.Errorf("%d nodes are expected, and a farm has at most %d: list fewer peers", j.Expected,
			MaxNodes)
	}
	sealer, err := NewSealer(j.Secrets)
	if err != nil {
		return nil, err
	}
	if j.Log == nil {
		j.Log = slog.New(slog.DiscardHandler)
	}
	if j.Config == nil {
		j.Config = func() string { return "" }
	}
	host, _ := os.Hostname() // without one, the name of the node has to do
	f := &Farm{
		bus: j.Bus, self: j.Node, sealer: sealer, version: clip(j.Version), configOf: j.Config, log: j.Log,
		host: clip(cmp.Or(host, j.Node.Name)), expected: j.Expected, last: now, due: now, roster: roster{keep: j.Keep},
		prover:  newProver(),
		members: map[string]*member{}, strangers: map[string]*stranger{}, graves: map[Node]uint64{},
		topics: map[string]*topic{}, answers: map[string]bool{}, sent: map[string]uint64{},
	}
	f.enlist(j.Kept)
	own := j.Node.Address()
	for _, topic := range []string{beatTopic, goodbyeTopic, requestTopic + own, partTopic, challengeTopic + own,
		proofTopic + own} {
		stop, err := j.Bus.Hear(topic, f.receive(topic))
		if err != nil {
			for _, stop := range f.stops {
				stop()
			}
			return nil, fmt.Errorf("the bus does not listen to %s: %w", topic, err)
		}
		f.stops = append(f.stops, stop)
	}
	f.Advance(now)
	return f, nil
}

// receive returns what takes messages of a topic from the bus.
func (f *Farm) receive(topic string) func(msg []byte) {
	return func(msg []byte) {
		opened, err := f.sealer.Open(Purpose{Topic: topic}, msg)
		f.mu.Lock()
		if err != nil {
			f.reject(err)
			f.mu.Unlock()
			return
		}
		first := f.inbox.len() == 0
		if f.closed || !f.inbox.put(delivery{topic, opened}) {
			f.stats.Dropped++
			f.mu.Unlock()
			return
		}
		alarm, due := f.alarm, f.last
		f.mu.Unlock()
		if first && alarm != nil {
			alarm(due)
		}
	}
}

// Advance sends heartbeats, notices who is lost, asks for what was missed. It returns when to call it again; zero after
// Leave. now is the machine's time, without Offset.
func (f *Farm) Advance(now time.Time) time.Time {
	f.step.Lock()
	defer f.step.Unlock()
	config := clip(f.configOf())
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return time.Time{}
	}
	f.config = config
	passed := f.pass(now)
	inbox := f.inbox.portion()
	f.mu.Unlock()

	for i := range inbox {
		if h := f.take(&inbox[i], now); h != nil {
			f.deliver(h, now)
		}
	}

	f.mu.Lock()
	f.age()
	f.slew(passed)
	f.agree()
	changed := f.toKeep()
	out := f.collect(now)
	f.mu.Unlock()
	if changed != nil {
		f.handOver(changed)
	}
	for _, m := range out {
		f.post(m)
	}
	more := f.sendSnapshots(now)

	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.next()
	if more {
		next = min(next, f.now+paceEvery)
	}
	f.due = now.Add(max(next-f.now, 0))
	if f.inbox.len() > 0 {
		f.due = now
	}
	return f.due
}

// pass lets time pass, and returns how much.
func (f *Farm) pass(now time.Time) tick {
	passed := min(max(now.Sub(f.last), 0), LostAfter)
	f.last = now
	f.now += passed
	if now.Sub(f.due) > LostAfter/2 { // this node slept: what the others said meanwhile has yet to come
		for _, m := range f.members {
			m.heard = f.now
		}
		if f.rival != nil {
			f.rival.heard = f.now
		}
	}
	return passed
}

// next is when something is to be done.
func (f *Farm) next() tick {
	if f.why != "" {
		return f.rival.heard + LostAfter
	}
	next := f.nextBeat
	if f.changed && !f.keeping {
		next = min(next, f.keepNext)
	}
	for _, m := range f.members {
		if m.State == Up {
			next = min(next, m.heard+LostAfter)
		}
		for _, s := range m.streams {
			if s.floor < s.told && !s.lacks(f.now) && !s.absent {
				next = min(next, s.since+s.grace())
			}
		}
	}
	return next
}

// A note is a message that is to be sent.
type note struct {
	topic   string
	seq     uint64
	payload []byte
}

// collect returns what is to be told now.
func (f *Farm) collect(now time.Time) (out []note) {
	if f.leaving {
		f.leaving = false
		out = append(out, f.goodbye())
	}
	out = append(out, f.proofs...)
	f.proofs = nil
	if f.why != "" {
		return out
	}
	if f.now >= f.nextBeat {
		f.lastBeat, f.nextBeat = f.now, f.now+HeartbeatEvery
		out = append(out, f.number(beatTopic, f.beat(now)))
	}
	if f.inbox.behind { // what seems to be missing may be in the inbox
		return out
	}
	return f.requests(out)
}

// number gives a message the next number of its topic.
func (f *Farm) number(topic string, payload []byte) note {
	f.sent[topic]++
	return note{topic, f.sent[topic], payload}
}

// post seals a message and hands it to the bus.
func (f *Farm) post(n note) error {
	msg, err := f.sealer.Seal(Purpose{Topic: n.topic}, f.self, n.seq, n.payload)
	if err != nil {
		return err
	}
	return f.bus.Send(n.topic, msg)
}

// Alarm registers the one function that is called when Advance is due earlier than it said. A time that has passed
// means at once. It may be called from any goroutine, and must not call Advance itself.
func (f *Farm) Alarm(told func(due time.Time)) {
	f.mu.Lock()
	f.alarm = told
	due := f.due
	if f.inbox.len() > 0 {
		due = f.last
	}
	f.mu.Unlock()
	if told != nil {
		told(due)
	}
}

// wake asks for Advance at once.
func (f *Farm) wake() {
	f.mu.Lock()
	alarm, due := f.alarm, f.last
	f.mu.Unlock()
	if alarm != nil {
		alarm(due)
	}
}

// Self returns this node.
func (f *Farm) Self() Node { return f.self }

// Address is where a node is asked on the bus. An earlier run is elsewhere.
func (n Node) Address() string { return n.Name + "." + strconv.FormatUint(n.Boot, 10) }

// Tag is what a run of a node is known by in few bytes: in the nonces of stamps.
func (n Node) Tag() (tag [8]byte) {
	name := sha256.Sum256([]byte(n.Name))
	boot := sha256.Sum256([]byte(strconv.FormatUint(n.Boot, 10)))
	copy(tag[:4], name[:])
	copy(tag[4:], boot[:])
	return tag
}

// Tagged returns the node with a tag, if it is this one or is up.
func (f *Farm) Tagged(tag [8]byte) (Node, bool) {
	if f.self.Tag() == tag {
		return f.self, true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if m.State == Up && m.Tag() == tag {
			return m.Node, true
		}
	}
	return Node{}, false
}

// byName returns the members in an order that does not depend on chance.
func (f *Farm) byName() []*member {
	if f.order == nil {
		f.order = make([]*member, 0, len(f.members))
		for _, name := range slices.Sorted(maps.Keys(f.members)) {
			f.order = append(f.order, f.members[name])
		}
	}
	return f.order
}

// Stats say what went wrong.
type Stats struct {
	BusStats
	Missed    uint64 // messages of others that never came, and were made up for by snapshots
	Snapshots uint64 // that were asked for
	Malformed uint64
	Strangers uint64 // messages under another secret, or of an incompatible version
}

// Stats returns what went wrong.
func (f *Farm) Stats() Stats {
	bus := f.bus.Stats()
	f.mu.Lock()
	defer f.mu.Unlock()
	stats := f.stats
	dropped := stats.Dropped
	stats.BusStats = bus
	stats.Dropped += dropped
	return stats
}

// clip is a text within bounds.
func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxText)], "") }
