package httpgate

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"sync"
	"time"

	"weir"
	"weir/gate/refusal"
	"weir/identify"
	"weir/internal/queue"
)

// leastRate is how many bytes a second a client must send of a body that is read before its request has a place, after
// the time that it may take anyway.
const leastRate = 1 << 10

// firstRead is how much memory a body takes at first that is read before its request has a place.
const firstRead = 4 << 10

var (
	errManyBodies  = errors.New("the client sends too many bodies at once")
	errOldestBody  = errors.New("other bodies need the room")
	errNoBodyRoom  = errors.New("there is no room to read the body first")
	errBodyTooLong = errors.New("the request's body is longer than announced")
)

// A bodyRoom bounds the memory of the bodies that are read before their requests have a place at the upstream. At the
// bound the body goes that has been read for the longest time: it is the slowest one, and a newcomer always has a turn.
type bodyRoom struct {
	mu      sync.Mutex
	sum     int64 // of all bodies, until their requests are over
	reading queue.Listed[early]
	clients map[netip.Addr]int64 // bytes of bodies that are being read, by network
}

// An early body is read before its request has a place.
type early struct {
	x      *exchange
	client netip.Addr
	held   int64
	failed error // under bodyRoom.mu: it is not to be read on
	listed queue.Node[early]
}

func (r *bodyRoom) begin(e *early) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading.Add(&e.listed, e)
}

// take counts n more bytes for a body. Others may have to go.
func (r *bodyRoom) take(e *early, n int64, b *Bounds) error {
	r.mu.Lock()
	var gone []*early
	for e.failed == nil && r.sum+n > int64(b.Bodies) {
		oldest := r.reading.First()
		if oldest == e && e.listed.Next() == nil {
			e.failed = errNoBodyRoom // the others are whole
		} else {
			oldest.failed = errOldestBody
			gone = append(gone, oldest)
			r.forget(oldest)
		}
	}
	if e.failed == nil && r.clients[e.client]+n > int64(b.ClientBodies) {
		e.failed = errManyBodies
	}
	if e.failed == nil {
		r.sum += n
		r.clients[e.client] += n
		e.held += n
	}
	err := e.failed
	r.mu.Unlock()
	for _, other := range gone {
		if other != e {
			other.x.readDeadline(past)
		}
	}
	return err
}

// forget notes that a body is not read any more, and gives its room back. mu is held.
func (r *bodyRoom) forget(e *early) {
	r.reading.Remove(&e.listed)
	if r.clients[e.client] -= e.held; r.clients[e.client] == 0 {
		delete(r.clients, e.client)
	}
	r.sum -= e.held
}

// end notes that a body has been read, or will not be. Its room is given back, unless it is whole.
func (r *bodyRoom) end(e *early, whole bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.failed == errOldestBody {
		return e.failed
	}
	r.forget(e)
	if whole {
		r.sum += e.held
	}
	return e.failed
}

// free gives back the room of a whole body.
func (r *bodyRoom) free(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum -= n
}

// readsFirst reports whether the body of a request is read before the request takes a place at the upstream: a client
// that sends it slowly then takes no place from others. A body that has come already need not be.
func (x *exchange) readsFirst() bool {
	n := x.r.ContentLength
	return x.event.Holder != nil && n > 0 && n <= maxKept && !x.setup.chain.LanesLink().Shadow.Load() &&
		!refusal.IsGRPC(x.fields.Get("Content-Type")) && upgradeOf(x.fields) == "" &&
		!(x.reply != nil && int64(len(x.reply.session.in)) >= n)
}

// readFirst reads the body, within the bounds on memory and time, and puts it back for the next reader.
func (x *exchange) readFirst() (time.Time, error) {
	if x.bodyRead.Load() {
		return x.gate.env.Clock.Now(), nil // a stamp is for this request: see message
	}
	room := &x.gate.bodies
	e := &early{x: x, client: identify.Network(x.event.Source, 32, 64).Addr()}
	room.begin(e)
	x.gate.env.Observer.Reading(1)
	defer x.gate.env.Observer.Reading(-1)
	patience := x.setup.opts.Timeouts.Progress.Std() + time.Duration(x.r.ContentLength)*time.Second/leastRate
	x.readDeadline(time.Now().Add(patience))
	body, err := x.readWhole(e)
	if failed := room.end(e, err == nil); failed != nil {
		err = failed
	}
	switch err {
	case nil:
		x.early = e.held
		x.bodyRead.Store(true)
		x.readDeadline(time.Time{})
		x.r.Body = putBack(body, x.r.Body)
	case errNoBodyRoom: // it is read when it has a place
		x.gate.env.Observer.Bounded(BoundBodies)
		x.r.Body = putBack(body, x.r.Body)
		err = nil
	default:
		x.earlyErr = err
		x.bodyErr.CompareAndSwap(nil, &err)
	}
	return x.gate.env.Clock.Now(), err
}

// readWhole reads the body. Its memory grows with what comes, not with what is announced.
func (x *exchange) readWhole(e *early) ([]byte, error) {
	length := int(x.r.ContentLength)
	var body []byte
	for {
		if len(body) == cap(body) && len(body) < length {
			size := min(max(2*cap(body), firstRead), length)
			if err := x.gate.bodies.take(e, int64(size-cap(body)), &x.setup.opts.Bounds); err != nil {
				return body, err
			}
			body = append(make([]byte, 0, size), body...)
		}
		var end [1]byte
		into := body[len(body):cap(body)]
		if len(body) == length { // HTTP/2 has the end, and trailers, behind the body
			into = end[:]
		}
		n, err := x.r.Body.Read(into)
		switch {
		case len(body)+n > length:
			return body, errBodyTooLong
		case err == io.EOF && len(body)+n < length:
			return body, io.ErrUnexpectedEOF
		case err == io.EOF:
			return body[:length], nil
		case err != nil:
			return body, err
		}
		body = body[:len(body)+n]
	}
}

// putBack returns a body that begins with what has been read of it.
func putBack(read []byte, rest io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(read), rest), rest}
}

// failedFirst answers a request whose body could not be read before it had a place.
func (x *exchange) failedFirst(err error) {
	x.onward = x.gate.env.Clock.Now()
	switch err {
	case errManyBodies:
		x.gate.env.Observer.Bounded(BoundClientBodies)
		x.pass.Answer = weir.Answer{Verdict: weir.Refuse, Reason: weir.TooMany, Figures: x.pass.Answer.Figures,
			Figure: weir.Figure{By: gateName, Rule: "bounds." + BoundClientBodies, Unit: "bytes",
				Limit: int64(x.setup.opts.Bounds.ClientBodies)}, Until: x.onward.Add(time.Second)}
		x.refuse(&x.pass.Answer)
	case errOldestBody:
		x.refuseAtBound(BoundBodies, "bytes", int64(x.setup.opts.Bounds.Bodies))
	default:
		x.failedByClient(err)
	}
}
