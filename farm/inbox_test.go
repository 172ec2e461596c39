package farm

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/testkit/needs"
)

func letters(b *inbox, topic string, n, size int) (taken int) {
	for range n {
		if b.put(delivery{topic, Sealed{Payload: make([]byte, size)}}) {
			taken++
		}
	}
	return taken
}

func TestInboxBounds(t *testing.T) {
	for _, c := range []struct {
		topic          string
		n, size, taken int
	}{
		{"things", MaxInbox + 1, 1, MaxInbox},
		{"things", inboxBytes/MaxPlain + 1, MaxPlain, inboxBytes / MaxPlain},
		{beatTopic, inboxBytes/MaxPlain + 1, MaxPlain, inboxBytes / MaxPlain},
		{partTopic, MaxInbox/2 + 1, 1, MaxInbox / 2},
		{partTopic, partBytes/MaxPlain + 1, MaxPlain, partBytes / MaxPlain},
	} {
		var b inbox
		if taken := letters(&b, c.topic, c.n, c.size); taken != c.taken {
			t.Errorf("%d messages of %d bytes about %s are taken, want %d", taken, c.size, c.topic, c.taken)
		}
	}
}

// However many parts of snapshots wait, messages have room, and are heard first. The parts are heard all the same.
func TestSnapshotsDisplaceNothing(t *testing.T) {
	needs.Unwatched(t)
	var b inbox
	letters(&b, partTopic, MaxInbox, MaxPlain)
	if taken := letters(&b, "things", MaxInbox/2, 1000); taken != MaxInbox/2 {
		t.Errorf("%d messages are taken", taken)
	}
	letters(&b, beatTopic, 10, 100)
	parts, told := len(b.parts.list), 0
	for steps := 0; b.len() > 0; steps++ {
		counts, size := map[string]int{}, 0
		for i, d := range b.portion() {
			if steps == 0 && i < 10 && d.topic != beatTopic {
				t.Fatalf("%s is heard before a heartbeat", d.topic)
			}
			counts[d.topic]++
			size += len(d.Payload)
		}
		switch {
		case size > stepBytes+MaxPlain+10*100 || counts["things"] > stepLength:
			t.Fatalf("a step of %d bytes, %d messages", size, counts["things"])
		case told < MaxInbox/2 && parts > 0 && counts[partTopic] != 1:
			t.Fatalf("%d parts are heard while messages wait", counts[partTopic])
		}
		parts -= counts[partTopic]
		told += counts["things"]
		if b.behind != (b.len() > 0) {
			t.Fatalf("behind: %t, with %d messages", b.behind, b.len())
		}
	}
	if parts != 0 || told != MaxInbox/2 || b.told.bytes != 0 || b.parts.bytes != 0 || b.beats.bytes != 0 {
		t.Errorf("%d parts are not heard, %d messages are; %+v", parts, told, b)
	}
}

// A node asks for a few snapshots at a time. One that does not answer keeps nobody else from being asked.
func TestFewSnapshotsAtATime(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	f, err := Join(Joining{Bus: nowhere{}, Node: Node{"self", 1}, Secrets: [][]byte{oldSecret}}, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Keep("things", deaf{}); err != nil {
		t.Fatal(err)
	}
	const nodes, most = 12, maxUnderWay / guessedParts
	beats := uint64(0)
	pass := func(d time.Duration) {
		beats++
		now = now.Add(d)
		for i := range nodes {
			tell(t, f, Node{fmt.Sprintf("n%02d", i), 1}, beatTopic, beats, []byte(`{"sent":{"things":0}}`))
		}
		f.Advance(now)
	}
	pass(0)
	asked := func() (n int) {
		for _, m := range f.members {
			if m.streams["things"].ever {
				n++
			}
		}
		return n
	}
	if n := asked(); n != most {
		t.Errorf("%d nodes are asked at once, want %d", n, most)
	}
	part := makePart(partHead{Topic: "things", ID: 1, K: 0, N: 1}, nil)
	tell(t, f, Node{"n00", 1}, partTopic, 1, part)
	pass(HeartbeatEvery)
	if n := asked(); n != nodes { // snapshots have one part, as is known by now
		t.Errorf("%d nodes are asked after the first one answered, want all", n)
	}
	f.topics["things"].size = maxParts // another one says that there is more
	for _, m := range f.members {
		m.streams["things"].require()
	}
	for range nodes {
		before := asked()
		pass(askAgainAfter)
		if n := asked(); n != before+1 {
			t.Fatalf("%d nodes are asked, want one more than %d", n, before)
		}
	}
}
