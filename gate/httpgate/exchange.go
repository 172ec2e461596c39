package httpgate

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/gate"
	"weir/gate/refusal"
	"weir/identify"
	"weir/internal/http1"
	"weir/policy"
)

// An exchange is one request with its answer, on their way through the gate. It is the http.ResponseWriter that answers
// go through, and the upstream's Caller. It belongs to the goroutine of the request, except for what says otherwise.
type exchange struct {
	pass *policy.Pass
	own  *http1.Fields // of the request, where no session has read it; nil before there were some
	late *time.Timer   // looks at an HTTP/2 stream; nil before there was one
	requestState
}

// A requestState is what an exchange knows of the request under way.
type requestState struct {
	gate  *Gate
	setup *setup
	conn  *conn // nil when the request came on no connection of the gate's own
	w     http.ResponseWriter
	r     *http.Request // its Header may be missing: see full
	reply *reply        // w, where a session serves the request

	fields *http1.Fields // of the request

	ctx    context.Context         // ends when the client leaves
	cancel context.CancelCauseFunc // nil while only net/http can tell that the client has left
	unhook sync.Once               // the hang-up watch is set up once
	remove func()

	origin              identify.Origin
	event               weir.Event // since it came: Time is when it began, ID what client and log are shown
	bodied              bool       // it has a body
	counted             bool       // among the gate's requests
	who                 gate.Who   // whose it is, at the bounds that all clients share
	early               int64      // bytes of the body that were read before the request had a place
	earlyErr            error      // why that failed
	tokenErr            error      // why its token is not good
	judged              bool
	metered             bool   // a throttle that judged it counts bytes
	waited              bool   // it was made to wait
	waitedBy, waitedFor string // by which throttle and rule

	trace    *trace // nil where there are no traces
	*payment        // nil where no stamps are taken: most exchanges should be small, as many may be held

	onward time.Time // when it went on to the upstream, or was refused

	parts *[]weir.Part // the memory of the event's parts; nil where there are none
	price weir.Price   // what the answer says that the request has cost

	status   int
	replied  int  // the status of the upstream's answer; 0 while there is none
	cookies  bool // what names the account in its cookies must be put in order
	reached  bool // it may have reached the upstream
	slow     bool // the upstream took its time
	hijacked bool
	answered bool         // by the gate itself, not by the upstream
	writeErr error        // the client could not be written to
	in       atomic.Int64 // bytes of the request's body; read by the transport's goroutine
	out      atomic.Int64 // bytes of the response's body
	owed     atomic.Int64 // since when the client owes bytes of its body, in Unix nanoseconds; 0: it is not waited for
	taking   atomic.Int32 // how many write to the client: the request's goroutine, and a timer
	offered  atomic.Int64 // since when HTTP/2's client does not take what is written, in Unix nanoseconds; 0 for not
	begun    atomic.Bool  // the upstream's answer is being passed on
	lost     atomic.Bool  // it has lost its place
	bodyErr  atomic.Pointer[error]
	bodyRead atomic.Bool // the request's body has been read to its end
	outAfter time.Time   // the response's body pauses until then

	headers refusal.Singles // of the response
	length  int64           // of the response's body; without end where it is not known
	head    *time.Timer     // sends the head off when the body is late
	writing sync.Mutex      // the response is written by the request's goroutine, and by that timer
	ended   bool            // under writing

	mu    sync.Mutex // deadlines are set by whoever reads the body, and by that timer
	over  bool       // the connection may be serving the next request
	timed bool       // late runs, or has run
	lasts bool       // an HTTP/2 stream for which net/http's own deadline does not count any more
}

// exchanges are those that may be used again, with the memory of their passes.
var exchanges = sync.Pool{New: func() any { return &exchange{pass: new(policy.Pass)} }}

// recycle makes an exchange ready for the next request, unless somebody else may still look at it: the sender of a
// body, a timer, a watch, or a program that embeds the gate.
func (x *exchange) recycle() {
	if x.conn == nil || x.hasBody() || x.cancel != nil || x.head != nil || x.waited || x.hijacked || x.payment != nil ||
		x.timed || x.lost.Load() || x.trailing() {
		return
	}
	x.pass.Answer.Clear()
	if x.own != nil {
		x.own.Reset()
	}
	x.requestState = requestState{}
	exchanges.Put(x)
}

// errOver is what a late reader of a body gets.
var errOver = errors.New("the request is over")

// errLeft is why a request's context ended when the hang-up watch saw the client go.
var errLeft = errors.New("the client has left")

// full returns the request with its Header, for those who need one as net/http has it.
func (x *exchange) full() *http.Request {
	if x.r.Header == nil {
		x.r.Header = x.fields.Header()
	}
	return x.r
}

// breakable makes sure that x.ctx can be ended from here. Whoever is about to wait calls it: most requests never do.
func (x *exchange) breakable() {
	if x.cancel != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx, x.cancel = context.WithCancelCause(x.ctx); x.lost.Load() {
		x.cancel(errLost)
	}
}

// waits is called before the exchange waits for something that x.ctx can end.
func (x *exchange) waits() {
	if x.alone() || x.event.Holder != nil {
		x.breakable()
	}
}

func (x *exchange) hasBody() bool { return x.bodied }

// alone reports whether nobody reads from the client's connection while its request is under way, so that only a watch
// notices that the client leaves. net/http reads ahead when there is no body to be read.
func (x *exchange) alone() bool { return x.conn != nil && x.conn.alone || x.hasBody() }

// parsedHere reports whether a session has read the request. net/http is less strict.
func (x *exchange) parsedHere() bool { return x.r.ProtoMajor == 1 && x.conn != nil && x.conn.alone }

// watchLeaving makes x.ctx end when the client of an HTTP/1 connection leaves, even while nobody reads from it. Several
// goroutines may call it, once x.ctx is breakable.
func (x *exchange) watchLeaving() {
	x.unhook.Do(func() {
		if x.r.ProtoMajor == 1 && x.conn != nil && x.cancel != nil {
			x.remove = x.gate.watch.add(x.conn, func() { x.cancel(errLeft) })
		}
	})
}

// unwatch ends the watch, and keeps a late reader of the body from starting one.
func (x *exchange) unwatch() {
	if x.cancel == nil {
		return // there is nothing that it could end
	}
	x.unhook.Do(func() {})
	if x.remove != nil {
		x.remove()
	}
}

// readDeadline sets the deadline for the client's next bytes, unless the exchange is over.
func (x *exchange) readDeadline(t time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		_ = http.NewResponseController(x.w).SetReadDeadline(t)
	}
}

// bodyDeadline sets the deadline for the next bytes of the body, unless the client owes none.
func (x *exchange) bodyDeadline(t time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over && !x.converses() {
		_ = http.NewResponseController(x.w).SetReadDeadline(t)
	}
}

// converses reports whether request and answer may be a conversation, in which the client may have nothing to say for
// a while: the length of the body is not known, and the answer has begun, or it is a call of gRPC, whose answer may
// begin at any time. A service that does not speak HTTP/2 has no such calls.
func (x *exchange) converses() bool {
	return x.r.ContentLength < 0 && (x.begun.Load() || x.r.ProtoMajor >= 2 &&
		refusal.IsGRPC(x.fields.Get("Content-Type")) && x.setup.servers.HTTP2())
}

// pause waits until a time, or until the client leaves.
func (x *exchange) pause(until time.Time) error {
	if until.IsZero() {
		return nil
	}
	wait := until.Sub(x.gate.env.Clock.Now())
	if wait <= 0 {
		return nil
	}
	x.watchLeaving()
	over := make(chan struct{})
	timer := x.gate.env.Clock.AfterFunc(wait, func() { close(over) })
	select {
	case <-over:
		return nil
	case <-x.ctx.Done():
		timer.Stop()
		return context.Cause(x.ctx)
	}
}

// Header returns the headers of the response.
func (x *exchange) Header() http.Header { return x.w.Header() }

// Unwrap lets http.ResponseController find what is below.
func (x *exchange) Unwrap() http.ResponseWriter { return x.w }

// WriteHeader writes status and headers. The gate's own headers are added to the final status only.
func (x *exchange) WriteHeader(status int) {
	if status == http.StatusContinue {
		return // net/http sends its own when the body is first read
	}
	if x.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		x.status = status
		x.finalHeaders()
	}
	x.w.WriteHeader(status)
}

// headDelay is how long the head of a response may wait for the first piece of its body, to leave together with it.
const headDelay = 5 * time.Millisecond

// headLater sends the head of a response without its body when that is late.
func (x *exchange) headLater() {
	x.head = time.AfterFunc(headDelay, func() {
		x.writing.Lock()
		defer x.writing.Unlock()
		if x.out.Load() == 0 && !x.ended {
			x.taking.Add(1)
			defer x.taking.Add(-1)
			x.offer()
			defer x.taken()
			_ = http.NewResponseController(x.w).Flush()
		}
	})
}

// endStream keeps the head's timer from touching a response that is over.
func (x *exchange) endStream() {
	if x.head == nil {
		return
	}
	x.head.Stop()
	x.writing.Lock()
	x.ended = true
	x.writing.Unlock()
}

// header is where the headers of the answer are set: in the list of a session's answer, or in net/http's map.
func (x *exchange) header() refusal.Header {
	if w := x.reply; w != nil {
		w.gather()
		return &w.passed
	}
	x.headers.Of = x.w.Header()
	return &x.headers
}

// finalHeaders adds the gate's own headers to an answer.
func (x *exchange) finalHeaders() {
	h := x.header()
	x.setup.response.apply(h)
	h.Set("X-Request-Id", x.event.ID)
	if x.payment != nil {
		x.paymentHeaders()
	}
	if x.judged {
		now := x.onward
		if x.slow || now.IsZero() {
			now = x.gate.env.Clock.Now()
		}
		refusal.RateLimit(h, x.pass.Answer.Figures, now)
	}
}

// Write writes an answer of the gate's own.
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return x.piece(p, true)
}

// piece writes a piece of the response's body, as soon as meters grant it and after the pause that they asked for. All
// but the last piece are sent off at once; the end of the request sends that.
func (x *exchange) piece(p []byte, last bool) (sent int, err error) {
	for {
		var n int
		if n, err = x.mayWrite(len(p) - sent); err == nil {
			n, err = x.sendAll(p[sent:sent+n], last && sent+n == len(p))
			sent += n
			if x.metered && x.judged {
				x.outAfter = x.pass.Flow(int64(n), x.gate.env.Clock.Now())
			}
		}
		if err != nil {
			x.writeErr = err
		}
		if err != nil || sent == len(p) {
			return sent, err
		}
	}
}

// mayWrite waits until some of n bytes of the response may be written, and returns how many.
func (x *exchange) mayWrite(n int) (int, error) {
	until := x.outAfter
	for {
		if !until.IsZero() {
			x.waits()
		}
		if err := x.pause(until); err != nil {
			return 0, err
		}
		if n == 0 || !x.metered || !x.judged {
			return n, nil
		}
		var granted int64
		if granted, until = x.pass.Ask(int64(n), false, x.gate.env.Clock.Now()); granted > 0 {
			return int(granted), nil
		}
	}
}

// maxBite is how much is read or written at a time where bytes are metered: it waits until all of it is granted.
const maxBite = 4 << 10

// bite is the part of a buffer that is filled, or written, at a time.
func (x *exchange) bite(p []byte) []byte {
	if x.metered {
		return p[:min(len(p), maxBite)]
	}
	return p
}

// ration waits until n bytes are granted where bytes are metered, however long that takes, and notes that they flow. It
// sets the time until which the next ones should pause.
func (x *exchange) ration(n int, after *time.Time) error {
	if !x.metered || n == 0 {
		return nil
	}
	clock := x.gate.env.Clock
	for rest := int64(n); rest > 0; {
		granted, again := x.pass.Ask(rest, false, clock.Now())
		rest -= granted
		if granted == 0 {
			if err := x.pause(again); err != nil {
				return err
			}
		}
	}
	*after = x.pass.Flow(int64(n), clock.Now())
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return errOver // it may have been settled before it asked, and then nobody was charged
	}
	return nil
}

// sendAll sends a piece. Where progress must show and the system does not tell, it does so in small ones.
func (x *exchange) sendAll(p []byte, last bool) (sent int, err error) {
	x.taking.Add(1)
	defer x.taking.Add(-1)
	if x.event.Holder == nil || x.acked() {
		return x.send(p, last)
	}
	for {
		n := min(len(p)-sent, smallPiece)
		n, err = x.send(p[sent:sent+n], last || sent+n < len(p))
		if sent += n; err != nil || sent >= len(p) {
			return sent, err
		}
	}
}

func (x *exchange) send(p []byte, last bool) (int, error) {
	if x.head != nil {
		x.writing.Lock()
		defer x.writing.Unlock()
	}
	x.offer()
	defer x.taken()
	n, err := x.w.Write(p)
	if out := x.out.Add(int64(n)); err == nil && !last && out < x.length {
		// An error shows with the next piece, and an embedding server may not be able to flush.
		_ = http.NewResponseController(x.w).Flush()
	}
	return n, err
}
