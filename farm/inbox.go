package farm

import "strings"

// Bounds of what waits for Advance.
const (
	MaxInbox   = 16 << 10  // messages
	inboxBytes = 16 << 20  // of messages, parts of snapshots apart
	partBytes  = 8 << 20   // of parts of snapshots; what is more is asked for again
	stepBytes  = 128 << 10 // that are handled in one step
	stepLength = 512       // messages, the same
)

// A delivery is a message that waits for Advance.
type delivery struct {
	topic string
	Sealed
}

// An inbox holds the messages that wait for Advance. Snapshots have room of their own there, and wait for
// everything else: a part that does not fit is asked for again, while a message that does not fit costs a whole
// snapshot. So a node that is overrun by snapshots loses nothing by them.
type inbox struct {
	beats, told, parts deliveries // beats are all of the farm's own messages but parts
	behind             bool       // there is more than is handled in one step
}

// put adds a message. It reports false where there is no room.
func (b *inbox) put(d delivery) bool {
	size := len(d.Payload)
	switch {
	case b.len() >= MaxInbox:
		return false
	case d.topic == partTopic:
		return len(b.parts.list) < MaxInbox/2 && b.parts.put(d, partBytes-size)
	case strings.HasPrefix(d.topic, ownTopics):
		return b.beats.put(d, inboxBytes-size-b.told.bytes)
	}
	return b.told.put(d, inboxBytes-size-b.beats.bytes)
}

func (b *inbox) len() int { return len(b.beats.list) + len(b.told.list) + len(b.parts.list) }

// portion takes what is handled in one step, so that none takes long: a node that reads the snapshots of all others
// must not be taken for lost meanwhile, nor take them for lost. For the same reason the farm's own messages do not
// wait; and requests for snapshots that come one by one are met by one snapshot, if they are not read one by one.
// One part of a snapshot is taken at least, so that it comes to an end while others go on talking.
func (b *inbox) portion() []delivery {
	now := b.beats.take(nil, b.beats.bytes)
	before := b.told.bytes
	now = b.told.take(now, stepBytes)
	now = b.parts.take(now, stepBytes-(before-b.told.bytes))
	b.behind = b.len() > 0
	return now
}

// deliveries are messages in the order in which they came.
type deliveries struct {
	list  []delivery
	bytes int
}

// put adds a message if at most so many bytes wait already.
func (q *deliveries) put(d delivery, most int) bool {
	if q.bytes > most {
		return false
	}
	q.list = append(q.list, d)
	q.bytes += len(d.Payload)
	return true
}

// take appends the first messages to a list: one, and more up to so many bytes and stepLength.
func (q *deliveries) take(to []delivery, most int) []delivery {
	n, size := 0, 0
	for n < min(len(q.list), stepLength) && (n == 0 || size+len(q.list[n].Payload) <= most) {
		size += len(q.list[n].Payload)
		n++
	}
	to = append(to, q.list[:n]...)
	clear(q.list[:n])
	if q.list = q.list[n:]; len(q.list) == 0 {
		q.list = nil
	}
	q.bytes -= size
	return to
}
