package tcpgate

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"weir/gate"
)

const (
	// chunkSize is how much is read at a time when bytes are counted. It is small, so that pauses are short.
	chunkSize = 32 << 10
	// spliceSize is how much the system is asked to move at a time when they are not.
	spliceSize = 1 << 20
	// maxSpliceTime is how long the system may take for that. Then the gate notes how much was moved, and waits for
	// more without a pipe.
	maxSpliceTime = 100 * time.Millisecond
)

// chunks are the buffers through which bytes go.
var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// relay joins the two sides until both have sent everything, or the connection is cut.
func (c *conn) relay() {
	c.idle.patience = c.setup.opts.Timeouts.Idle.Std()
	if !c.setup.metered {
		c.idle.patience += c.spliceTime() // what moved may not have been noted yet
	}
	c.idle.expired = func() { c.cut(errIdle) }
	c.idle.start()
	defer c.idle.stop()
	var back sync.WaitGroup
	passed := c.gate.env.Observer.Passed
	in := &direction{c, &c.client, &c.upstream, &c.in, func(n int64) { passed(n, 0) }}
	out := &direction{c, &c.upstream, &c.client, &c.out, func(n int64) { passed(0, n) }}
	back.Go(func() { out.forward(nil) })
	ahead := c.ahead
	c.ahead = nil
	in.forward(ahead)
	back.Wait()
}

func (c *conn) spliceTime() time.Duration {
	return min(maxSpliceTime, c.setup.opts.Timeouts.Idle.Std()/4)
}

// A direction is one of the two in which bytes flow.
type direction struct {
	*conn
	src, dst *side
	total    *atomic.Int64
	observe  func(n int64)
}

// forward passes on what one side sends, and its end. ahead has been read from it already.
func (d *direction) forward(ahead []byte) {
	defer d.gate.Recover(gate.ConnectionFailed, func() { d.cut(errPanic) }, slog.String("id", d.event.ID))
	err := d.put(ahead)
	if err == nil {
		err = d.run()
	}
	switch {
	case err == nil:
		d.dst.finish()
	case dead(d.dst) && !dead(d.src):
		// The receiver is gone, but what it sent before may still be on its way back. The other direction goes on and
		// ends by itself.
	default:
		d.cut(err)
	}
}

// run passes bytes on until the source has ended.
func (d *direction) run() error {
	if dst, ok := d.dst.stream.(*net.TCPConn); ok && !d.setup.metered {
		return d.splice(dst)
	}
	return d.copy()
}

// copy reads into a buffer, so that bytes can be charged and paced. It holds no buffer while there is nothing to read,
// nor while it waits for a throttle.
func (d *direction) copy() error {
	wait := awaitReadable(d.src)
	for {
		if err := wait(); err != nil {
			return err
		}
		if err := d.chunk(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// chunk passes on as much as the throttles grant, and then pauses where one says so. Nothing is read meanwhile, so that
// TCP tells the source to stop.
func (d *direction) chunk() error {
	most, asked, err := d.ask(chunkSize)
	if err != nil {
		return err
	}
	buf := chunks.Get().(*[chunkSize]byte)
	n, err := d.src.Read(buf[:most])
	if back := most - int64(n); back > 0 {
		d.pass.Return(back, asked, d.gate.env.Clock.Now())
	}
	var until time.Time
	if n > 0 {
		if _, failed := d.dst.Write(buf[:n]); failed != nil {
			err = failed
		} else {
			until = d.moved(int64(n))
		}
	}
	chunks.Put(buf)
	if err != nil {
		return err
	}
	return d.pause(until)
}

// ask waits until the throttles grant up to so many bytes, and returns how many, and when that was.
func (d *direction) ask(most int64) (n int64, at time.Time, err error) {
	for {
		at = d.gate.env.Clock.Now()
		n, again := d.pass.Ask(most, false, at)
		if n > 0 {
			return n, at, nil
		}
		if err := d.pause(again); err != nil {
			return 0, at, err
		}
	}
}

// put passes on what was read before.
func (d *direction) put(p []byte) error {
	for len(p) > 0 {
		n, _, err := d.ask(int64(len(p)))
		if err != nil {
			return err
		}
		if _, err := d.dst.Write(p[:n]); err != nil {
			return err
		}
		if err := d.pause(d.moved(n)); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// splice lets the system move the bytes from socket to socket. It waits for bytes between two splices, as each splice
// under way occupies a pipe: silent connections should not need six descriptors instead of two.
func (d *direction) splice(dst *net.TCPConn) error {
	wait, round := awaitReadable(d.src), d.spliceTime()
	src := &io.LimitedReader{R: d.src.stream}
	for {
		if err := wait(); err != nil {
			return err
		}
		_ = d.src.SetReadDeadline(time.Now().Add(round))
		src.N = spliceSize
		n, err := dst.ReadFrom(src)
		_ = d.src.SetReadDeadline(time.Time{})
		if n > 0 {
			d.moved(n)
		}
		switch {
		case err == nil && n < spliceSize:
			return nil // the end
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
	}
}

// moved notes that bytes went on, and returns until when to pause; zero means not at all.
func (d *direction) moved(n int64) (until time.Time) {
	d.total.Add(n)
	d.observe(n)
	d.idle.touch()
	if d.setup.metered {
		until = d.pass.Flow(n, d.gate.env.Clock.Now())
	}
	return until
}

// pause waits until a time, or until the connection is cut.
func (d *direction) pause(until time.Time) error {
	clock := d.gate.env.Clock
	wait := until.Sub(clock.Now())
	if until.IsZero() || wait <= 0 {
		return nil
	}
	d.idle.paused.Add(1)
	defer func() {
		d.idle.touch()
		d.idle.paused.Add(-1)
	}()
	over := make(chan struct{})
	timer := clock.AfterFunc(wait, func() { close(over) })
	select {
	case <-over:
		return nil
	case <-d.ctx.Done():
		timer.Stop()
		return context.Cause(d.ctx)
	}
}
