package grpcserve

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestAttacks: what a caller must not do ends its stream or its connection, with the code that RFC 9113 asks for, and
// is counted where it is a bound.
func TestAttacks(t *testing.T) {
	const protocol, flow = http2.ErrCodeProtocol, http2.ErrCodeFlowControl
	cases := []struct {
		name   string
		change func(*Options)
		attack func(c *caller)
		stream uint32 // on which the answer is awaited
		want   string
		bound  string // that is counted once
	}{
		{name: "streams", change: func(o *Options) { o.Streams = 2 }, stream: 5, bound: "streams",
			attack: func(c *caller) { c.open(1, echo); c.open(3, echo); c.open(5, echo) },
			want:   "RST_STREAM REFUSED_STREAM"},
		{name: "resets", bound: "resets", want: "GOAWAY ENHANCE_YOUR_CALM " + ErrResets.Error(),
			attack: func(c *caller) {
				for i := range uint32(maxResets + 1) {
					c.open(1+2*i, echo)
					c.must(c.framer.WriteRSTStream(1+2*i, http2.ErrCodeCancel))
				}
			}},
		{name: "pings", bound: "frames", want: "GOAWAY ENHANCE_YOUR_CALM " + ErrFrames.Error(),
			attack: flood(func(c *caller) error { return c.framer.WritePing(false, [8]byte{}) })},
		{name: "settings", bound: "frames", want: "GOAWAY ENHANCE_YOUR_CALM " + ErrFrames.Error(),
			attack: flood(func(c *caller) error { return c.framer.WriteSettings() })},
		{name: "acknowledged settings", bound: "frames", want: "GOAWAY ENHANCE_YOUR_CALM " + ErrFrames.Error(),
			attack: flood(func(c *caller) error { return c.framer.WriteSettingsAck() })},
		{name: "priorities", bound: "frames", want: "GOAWAY ENHANCE_YOUR_CALM " + ErrFrames.Error(),
			attack: flood(func(c *caller) error {
				return c.framer.WritePriority(3, http2.PriorityParam{StreamDep: 1})
			})},
		{name: "windows", bound: "frames", want: "GOAWAY ENHANCE_YOUR_CALM " + ErrFrames.Error(),
			attack: flood(func(c *caller) error { return c.framer.WriteWindowUpdate(0, 1) })},
		{name: "unknown frames", bound: "frames", want: "GOAWAY ENHANCE_YOUR_CALM " + ErrFrames.Error(),
			attack: flood(func(c *caller) error { return c.framer.WriteRawFrame(0xee, 0, 0, nil) })},
		{name: "empty content", bound: "frames", want: "GOAWAY ENHANCE_YOUR_CALM " + ErrFrames.Error(),
			attack: func(c *caller) {
				c.open(1, echo)
				flood(func(c *caller) error { return c.framer.WriteData(1, false, nil) })(c)
			}},
		{name: "resets of what is over", bound: "frames", want: "GOAWAY ENHANCE_YOUR_CALM " + ErrFrames.Error(),
			attack: func(c *caller) {
				c.open(1, echo)
				flood(func(c *caller) error { return c.framer.WriteRSTStream(1, http2.ErrCodeCancel) })(c)
			}},
		{name: "empty continuations", bound: "header_block", want: "GOAWAY ENHANCE_YOUR_CALM " + ErrHeaderBlock.Error(),
			attack: func(c *caller) {
				c.begin(1)
				for range maxContinued + 1 {
					c.must(c.framer.WriteContinuation(1, false, nil))
				}
			}},
		{name: "long continuations", bound: "header_block", want: "GOAWAY ENHANCE_YOUR_CALM " + ErrHeaderBlock.Error(),
			attack: func(c *caller) {
				c.begin(1)
				block := c.encode(field("a", long(8000)), field("b", long(8000)))
				for range 3 {
					if c.framer.WriteContinuation(1, false, block) != nil {
						return
					}
				}
			}},
		{name: "a long string", bound: "header_block", want: "GOAWAY ENHANCE_YOUR_CALM " + ErrHeaderBlock.Error(),
			change: func(o *Options) { o.HeaderList = 1000 },
			attack: func(c *caller) { c.open(1, echo, "a", long(1001)) }},
		{name: "headers", stream: 1, bound: "headers", want: `200 status 8 "the headers are too large" message ""`,
			change: func(o *Options) { o.HeaderList = listSize(echo, "a", "123456789") - 1 },
			attack: func(c *caller) { c.ask(1, echo, "x", "a", "123456789") }},
		{name: "a bomb", stream: 1, bound: "headers", want: `200 status 8 "the headers are too large" message ""`,
			attack: func(c *caller) { // one entry of the table, a thousand times
				block := append(c.headers(echo), c.encode(field("a", long(4000)))...)
				again := c.encode(field("a", long(4000)))
				for range 1000 {
					block = append(block, again...)
				}
				c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block,
					EndHeaders: true, EndStream: true}))
			}},
		{name: "a large message", stream: 1, bound: "message",
			want:   `200 status 8 "the message is too large" message ""`,
			change: func(o *Options) { o.Message = 1000 },
			attack: func(c *caller) {
				c.open(1, echo)
				c.must(c.framer.WriteData(1, false, binary.BigEndian.AppendUint32([]byte{0}, 1001)))
			}},
		{name: "an even stream", attack: func(c *caller) { c.open(2, echo) },
			want: fmt.Sprintf("GOAWAY %s a caller has odd streams", protocol)},
		{name: "an old stream", want: "GOAWAY STREAM_CLOSED the stream has been closed",
			attack: func(c *caller) { c.echoes(3); c.open(1, echo) }},
		{name: "content before headers",
			want:   fmt.Sprintf("GOAWAY %s content on a stream that has not begun", protocol),
			attack: func(c *caller) { c.must(c.framer.WriteData(1, true, nil)) }},
		{name: "content after the end", stream: 1, want: "RST_STREAM STREAM_CLOSED",
			attack: func(c *caller) { c.echoes(1); c.must(c.framer.WriteData(1, true, nil)) }},
		{name: "more content than announced", stream: 1, want: "RST_STREAM PROTOCOL_ERROR",
			attack: func(c *caller) { c.ask(1, echo, "hello", "content-length", "9") }},
		{name: "less content than announced", stream: 1, want: "RST_STREAM PROTOCOL_ERROR",
			attack: func(c *caller) { c.ask(1, echo, "hello", "content-length", "11") }},
		{name: "a window of the connection",
			want:   fmt.Sprintf("GOAWAY %s the window of the connection is too large", flow),
			attack: func(c *caller) { c.must(c.framer.WriteWindowUpdate(0, maxWindow)) }},
		{name: "a window of a stream", stream: 1, want: "RST_STREAM FLOW_CONTROL_ERROR",
			attack: func(c *caller) { c.open(1, echo); c.must(c.framer.WriteWindowUpdate(1, maxWindow)) }},
		{name: "a window by settings", want: fmt.Sprintf("GOAWAY %s the window of a stream is too large", flow),
			attack: func(c *caller) {
				c.open(1, echo)
				c.must(c.framer.WriteWindowUpdate(1, 1000))
				c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow}))
			}},
		{name: "a window of what has not begun", attack: func(c *caller) { c.must(c.framer.WriteWindowUpdate(7, 1)) },
			want: fmt.Sprintf("GOAWAY %s a window for a stream that has not begun", protocol)},
		{name: "a reset of what has not begun",
			want:   fmt.Sprintf("GOAWAY %s a stream that has not begun is reset", protocol),
			attack: func(c *caller) { c.must(c.framer.WriteRSTStream(7, http2.ErrCodeCancel)) }},
		{name: "more unfinished messages than the window of the connection",
			want: fmt.Sprintf("GOAWAY %s more content than the window of the connection allows", flow),
			attack: func(c *caller) {
				for id := uint32(1); id <= 5; id += 2 {
					c.open(id, echo)
					if c.framer.WriteData(id, false, binary.BigEndian.AppendUint32([]byte{0}, 1<<20)) != nil {
						return
					}
					for range 63 {
						if c.framer.WriteData(id, false, make([]byte, frameSize)) != nil {
							return
						}
					}
				}
			}},
		{name: "a frame that is too large", want: "GOAWAY FRAME_SIZE_ERROR a frame is larger than 16384 bytes",
			attack: func(c *caller) { _ = c.framer.WriteRawFrame(http2.FramePing, 0, 0, make([]byte, frameSize+1)) }},
		{name: "a setting that cannot be",
			want: fmt.Sprintf("GOAWAY %s a setting has a value that it cannot have", protocol),
			attack: func(c *caller) {
				c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1}))
			}},
		{name: "a push", want: fmt.Sprintf("GOAWAY %s a caller cannot push", protocol),
			attack: func(c *caller) {
				c.must(c.framer.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2,
					BlockFragment: c.headers(echo), EndHeaders: true}))
			}},
		{name: "compression", want: "GOAWAY COMPRESSION_ERROR", attack: func(c *caller) {
			c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff},
				EndHeaders: true}))
		}},
		{name: "a stream that depends on itself", stream: 1, want: "RST_STREAM PROTOCOL_ERROR",
			attack: func(c *caller) { c.must(c.framer.WritePriority(1, http2.PriorityParam{StreamDep: 1})) }},
		{name: "upper case", stream: 1, want: "RST_STREAM PROTOCOL_ERROR",
			attack: func(c *caller) { c.ask(1, echo, "x", "Name", "value") }},
		{name: "a header of a connection", stream: 1, want: "RST_STREAM PROTOCOL_ERROR",
			attack: func(c *caller) { c.ask(1, echo, "x", "connection", "close") }},
		{name: "te", stream: 1, want: "RST_STREAM PROTOCOL_ERROR",
			attack: func(c *caller) { c.ask(1, echo, "x", "te", "gzip") }},
		{name: "an unknown pseudo-header", stream: 1, want: "RST_STREAM PROTOCOL_ERROR",
			attack: func(c *caller) { c.ask(1, echo, "x", ":pseudo", "x") }},
		{name: "a line break", stream: 1, want: "RST_STREAM PROTOCOL_ERROR",
			attack: func(c *caller) { c.ask(1, echo, "x", "a", "b\r\nc") }},
		{name: "no path", stream: 1, want: "RST_STREAM PROTOCOL_ERROR", attack: func(c *caller) {
			c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true,
				BlockFragment: c.encode(field(":method", "POST"), field(":scheme", "http"))}))
		}},
	}
	for _, a := range cases {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(a.change)
			c := r.dial(t)
			a.attack(c)
			d := c.hear(a.stream)
			if !strings.HasPrefix(d.String(), a.want) || a.want == "" {
				t.Errorf("the answer is %s, want %s", d, a.want)
			}
			if a.bound != "" && r.seen.count(a.bound) != 1 {
				t.Errorf("%s was counted %d times", a.bound, r.seen.count(a.bound))
			}
			if d.away && c.hear(a.stream).String() != "hung up" {
				t.Error("the connection goes on")
			}
			if !d.away && !d.hungUp && a.bound != "streams" {
				c.echoes(99)
			}
		})
	}
}

// flood sends a frame once more than it is allowed for. The settings of the beginning count.
func flood(send func(c *caller) error) func(c *caller) {
	return func(c *caller) {
		for range maxIdleFrames {
			c.must(send(c))
		}
	}
}

// begin begins a block of headers that does not end.
func (c *caller) begin(id uint32) {
	c.t.Helper()
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers(echo)}))
}

// listSize is how large the headers of a call are.
func listSize(path string, more ...string) (size int) {
	c := &caller{}
	c.hpack = hpack.NewEncoder(&c.block)
	dec := hpack.NewDecoder(4096, func(f hpack.HeaderField) { size += int(f.Size()) })
	_, _ = dec.Write(c.headers(path, more...))
	return size
}

// TestWithinBounds: what is just within the bounds is served.
func TestWithinBounds(t *testing.T) {
	t.Parallel()
	r := newRig(func(o *Options) {
		o.Message, o.HeaderList, o.Streams = 1000, listSize(echo, "a", "123456789"), 2
	})
	c := r.dial(t)
	for range maxIdleFrames - 10 {
		c.must(c.framer.WritePing(false, [8]byte{}))
	}
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1,
		BlockFragment: c.headers(echo, "a", "123456789")}))
	for range maxContinued - 1 {
		c.must(c.framer.WriteContinuation(1, false, nil))
	}
	c.must(c.framer.WriteContinuation(1, true, nil))
	c.ask(3, echo, long(1000))
	if d := c.hear(3); len(d.message) != 1000 {
		t.Errorf("a message within the bound is answered by %s", d)
	}
	for id := uint32(5); id < 5+2*maxResets; id += 2 { // as many as may be called off in a tick
		c.open(id, echo)
		c.must(c.framer.WriteRSTStream(id, http2.ErrCodeCancel))
	}
	c.must(c.framer.WriteData(1, true, framed("hello")))
	if d := c.hear(1); string(d.message) != "hello" {
		t.Errorf("a call within the bounds is answered by %s", d)
	}
	for _, b := range Bounds {
		if n := r.seen.count(b.Name); n != 0 {
			t.Errorf("%s was counted %d times", b.Name, n)
		}
	}
}
