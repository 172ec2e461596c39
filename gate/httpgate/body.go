package httpgate

import (
	"errors"
	"io"
	"net/http"
	"time"
)

var errBodyTooLarge = errors.New("the request's body is too large")

// A requestBody is the body of a request as the upstream's sender reads it: bounded, counted, metered, and cut off when
// the client makes no progress. The sender may read on for a moment after the request has ended.
type requestBody struct {
	x       *exchange
	src     io.ReadCloser
	bound   int64       // 0 for none
	trailer http.Header // of the request to the upstream, to be filled in at the end

	after   time.Time // the next read pauses until then
	renewed time.Time // when the deadline was last renewed
}

func (b *requestBody) Read(p []byte) (int, error) {
	x := b.x
	if err := x.pause(b.after); err != nil {
		return 0, b.fail(err)
	}
	b.renew()
	x.owe()
	n, err := b.src.Read(x.bite(p))
	x.owed.Store(0)
	total := x.in.Add(int64(n))
	if b.bound > 0 && total > b.bound {
		return 0, b.fail(errBodyTooLarge)
	}
	if failed := x.ration(n, &b.after); failed != nil {
		return 0, b.fail(failed)
	}
	switch {
	case err == io.EOF:
		// net/http reads ahead from here on. To it, a deadline would look as if the client had left.
		x.readDeadline(time.Time{})
		x.bodyRead.Store(true)
		b.fillTrailer()
	case err != nil:
		return n, b.fail(err)
	}
	return n, err
}

// Close does nothing: the client's side is closed when the request ends.
func (b *requestBody) Close() error { return nil }

// fail notes that the client's body failed, so that the upstream is not blamed for it.
func (b *requestBody) fail(err error) error {
	b.x.bodyErr.CompareAndSwap(nil, &err)
	return err
}

// renew moves the deadline on now and then: the client is cut off 1 to 9/8 timeouts after its last byte. That of HTTP/2
// would count while nobody reads, too: see lookAtStream.
func (b *requestBody) renew() {
	if b.x.r.ProtoMajor >= 2 {
		return
	}
	progress := b.x.setup.opts.Timeouts.Progress.Std()
	if now := time.Now(); now.Sub(b.renewed) > progress/8 {
		b.renewed = now
		b.x.bodyDeadline(now.Add(progress + progress/8))
	}
}

// fillTrailer passes the trailers on that the client announced. Their values are known only after the body.
func (b *requestBody) fillTrailer() {
	for name := range b.trailer {
		if values := b.x.r.Trailer[name]; len(values) > 0 {
			b.trailer[name] = values
		}
	}
}
