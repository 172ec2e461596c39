package grpcserve

import (
	"fmt"

	"golang.org/x/net/http2"
)

// A BoundError says that a caller wanted more than it may have.
type BoundError struct {
	Name string // for metrics
	what string
}

func (e *BoundError) Error() string { return e.what }

// What callers are turned away for.
var (
	// The stream is refused.
	ErrStreams = &BoundError{"streams", "there are as many calls at once as the connection may have"}
	// The call is answered by RESOURCE_EXHAUSTED.
	ErrMessage    = &BoundError{"message", "the message is too large"}
	ErrHeaderList = &BoundError{"headers", "the headers are too large"}
	// The call is answered by DEADLINE_EXCEEDED.
	ErrSlow = &BoundError{"slow", "the request did not come to its end in time"}
	// The stream is reset, or the connection ends where nothing at all is taken off it.
	ErrUnread = &BoundError{"unread", "answers are not taken"}
	// The connection ends.
	ErrHeaderBlock = &BoundError{"header_block", "a block of headers is too long"}
	ErrResets      = &BoundError{"resets", "too many calls were called off"}
	ErrFrames      = &BoundError{"frames", "too many frames that ask for nothing"}
)

// Bounds lists what Options.Bounded may be told.
var Bounds = [...]*BoundError{ErrStreams, ErrMessage, ErrHeaderList, ErrSlow, ErrHeaderBlock, ErrResets, ErrFrames,
	ErrUnread}

const (
	// streamWindow is how much a caller may send on a stream before it is read. A larger message gets more.
	streamWindow = 64 << 10
	// maxContinued is how many frames may continue a block of headers.
	maxContinued = 16
	// maxIdleFrames is how many frames that ask for nothing a caller may send in a tick: pings, settings, priorities,
	// windows, empty data. Every answer allows for some more.
	maxIdleFrames = 1000
	framesPerCall = 20
	// maxResets is how many calls may be called off in a tick, where Options.Streams is not more. Every answer allows
	// for one more. Envoy calls off what takes longer than its timeout.
	maxResets = 1000
	// unreadMessages is how many of the largest messages of answers a connection may hold that its caller does not
	// take.
	unreadMessages = 4
	// enough is how much is gathered before it is sent.
	enough = 64 << 10
	// ticks are how often within Options.Silent connections are looked at.
	ticks = 8
)

// A connError ends a connection.
type connError struct {
	code http2.ErrCode
	why  error
}

func (e connError) Error() string { return fmt.Sprintf("%s: %v", e.code, e.why) }

func (e connError) Unwrap() error { return e.why }

// violation is a connection error about what a caller must not do.
func violation(code http2.ErrCode, format string, args ...any) error {
	return connError{code, fmt.Errorf(format, args...)}
}

// exceeded counts a bound at which the connection ends.
func (c *conn) exceeded(b *BoundError) error {
	c.server.o.Bounded(b.Name)
	return connError{http2.ErrCodeEnhanceYourCalm, b}
}

// idleFrame takes a frame that asks for nothing off what the caller may send.
func (c *conn) idleFrame() error {
	if c.idleFrames--; c.idleFrames < 0 {
		return c.exceeded(ErrFrames)
	}
	return nil
}

// calledOff takes a call that came to nothing off what the caller may call off.
func (c *conn) calledOff() error {
	if c.resets--; c.resets < 0 {
		return c.exceeded(ErrResets)
	}
	return nil
}

// refill allows for as much as at the beginning, and answered for a little more.
func (c *conn) refill() {
	c.idleFrames, c.resets = maxIdleFrames, max(maxResets, c.server.o.Streams)
}

func (c *conn) answered() {
	c.idleFrames = min(c.idleFrames+framesPerCall, maxIdleFrames)
	c.resets = min(c.resets+1, max(maxResets, c.server.o.Streams))
}
