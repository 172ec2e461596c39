package farm

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"maps"
	"time"
)

// A roll is who belongs to the farm, as far as one node knows. Nodes tell it with each heartbeat, and keep it on their
// disks: a limit is divided among all who stand in it, whether they can be heard or not, also after a restart.
//
// A node has a part of what is divided once all have had the same roll, and until its goodbye was heard. So whoever
// has a part stands in the roll of everybody else who has one: all parts together are never more than the whole, into
// however many groups the network falls, and whatever some of them have not heard of.
type roll struct {
	Node string `json:"node,omitempty"` // whose it is; not told
	View uint64 `json:"view"`           // a later one is higher
	// Names are all members, this node included, each with the number of its joining.
	Names map[string]uint64 `json:"names"`
	// Gone are those that said goodbye or were forgotten, with the number of their last joining.
	Gone   map[string]uint64 `json:"gone,omitempty"`
	Part   bool              `json:"part,omitempty"`
	Agreed bool              `json:"agreed,omitempty"` // all had this view: ranks are the same everywhere; not told
}

// keepWithin is how long a goodbye waits for the disk.
const keepWithin = time.Second

// valid reports whether a roll is within bounds.
func (r *roll) valid() bool {
	if len(r.Names) > MaxNodes || len(r.Gone) > MaxNodes {
		return false
	}
	for _, names := range []map[string]uint64{r.Names, r.Gone} {
		for name := range names {
			if !namable(name) {
				return false
			}
		}
	}
	return true
}

// set tells sets of names apart.
func (r *roll) set() (sum uint64) {
	for name := range r.Names {
		sum += hashOf(name)
	}
	return sum
}

func hashOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it cannot fail
	return h.Sum64()
}

// A roster is what a farm knows of the roll besides its members.
type roster struct {
	since  uint64 // the number of this node's joining
	view   uint64
	gone   map[string]uint64
	part   bool
	agreed bool

	keep     func(roll []byte, done func(error))
	changed  bool // it is not handed over yet
	keeping  bool // it is handed over, and not on the disk yet
	keepNext tick // after a failure
	kept     roll // which is on the disk: this is what the others are told
}

// enlist begins with the roll that was kept, if there is one.
func (f *Farm) enlist(kept []byte) {
	var r roll
	if len(kept) > 0 {
		if err := json.Unmarshal(kept, &r); err != nil || r.Node != f.self.Name || !r.valid() {
			f.log.Warn("who belongs to the farm cannot be read: this node has to hear of it anew", "err", err)
			r = roll{}
		}
	}
	f.since, f.view, f.part, f.agreed = r.Names[f.self.Name], max(r.View, 1), r.Part, r.Part && r.Agreed
	if !f.part {
		f.since = max(f.self.Boot, f.since+1)
	}
	if f.gone = r.Gone; f.gone == nil {
		f.gone = map[string]uint64{}
	}
	for name, since := range r.Names {
		if name != f.self.Name && f.gone[name] < since {
			f.place(name, since)
		}
	}
	f.changed = true
}

// place makes a member of a name that was not heard yet.
func (f *Farm) place(name string, since uint64) {
	if f.room() {
		f.members[name], f.order = &member{Member: Member{Node: Node{Name: name}, State: Lost}, since: since,
			mourned: true, windows: map[string]*window{}, streams: map[string]*stream{}}, nil
	}
}

// roll is who belongs to the farm now.
func (f *Farm) roll() roll {
	r := roll{Node: f.self.Name, View: f.view, Names: map[string]uint64{f.self.Name: f.since}, Gone: maps.Clone(f.gone),
		Part: f.part, Agreed: f.agreed}
	for name, m := range f.members {
		if m.State != Left {
			r.Names[name] = m.since
		}
	}
	return r
}

// set tells who belongs to the farm apart from who did.
func (f *Farm) set() uint64 {
	sum := hashOf(f.self.Name)
	for name, m := range f.members {
		if m.State != Left {
			sum += hashOf(name)
		}
	}
	return sum
}

// enrol notes that somebody else belongs to the farm than before.
func (f *Farm) enrol(view uint64) {
	f.view, f.agreed, f.changed = max(f.view, view)+1, false, true
}

// heed takes in the roll of a member that was just heard. before is the set without what was heard.
func (f *Farm) heed(m *member, told *roll, before uint64) {
	m.since, m.part, m.view, m.set = told.Names[m.Name], told.Part, told.View, told.set()
	if m.since > f.gone[m.Name] {
		delete(f.gone, m.Name)
	}
	for name, since := range told.Gone {
		f.strike(name, since)
	}
	for name, since := range told.Names {
		k := f.members[name]
		switch {
		case name == f.self.Name || name == m.Name || since <= f.gone[name]:
		case k == nil:
			f.place(name, since)
		case k.State == Left: // it joined again, as somebody else has heard
			k.State, k.since = Lost, since
			delete(f.gone, name)
		default:
			k.since = max(k.since, since)
		}
	}
	switch set := f.set(); {
	case set != before:
		f.enrol(told.View)
	case set == m.set && told.View > f.view:
		f.view, f.agreed, f.changed = told.View, false, true
	case set != m.set && told.View >= f.view:
		f.enrol(told.View)
	}
}

// strike takes in that a joining of a node is over.
func (f *Farm) strike(name string, since uint64) {
	if name == f.self.Name {
		if since >= f.since { // the others do without this node, and have taken over its part
			f.since, f.part = since+1, false
			f.enrol(0)
		}
		return
	}
	m := f.members[name]
	if since <= f.gone[name] || m != nil && m.since > since {
		return
	}
	f.bygone(name, since)
	if m != nil && m.State == Lost { // else it is here: it will hear of this, and join again
		f.leave(m)
	}
}

// bygone remembers that a joining is over.
func (f *Farm) bygone(name string, since uint64) {
	if _, known := f.gone[name]; !known && len(f.gone) >= MaxNodes {
		oldest := name
		for other, at := range f.gone {
			if oldest == name || at < f.gone[oldest] {
				oldest = other
			}
		}
		delete(f.gone, oldest)
	}
	f.gone[name] = max(f.gone[name], since)
	f.changed = true
}

// leave takes in that a member has left.
func (f *Farm) leave(m *member) {
	m.State, m.left, m.part = Left, f.now, false
	f.told(m.Member)
}

// agree gives this node its part once all have the same roll. Whoever has heard nobody yet has none: it may have
// forgotten that others have taken it over.
func (f *Farm) agree() {
	if f.part && f.agreed || f.kept.View != f.view || f.why != "" {
		return
	}
	set, up := f.set(), 1
	if f.kept.set() != set {
		return
	}
	for _, m := range f.members {
		switch {
		case m.State == Left:
		case m.State != Up || m.view != f.view || m.set != set:
			return
		default:
			up++
		}
	}
	if up > 1 || f.expected == 1 || f.part {
		f.part, f.agreed, f.changed = true, true, true
		f.greet()
	}
}

// greet has the next heartbeat come soon.
func (f *Farm) greet() { f.nextBeat = min(f.nextBeat, max(f.now, f.lastBeat+greetEvery)) }

// toKeep returns the roll if it is to be put on the disk now. The others are told of it when it is there: what this
// node has told must hold after a restart as well.
func (f *Farm) toKeep() *roll {
	if !f.changed || f.keeping || f.now < f.keepNext {
		return nil
	}
	r := f.roll()
	f.changed = false
	if f.keep == nil {
		f.kept = r
		f.greet()
		return nil
	}
	f.keeping = true
	return &r
}

// handOver has a roll put on the disk.
func (f *Farm) handOver(r *roll) {
	text, _ := json.Marshal(r) // of texts and numbers
	f.keep(text, func(err error) {
		f.mu.Lock()
		f.keeping = false
		if err == nil {
			f.kept = *r
			f.greet()
		} else {
			f.changed, f.keepNext = true, f.now+askAgainAfter
		}
		f.mu.Unlock()
		f.wake()
	})
}

// giveUp puts on the disk that this node has no part any more, before it says goodbye: the others take it over then.
func (f *Farm) giveUp(ctx context.Context, r roll) error {
	if f.keep == nil {
		return nil
	}
	text, _ := json.Marshal(r) // of texts and numbers
	kept := make(chan error, 1)
	f.keep(text, func(err error) { kept <- err })
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
	defer cancel()
	select {
	case err := <-kept:
		return err
	case <-ctx.Done():
		return errors.Join(errors.New("the disk does not answer"), ctx.Err())
	}
}

// MaxRoll is how many bytes a roll has at most.
const MaxRoll = 2*MaxNodes*(MaxNode+32) + 1024
