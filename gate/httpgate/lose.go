package httpgate

import (
	"errors"
	"net/http"

	"weir"
)

// errLost is why a request's context ended when it lost its place at the upstream.
var errLost = errors.New("the place at the upstream was lost")

// smallPiece is how much is written at a time to a client that may lose its place: progress shows after each piece.
const smallPiece = 8 << 10

// Moved is how many bytes have gone through so far, in both directions.
func (x *exchange) Moved() int64 { return x.in.Load() + x.sent.Load() }

// Lose ends a request that did not pay and makes no progress, while requests that paid wait. What it is doing fails.
func (x *exchange) Lose() {
	x.lost.Store(true)
	x.cancel(errLost)
	go x.stopWriting()
}

// stopWriting ends what is being written to the client, once the upstream's answer has begun. Before that, lostPlace
// answers.
func (x *exchange) stopWriting() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || !x.begun.Load() {
		return
	}
	if x.conn != nil && x.r.ProtoMajor == 1 {
		_ = x.conn.SetWriteDeadline(past)
		return
	}
	_ = http.NewResponseController(x.w).SetWriteDeadline(past)
}

// lostPlace answers a request that lost its place before its answer had begun.
func (x *exchange) lostPlace() {
	x.refuseOverload(weir.Figure{By: x.setup.chain.LanesLink().Name, Rule: "progress"})
}
