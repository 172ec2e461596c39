package grpcserve

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A tape is a connection whose caller says what is on it, and then hangs up.
type tape struct {
	said *bytes.Reader

	mu     sync.Mutex
	heard  bytes.Buffer
	closed bool
}

func (c *tape) Read(b []byte) (int, error) {
	if c.said.Len() == 0 {
		return 0, io.EOF
	}
	return c.said.Read(b)
}

func (c *tape) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	return c.heard.Write(b)
}

func (c *tape) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

func (c *tape) LocalAddr() net.Addr              { return nil }
func (c *tape) RemoteAddr() net.Addr             { return nil }
func (c *tape) SetDeadline(time.Time) error      { return nil }
func (c *tape) SetReadDeadline(time.Time) error  { return nil }
func (c *tape) SetWriteDeadline(time.Time) error { return nil }

// record returns what a caller says after the beginning.
func record(say func(c *caller)) []byte {
	var out bytes.Buffer
	c := newCaller(nil, nil)
	c.framer = http2.NewFramer(&out, nil)
	c.framer.AllowIllegalWrites = true
	c.t = new(testing.T)
	say(c)
	return out.Bytes()
}

// FuzzConnection: whatever a caller says, the server neither panics nor hangs, keeps nothing, and answers in frames
// that a caller understands.
func FuzzConnection(f *testing.F) {
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add(record(func(c *caller) { c.ask(1, echo, "hello"); c.ask(3, slow, "hello"); c.ask(5, large, size(70_000)) }))
	f.Add(record(func(c *caller) {
		c.open(1, echo)
		_ = c.framer.WriteData(1, false, framed("hello")[:3])
		_ = c.framer.WriteWindowUpdate(1, 10)
		_ = c.framer.WriteDataPadded(1, true, framed("hello")[3:], make([]byte, 9))
		_ = c.framer.WriteRSTStream(1, http2.ErrCodeCancel)
	}))
	f.Add(record(func(c *caller) {
		_ = c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3})
		c.ask(1, large, size(100))
		c.ask(3, failing, "%\n")
		c.ask(5, "/grpc.health.v1.Health/Watch", "")
		_ = c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 300})
		_ = c.framer.WritePing(false, [8]byte{})
		_ = c.framer.WritePing(true, drainPing)
		_ = c.framer.WriteGoAway(0, http2.ErrCodeNo, nil)
	}))
	f.Add(record(func(c *caller) {
		c.begin(1)
		_ = c.framer.WriteContinuation(1, true, c.encode(field("grpc-timeout", "5n"), field("grpc-encoding", "gzip")))
		_ = c.framer.WritePriority(1, http2.PriorityParam{StreamDep: 3})
		_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(field("a", "b")),
			EndHeaders: true, EndStream: true})
	}))
	f.Fuzz(func(t *testing.T, said []byte) {
		r := newRig(func(o *Options) {
			o.Streams, o.Message, o.HeaderList = 3, 100_000, 500
			delete(o.Methods, broken)
			big := o.Methods[large]
			answer := func(ctx context.Context, message, to []byte) ([]byte, error) {
				if len(message) != 4 || binary.BigEndian.Uint32(message) > 200_000 {
					return nil, errors.New("too large for a test")
				}
				return big.Answer(ctx, message, to)
			}
			o.Methods[large] = Method{Prompt: big.Prompt, Answer: answer}
		})
		conn := &tape{said: bytes.NewReader(append([]byte(http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
			said...))}
		c := newConn(r.Server, conn)
		r.Server.mu.Lock()
		r.Server.conns[c] = struct{}{}
		r.Server.open++
		r.Server.mu.Unlock()
		c.serve()
		if err := r.Shutdown(within(t)); err != nil {
			t.Fatal(err)
		}
		if r.seen.panics > 0 {
			t.Error("it panicked")
		}
		for { // a worker may need a moment to be done
			c.mu.Lock()
			active, streams, stalled, held := c.active, len(c.streams), len(c.stalled), c.held
			c.mu.Unlock()
			if streams+stalled+held > 0 {
				t.Fatalf("%d streams, %d stalled and %d bytes are left", streams, stalled, held)
			}
			if active == 0 {
				break
			}
			if active < 0 {
				t.Fatalf("%d calls are active", active)
			}
		}
		if err := understood(conn.heard.Bytes()); err != nil {
			t.Error(err)
		}
	})
}

// understood reads what a server has said as a caller would.
func understood(said []byte) error {
	f := http2.NewFramer(nil, bytes.NewReader(said))
	f.SetMaxReadFrameSize(frameSize)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	const begun, over, reset = 1, 2, 3
	streams := map[uint32]int{}
	for first := true; ; first = false {
		frame, err := f.ReadFrame()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("a frame is malformed: %w", err)
		}
		id := frame.Header().StreamID
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
		case *http2.MetaHeadersFrame:
			if first || streams[id] >= over {
				return fmt.Errorf("headers on stream %d, which is over", id)
			}
			if (frame.PseudoValue("status") != "") != (streams[id] == 0) {
				return fmt.Errorf("the status of stream %d is in the wrong place", id)
			}
			if streams[id] = begun; frame.StreamEnded() {
				streams[id] = over
			}
		case *http2.DataFrame:
			if first || streams[id] != begun {
				return fmt.Errorf("content on stream %d", id)
			}
		case *http2.RSTStreamFrame:
			streams[id] = reset
		default:
			if first {
				return errors.New("settings do not come first")
			}
		}
	}
}
