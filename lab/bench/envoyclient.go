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
	"slices"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// askers ask a rate limit service as Envoys do, over several connections of HTTP/2 at once. They share the machine with
// what they measure, so they cost as little as can be: one thread, messages and headers that were encoded before, and
// frames that are read where they stand.
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

// An asked is a stream that is open.
type asked struct {
	stream   uint32
	begun    time.Time
	answered bool
}

// dialEnvoy opens connections to a service, and makes ready what is asked.
func dialEnvoy(address string, connections, streams, keys int) (_ *askers, err error) {
	a := &askers{streams: streams}
	if a.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	first, later := envoyHeaders(address)
	for i := range keys {
		message, err := proto.Marshal(&rls.RateLimitRequest{Domain: "edge", Descriptors: []*common.RateLimitDescriptor{{
			Entries: []*common.RateLimitDescriptor_Entry{{Key: "remote_address",
				Value: fmt.Sprintf("10.0.%d.%d", i>>8, i&255)}}}}})
		if err != nil {
			return nil, err
		}
		a.requests = append(a.requests, envoyRequest(later, message))
	}
	for range connections {
		c, err := dialAsker(address)
		if err != nil {
			return nil, err
		}
		a.conns = append(a.conns, c)
		if err := unix.EpollCtl(a.poll, unix.EPOLL_CTL_ADD, c.fd,
			&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(len(a.conns) - 1)}); err != nil {
			return nil, err
		}
		// The first headers of a connection fill the table that all others refer to.
		c.queue(envoyRequest(first, a.requests[0][len(a.requests[0])-messageSize(a.requests[0]):]), time.Now())
		if err := c.flush(); err != nil {
			return nil, err
		}
	}
	return a, a.drain()
}

// envoyHeaders are those of a question, for the first request of a connection and for all others.
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

// Of frames (RFC 9113, 4.1) and messages of gRPC.
const (
	frameHead   = 9
	messageHead = 5
)

// envoyRequest is a request on stream 0, which is to be overwritten.
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

// messageSize is how long the message at the end of a request is.
func messageSize(request []byte) int {
	return frameSize(request[frameHead+frameSize(request):]) - messageHead
}

// dialAsker opens a connection. It takes as much as the service can send, so that nobody has to be told of it again.
func dialAsker(address string) (*asker, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	file, err := conn.(*net.TCPConn).File()
	_ = conn.Close()
	if err != nil {
		return nil, err
	}
	c := &asker{file: file, fd: int(file.Fd()), in: make([]byte, 1<<16), stream: 1}
	if err := unix.SetNonblock(c.fd, true); err != nil {
		_ = file.Close()
		return nil, err
	}
	var hello bytes.Buffer
	hello.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&hello, nil)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20},
		http2.Setting{ID: http2.SettingEnablePush, Val: 0})
	_ = f.WriteWindowUpdate(0, math.MaxInt32-65535)
	c.out = append(c.out, hello.Bytes()...)
	return c, nil
}

func (a *askers) close() {
	for _, c := range a.conns {
		_ = c.file.Close()
	}
	_ = unix.Close(a.poll)
}

// run asks for a time, and returns how many requests were answered in a second, and how long the slowest of a hundred
// took.
func (a *askers) run(d time.Duration) (rate float64, p99 time.Duration, err error) {
	a.late = a.late[:0]
	start := time.Now()
	end := start.Add(d)
	for _, c := range a.conns {
		for range a.streams {
			a.ask(c, start)
		}
		if err := c.flush(); err != nil {
			return 0, 0, err
		}
	}
	var last time.Time
	for open := true; open; {
		if last, err = a.serve(end); err != nil {
			return 0, 0, err
		}
		open = slices.ContainsFunc(a.conns, func(c *asker) bool { return len(c.open) > 0 })
	}
	slices.Sort(a.late)
	return float64(len(a.late)) / last.Sub(start).Seconds(), a.late[len(a.late)*99/100], nil
}

// drain takes what is still to come.
func (a *askers) drain() error {
	for slices.ContainsFunc(a.conns, func(c *asker) bool { return len(c.open) > 0 }) {
		if _, err := a.serve(time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// serve serves all connections that have something to read. Until end, whoever is answered asks again.
func (a *askers) serve(end time.Time) (now time.Time, err error) {
	var events [envoyConnections]unix.EpollEvent
	n, err := unix.EpollWait(a.poll, events[:], 10_000)
	if err == unix.EINTR {
		return time.Now(), nil
	}
	if err == nil && n == 0 {
		err = errors.New("no answer within 10 s")
	}
	if err != nil {
		return now, err
	}
	for _, e := range events[:n] {
		c := a.conns[e.Fd]
		got, err := unix.Read(c.fd, c.in[c.filled:])
		if err == unix.EAGAIN {
			continue
		}
		if err == nil && got == 0 {
			err = errors.New("the service has hung up")
		}
		if err != nil {
			return now, err
		}
		c.filled += got
		now = time.Now()
		if err := a.read(c, now, now.Before(end)); err != nil {
			return now, err
		}
		if err := c.flush(); err != nil {
			return now, err
		}
	}
	return now, nil
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

// find returns where the question of a stream stands in open.
func (c *asker) find(stream uint32) (int, error) {
	for i := range c.open {
		if c.open[i].stream == stream {
			return i, nil
		}
	}
	return 0, fmt.Errorf("the service answers on stream %d, where nothing was asked", stream)
}

// flush sends what is ready. It is little, and always has room in the socket.
func (c *asker) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	n, err := unix.Write(c.fd, c.out)
	if err == nil && n < len(c.out) {
		err = errors.New("the service does not read")
	}
	c.out = c.out[:0]
	return err
}

// read takes the frames that have come in, and asks again for each answer while again is true.
func (a *askers) read(c *asker, now time.Time, again bool) error {
	b := c.in[:c.filled]
	for len(b) >= frameHead && len(b) >= frameHead+frameSize(b) {
		frame := b[:frameHead+frameSize(b)]
		b = b[len(frame):]
		kind, flags, stream, payload := http2.FrameType(frame[3]), http2.Flags(frame[4]),
			binary.BigEndian.Uint32(frame[5:]), frame[frameHead:]
		switch {
		case kind == http2.FrameData:
			i, err := c.find(stream)
			if err == nil {
				err = a.check(payload)
			}
			if err != nil {
				return err
			}
			c.open[i].answered = true
		case kind == http2.FrameHeaders && flags.Has(http2.FlagHeadersEndStream):
			i, err := c.find(stream)
			if err == nil && !c.open[i].answered {
				err = fmt.Errorf("stream %d ended without an answer: %q", stream, payload)
			}
			if err != nil {
				return err
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
			return fmt.Errorf("the service sent %s: %x", kind, payload)
		}
	}
	c.filled = copy(c.in, b)
	return nil
}

// check wants an answer to be OK. The first ones are read in full, of the others what they begin with: overall_code,
// which is 1.
func (a *askers) check(payload []byte) error {
	if len(payload) < messageHead+2 || payload[0] != 0 ||
		!bytes.HasPrefix(payload[messageHead:], []byte{0x08, byte(rls.RateLimitResponse_OK)}) {
		return fmt.Errorf("the service answers %x", payload)
	}
	if a.checked == len(a.requests) {
		return nil
	}
	a.checked++
	var answer rls.RateLimitResponse
	if err := proto.Unmarshal(payload[messageHead:], &answer); err != nil {
		return err
	}
	if s := answer.Statuses; len(s) != 1 || s[0].CurrentLimit.GetRequestsPerUnit() != 1_000_000 ||
		s[0].LimitRemaining == 0 || s[0].LimitRemaining >= 1_000_000 {
		return fmt.Errorf("the service answers %v", &answer)
	}
	return nil
}
