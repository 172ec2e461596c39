package farm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// maxStrangers is how many nodes that are no members are shown.
const maxStrangers = 16

// A member is another node that has the secret.
type member struct {
	Member
	beats   uint64 // the number of its last heartbeat
	ended   uint64 // as it said there
	heard   tick   // when it came, or when this node woke
	left    tick   // when it said goodbye
	lost    tick   // when it was taken for lost
	mourned bool   // and the others were told that its run may have ended
	mute    bool   // it did not answer in time, and was not heard since
	clock   offsets
	knows   bool               // what there was to know when it started
	since   uint64             // the number of its joining
	part    bool               // it has a part of what is divided
	view    uint64             // of its roll
	set     uint64             // of the names in it
	windows map[string]*window // of the farm's own topics, and of what it asks
	streams map[string]*stream // of what is shared
}

// A stranger is a node that is not let in.
type stranger struct {
	Member
	last tick
}

// A rival is another node with the name of this one, that started earlier.
type rival struct {
	boot         uint64
	beats        uint64
	first, heard tick
	proven       bool // what it says is of now
}

// A beat is a heartbeat. Fields that are missing were not known when its sender was made.
type beat struct {
	Minor   int               `json:"minor"`
	Version string            `json:"version"`
	Host    string            `json:"host,omitempty"`
	Raw     int64             `json:"raw"` // its machine's time, in microseconds since the epoch
	Config  string            `json:"config,omitempty"`
	Sent    map[string]uint64 `json:"sent"`            // the last number of each shared topic
	Ended   uint64            `json:"ended,omitempty"` // changes when runs of other nodes have ended
	Roll    roll              `json:"roll"`
	Knows   bool              `json:"knows,omitempty"` // it knows what there was to know when it started
}

// A farewell is a goodbye.
type farewell struct {
	Beat uint64 `json:"beat"` // the number of its last heartbeat, as that may come later
}

func (f *Farm) beat(now time.Time) []byte {
	b := beat{Minor: Minor, Version: f.version, Host: f.host, Raw: now.UnixMicro(), Config: f.config,
		Sent: map[string]uint64{}, Ended: f.ended, Roll: f.kept, Knows: f.aware}
	b.Roll.Node, b.Roll.Part, b.Roll.Agreed = "", f.part, false
	for name, t := range f.topics {
		if t.state != nil {
			b.Sent[name] = f.sent[name]
		}
	}
	payload, _ := json.Marshal(b) // of texts and numbers
	return payload
}

func (f *Farm) goodbye() note {
	payload, _ := json.Marshal(farewell{f.sent[beatTopic]}) // of a number
	return f.number(goodbyeTopic, payload)
}

// fresh reports whether a message of a member is not a repetition.
func (m *member) fresh(topic string, seq uint64) bool {
	w := m.windows[topic]
	if w == nil {
		w = &window{}
		m.windows[topic] = w
	}
	return w.see(seq)
}

// take takes one message from the inbox. It returns what it is to a shared state, if anything.
func (f *Farm) take(d *delivery, now time.Time) *hearing {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	proven := false
	if d.topic == proofTopic+f.self.Address() {
		if d, proven = f.hearProof(d); !proven {
			return nil
		}
	}
	switch {
	case d.topic == challengeTopic+f.self.Address():
		f.hearChallenge(d)
		return nil
	case d.From.Name == f.self.Name:
		f.namesake(d, proven)
		return nil
	case f.why != "":
		return nil
	case d.topic == beatTopic:
		f.hearBeat(d, proven, now)
		return nil
	}
	m := f.members[d.From.Name]
	if m == nil || m.Boot != d.From.Boot {
		return nil // it will be heard, and asked for a snapshot
	}
	if !strings.HasPrefix(d.topic, ownTopics) {
		return f.hearShared(m, d)
	}
	if !m.fresh(d.topic, d.Seq) {
		return nil
	}
	switch d.topic {
	case goodbyeTopic:
		f.hearGoodbye(m, d)
	case partTopic:
		return f.hearPart(m, d)
	default:
		f.hearRequest(d)
	}
	return nil
}

// hearBeat takes a heartbeat, which may be proven to be of now.
func (f *Farm) hearBeat(d *delivery, proven bool, now time.Time) {
	var b beat
	if err := json.Unmarshal(d.Payload, &b); err != nil || !b.Roll.valid() {
		f.stats.Malformed++
		return
	}
	m := f.members[d.From.Name]
	if m != nil && m.Node == d.From && d.Seq <= m.beats {
		return
	}
	if !proven && (m == nil || m.Node != d.From || m.State != Up) {
		if !f.outdated(d, m) {
			f.prove(d.From)
		}
		return
	}
	set := f.set()
	if m == nil || m.Node != d.From {
		if m = f.admit(d, m); m == nil {
			return
		}
	}
	before := m.State
	m.beats, m.heard, m.mute = d.Seq, f.now, false
	m.State, m.Heard, m.Version, m.Config = Up, now, clip(b.Version), clip(b.Config)
	m.Lag = m.clock.add(ahead(b.Raw, now))
	m.Offset = m.clock.best()
	for name := range f.topics {
		f.compare(m, name, &b, before)
	}
	m.ended, m.knows = b.Ended, b.Knows
	f.heed(m, &b.Roll, set)
	if before != Up {
		f.back = f.now
		delete(f.strangers, m.Name)
		f.log.Info("a node of the farm is up", "node", m.Name, "version", m.Version, "was", string(before))
		f.told(m.Member)
	}
}

// admit makes a run of a node a member, in place of the one that had its name. It returns nil for one that is not
// let in.
func (f *Farm) admit(d *delivery, old *member) *member {
	if f.outdated(d, old) {
		return nil
	}
	if old != nil {
		if old.Boot != 0 { // else it was never heard
			f.bury(old)
			f.orphan()
		}
	} else if !f.room() {
		f.strange(d.From.Name, fmt.Sprintf("the farm has %d nodes already: 'weir farm forget' removes one that is lost", MaxNodes))
		f.stats.Strangers++
		return nil
	}
	m := &member{
		Member: Member{Node: d.From}, windows: map[string]*window{}, streams: map[string]*stream{},
	}
	f.members[m.Name], f.order = m, nil
	f.greet() // it need not wait long to hear of this node
	return m
}

// outdated reports whether a heartbeat is of an earlier run than the one that is here.
func (f *Farm) outdated(d *delivery, here *member) bool {
	return here != nil && here.State == Up && d.From.Boot < here.Boot || d.Seq <= f.graves[d.From]
}

// room reports whether there is room for one more member, if need be of one that left.
func (f *Farm) room() bool {
	if len(f.members) < MaxNodes-1 {
		return true
	}
	for _, m := range f.byName() {
		if m.State == Left {
			f.drop(m)
			return true
		}
	}
	return false
}

// bury remembers which heartbeats of a run have been heard, so that no old one brings it back.
func (f *Farm) bury(m *member) {
	if len(f.graves) >= MaxNodes {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(f.graves)), func(a, b Node) int {
			return cmp.Or(cmp.Compare(a.Boot, b.Boot), cmp.Compare(a.Name, b.Name))
		})
		delete(f.graves, oldest)
	}
	f.graves[m.Node] = m.beats
}

// drop removes a member.
func (f *Farm) drop(m *member) {
	f.bury(m)
	delete(f.members, m.Name)
	f.order = nil
}

func (f *Farm) hearGoodbye(m *member, d *delivery) {
	var bye farewell
	if err := json.Unmarshal(d.Payload, &bye); err != nil {
		f.stats.Malformed++
		return
	}
	if m.State == Left || bye.Beat < m.beats {
		return // it came back since
	}
	m.beats = bye.Beat
	f.bygone(m.Name, m.since)
	f.leave(m)
	f.enrol(0)
	f.orphan()
	f.log.Info("a node left the farm", "node", m.Name)
}

// namesake takes a message of a node with the name of this one.
func (f *Farm) namesake(d *delivery, proven bool) {
	switch r := f.rival; {
	case d.From.Boot == f.self.Boot:
		return // this node's own, sent back by somebody
	case d.From.Boot > f.self.Boot:
		if d.topic == beatTopic {
			f.strange(d.From.Name, "it has the name of this node: give it another farm.node")
		}
		return
	case d.topic == goodbyeTopic && r != nil && r.boot == d.From.Boot:
		if f.why != "" {
			f.rejoin()
		}
		f.rival = nil
		return
	case d.topic != beatTopic:
		return
	}
	var b beat
	if err := json.Unmarshal(d.Payload, &b); err != nil {
		f.stats.Malformed++
		return
	}
	if b.Raw <= int64(f.self.Boot) {
		return // a message of an earlier run of this node
	}
	r := f.rival
	if r == nil || f.why == "" && r.boot != d.From.Boot {
		f.rival = &rival{boot: d.From.Boot, beats: d.Seq, first: f.now, heard: f.now}
		return
	}
	if r.boot != d.From.Boot || d.Seq < r.beats || d.Seq == r.beats && !proven {
		return
	}
	r.beats, r.heard, r.proven = d.Seq, f.now, r.proven || proven
	if !r.proven {
		f.prove(d.From)
		return
	}
	if f.why == "" && f.now-r.first >= HeartbeatEvery {
		f.why = fmt.Sprintf("another node at %s calls itself %s: give this one another farm.node",
			cmp.Or(clip(b.Host), "another host"), f.self.Name)
		f.leaving = true
		f.log.Error("this node is not let into the farm", "why", f.why)
		f.told(f.here())
	}
}

func (f *Farm) rejoin() {
	f.why, f.rival, f.nextBeat = "", nil, f.now
	f.log.Info("the node that had this node's name is gone: joining the farm", "node", f.self.Name)
	f.told(f.here())
}

// age notices who is silent, and forgets who left.
func (f *Farm) age() {
	if f.rival != nil && f.now-f.rival.heard >= LostAfter {
		if f.why != "" {
			f.rejoin()
		}
		f.rival = nil
	}
	for _, m := range f.byName() {
		switch {
		case m.State == Up && f.now-m.heard >= LostAfter:
			m.State, m.lost, m.mourned = Lost, f.now, false
			f.log.Warn("a node of the farm is lost", "node", m.Name)
			f.told(m.Member)
		case m.State == Lost && !m.mourned && f.mourn(m):
			m.mourned = true
			f.ended++
		case m.State == Left && f.now-m.left >= forgetAfter:
			f.drop(m)
		}
	}
	if f.ending != 0 && f.now >= f.ending {
		f.ending = 0
		f.ended++
	}
	for name, s := range f.strangers {
		if f.now-s.last >= forgetAfter {
			delete(f.strangers, name)
		}
	}
}

// mourn reports whether it is time to say what a lost node told this one. Soon it may come back, and can say itself
// what others missed. But a node that came back shortly before it was lost grants with this one already, and may have
// heard nothing of it: this one did not speak for it then, as it did not know that it was lost.
func (f *Farm) mourn(m *member) bool {
	return f.now-m.lost >= LostAfter || f.back != 0 && f.back <= m.lost && m.lost-f.back < 2*LostAfter
}

// reject counts a message that does not open.
func (f *Farm) reject(err error) {
	var from *strangerError
	if !errors.As(err, &from) {
		f.stats.Malformed++
		return
	}
	f.stats.Strangers++
	f.strange(from.name, from.why)
}

// strange remembers a node that is not let in. Nobody vouches for its name.
func (f *Farm) strange(name, why string) {
	s := f.strangers[name]
	if s == nil {
		if len(f.strangers) >= maxStrangers {
			return
		}
		s = &stranger{}
		f.strangers[name] = s
	}
	if s.Why != why {
		f.log.Warn("a node is not let into the farm", "node", name, "why", why)
	}
	s.Member = Member{Node: Node{Name: name}, State: Refused, Heard: f.last, Why: why}
	s.last = f.now
}

// here is this node as a member.
func (f *Farm) here() Member {
	m := Member{Node: f.self, State: Here, Version: f.version, Config: f.config, Heard: f.last, Why: f.why}
	if f.why != "" {
		m.State = Refused
	}
	return m
}

func (f *Farm) told(m Member) {
	if f.watch != nil {
		f.watch(m)
	}
}

// up is how many nodes are up, this one included.
func (f *Farm) up() int {
	up := 1
	for _, m := range f.members {
		if m.State == Up {
			up++
		}
	}
	return up
}

// Members returns all members, this node first, then by name.
func (f *Farm) Members(now time.Time) []Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	here := f.here()
	here.Heard = now
	all := []Member{here}
	for _, m := range f.members {
		all = append(all, m.Member)
	}
	for _, s := range f.strangers {
		all = append(all, s.Member)
	}
	slices.SortFunc(all[1:], func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(b.Boot, a.Boot)) // members before strangers
	})
	return all
}

// Watch registers the one function that is called when a member changes its state, and once for each that there is.
// It is called under a lock. It is not told of strangers, as anybody can give themselves the name of a member.
func (f *Farm) Watch(told func(Member)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = told
	f.told(f.here())
	for _, m := range f.byName() {
		f.told(m.Member)
	}
}

// A Standing is this node's place among those that divide a limit. Ranks are by name, from 0; sets of them have one
// bit each.
type Standing struct {
	Of, Rank int
	Up       uint64 // who can be heard, this node included
	Parts    uint64 // of those, who has a part of what is divided: see roll
	Agreed   bool   // all had the same roll, so that ranks are the same everywhere
}

// Whole reports whether every node can be heard.
func (s Standing) Whole() bool { return bits.OnesCount64(s.Up) >= s.Of }

// Standing returns this node's place. A node that said goodbye grants nothing, so that no limit is divided for it.
func (f *Farm) Standing() Standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := []string{f.self.Name}
	for name, m := range f.members {
		if m.State != Left {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	s := Standing{Of: min(max(f.expected-len(f.gone), len(names)), MaxNodes)}
	for rank, name := range names {
		m := f.members[name]
		if name == f.self.Name {
			s.Rank = rank
		} else if m.State != Up {
			continue
		}
		s.Up |= 1 << rank
		if f.why == "" && (m == nil && f.part || m != nil && m.part) {
			s.Parts |= 1 << rank
		}
	}
	s.Agreed = f.agreed && len(names) == s.Of
	return s
}

// Share returns among how many nodes something is to be divided that stays where it is while a node starts anew, and
// which of them this one is, from 0: a node that said goodbye keeps its part for a minute.
func (f *Farm) Share() (of, rank int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := 0
	for name, m := range f.members {
		if m.State == Left {
			left++
		} else if name < f.self.Name {
			rank++
		}
	}
	of = max(f.expected-len(f.gone)+left, len(f.members)+1)
	return of, rank % of
}

// Forget removes a lost member, so that shares are made without it. ErrGone when there is none of that name.
func (f *Farm) Forget(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[name]
	if m == nil || m.State == Up {
		return ErrGone
	}
	if m.State == Lost {
		if !m.mourned {
			f.orphan()
		}
		f.bygone(name, m.since)
		f.enrol(0)
	}
	f.drop(m)
	return nil
}
