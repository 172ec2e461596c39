package httpgate

import (
	"errors"
	"net/http"

	"weir"
)

// errLost is why a request's context ended when it lost its place at the upstream.
var errLost = errors.New("the place at the upstream was lost")

// smallPiece is how much is written at a time where only the end of a write shows that the client took something.
const smallPiece = 8 << 10

// acked reports whether the system says how much the client has taken. For HTTP/2 it does not say so of a stream.
func (x *exchange) acked() bool { return x.reply != nil && x.conn.acks() }

// Moved is how many bytes have gone through so far, in both directions, and whether the exchange waits for its client.
// Of an answer over HTTP/1 counts what the client has acknowledged, as buffers on the way take megabytes at once. A
// body of unknown length owes nothing once the answer has begun: the two may be a conversation, in which the client
// has nothing to say. An upgraded connection always is one.
func (x *exchange) Moved() (n int64, late bool) {
	out, begun := x.out.Load(), x.begun.Load()
	if begun && x.acked() {
		out = x.conn.taken()
	}
	late = x.taking.Load() > 0 || x.owed.Load() != 0 && !(begun && x.r.ContentLength < 0)
	return x.in.Load() + out, late
}

// Lose ends a request that has to give its place to another one. What it is doing fails.
func (x *exchange) Lose() {
	x.lost.Store(true)
	go x.stop()
}

// stop ends what a request that lost its place waits for: the upstream or the client's body, and, once the answer has
// begun, what is being written to the client. Before that, lostPlace answers.
func (x *exchange) stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return
	}
	if x.cancel != nil { // or else breakable will see that it is lost
		x.cancel(errLost)
	}
	switch {
	case !x.begun.Load():
	case x.conn != nil && x.r.ProtoMajor == 1:
		_ = x.conn.SetWriteDeadline(past)
	default:
		_ = http.NewResponseController(x.w).SetWriteDeadline(past)
	}
}

// lostPlace answers a request that lost its place before its answer had begun.
func (x *exchange) lostPlace() {
	x.refuseOverload(weir.Figure{By: x.setup.chain.LanesLink().Name, Rule: "progress"})
}
