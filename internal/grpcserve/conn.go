package grpcserve

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// readSize is how much is read at once.
	readSize = 8 << 10
	// frameSize is the largest frame that is read, and that is sent: every peer takes that much (RFC 9113, 4.2).
	frameSize = 16 << 10
	// firstWindow is how large windows are before anybody says otherwise.
	firstWindow = 65535
	// maxStream is the highest number of a stream.
	maxStream = 1<<31 - 1
	// lingers is how long a connection that ends waits for its caller to hang up, so that the caller can read why.
	lingers = time.Second
	// drains is how long a caller may take to say that it has heard of the end.
	drains = 5 * time.Second
)

// drainPing is the ping after the first GOAWAY. When it is answered, no call can be on its way that the caller began
// without knowing of the end.
var drainPing = [8]byte{'g', 'o', 'a', 'w', 'a', 'y'}

// A conn is one connection.
type conn struct {
	server *Server
	nc     net.Conn
	heard  atomic.Bool // something was read since the last look

	// Of the goroutine that reads.
	framer   *http2.Framer
	hpack    *hpack.Decoder
	buffered *bufio.Reader
	head     head
	answer   []byte // of a call that is answered by the goroutine that reads

	mu      sync.Mutex // of everything below
	streams map[uint32]*stream
	free    []*stream
	active  int        // streams, and calls under way whose stream is gone
	last    uint32     // the highest stream of the caller
	closed  [64]uint32 // the last streams that were reset here
	nclosed int        // where the next one is put in closed

	initialWindow int64 // for answers, of a stream that begins
	sendWindow    int64 // for answers, of the connection
	recvWindow    int64
	credit        int64     // what may be added to recvWindow
	stalled       []*stream // whose answers wait for a window

	out        []byte
	spare      []byte // for out, while another one is written
	held       int    // bytes of answers in stalled
	maxUnread  int    // the most of out and held
	writing    bool
	written    sync.Cond
	deadlineAt int64 // the tick at which the deadline for writing was set, plus 1
	over       bool  // nothing more is written

	phase      phase
	quiet      int // looks since something was read
	idleFrames int
	resets     int
}

// A phase is how far the end of a connection has come.
type phase uint8

const (
	serving   phase = iota
	leaving         // the caller has been told that there is an end
	lastCalls       // the caller has been told which call is the last
	done            // all have been answered
)

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, nc: nc, streams: map[uint32]*stream{}, initialWindow: firstWindow,
		sendWindow: firstWindow, recvWindow: firstWindow, maxUnread: unreadMessages * max(s.o.Message, 1<<20)}
	c.written.L = &c.mu
	c.refill()
	c.buffered = bufio.NewReaderSize((*flushing)(c), readSize)
	c.framer = http2.NewFramer((*outgoing)(c), c.buffered)
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(frameSize)
	c.hpack = hpack.NewDecoder(4096, c.head.field)
	c.hpack.SetMaxStringLength(s.o.HeaderList)
	c.mu.Lock()
	defer c.mu.Unlock()
	// A connection may hold requests that have not come to their end, but not many large ones.
	window := int64(max(1<<20, 2*s.o.Message))
	_ = c.framer.WriteSettings(
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(s.o.Streams)},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(s.o.HeaderList)})
	_ = c.framer.WriteWindowUpdate(0, uint32(window-c.recvWindow))
	c.recvWindow = window
	return c
}

// flushing reads from the connection. What has been answered is sent before it waits.
type flushing conn

func (f *flushing) Read(b []byte) (int, error) {
	c := (*conn)(f)
	c.flush()
	c.awaitWritten()
	n, err := c.nc.Read(b)
	if n > 0 {
		c.heard.Store(true)
	}
	return n, err
}

// outgoing appends to what is sent. The connection must be locked.
type outgoing conn

func (o *outgoing) Write(b []byte) (int, error) {
	o.out = append(o.out, b...)
	return len(b), nil
}

// flush sends what is there to be sent, unless somebody does so already and goes on with it.
func (c *conn) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing {
		return
	}
	c.writing = true
	for len(c.out) > 0 && !c.over {
		b := c.out
		c.out, c.spare = c.spare[:0], nil
		// A caller that takes nothing for this long is gone. The deadline is set once in a tick: that costs next to
		// nothing.
		if tick := c.server.tick.Load() + 1; tick != c.deadlineAt {
			c.deadlineAt = tick
			_ = c.nc.SetWriteDeadline(time.Now().Add(c.server.o.Silent * (ticks + 1) / ticks))
		}
		c.mu.Unlock()
		_, err := c.nc.Write(b)
		c.mu.Lock()
		if cap(b) <= 2*enough {
			c.spare = b[:0]
		}
		if err != nil {
			c.over = true
			if errors.Is(err, os.ErrDeadlineExceeded) {
				c.server.o.Bounded(ErrUnread.Name)
			}
			_ = c.nc.Close() // who reads learns of it
		}
	}
	c.writing = false
	c.written.Broadcast()
}

// awaitWritten waits until not too much is to be sent: a caller that does not read is not read from.
func (c *conn) awaitWritten() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writing && len(c.out) > enough {
		c.written.Wait()
	}
}

// serve serves the connection to its end.
func (c *conn) serve() {
	defer c.server.end(c)
	defer func() { _ = c.nc.Close() }()
	defer c.abandon()
	defer func() {
		if what := recover(); what != nil {
			c.server.o.Panicked(what)
		}
	}()
	err := c.run()
	if c.farewell(err) {
		c.linger()
	}
}

// run reads frames until the connection ends.
func (c *conn) run() error {
	_ = c.nc.SetReadDeadline(time.Now().Add(c.server.o.Connect))
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.buffered, preface); err != nil {
		return err
	}
	if string(preface) != http2.ClientPreface {
		return violation(http2.ErrCodeProtocol, "this is not HTTP/2")
	}
	f, err := c.framer.ReadFrame()
	if err != nil {
		return c.readError(err)
	}
	first, ok := f.(*http2.SettingsFrame)
	if !ok || first.IsAck() {
		return violation(http2.ErrCodeProtocol, "the connection does not begin with settings")
	}
	if err := c.take(first); err != nil {
		return err
	}
	c.begun()
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			if err = c.readError(err); err != nil {
				return err
			}
			continue
		}
		if err := c.take(f); err != nil {
			return err
		}
		c.relieve()
	}
}

// relieve sends what has been answered, before it is too much.
func (c *conn) relieve() {
	c.mu.Lock()
	much := len(c.out) > enough
	c.mu.Unlock()
	if much {
		c.flush()
		c.awaitWritten()
	}
}

// begun is called when the beginning is over: from now on the connection may be silent.
func (c *conn) begun() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != done {
		_ = c.nc.SetReadDeadline(time.Time{})
	}
}

// readError returns the error that ends the connection, or nil where an error of the framer concerns a stream alone.
func (c *conn) readError(err error) error {
	var stream http2.StreamError
	var whole http2.ConnectionError
	switch {
	case errors.As(err, &stream):
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.streamError(stream.StreamID, stream.Code)
	case errors.As(err, &whole):
		why := c.framer.ErrorDetail()
		if why == nil {
			why = errors.New("a frame is malformed")
		}
		return connError{http2.ErrCode(whole), why}
	case errors.Is(err, http2.ErrFrameTooLarge):
		return violation(http2.ErrCodeFrameSize, "a frame is larger than %d bytes", frameSize)
	}
	return err
}

// take takes a frame.
func (c *conn) take(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.HeadersFrame:
		return c.takeHeaders(f)
	case *http2.ContinuationFrame:
		return c.takeContinuation(f)
	case *http2.DataFrame:
		return c.takeData(f)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch f := f.(type) {
	case *http2.RSTStreamFrame:
		return c.takeReset(f)
	case *http2.WindowUpdateFrame:
		return c.takeWindow(f)
	case *http2.PingFrame:
		return c.takePing(f)
	case *http2.SettingsFrame:
		return c.takeSettings(f)
	case *http2.PriorityFrame:
		if f.StreamDep == f.StreamID {
			return c.streamError(f.StreamID, http2.ErrCodeProtocol)
		}
	case *http2.PushPromiseFrame:
		return violation(http2.ErrCodeProtocol, "a caller cannot push")
	case *http2.GoAwayFrame: // the caller hangs up when it has its answers
	}
	return c.idleFrame()
}

// takeSettings takes settings of the caller, and says so.
func (c *conn) takeSettings(f *http2.SettingsFrame) error {
	if err := c.idleFrame(); err != nil || f.IsAck() {
		return err
	}
	window := c.initialWindow
	for i := range f.NumSettings() {
		s := f.Setting(i)
		if err := s.Valid(); err != nil {
			code := http2.ErrCodeProtocol
			if whole, ok := err.(http2.ConnectionError); ok {
				code = http2.ErrCode(whole)
			}
			return violation(code, "a setting has a value that it cannot have")
		}
		// The others need nothing: frames of frameSize fit in any case, and headers are sent without a table.
		if s.ID == http2.SettingInitialWindowSize {
			window = int64(s.Val)
		}
	}
	by := window - c.initialWindow
	c.initialWindow = window
	for _, s := range c.streams {
		if s.sendWindow += by; s.sendWindow > maxWindow {
			return violation(http2.ErrCodeFlowControl, "the window of a stream is too large")
		}
	}
	_ = c.framer.WriteSettingsAck()
	c.sendStalled()
	return nil
}

// takePing answers a ping.
func (c *conn) takePing(f *http2.PingFrame) error {
	if !f.IsAck() {
		_ = c.framer.WritePing(true, f.Data)
	} else if f.Data == drainPing {
		c.tellLast()
	}
	return c.idleFrame()
}

// look is called once in a tick.
func (c *conn) look(tick int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refill()
	if c.heard.Swap(false) {
		c.quiet = 0
	} else if c.quiet++; c.quiet == ticks {
		_ = c.framer.WritePing(false, [8]byte{'s', 'i', 'l', 'e', 'n', 't'})
	} else if c.quiet >= 2*ticks {
		_ = c.nc.Close()
	}
	for _, s := range c.streams {
		if tick-s.since <= ticks {
			continue
		}
		switch {
		case !s.ended && !s.watching:
			c.server.o.Bounded(ErrSlow.Name)
			c.refuse(s, slowRequest)
		case s.stalled:
			c.server.o.Bounded(ErrUnread.Name)
			c.reset(s, http2.ErrCodeCancel)
		}
	}
	if len(c.out) > 0 {
		go c.flush()
	}
}

// drain tells the caller that the connection ends. Calls under way, and those that are on their way, are answered.
func (c *conn) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != serving || c.over {
		return
	}
	c.phase = leaving
	_ = c.framer.WriteGoAway(maxStream, http2.ErrCodeNo, nil)
	_ = c.framer.WritePing(false, drainPing)
	time.AfterFunc(drains, func() {
		c.mu.Lock()
		c.tellLast()
		c.mu.Unlock()
		c.flush()
	})
	go c.flush()
}

// tellLast tells the caller which call is the last.
func (c *conn) tellLast() {
	if c.phase != leaving || c.over {
		return
	}
	c.phase = lastCalls
	_ = c.framer.WriteGoAway(c.last, http2.ErrCodeNo, nil)
	c.endIfDone()
}

// endIfDone ends the connection when the last call has been answered.
func (c *conn) endIfDone() {
	if c.phase == lastCalls && c.active == 0 {
		c.phase = done
		_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // who reads stops
	}
}

// farewell tells the caller why the connection ends, and reports whether the caller may be there to read it.
func (c *conn) farewell(err error) bool {
	c.mu.Lock()
	var ce connError
	there := true
	switch {
	case errors.As(err, &ce):
		_ = c.framer.WriteGoAway(c.last, ce.code, []byte(ce.why.Error()))
	case c.phase == done && errors.Is(err, os.ErrDeadlineExceeded): // it has been told
	default:
		there = false
	}
	c.mu.Unlock()
	if !there {
		return false
	}
	c.flush()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writing && !c.over { // by somebody else
		c.written.Wait()
	}
	return !c.over
}

// linger waits for the caller to hang up. If the connection were closed while something is unread, the caller could
// lose what it has been sent.
func (c *conn) linger() {
	c.abandon()
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.nc.SetReadDeadline(time.Now().Add(lingers))
	_, _ = io.CopyN(io.Discard, c.nc, 1<<20)
}

// abandon calls off what is under way. Nothing more is sent.
func (c *conn) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, s := range c.streams {
		c.drop(s)
	}
	c.written.Broadcast()
}
