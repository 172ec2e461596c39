package grpcserve

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = bytes.Clone(b); return nil }
func (rawCodec) Name() string                    { return "proto" }

// A client is the client of grpc-go.
type client struct{ *grpc.ClientConn }

func (r *rig) client(t testing.TB, opts ...grpc.DialOption) client {
	t.Helper()
	conn, err := grpc.NewClient(r.listen(t), append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return client{conn}
}

func (c client) call(ctx context.Context, path string, message []byte, opts ...grpc.CallOption) ([]byte, error) {
	var answer []byte
	err := c.Invoke(ctx, path, message, &answer, append(opts, grpc.ForceCodec(rawCodec{}))...)
	return answer, err
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// TestCalls: a client of grpc-go gets answers and errors.
func TestCalls(t *testing.T) {
	t.Parallel()
	r := newRig(nil)
	close(r.free)
	c := r.client(t)
	for _, path := range []string{echo, slow} {
		for _, message := range []string{"", "hello", long(200_000)} {
			got, err := c.call(within(t), path, []byte(message))
			if err != nil || string(got) != message {
				t.Errorf("%s of %d bytes is answered by %d bytes, %v", path, len(message), len(got), err)
			}
		}
	}
	odd := "Grüße, 100 %\n\x01" + long(2*maxText)
	for _, want := range []struct {
		path, message string
		code          codes.Code
		text          string
	}{
		{failing, "there is \"nothing\"", codes.FailedPrecondition, "there is \"nothing\""},
		{failing, odd, codes.FailedPrecondition, odd[:maxText]},
		{broken, "", codes.Internal, "the call failed"},
		{"/test.Service/Other", "", codes.Unimplemented, "there is no method /test.Service/Other"},
		{"/other.Service/Echo", "", codes.Unimplemented, "there is no method /other.Service/Echo"},
	} {
		_, err := c.call(within(t), want.path, []byte(want.message))
		if st := status.Convert(err); st.Code() != want.code || st.Message() != want.text {
			t.Errorf("%s: %v, want %s: %s", want.path, err, want.code, want.text)
		}
	}
	if r.seen.panics != 1 {
		t.Errorf("%d panics were told", r.seen.panics)
	}
	_, err := c.call(within(t), echo, []byte("hello"), grpc.UseCompressor(gzip.Name))
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a compressed message is answered by %v", err)
	}
	_, err = c.call(within(t), echo, make([]byte, 1<<20+1))
	if status.Code(err) != codes.ResourceExhausted || r.seen.count("message") != 1 {
		t.Errorf("a large message is answered by %v", err)
	}
	if got, err := c.call(within(t), echo, make([]byte, 1<<20)); err != nil || len(got) != 1<<20 {
		t.Errorf("the largest message is answered by %d bytes, %v", len(got), err)
	}
	stream, err := c.NewStream(within(t), &grpc.StreamDesc{ClientStreams: true}, "/other.Service/Stream")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new(healthpb.HealthCheckResponse)); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown stream that does not end is answered by %v", err)
	}
}

// TestManyCalls: calls on one connection do not get in each other's way.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	r := newRig(func(o *Options) { o.Streams = 50 })
	close(r.free)
	go func() {
		for range r.begun {
		}
	}()
	t.Cleanup(func() { close(r.begun) })
	c := r.client(t)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			path, want := echo, long(i*17)
			if i%2 == 0 {
				path = slow
			}
			for range 10 {
				if got, err := c.call(within(t), path, []byte(want)); err != nil || string(got) != want {
					t.Errorf("%d bytes are answered by %d, %v", len(want), len(got), err)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestWaitingCallsHoldUpNothing: while calls wait, others on the connection are answered, and pings too.
func TestWaitingCallsHoldUpNothing(t *testing.T) {
	t.Parallel()
	r := newRig(nil)
	c := r.dial(t)
	c.ask(1, slow, "slow")
	<-r.begun
	c.echoes(3)
	close(r.free)
	if d := c.hear(1); string(d.message) != "slow" {
		t.Errorf("the call that waited is answered by %s", d)
	}
}

// TestDeadline: a call ends when its time is over, and when it is called off.
func TestDeadline(t *testing.T) {
	t.Parallel()
	r := newRig(nil)
	c := r.client(t)
	var called context.Context
	for wait := 20 * time.Millisecond; called == nil; wait *= 2 { // the call may come too late
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		if _, err := c.call(ctx, slow, nil); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a call without end is answered by %v", err)
		}
		cancel()
		select {
		case called = <-r.begun:
		default:
		}
	}
	<-called.Done()
	ctx, cancel := context.WithCancel(context.Background())
	go func() { called = <-r.begun; cancel() }()
	if _, err := c.call(ctx, slow, nil); status.Code(err) != codes.Canceled {
		t.Errorf("a call that is called off is answered by %v", err)
	}
	<-called.Done()
	raw := r.dial(t)
	raw.ask(1, slow, "", "grpc-timeout", "1m")
	if d := raw.hear(1); d.status != "4" {
		t.Errorf("a call of one millisecond is answered by %s", d)
	}
	raw.ask(3, echo, "", "grpc-timeout", "0n")
	if d := raw.hear(3); d.status != "4" {
		t.Errorf("a call whose time is over is answered by %s", d)
	}
	raw.ask(5, echo, "", "grpc-timeout", "1x")
	if d := raw.hear(5); d.status != "13" {
		t.Errorf("a malformed timeout is answered by %s", d)
	}
}

// TestResetsOfWork: a call that was called off counts until its worker is done, so that nobody has more work under way
// than calls at once.
func TestResetsOfWork(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	begun := make(chan struct{}, 10)
	r := newRig(func(o *Options) {
		o.Streams = 2
		o.Methods[slow] = Method{Answer: func(_ context.Context, _, to []byte) ([]byte, error) {
			begun <- struct{}{}
			<-release // and not for the caller
			return to, nil
		}}
	})
	c := r.dial(t)
	for id := uint32(1); id <= 3; id += 2 {
		c.ask(id, slow, "")
		<-begun
		c.must(c.framer.WriteRSTStream(id, http2.ErrCodeCancel))
	}
	c.ask(5, slow, "")
	if d := c.hear(5); d.String() != "RST_STREAM REFUSED_STREAM" || r.seen.count("streams") != 1 {
		t.Errorf("one call more than may be under way is answered by %s", d)
	}
	close(release)
	for id := uint32(7); ; id += 2 { // a worker needs a moment to be done
		c.ask(id, echo, "hello")
		if d := c.hear(id); string(d.message) == "hello" {
			break
		} else if !d.isReset {
			t.Fatal(d)
		}
	}
}

// TestNotGRPC: what is not a call of gRPC, or not one message, is answered as such.
func TestNotGRPC(t *testing.T) {
	t.Parallel()
	c := newRig(nil).dial(t)
	id := uint32(1)
	ask := func(want string, body []byte, more ...string) {
		t.Helper()
		c.open(id, echo, more...)
		c.must(c.framer.WriteData(id, true, body))
		if d := c.hear(id); !strings.HasPrefix(d.String(), want) {
			t.Errorf("the answer is %s, want %s", d, want)
		}
		id += 2
	}
	ask("405 status 13", nil, ":method", "GET")
	ask("415 status 2", nil, "content-type", "application/json")
	ask("415 status 2", framed("x"), "content-type", "application/grpc-web")
	ask(`200 status 0 "" message "x"`, framed("x"), "content-type", "application/grpc+proto")
	ask("200 status 12", framed("x"), "grpc-encoding", "gzip")
	ask(`200 status 0 "" message "x"`, framed("x"), "grpc-encoding", "identity")
	ask("200 status 13", nil)
	ask("200 status 13", []byte{0, 0, 0, 0})
	ask("200 status 13", framed("hello")[:7])
	ask("200 status 13", append(framed("hello"), 'x'))
	ask("200 status 13", append(framed("hello"), framed("again")...))
	ask("200 status 13", []byte{1, 0, 0, 0, 0})
	ask("200 status 13", []byte{2, 0, 0, 0, 0})
	c.open(id, echo) // trailers end a request
	c.must(c.framer.WriteData(id, false, framed("hello")))
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode(field("a", "b")),
		EndHeaders: true, EndStream: true}))
	if d := c.hear(id); string(d.message) != "hello" {
		t.Errorf("the answer is %s", d)
	}
	id += 2
	c.open(id, echo) // padding, and a message in many pieces
	for _, b := range framed("hello") {
		c.must(c.framer.WriteDataPadded(id, false, []byte{b}, make([]byte, 200)))
	}
	c.must(c.framer.WriteData(id, true, nil))
	if d := c.hear(id); string(d.message) != "hello" {
		t.Errorf("the answer is %s", d)
	}
}

// TestWindows: an answer waits for the windows of the caller, goes on as they open, and holds up no other.
func TestWindows(t *testing.T) {
	t.Parallel()
	r := newRig(nil)
	c := r.dial(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	c.ask(1, large, size(30))
	c.ask(3, large, size(4))
	if d := c.hear(3); string(d.message) != "xxxx" {
		t.Errorf("the answer within the window is %s", d)
	}
	if c.bytes[1] != 10 {
		t.Errorf("%d bytes came through a window of 10", c.bytes[1])
	}
	c.must(c.framer.WriteWindowUpdate(1, 15))
	c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 20}))
	if d := c.hear(1); d.status != "0" || c.bytes[1] != 30+messageHead {
		t.Errorf("the answer is %s, %d bytes", d, c.bytes[1])
	}
	c.must(c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 200_000}))
	c.ask(5, large, size(100_000)) // more than the window of the connection
	c.must(c.framer.WriteWindowUpdate(0, 100_000))
	if d := c.hear(5); len(d.message) != 100_000 {
		t.Errorf("the large answer is %d bytes", len(d.message))
	}
}

// TestUnread: answers that a caller does not take are bounded.
func TestUnread(t *testing.T) {
	t.Parallel()
	r := newRig(func(o *Options) { o.Streams = 10 })
	c := r.dial(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	for id := uint32(1); id <= 9; id += 2 {
		c.ask(id, large, size(1<<20-1000))
	}
	if d := c.hear(9); d.String() != "RST_STREAM ENHANCE_YOUR_CALM" || r.seen.count("unread") != 1 {
		t.Errorf("the answer over the bound is %s", d)
	}
	c.must(c.framer.WriteRSTStream(1, http2.ErrCodeCancel))
	c.ask(11, large, size(1<<20-1000)) // there is room again
	c.must(c.framer.WriteWindowUpdate(11, 1<<20))
	c.must(c.framer.WriteWindowUpdate(0, 1<<20))
	if d := c.hear(11); len(d.message) != 1<<20-1000 {
		t.Errorf("the answer within the bound is %s", d)
	}
}

// size is a message for large.
func size(n int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }

// TestHealth: the health of services is told, and who watches is told of its end.
func TestHealth(t *testing.T) {
	t.Parallel()
	r := newRig(nil)
	c := healthpb.NewHealthClient(r.client(t))
	check := func(service string, want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		got, err := c.Check(within(t), &healthpb.HealthCheckRequest{Service: service})
		if err != nil || got.Status != want {
			t.Errorf("the health of %q is %v, %v", service, got, err)
		}
	}
	check("", healthpb.HealthCheckResponse_SERVING)
	check("test.Service", healthpb.HealthCheckResponse_SERVING)
	if _, err := c.Check(within(t), &healthpb.HealthCheckRequest{Service: "x"}); status.Code(err) != codes.NotFound {
		t.Errorf("the health of an unknown service: %v", err)
	}
	list, err := c.List(within(t), &healthpb.HealthListRequest{})
	if err != nil || len(list.Statuses) != 2 ||
		list.Statuses["test.Service"].Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("the list is %v, %v", list, err)
	}
	watch := map[string]healthpb.Health_WatchClient{}
	for service, want := range map[string]healthpb.HealthCheckResponse_ServingStatus{
		"test.Service": healthpb.HealthCheckResponse_SERVING, "x": healthpb.HealthCheckResponse_SERVICE_UNKNOWN} {
		w, err := c.Watch(within(t), &healthpb.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.Recv(); err != nil || got.Status != want {
			t.Errorf("the first word about %q is %v, %v", service, got, err)
		}
		watch[service] = w
	}
	r.StopHealth()
	for service, w := range watch {
		if got, err := w.Recv(); err != nil || got.Status != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("the last word about %q is %v, %v", service, got, err)
		}
		if _, err := w.Recv(); status.Code(err) != codes.Canceled {
			t.Errorf("the watch of %q ends by %v", service, err)
		}
	}
	check("test.Service", healthpb.HealthCheckResponse_NOT_SERVING)
}
