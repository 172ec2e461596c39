package grpcserve

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// seen counts what a server tells.
type seen struct {
	mu     sync.Mutex
	bounds map[string]int
	panics int
}

func (s *seen) bounded(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bounds[name]++
}

func (s *seen) panicked(any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.panics++
}

func (s *seen) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bounds[name]
}

// The methods of the tests.
const (
	echo    = "/test.Service/Echo"    // answers on the spot
	slow    = "/test.Service/Slow"    // answers on a worker, after free is closed or the call is over
	large   = "/test.Service/Large"   // answers with as many bytes as the message says, on the spot
	failing = "/test.Service/Failing" // fails with the message
	broken  = "/test.Service/Broken"  // panics
)

// A rig is a server with methods for tests.
type rig struct {
	*Server
	seen    *seen
	begun   chan context.Context // calls of slow
	free    chan struct{}
	options Options
}

func newRig(change func(*Options)) *rig {
	r := &rig{seen: &seen{bounds: map[string]int{}}, begun: make(chan context.Context, 100), free: make(chan struct{})}
	prompt := func() bool { return true }
	r.options = Options{Services: []string{"", "test.Service"}, Message: 1 << 20, Streams: 100, HeaderList: 16 << 10,
		Connect: 10 * time.Second, Silent: time.Minute, Bounded: r.seen.bounded, Panicked: r.seen.panicked,
		Methods: map[string]Method{
			echo: {Prompt: prompt, Answer: func(ctx context.Context, message, to []byte) ([]byte, error) {
				if err := ctx.Err(); err != nil {
					return nil, status.FromContextError(err).Err()
				}
				return append(to, message...), nil
			}},
			slow: {Answer: func(ctx context.Context, message, to []byte) ([]byte, error) {
				r.begun <- ctx
				select {
				case <-r.free:
					return append(to, message...), nil
				case <-ctx.Done():
					return nil, status.FromContextError(ctx.Err()).Err()
				}
			}},
			large: {Prompt: prompt, Answer: func(_ context.Context, message, to []byte) ([]byte, error) {
				return append(to, bytes.Repeat([]byte{'x'}, int(binary.BigEndian.Uint32(message)))...), nil
			}},
			failing: {Prompt: prompt, Answer: func(_ context.Context, message, _ []byte) ([]byte, error) {
				return nil, status.Error(codes.FailedPrecondition, string(message))
			}},
			broken: {Prompt: prompt, Answer: func(context.Context, []byte, []byte) ([]byte, error) { panic("broken") }},
		}}
	if change != nil {
		change(&r.options)
	}
	r.Server = New(r.options)
	return r
}

// listen serves on a socket of loopback until the test ends.
func (r *rig) listen(t testing.TB) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = r.Serve(l) }()
	t.Cleanup(func() {
		_ = r.Close()
		<-served
		<-r.over
	})
	return l.Addr().String()
}

// A caller speaks HTTP/2 with a server, frame by frame.
type caller struct {
	t      testing.TB
	conn   net.Conn
	framer *http2.Framer
	block  bytes.Buffer
	hpack  *hpack.Encoder
	fields []hpack.HeaderField // of the last block that was read
	dec    *hpack.Decoder
	bytes  map[uint32]int // of content, by stream
}

// dial opens a connection, and ends the beginning of it.
func (r *rig) dial(t testing.TB, settings ...http2.Setting) *caller {
	t.Helper()
	conn, err := net.Dial("tcp", r.listen(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := newCaller(t, conn)
	c.hello(settings...)
	return c
}

func newCaller(t testing.TB, conn net.Conn) *caller {
	c := &caller{t: t, conn: conn, framer: http2.NewFramer(conn, conn), bytes: map[uint32]int{}}
	c.framer.AllowIllegalWrites = true
	c.hpack = hpack.NewEncoder(&c.block)
	c.dec = hpack.NewDecoder(4096, func(f hpack.HeaderField) { c.fields = append(c.fields, f) })
	return c
}

// hello begins the connection.
func (c *caller) hello(settings ...http2.Setting) {
	c.t.Helper()
	_, err := io.WriteString(c.conn, http2.ClientPreface)
	c.must(err)
	c.must(c.framer.WriteSettings(settings...))
}

func (c *caller) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// headers are those of a call, and more in pairs. A name that is there already is replaced.
func (c *caller) headers(path string, more ...string) []byte {
	fields := []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"},
		{Name: ":path", Value: path}, {Name: ":authority", Value: "test"},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}}
pairs:
	for ; len(more) > 0; more = more[2:] {
		for i := range fields {
			if fields[i].Name == more[0] {
				fields[i].Value = more[1]
				continue pairs
			}
		}
		fields = append(fields, hpack.HeaderField{Name: more[0], Value: more[1]})
	}
	return c.encode(fields...)
}

func (c *caller) encode(fields ...hpack.HeaderField) []byte {
	c.block.Reset()
	for _, f := range fields {
		_ = c.hpack.WriteField(f)
	}
	return bytes.Clone(c.block.Bytes())
}

// open sends the headers of a call.
func (c *caller) open(id uint32, path string, more ...string) {
	c.t.Helper()
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers(path, more...),
		EndHeaders: true}))
}

// ask sends a call with a message.
func (c *caller) ask(id uint32, path string, message string, more ...string) {
	c.t.Helper()
	c.open(id, path, more...)
	c.must(c.framer.WriteData(id, true, framed(message)))
}

// framed is a message with what stands before it.
func framed(message string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
}

// A told is what a server says on a stream, or about the connection.
type told struct {
	message []byte
	status  string // of gRPC
	text    string
	http    string
	reset   http2.ErrCode
	isReset bool
	goAway  http2.ErrCode
	why     string
	last    uint32
	away    bool
	hungUp  bool
}

func (d told) String() string {
	switch {
	case d.hungUp:
		return "hung up"
	case d.away:
		return fmt.Sprintf("GOAWAY %s %s", d.goAway, d.why)
	case d.isReset:
		return fmt.Sprintf("RST_STREAM %s", d.reset)
	}
	return fmt.Sprintf("%s status %s %q message %q", d.http, d.status, d.text, d.message)
}

// hear reads until the answer on a stream is complete, or the stream or the connection ends. Settings are
// acknowledged.
func (c *caller) hear(id uint32) (d told) {
	c.t.Helper()
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				c.t.Fatalf("nothing was answered on stream %d", id)
			}
			return told{hungUp: true}
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				c.must(c.framer.WriteSettingsAck())
			}
		case *http2.GoAwayFrame:
			return told{away: true, goAway: f.ErrCode, why: string(f.DebugData()), last: f.LastStreamID}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return told{isReset: true, reset: f.ErrCode}
			}
		case *http2.DataFrame:
			c.bytes[f.StreamID] += len(f.Data())
			if f.StreamID == id {
				d.message = append(d.message, f.Data()...)
			}
		case *http2.HeadersFrame:
			c.fields = nil
			_, err := c.dec.Write(f.HeaderBlockFragment())
			c.must(err)
			if f.StreamID != id {
				continue
			}
			for _, field := range c.fields {
				switch field.Name {
				case ":status":
					d.http = field.Value
				case "grpc-status":
					d.status = field.Value
				case "grpc-message":
					d.text = field.Value
				}
			}
			if f.StreamEnded() {
				if len(d.message) >= messageHead {
					d.message = d.message[messageHead:]
				}
				return d
			}
		}
	}
}

// echoes requires that a call is answered.
func (c *caller) echoes(id uint32) {
	c.t.Helper()
	c.ask(id, echo, "hello")
	if d := c.hear(id); string(d.message) != "hello" || d.status != "0" {
		c.t.Errorf("the call is answered by %s", d)
	}
}

// field is a header.
func field(name, value string) hpack.HeaderField { return hpack.HeaderField{Name: name, Value: value} }

// long is a text of n bytes.
func long(n int) string { return strings.Repeat("x", n) }
