package farm

import (
	"context"
	"errors"
)

// Bounds of messages.
const (
	MaxMessage = 64 << 10 // bytes, sealed
	MaxTopic   = 100      // letters, digits, '-', '_' and '.'
	MaxNodes   = 64
)

// Errors of a bus, and of a farm.
var (
	ErrTooLarge = errors.New("the message is too large")
	ErrOutbox   = errors.New("too many messages wait to be sent")
	ErrGone     = errors.New("the node is gone")
	ErrClosed   = errors.New("the bus is closed")
)

// A Bus carries messages between the nodes of a farm. It knows nothing of members. Messages may be lost, repeated and
// reordered. Goroutines may share it.
type Bus interface {
	// Send hands a message to all other nodes, never to this one. It does not wait: ErrOutbox when too much does.
	Send(topic string, msg []byte) error
	// Hear calls f with the messages of a topic, one after the other. f must not keep msg, nor block.
	Hear(topic string, f func(msg []byte)) (stop func(), err error)
	// Ask sends a question to one node and waits for its answer: ErrGone when nobody answers there, or the error of
	// ctx.
	Ask(ctx context.Context, to, topic string, msg []byte) ([]byte, error)
	// Answer calls f with questions to a node, each on a goroutine of its own, as many at once as the bus allows.
	// An answer of nil is none: whoever asks waits for nothing.
	Answer(node, topic string, f func(msg []byte) []byte) (stop func(), err error)
	// Stats says how the bus does.
	Stats() BusStats
	// Close sends what waits, until ctx ends, and lets go of everything.
	Close(ctx context.Context) error
}

// BusStats say how a bus does.
type BusStats struct {
	Sent, Received uint64
	Dropped        uint64 // messages that could not be sent, or came too fast
	Waiting        int    // bytes to be sent
	// Refused are nodes that were not let in, or did not let this one in, lately: why, by their address.
	Refused map[string]string
}
