package farm

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	maxParts     = 2 * MaxSnapshot / MaxPlain // two that follow each other fill more than one
	maxMissing   = 256                        // parts that are asked for again at once
	partsAtOnce  = 16                         // in one step, and then others may send
	partEvery    = 5 * time.Millisecond       // about as fast as they are read
	paceEvery    = 2 * partEvery
	maxUnderWay  = 64              // parts that this node waits for, before it asks for another snapshot
	guessedParts = 16              // of a snapshot of a topic of which none has come yet
	snapshotGap  = HeartbeatEvery  // between snapshots of one topic, so that several nodes share one
	sparing      = 3               // between two of them passes so many times what it took to send one, at least
	keepSnapshot = 5 * time.Second // for those who missed parts of it
)

// A topic is a state that is shared, or was.
type topic struct {
	state Shared // nil: not any more
	wants bool   // somebody asked for a snapshot
	out   *outgoing
	size  int // how many parts the last snapshot of another node had; 0: none came
}

// outgoing is a snapshot that is being sent.
type outgoing struct {
	id, at uint64
	parts  [][]byte
	queue  []int // what is yet to be sent
	begun  tick
	took   tick // from then until all parts were sent
	last   tick // when a part was last sent or asked for
}

// A request asks one node for a snapshot, or for parts of one.
type request struct {
	Topic   string `json:"topic"`
	ID      uint64 `json:"id,omitempty"`      // of the snapshot whose parts are missing
	Missing []int  `json:"missing,omitempty"` // the first of them
}

// A partHead stands before a part of a snapshot: two bytes with its length, the head as JSON, the messages.
type partHead struct {
	Topic string `json:"topic"`
	None  bool   `json:"none,omitempty"` // the node does not keep this topic
	ID    uint64 `json:"id"`             // later ones are higher
	At    uint64 `json:"at"`             // the last number of the topic when the snapshot was made
	K     int    `json:"k"`
	N     int    `json:"n"`
}

// A hearing is what a shared state is to be told.
type hearing struct {
	from  Node
	topic string
	state Shared
	msgs  [][]byte
	id    uint64 // of the snapshot that they are a part of
}

// validTopic returns what is wrong with a topic.
func validTopic(name string) error {
	switch {
	case name == "" || len(name) > MaxTopic ||
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "":
		return fmt.Errorf("%q is not a topic: use up to %d letters, digits, '-', '_' and '.'", clip(name), MaxTopic)
	case strings.HasPrefix(name, ownTopics):
		return fmt.Errorf("the topic %q is the farm's own: use one that does not begin with %q", name, ownTopics)
	}
	return nil
}

// Keep makes a state one that the farm shares. stop ends that.
func (f *Farm) Keep(name string, s Shared) (stop func(), err error) {
	if err := validTopic(name); err != nil {
		return nil, err
	}
	t := &topic{state: s}
	f.mu.Lock()
	old := f.topics[name]
	switch {
	case f.closed:
		err = ErrClosed
	case old != nil && old.state != nil:
		err = fmt.Errorf("the topic %q is shared already: stop that first", name)
	case old == nil && len(f.topics) >= MaxTopics:
		err = fmt.Errorf("a farm shares at most %d topics: use one of them for several things", MaxTopics)
	}
	if err != nil {
		f.mu.Unlock()
		return nil, err
	}
	f.topics[name] = t
	for _, m := range f.members {
		m.stream(name).require()
	}
	f.mu.Unlock()
	unhear, err := f.bus.Hear(name, f.receive(name))
	if err != nil {
		f.unkeep(t)
		return nil, fmt.Errorf("the bus does not listen to %s: %w", name, err)
	}
	f.wake()
	return func() { f.unkeep(t); unhear() }, nil
}

// unkeep ends that a state is shared. Its numbers go on when it is shared again.
func (f *Farm) unkeep(t *topic) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t.state, t.out, t.wants = nil, nil, false
}

// CaughtUp reports whether this node knows what all nodes that are up have told about what they share.
func (f *Farm) CaughtUp() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if m.State == Up && !f.complete(m) {
			return false
		}
	}
	return true
}

// complete reports whether this node knows what a member has told.
func (f *Farm) complete(m *member) bool {
	for name, t := range f.topics {
		if t.state == nil {
			continue
		}
		if s := m.streams[name]; s == nil || !s.absent && (s.want || s.floor < s.told) {
			return false
		}
	}
	return true
}

// Keeping returns the names of the nodes that are up and keep a topic, with those that have not said so yet.
func (f *Farm) Keeping(topic string) (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	names = append(names, f.self.Name)
	for name, m := range f.members {
		if s := m.streams[topic]; m.State == Up && (s == nil || !s.absent) {
			names = append(names, name)
		}
	}
	return names
}

// A Learning is how far a node that started has come.
type Learning struct {
	// Told: it knows what all nodes have told that know and are up. There may be none.
	Told bool
	// Knows: what there was to know when it started, it knows. It does not come back to not knowing.
	Knows bool
}

// Learn looks how far this node has come since it started. It knows all when a node that knows has told it; or if none
// does, as all started together, when all nodes are up and have told each other what they kept. Those that said goodbye
// are not waited for. A node that is the only one listens for LostAfter.
func (f *Farm) Learn() Learning {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.aware {
		return Learning{true, true}
	}
	l, heard, taught, all, alone := Learning{Told: true}, false, false, true, true
	for _, m := range f.members {
		if m.State == Left {
			continue
		}
		alone = false
		complete := m.State == Up && f.complete(m)
		heard, taught = heard || m.knows, taught || complete && m.knows
		all = all && complete
		l.Told = l.Told && (complete || !m.knows || m.State != Up)
	}
	all = all && f.part && f.agreed && (!alone || f.now >= LostAfter)
	if l.Told = l.Told && heard == taught; l.Told && (taught || all) && f.why == "" {
		f.aware = true
		f.greet()
	}
	l.Knows = f.aware
	return l
}

// stream returns what the member tells about a topic.
func (m *member) stream(topic string) *stream {
	s := m.streams[topic]
	if s == nil {
		s = &stream{}
		s.require()
		m.streams[topic] = s
	}
	return s
}

// compare looks at what a heartbeat says about a topic. A snapshot is due where the member is back, or has news.
func (f *Farm) compare(m *member, name string, b *beat, was State) {
	s := m.stream(name)
	state, can := f.topics[name].state.(Lasting)
	lasts := can && was == Lost && state.Lasting()
	due := m.ended != b.Ended || was != Up && !lasts
	n, kept := b.Sent[name]
	if !kept {
		s.absent = true
		return
	}
	s.meet(n, f.now)
	if due || s.absent {
		s.require()
	}
}

// orphan is called when a run of a node has ended, as far as this node can tell. This node may have heard what others
// missed, and that run cannot be asked any more. So it tells them that it ended, as soon as nothing is under way,
// and they ask this node for snapshots.
func (f *Farm) orphan() {
	if f.ending == 0 {
		f.ending = f.now + LostAfter
	}
}

// hearShared takes a message about a shared state.
func (f *Farm) hearShared(m *member, d *delivery) *hearing {
	t := f.topics[d.topic]
	if t == nil || t.state == nil {
		return nil
	}
	s := m.stream(d.topic)
	if s.absent {
		s.require()
	}
	if !s.hear(d.Seq, f.now) {
		return nil
	}
	return &hearing{from: d.From, topic: d.topic, state: t.state, msgs: [][]byte{d.Payload}}
}

// deliver tells a shared state.
func (f *Farm) deliver(h *hearing, now time.Time) {
	var errs []error
	for _, msg := range h.msgs {
		if err := safely(func() error { return h.state.Hear(h.from, msg, now) }); err != nil {
			errs = append(errs, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(errs) > 0 {
		f.stats.Malformed += uint64(len(errs))
		f.log.Warn("a message of another node cannot be understood", "node", h.from.Name, "topic", h.topic, "error", errs[0],
			"messages", len(errs))
	}
	if h.id == 0 {
		return
	}
	m := f.members[h.from.Name]
	if m == nil || m.Node != h.from {
		return
	}
	if s := m.stream(h.topic); s.parts != nil && s.parts.id == h.id && s.parts.left == 0 {
		f.stats.Missed += s.restore(s.parts.at, f.now)
	}
}

// safely turns a panic into an error: what one node sends must not end another.
func safely(do func() error) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("panic: %v", what)
		}
	}()
	return do()
}

// requests adds what this node has to ask others for, and says which topics it does not keep. It asks for a few
// snapshots at a time: those of all nodes at once are more than it can read. All nodes ask in the same order, so
// that many share a snapshot, and those last that were asked before, as they may not answer.
func (f *Farm) requests(out []note) []note {
	underWay := 0
	var asks []asking
	for _, m := range f.byName() {
		if m.State != Up {
			continue
		}
		for name, s := range m.streams {
			switch t := f.topics[name]; {
			case t == nil || t.state == nil || !s.lacks(f.now):
			case s.mayAsk(f.now):
				asks = append(asks, asking{m, s, name})
			default:
				underWay += s.expects(t)
			}
		}
	}
	slices.SortFunc(asks, func(a, b asking) int {
		return cmp.Or(cmp.Compare(a.askedAt(), b.askedAt()), cmp.Compare(a.Name, b.Name), cmp.Compare(a.topic, b.topic))
	})
	for _, a := range asks {
		if underWay >= maxUnderWay {
			break
		}
		underWay += a.expects(f.topics[a.topic])
		out = append(out, f.ask(a))
	}
	for _, name := range f.nones {
		out = append(out, f.number(partTopic, makePart(partHead{Topic: name, None: true}, nil)))
	}
	f.nones = nil
	return out
}

// An asking is a member that is to be asked for a snapshot of a topic.
type asking struct {
	*member
	*stream
	topic string
}

// ask asks a member for a snapshot, or for what is missing of one.
func (f *Farm) ask(a asking) note {
	s := a.stream
	s.ever, s.asked = true, f.now
	f.stats.Snapshots++
	r := request{Topic: a.topic}
	if s.parts != nil && !s.helps(s.parts.id, s.parts.at) {
		s.parts = nil
	}
	if s.parts != nil {
		r.ID, r.Missing = s.parts.id, s.parts.missing()
	}
	payload, _ := json.Marshal(r)        // of texts and numbers
	n := f.number(requestTopic, payload) // one row of numbers for all nodes: gaps in it mean nothing
	n.topic += a.Address()
	return n
}

// hearRequest takes the request for a snapshot.
func (f *Farm) hearRequest(d *delivery) {
	var r request
	if err := json.Unmarshal(d.Payload, &r); err != nil || validTopic(r.Topic) != nil {
		f.stats.Malformed++
		return
	}
	t := f.topics[r.Topic]
	if t == nil || t.state == nil {
		if len(f.nones) < MaxTopics && !slices.Contains(f.nones, r.Topic) {
			f.nones = append(f.nones, r.Topic)
		}
		return
	}
	o := t.out
	if o == nil || r.ID != o.id {
		t.wants = true
		return
	}
	o.last = f.now
	for _, k := range r.Missing[:min(len(r.Missing), maxMissing)] {
		if k >= 0 && k < len(o.parts) && !slices.Contains(o.queue, k) {
			o.queue = append(o.queue, k)
		}
	}
}

// hearPart takes a part of a snapshot, whether this node asked for it or another.
func (f *Farm) hearPart(m *member, d *delivery) *hearing {
	h, msgs, err := parsePart(d.Payload)
	if err != nil {
		f.stats.Malformed++
		return nil
	}
	t := f.topics[h.Topic]
	if t == nil || t.state == nil {
		return nil
	}
	s := m.stream(h.Topic)
	if h.None {
		s.absent = s.lacks(f.now)
		return nil
	}
	s.latest = max(s.latest, h.ID)
	t.size = h.N
	if !s.lacks(f.now) || !s.take(&h, f.now) {
		return nil
	}
	return &hearing{from: d.From, topic: h.Topic, state: t.state, msgs: msgs, id: h.ID}
}

// parsePart reads a part of a snapshot.
func parsePart(payload []byte) (h partHead, msgs [][]byte, err error) {
	if len(payload) < 2 {
		return h, nil, ErrMalformed
	}
	size, rest := int(binary.BigEndian.Uint16(payload)), payload[2:]
	if size > len(rest) {
		return h, nil, ErrMalformed
	}
	if err := json.Unmarshal(rest[:size], &h); err != nil {
		return h, nil, ErrMalformed
	}
	if validTopic(h.Topic) != nil || !h.None && (h.ID == 0 || h.N < 1 || h.N > maxParts || h.K < 0 || h.K >= h.N) {
		return h, nil, ErrMalformed
	}
	for rest = rest[size:]; len(rest) > 0; {
		if len(rest) < 4 {
			return h, nil, ErrMalformed
		}
		n := int(binary.BigEndian.Uint32(rest))
		if rest = rest[4:]; n > len(rest) {
			return h, nil, ErrMalformed
		}
		msgs = append(msgs, rest[:n:n])
		rest = rest[n:]
	}
	return h, msgs, nil
}

// makePart is the opposite of parsePart, of messages that are packed.
func makePart(h partHead, packed []byte) []byte {
	head, _ := json.Marshal(h) // of texts and numbers
	part := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(head)+len(packed)), uint16(len(head)))
	return append(append(part, head...), packed...)
}

// sendSnapshots makes snapshots that were asked for, and sends as much of them as the bus takes. It reports whether
// there is more.
func (f *Farm) sendSnapshots(now time.Time) (more bool) {
	f.mu.Lock()
	names := slices.Sorted(maps.Keys(f.topics))
	f.mu.Unlock()
	budget := f.budget()
	for _, name := range names {
		f.makeSnapshot(name, now)
		for budget > 0 {
			n, k := f.nextPart(name)
			if n == nil {
				break
			}
			budget--
			if err := f.post(*n); errors.Is(err, ErrOutbox) {
				f.putBack(name, k)
				return true
			}
		}
		f.mu.Lock()
		t := f.topics[name]
		more = more || t.out != nil && len(t.out.queue) > 0
		f.mu.Unlock()
	}
	return more
}

// budget is how many parts may be sent in this step. Steps follow each other as messages come, and whoever hears
// has to read all parts: so it is the time that counts.
func (f *Farm) budget() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now < f.nextParts {
		return 0
	}
	return min(partsAtOnce, 1+int((f.now-f.nextParts)/partEvery))
}

// makeSnapshot makes a snapshot if one is wanted and the last one was sent. Parts are kept meanwhile, as a state that
// is locked while it gives its messages must not wait for the bus.
func (f *Farm) makeSnapshot(name string, now time.Time) {
	f.mu.Lock()
	t := f.topics[name]
	o := t.out
	if o != nil && len(o.queue) == 0 && f.now-o.last >= keepSnapshot {
		t.out = nil
	}
	if !t.wants || t.state == nil || f.why != "" ||
		o != nil && (len(o.queue) > 0 || f.now-o.begun < max(snapshotGap, sparing*o.took)) {
		f.mu.Unlock()
		return
	}
	t.wants = false
	state := t.state
	f.snaps++
	next := &outgoing{id: f.snaps, at: f.sent[name], begun: f.now, last: f.now}
	f.mu.Unlock()

	packed, size := [][]byte{nil}, 0
	var tooLarge error
	err := safely(func() error {
		state.Snapshot(now, func(msg []byte) bool {
			if len(msg) > MaxPlain || size+len(msg) > MaxSnapshot {
				tooLarge = ErrTooLarge
				return len(msg) > MaxPlain // only this one is left out
			}
			size += len(msg) + 4
			last := &packed[len(packed)-1]
			if len(*last) > 0 && len(*last)+4+len(msg) > MaxPlain {
				packed = append(packed, nil)
				last = &packed[len(packed)-1]
			}
			*last = append(binary.BigEndian.AppendUint32(*last, uint32(len(msg))), msg...)
			return true
		})
		return tooLarge
	})
	if err != nil {
		f.log.Error("a snapshot is not complete: other nodes do not learn all of it", "topic", name, "error", err)
	}
	for k := range packed {
		next.parts = append(next.parts,
			makePart(partHead{Topic: name, ID: next.id, At: next.at, K: k, N: len(packed)}, packed[k]))
		packed[k] = nil
		next.queue = append(next.queue, k)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.state != nil {
		t.out = next
	}
}

// nextPart takes the next part of a snapshot to send, if any.
func (f *Farm) nextPart(name string) (*note, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.topics[name].out
	if o == nil || len(o.queue) == 0 || f.closed || f.why != "" {
		return nil, 0
	}
	k := o.queue[0]
	o.queue, o.last, f.nextParts = o.queue[1:], f.now, f.now+partEvery
	if len(o.queue) == 0 && o.took == 0 {
		o.took = f.now - o.begun
	}
	n := f.number(partTopic, o.parts[k])
	return &n, k
}

// putBack takes back a part that the bus did not take.
func (f *Farm) putBack(name string, k int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.topics[name].out; o != nil {
		o.queue = slices.Insert(o.queue, 0, k)
	}
}

// Send tells the other nodes something about a shared state. What the bus does not take is made up for by a snapshot
// later, so that an error need not be acted on.
func (f *Farm) Send(name string, msg []byte) error {
	if len(msg) > MaxPlain {
		return fmt.Errorf("%w: %d bytes, and a message has at most %d", ErrTooLarge, len(msg), MaxPlain)
	}
	f.mu.Lock()
	t := f.topics[name]
	var err error
	switch {
	case f.closed:
		err = ErrClosed
	case t == nil || t.state == nil:
		err = fmt.Errorf("the topic %q is not shared: call Keep first", clip(name))
	}
	if err != nil {
		f.mu.Unlock()
		return err
	}
	n := f.number(name, msg)
	refused := f.why != ""
	f.mu.Unlock()
	if refused {
		return ErrRefused
	}
	return f.post(n)
}
