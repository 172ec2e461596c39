package farm

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestMaxNodes(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	f, err := Join(Joining{Bus: nowhere{}, Node: Node{"self", 1}, Secrets: [][]byte{oldSecret}}, now)
	if err != nil {
		t.Fatal(err)
	}
	seq := uint64(0)
	hear := func(names ...string) {
		for _, name := range names {
			seq++
			tell(t, f, Node{name, 1}, beatTopic, seq, []byte(`{"sent":{}}`))
		}
		f.Advance(now)
	}
	var names []string
	for i := range MaxNodes - 1 { // this node is one of them
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	hear(names...)
	hear("one-more")
	hear("one-more")
	all := f.Members(now)
	if len(all) != MaxNodes+1 || f.up() != MaxNodes || f.Stats().Strangers != 2 {
		t.Errorf("%d are shown, %d are up, %d messages of strangers", len(all), f.up(), f.Stats().Strangers)
	}
	if m := all[MaxNodes-1+1]; m.Name != "one-more" || m.State != Refused || !strings.Contains(m.Why, "64 nodes already") {
		t.Errorf("%+v", m)
	}
	tell(t, f, Node{"n05", 1}, goodbyeTopic, 1, fmt.Appendf(nil, `{"beat":%d}`, seq))
	hear("one-more")
	if m := f.members["one-more"]; m == nil || m.State != Up || f.members["n05"] != nil || len(f.strangers) != 0 {
		t.Errorf("there is room, and yet: %+v", m)
	}
	for i := range 3 * MaxNodes { // runs that end are remembered, but not all of them
		tell(t, f, Node{"n07", uint64(i) + 2}, beatTopic, 1, []byte(`{}`))
	}
	hear()
	if len(f.graves) != MaxNodes {
		t.Errorf("%d runs are remembered", len(f.graves))
	}
	if n := f.members["n07"].Boot; n != 3*MaxNodes+1 {
		t.Errorf("run %d is there", n)
	}
}

func TestSnapshotIsBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	f, err := Join(Joining{Bus: nowhere{}, Node: Node{"self", 1}, Secrets: [][]byte{oldSecret}}, now)
	if err != nil {
		t.Fatal(err)
	}
	state := &heap{size: MaxPlain/2 + 1} // no two fit into one part
	if _, err := f.Keep("heap", state); err != nil {
		t.Fatal(err)
	}
	f.topics["heap"].wants = true
	f.Advance(now)
	if n := len(f.topics["heap"].out.parts); n > maxParts || n != state.given {
		t.Errorf("%d parts of %d messages, and %d are allowed", n, state.given, maxParts)
	}
	if size := state.given * state.size; size > MaxSnapshot || size < MaxSnapshot-2*MaxPlain {
		t.Errorf("%d bytes", size)
	}
	for range 200 {
		now = now.Add(100 * time.Millisecond)
		f.Advance(now)
	}
	if f.topics["heap"].out != nil {
		t.Error("the snapshot is still kept")
	}
}

// A heap is a state that is larger than a snapshot may be.
type heap struct {
	deaf
	size, given int
}

func (h *heap) Snapshot(_ time.Time, give func([]byte) bool) {
	for give(make([]byte, h.size)) {
		h.given++
	}
}
