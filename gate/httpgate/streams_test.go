package httpgate

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir"
	"weir/internal/testkit/needs"
	recording "weir/internal/testkit/recorder"
	behind "weir/upstream"
)

// webSocketEcho is an upstream that speaks WebSocket as far as echoing short frames goes (RFC 6455).
func webSocketEcho(t testing.TB) string {
	return upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_,
			_ = io.WriteString(c,
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		for {
			op, payload, err := readFrame(rw.Reader)
			if err != nil {
				return
			}
			if _, err := c.Write(append([]byte{0x80 | op, byte(len(payload))}, payload...)); err != nil || op == 8 {
				return
			}
		}
	}).URL
}

func readFrame(r *bufio.Reader) (op byte, payload []byte, err error) {
	var head [2]byte
	if _, err = io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	var mask [4]byte
	if head[1]&0x80 != 0 {
		if _, err = io.ReadFull(r, mask[:]); err != nil {
			return 0, nil, err
		}
	}
	payload = make([]byte, head[1]&0x7f)
	_, err = io.ReadFull(r, payload)
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return head[0] & 0x0f, payload, err
}

func frameOf(op byte, text string) []byte {
	mask := [4]byte{1, 2, 3, 4}
	frame := append([]byte{0x80 | op, 0x80 | byte(len(text))}, mask[:]...)
	for i := range len(text) {
		frame = append(frame, text[i]^mask[i%4])
	}
	return frame
}

// A WebSocket counts while it is open: its place is taken, and its bytes flow, until one of the sides closes it.
func TestWebSocketOverTLS(t *testing.T) {
	a, admit := newAuthority(t, "ca"), newThrottle(nil)
	g := startTLS(t, a, Options{Upstream: to(webSocketEcho(t))}, admit)
	c := g.dialTLS(a, "http/1.1")
	_,
		_ = io.WriteString(c,
		"GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "+
			"13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	br := bufio.NewReader(c)
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != 101 {
		t.Fatalf("%v, %v", res, err)
	}
	for i := range 3 {
		text := fmt.Sprintf("hello %d\n\n", i) // nothing of it is HTTP any more
		_, _ = c.Write(frameOf(1, text))
		if op, got, err := readFrame(br); op != 1 || string(got) != text || err != nil {
			t.Fatalf("%d %q %v", op, got, err)
		}
		if admit.Held.Load() != 1 || g.UnderWay.Load() != 1 {
			t.Errorf("%d held, %d under way", admit.Held.Load(), g.UnderWay.Load())
		}
	}
	_, _ = c.Write(frameOf(8, "bye"))
	if op, _, err := readFrame(br); op != 8 || err != nil {
		t.Errorf("%d, %v", op, err)
	}
	_ = c.Close()
	if o := receive(t, admit.Settled); !o.Done {
		t.Error("not counted")
	}
	needs.Wait(t, "over", func() bool { return g.UnderWay.Load() == 0 && admit.Held.Load() == 0 && g.Open.Load() == 0 })
	line := g.accessLine(res.Header.Get("X-Request-Id"))
	if line["in"].(float64) < 30 || line["out"].(float64) < 30 {
		t.Errorf("%v", line)
	}
}

// echoService is gRPC without generated code: one call, one stream in both directions, and a failure.
var echoService = grpc.ServiceDesc{
	ServiceName: "test.Echo", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Once",
		Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			_ = grpc.SetTrailer(ctx, metadata.Pairs("x-trailer", "at the end"))
			if in.Value == "fail" {
				return nil, status.Error(codes.ResourceExhausted, "no more of it")
			}
			return in, nil
		}}},
	Streams: []grpc.StreamDesc{{StreamName: "Many", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error {
			s.SetTrailer(metadata.Pairs("x-trailer", "of the stream"))
			for {
				in := new(wrapperspb.StringValue)
				if err := s.RecvMsg(in); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				if err := s.SendMsg(in); err != nil {
					return err
				}
			}
		}}},
}

func TestGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	server.RegisterService(&echoService, struct{}{})
	go server.Serve(l)
	t.Cleanup(server.Stop)
	a := newAuthority(t, "ca")
	for name, creds := range map[string]credentials.TransportCredentials{
		"h2c": insecure.NewCredentials(),
		"tls": credentials.NewTLS(&tls.Config{RootCAs: a.Pool, ServerName: "www.example.com"}),
	} {
		t.Run(name, func(t *testing.T) {
			admit := newThrottle(nil)
			o := Options{Upstream: to("h2c://" + l.Addr().String())}
			var g *rig
			if name == "tls" {
				g = startTLS(t, a, o, admit)
			} else {
				g = start(t, o, admit)
			}
			conn, err := grpc.NewClient(g.addr, grpc.WithTransportCredentials(creds))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()

			out, trailer := new(wrapperspb.StringValue), metadata.MD{}
			err = conn.Invoke(ctx, "/test.Echo/Once", wrapperspb.String("hello"), out, grpc.Trailer(&trailer))
			if err != nil || out.Value != "hello" || strings.Join(trailer["x-trailer"], "") != "at the end" {
				t.Errorf("%v, %v, %v", out, trailer, err)
			}
			err = conn.Invoke(ctx, "/test.Echo/Once", wrapperspb.String("fail"), out)
			if status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != "no more of it" {
				t.Error(err)
			}
			stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
				"/test.Echo/Many")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 20 { // each comes back before the next is sent: nothing is held up
				text := fmt.Sprint("message ", i)
				if err := stream.SendMsg(wrapperspb.String(text)); err != nil {
					t.Fatal(err)
				}
				if err := stream.RecvMsg(out); err != nil || out.Value != text {
					t.Fatalf("%v, %v", out, err)
				}
			}
			if err := stream.CloseSend(); err != nil {
				t.Error(err)
			}
			if err := stream.RecvMsg(out); err != io.EOF ||
				strings.Join(stream.Trailer()["x-trailer"], "") != "of the stream" {
				t.Errorf("%v, %v", err, stream.Trailer())
			}
			needs.Wait(t, "all settled", func() bool { return admit.Done.Load() == 3 && admit.Held.Load() == 0 })
		})
	}
}

// A refused call says so in gRPC's own words: clients take a status of HTTP's for a server that is away, and try again
// at once.
func TestGRPCRefusals(t *testing.T) {
	judge := func(reason weir.Reason) func(*weir.Event, *weir.Answer) error {
		return func(ev *weir.Event, a *weir.Answer) error {
			a.Verdict, a.Reason, a.Until = weir.Refuse, reason, ev.Time.Add(90*time.Second)
			a.Figure = weir.Figure{Rule: "per-minute", Unit: "requests", Limit: 5}
			return nil
		}
	}
	for reason, want := range map[weir.Reason]codes.Code{
		weir.OverLimit: codes.ResourceExhausted, weir.Banned: codes.PermissionDenied,
		weir.NoAccount: codes.Unauthenticated, weir.Overload: codes.Unavailable,
	} {
		t.Run(reason.String(), func(t *testing.T) {
			g := start(t, Options{Upstream: to(echo(t).URL)}, newThrottle(judge(reason)))
			conn, err := grpc.NewClient(g.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			header := metadata.MD{}
			err = conn.Invoke(ctx, "/test.Echo/Once", wrapperspb.String("hello"), new(wrapperspb.StringValue),
				grpc.Header(&header), grpc.Trailer(&header))
			state := status.Convert(err)
			if state.Code() != want || state.Message() == "" {
				t.Fatalf("%v", err)
			}
			if reason != weir.OverLimit {
				return
			}
			details := state.Details()
			if len(details) != 1 {
				t.Fatalf("%v", details)
			}
			if wait, ok := details[0].(*errdetails.RetryInfo); !ok || wait.RetryDelay.AsDuration() != 90*time.Second ||
				header["grpc-retry-pushback-ms"][0] != "90000" {
				t.Errorf("%v, %v", details, header)
			}
		})
	}
}

// A request of HTTP/2 that has no body has none at the upstream either: it is no empty one in chunks, which some
// servers take for another request, and it may be tried again.
func TestHTTP2WithoutBody(t *testing.T) {
	a := newAuthority(t, "ca")
	up := recording.Start(t)
	g := startTLS(t, a, Options{Upstream: to(up.URL())})
	h2 := a.transport(true, nil)
	defer h2.CloseIdleConnections()
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS", "POST", "PUT"} {
		if res, _ := do(t, h2, g.request(method, "/", nil)); res.StatusCode != 200 || res.Proto != "HTTP/2.0" {
			t.Errorf("%s: %s %s", method, res.Proto, res.Status)
		}
		head := string(up.Take()[0].Head)
		if length := strings.Contains(head, "Content-Length: 0\r\n"); strings.Contains(head, "Transfer-Encoding") ||
			length != (method[0] == 'P') {
			t.Errorf("%s", head)
		}
	}

	broken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	go func() {
		for {
			c, err := broken.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_ = c.Close()
		}
	}()
	all := weir.Share(1)
	g = startTLS(t, a, Options{Upstream: behind.Options{Servers: []string{"http://" + broken.Addr().String(), up.URL()},
		Balance: behind.First,
		Retries: behind.Retries{Budget: &all}, Health: behind.Health{Unhealthy: behind.MaxChecks}}})
	for range 16 {
		if res, _ := do(t, h2, g.request("GET", "/", nil)); res.StatusCode != 200 {
			t.Error(res.Status)
		}
	}
}

// A real client that keeps many streams open at once loses nothing.
func TestH2load(t *testing.T) {
	h2load := needs.Program(t, "h2load", "apt-get install nghttp2-client")
	a := newAuthority(t, "ca")
	small := upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	secure := startTLS(t, a, Options{Upstream: to(small.URL)})
	clear := start(t, Options{Upstream: to(small.URL)})
	for name, args := range map[string][]string{
		"h2 over TLS":    {secure.url + "/"},
		"h2c":            {clear.url + "/"},
		"HTTP/1 in TLS":  {"--h1", secure.url + "/"},
		"HTTP/1 plainly": {"--h1", clear.url + "/"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, h2load,
				append([]string{"-n", "500", "-c", "10", "-m", "20"}, args...)...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !regexp.MustCompile(`(?m)^status codes: 500 2xx, 0 3xx, 0 4xx, 0 5xx`).Match(out) ||
				!bytes.Contains(out, []byte("500 succeeded, 0 failed, 0 errored")) {
				t.Errorf("%s", out)
			}
		})
	}
}

// The frames of HTTP/2 are not looked at by the gate's own reader: a body that looks like broken HTTP/1 passes.
func TestHTTP2BodiesArePassed(t *testing.T) {
	a := newAuthority(t, "ca")
	g := startTLS(t, a, Options{Upstream: to(echo(t).URL)})
	body := make([]byte, 100_000)
	for i := range body {
		binary.BigEndian.PutUint16(body[i&^1:][:2], 0x0d0a)
	}
	if res, got := do(t, a.transport(true, nil),
		g.request("POST", "/", bytes.NewReader(body))); res.StatusCode != 200 || got != string(body) {
		t.Errorf("%s, %d bytes", res.Status, len(got))
	}
}
