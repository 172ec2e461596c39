//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"weir/lab/machine"
	"weir/lab/peers"
)

// The requests of Q8.
const (
	envoyConnections = 16
	envoyKeys        = 1000
)

// envoyConfig is a weir that reads the configuration of its peer.
const envoyConfig = `
data: %s
rls:
- listen: 127.0.0.1:0
  config: %s
console: {listen: "off"}
`

// envoyService is Q8: requests of Envoy's rate limit service that are answered, against envoyproxy/ratelimit with a
// Redis of its own on the same machine. Both read the same configuration, and the same client asks them the same in
// turns: one descriptor that matches a rule and is within its limit.
func envoyService(t *trial) (figures []figure) {
	folder := t.folder()
	rules := writeRules(folder, peers.Ratelimit)
	peer, pids := t.startRatelimit(folder)
	weir := t.startWeir(folder, fmt.Sprintf(envoyConfig, folder, rules))
	for _, streams := range []int{1, 8} {
		ours, theirs, busy := t.askBoth(weir, peer, pids, streams)
		rate, late := ours.rate/theirs.rate, ours.p99/theirs.p99
		values := []value{beside(rate, "%.2f ×"), beside(late, "%.2f ×")}
		if streams == 1 {
			values = []value{least(4, rate, "%.2f ×"), most(0.3, late, "%.2f ×")}
		}
		what := envoyAsked(streams) + ", against envoyproxy/ratelimit with Redis: "
		figures = append(figures,
			figure{what + "requests/s", values[:1], fmt.Sprintf("%.0f/s against %.0f/s%s", ours.rate, theirs.rate, busy)},
			figure{what + "p99", values[1:], fmt.Sprintf("%.2f ms against %.2f ms%s", ours.p99, theirs.p99, busy)})
	}
	return figures
}

// envoyAsked says how a rate limit service is asked.
func envoyAsked(streams int) string {
	return fmt.Sprintf("Envoy's rate limit service, %d connections, %d keys, requests at a time on each: %d",
		envoyConnections, envoyKeys, streams)
}

// A served is what a rate limit service does in a second, and how late, in milliseconds.
type served struct{ rate, p99 float64 }

// askBoth asks a weir and its peer in turns.
func (t *trial) askBoth(weir *running, peer string, pids []int, streams int) (ours, theirs served, busy string) {
	each := pick[time.Duration](t, 1500, 200) * time.Millisecond
	var sides [2]*askers
	for i, address := range []string{weir.address, peer} {
		sides[i] = t.dialEnvoy(address, envoyConnections, streams, envoyKeys)
		sides[i].run(each / 2)
	}
	all, busy := quietRounds(pick(t, 9, 1), time.Minute, append(pids, weir.Pid), func() (round []float64) {
		for _, side := range sides {
			rate, p99 := side.run(each)
			round = append(round, rate, p99.Seconds()*1000)
		}
		return round
	})
	got := medians(all)
	return served{got[0], got[1]}, served{got[2], got[3]}, busy
}

// startRatelimit starts a Redis, and envoyproxy/ratelimit on the configuration in the folder. It returns the address of
// the service, and the ids of both processes.
func (t *trial) startRatelimit(folder string) (address string, pids []int) {
	redis, service := program("redis-server"), ""
	if err := attempt(func() { service = program("service_cmd") }); err != nil {
		check(fmt.Errorf("%w (make setup installs envoyproxy/ratelimit)", err))
	}
	conf, socket := filepath.Join(folder, "redis.conf"), filepath.Join(folder, "redis.sock")
	check(os.WriteFile(conf, []byte(peers.Redis), 0o600))
	counts := t.launch(machine.Task{Program: redis, Quit: syscall.SIGKILL, Args: []string{conf, "--unixsocket", socket,
		"--dir", folder}}, "unix", socket)
	var ports [3]string
	for i := range ports {
		_, ports[i], _ = net.SplitHostPort(try(machine.FreeAddress("127.0.0.1")))
	}
	address = "127.0.0.1:" + ports[0]
	limits := t.launch(machine.Task{Program: service, Quit: syscall.SIGKILL,
		Env: append(strings.Fields(peers.RatelimitEnv), "REDIS_URL="+socket, "RUNTIME_ROOT="+folder,
			"GRPC_PORT="+ports[0], "PORT="+ports[1], "DEBUG_PORT="+ports[2])}, "tcp", address)
	return address, []int{counts.Pid, limits.Pid}
}

// askers ask a rate limit service as Envoys do, over several connections of HTTP/2 at once. They share the machine with
// what they measure, so they cost as little as possible: one thread, requests that were encoded before, and frames that
// are read in place.
type askers struct {
	poll     int
	conns    []*asker
	streams  int      // requests at a time on a connection
	requests [][]byte // a frame of headers and one of data for each key
	next     int      // the key that is asked about next
	late     []time.Duration
	checked  int // answers that were read in full
}

type asker struct {
	file   *os.File
	fd     int
	out    []byte
	in     []byte
	filled int    // of in
	stream uint32 // the next one
	open   []asked
}

// An asked is an open stream.
type asked struct {
	stream   uint32
	begun    time.Time
	answered bool
}

// dialEnvoy opens connections to a service, and encodes the requests.
func (t *trial) dialEnvoy(address string, connections, streams, keys int) *askers {
	a := &askers{streams: streams, poll: try(unix.EpollCreate1(unix.EPOLL_CLOEXEC))}
	t.cleanup(func() { _ = unix.Close(a.poll) })
	first, later := envoyHeaders(address)
	var message []byte
	for i := range keys {
		message = try(proto.Marshal(&rls.RateLimitRequest{Domain: "edge", Descriptors: []*common.RateLimitDescriptor{{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: "remote_address",
				Value: fmt.Sprintf("10.0.%d.%d", i>>8, i&255)}}}}}))
		a.requests = append(a.requests, envoyRequest(later, message))
	}
	for i := range connections {
		c := dialAsker(address)
		t.cleanup(func() { _ = c.file.Close() })
		a.conns = append(a.conns, c)
		check(unix.EpollCtl(a.poll, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}))
		// The first headers of a connection fill the table that all others refer to.
		c.queue(envoyRequest(first, message), time.Now())
		c.flush()
	}
	for a.open() {
		a.serve(time.Time{})
	}
	return a
}

// envoyHeaders are the headers of the first request of a connection, and of all others.
func envoyHeaders(address string) (first, later []byte) {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	encode := func() []byte {
		block.Reset()
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"},
			{":path", rls.RateLimitService_ShouldRateLimit_FullMethodName},
			{":authority", address}, {"te", "trailers"}, {"content-type", "application/grpc"}} {
			_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		return bytes.Clone(block.Bytes())
	}
	first = encode()
	return first, encode()
}

// Sizes of the heads of HTTP/2 frames (RFC 9113, 4.1) and gRPC messages.
const (
	frameHead   = 9
	messageHead = 5
)

// envoyRequest is a request on stream 0; queue overwrites the stream.
func envoyRequest(headers, message []byte) []byte {
	out := appendFrame(nil, http2.FrameHeaders, http2.FlagHeadersEndHeaders, headers)
	body := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	return appendFrame(out, http2.FrameData, http2.FlagDataEndStream, append(body, message...))
}

func appendFrame(out []byte, kind http2.FrameType, flags http2.Flags, payload []byte) []byte {
	n := len(payload)
	out = append(out, byte(n>>16), byte(n>>8), byte(n), byte(kind), byte(flags), 0, 0, 0, 0)
	return append(out, payload...)
}

func frameSize(b []byte) int { return int(b[0])<<16 | int(b[1])<<8 | int(b[2]) }

// dialAsker opens a connection. Its windows are so large that the service never waits for an update of them.
func dialAsker(address string) *asker {
	conn := try(net.Dial("tcp", address))
	file, err := conn.(*net.TCPConn).File()
	_ = conn.Close()
	check(err)
	c := &asker{file: file, fd: int(file.Fd()), in: make([]byte, 1<<16), stream: 1}
	check(unix.SetNonblock(c.fd, true))
	var hello bytes.Buffer
	hello.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&hello, nil)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20},
		http2.Setting{ID: http2.SettingEnablePush, Val: 0})
	_ = f.WriteWindowUpdate(0, math.MaxInt32-65535)
	c.out = append(c.out, hello.Bytes()...)
	return c
}

// open reports whether a request is not answered yet.
func (a *askers) open() bool {
	return slices.ContainsFunc(a.conns, func(c *asker) bool { return len(c.open) > 0 })
}

// run asks for a time. It returns how many requests were answered in a second, and the 99th percentile of how long one
// took.
func (a *askers) run(d time.Duration) (rate float64, p99 time.Duration) {
	a.late = a.late[:0]
	start := time.Now()
	for _, c := range a.conns {
		for range a.streams {
			a.ask(c, start)
		}
		c.flush()
	}
	last := start
	for a.open() {
		last = a.serve(start.Add(d))
	}
	slices.Sort(a.late)
	return float64(len(a.late)) / last.Sub(start).Seconds(), a.late[len(a.late)*99/100]
}

// serve serves all connections that have something to read. Until end, every answer is followed by another request.
func (a *askers) serve(end time.Time) (now time.Time) {
	var events [envoyConnections]unix.EpollEvent
	n, err := unix.EpollWait(a.poll, events[:], 10_000)
	if err == unix.EINTR {
		return time.Now()
	}
	check(err)
	if n == 0 {
		check(errors.New("no answer within 10 s"))
	}
	for _, e := range events[:n] {
		c := a.conns[e.Fd]
		got, err := unix.Read(c.fd, c.in[c.filled:])
		if err == unix.EAGAIN {
			continue
		}
		check(err)
		if got == 0 {
			check(errors.New("the service has hung up"))
		}
		c.filled += got
		now = time.Now()
		a.read(c, now, now.Before(end))
		c.flush()
	}
	return now
}

func (a *askers) ask(c *asker, now time.Time) {
	request := a.requests[a.next]
	if a.next++; a.next == len(a.requests) {
		a.next = 0
	}
	c.queue(request, now)
}

// queue puts a request on the next stream.
func (c *asker) queue(request []byte, now time.Time) {
	at := len(c.out)
	c.out = append(c.out, request...)
	binary.BigEndian.PutUint32(c.out[at+5:], c.stream)
	binary.BigEndian.PutUint32(c.out[at+frameHead+frameSize(request)+5:], c.stream)
	c.open = append(c.open, asked{stream: c.stream, begun: now})
	c.stream += 2
}

// find returns where the request of a stream stands in open.
func (c *asker) find(stream uint32) int {
	i := slices.IndexFunc(c.open, func(a asked) bool { return a.stream == stream })
	if i < 0 {
		check(fmt.Errorf("the service answers on stream %d, where nothing was asked", stream))
	}
	return i
}

// flush sends what is ready. It is little, and always has room in the socket.
func (c *asker) flush() {
	if len(c.out) == 0 {
		return
	}
	if try(unix.Write(c.fd, c.out)) < len(c.out) {
		check(errors.New("the service does not read"))
	}
	c.out = c.out[:0]
}

// read takes the frames that have come in. While again is true, every answer is followed by another request.
func (a *askers) read(c *asker, now time.Time, again bool) {
	b := c.in[:c.filled]
	for len(b) >= frameHead && len(b) >= frameHead+frameSize(b) {
		frame := b[:frameHead+frameSize(b)]
		b = b[len(frame):]
		kind, flags, stream, payload := http2.FrameType(frame[3]), http2.Flags(frame[4]),
			binary.BigEndian.Uint32(frame[5:]), frame[frameHead:]
		switch {
		case kind == http2.FrameData:
			i := c.find(stream)
			a.check(payload)
			c.open[i].answered = true
		case kind == http2.FrameHeaders && flags.Has(http2.FlagHeadersEndStream):
			i := c.find(stream)
			if !c.open[i].answered {
				check(fmt.Errorf("stream %d ended without an answer: %q", stream, payload))
			}
			a.late = append(a.late, now.Sub(c.open[i].begun))
			c.open[i] = c.open[len(c.open)-1]
			c.open = c.open[:len(c.open)-1]
			if again {
				a.ask(c, now)
			}
		case kind == http2.FrameSettings && !flags.Has(http2.FlagSettingsAck):
			c.out = appendFrame(c.out, http2.FrameSettings, http2.FlagSettingsAck, nil)
		case kind == http2.FramePing && !flags.Has(http2.FlagPingAck):
			c.out = appendFrame(c.out, http2.FramePing, http2.FlagPingAck, payload)
		case kind == http2.FrameRSTStream, kind == http2.FrameGoAway:
			check(fmt.Errorf("the service sent %s: %x", kind, payload))
		}
	}
	c.filled = copy(c.in, b)
}

// check requires an answer to be OK. The first ones are read in full; the others must begin with overall_code 1.
func (a *askers) check(payload []byte) {
	if len(payload) < messageHead+2 || payload[0] != 0 ||
		!bytes.HasPrefix(payload[messageHead:], []byte{0x08, byte(rls.RateLimitResponse_OK)}) {
		check(fmt.Errorf("the service answers %x", payload))
	}
	if a.checked == len(a.requests) {
		return
	}
	a.checked++
	var answer rls.RateLimitResponse
	check(proto.Unmarshal(payload[messageHead:], &answer))
	if s := answer.Statuses; len(s) != 1 || s[0].CurrentLimit.GetRequestsPerUnit() != 1_000_000 ||
		s[0].LimitRemaining == 0 || s[0].LimitRemaining >= 1_000_000 {
		check(fmt.Errorf("the service answers %v", &answer))
	}
}
