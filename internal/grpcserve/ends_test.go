package grpcserve

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir/internal/testkit/needs"
)

// TestShutdown: callers are told twice. Calls under way, and those that were sent before the caller heard of the end,
// are answered; then the connection is closed.
func TestShutdown(t *testing.T) {
	t.Parallel()
	r := newRig(nil)
	c := r.dial(t)
	c.echoes(1)
	c.ask(3, slow, "slow")
	<-r.begun
	shut := make(chan error, 1)
	go func() { shut <- r.Shutdown(within(t)) }()
	if d := c.hear(3); d.goAway != http2.ErrCodeNo || d.last != maxStream {
		t.Fatalf("the first word is %s", d)
	}
	c.ask(5, echo, "late") // the caller could not know
	if d := c.hear(5); string(d.message) != "late" {
		t.Errorf("the late call is answered by %s", d)
	}
	c.must(c.framer.WritePing(true, drainPing))
	if d := c.hear(3); d.goAway != http2.ErrCodeNo || d.last != 5 {
		t.Fatalf("the second word is %s", d)
	}
	c.ask(7, echo, "too late")
	c.must(c.framer.WritePing(false, [8]byte{'x'}))
	for { // until it has been read
		f, err := c.framer.ReadFrame()
		c.must(err)
		if f.Header().StreamID == 7 {
			t.Fatalf("a call after the last one is answered by %v", f)
		}
		if p, ok := f.(*http2.PingFrame); ok && p.Data[0] == 'x' {
			break
		}
	}
	select {
	case err := <-shut:
		t.Fatalf("the shutdown did not wait: %v", err)
	default:
	}
	close(r.free)
	if d := c.hear(3); string(d.message) != "slow" {
		t.Errorf("the call under way is answered by %s", d)
	}
	if d := c.hear(3); !d.hungUp {
		t.Errorf("after the last answer comes %s", d)
	}
	if err := <-shut; err != nil {
		t.Error(err)
	}
	if err := r.Shutdown(within(t)); err != nil {
		t.Error(err)
	}
}

// TestShutdownUnderLoad: no call of a real client is lost before the server takes no more.
func TestShutdownUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(nil)
	c := r.client(t)
	var answered, wrong atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				// Once nobody listens any more, a call is unavailable, and never anything else.
				if _, err := c.call(within(t), echo, []byte("hello")); status.Code(err) == codes.OK {
					answered.Add(1)
				} else if !r.isEnding() || status.Code(err) != codes.Unavailable {
					wrong.Add(1)
				} else {
					return
				}
			}
		})
	}
	needs.Wait(t, "calls are answered", func() bool { return answered.Load() >= 100 })
	if err := r.Shutdown(within(t)); err != nil {
		t.Error(err)
	}
	close(stop)
	all.Wait()
	if wrong.Load() > 0 {
		t.Errorf("%d calls were lost", wrong.Load())
	}
}

func (s *Server) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// TestShutdownHasAnEnd: who waits for a shutdown stops waiting when its context ends; Close cuts calls off.
func TestShutdownHasAnEnd(t *testing.T) {
	t.Parallel()
	r := newRig(nil)
	c := r.client(t)
	told := make(chan error, 1)
	go func() {
		_, err := c.call(within(t), slow, nil)
		told <- err
	}()
	called := <-r.begun
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the shutdown ends by %v", err)
	}
	_ = r.Close()
	if err := <-told; status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		t.Errorf("who was cut off was told %v", err)
	}
	<-called.Done()
}

// A pipeListener hands out connections of the test.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return nil }

// inTime runs a test in time that passes only when all wait.
func inTime(t *testing.T, change func(*Options), test func(t *testing.T, r *rig, c *caller, conn net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(change)
		l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
		go func() { _ = r.Serve(l) }()
		ours, theirs := net.Pipe()
		l.conns <- theirs
		test(t, r, newCaller(t, ours), ours)
		_ = ours.Close()
		_ = r.Close()
		synctest.Wait()
	})
}

// TestBeginningHasAnEnd: who does not begin with HTTP/2 in time is cut off.
func TestBeginningHasAnEnd(t *testing.T) {
	for _, said := range []string{"", "PRI * HTTP/2.0\r\n", http2.ClientPreface,
		http2.ClientPreface + "\x00\x00\x06\x04"} {
		inTime(t, nil, func(t *testing.T, r *rig, c *caller, conn net.Conn) {
			go func() { _, _ = io.WriteString(conn, said) }()
			begun := time.Now()
			for err := error(nil); err == nil; {
				_, err = conn.Read(make([]byte, 100))
			}
			if took := time.Since(begun); took != r.options.Connect {
				t.Errorf("after %q it took %s", said, took)
			}
		})
	}
}

// TestSilence: a caller that is silent is asked, and cut off when it stays silent. One that answers stays.
func TestSilence(t *testing.T) {
	inTime(t, nil, func(t *testing.T, r *rig, c *caller, _ net.Conn) {
		var hello sync.WaitGroup
		hello.Go(func() { c.hello() })
		begun := time.Now()
		ping := func() *http2.PingFrame {
			for {
				f, err := c.framer.ReadFrame()
				if err != nil {
					return nil
				}
				if p, ok := f.(*http2.PingFrame); ok {
					return p
				}
			}
		}
		for range 3 {
			p := ping()
			if took := time.Since(begun); took < r.options.Silent || took > r.options.Silent*5/4 {
				t.Errorf("the question came after %s", took)
			}
			begun = time.Now()
			hello.Wait()
			c.must(c.framer.WritePing(true, p.Data))
		}
		if ping() == nil || ping() != nil {
			t.Error("one question comes before the end")
		}
		if took := time.Since(begun); took < 2*r.options.Silent || took > r.options.Silent*5/2 {
			t.Errorf("the end came after %s", took)
		}
	})
}

// ear is a caller that only listens, while another goroutine writes.
func (c *caller) ear() *caller {
	e := newCaller(c.t, c.conn)
	e.framer = http2.NewFramer(io.Discard, c.conn)
	return e
}

// TestSlowRequests: a request that does not come to its end is answered in time, though its caller is there.
func TestSlowRequests(t *testing.T) {
	inTime(t, nil, func(t *testing.T, r *rig, c *caller, _ net.Conn) {
		begun := time.Now()
		var writing sync.WaitGroup
		defer writing.Wait()
		writing.Go(func() {
			c.hello()
			c.open(1, echo)
			for time.Since(begun) < 2*r.options.Silent { // a byte now and then
				_ = c.conn.SetWriteDeadline(time.Now().Add(time.Second)) // in the end nobody reads
				_ = c.framer.WriteData(1, false, []byte{0})
				time.Sleep(r.options.Silent / 4)
			}
		})
		if d := c.ear().hear(1); d.status != "4" || r.seen.count("slow") != 1 {
			t.Errorf("the request is answered by %s", d)
		}
		if took := time.Since(begun); took < r.options.Silent || took > r.options.Silent*5/4 {
			t.Errorf("it took %s", took)
		}
	})
}

// TestUntakenAnswers: an answer for which the caller opens no window ends in time.
func TestUntakenAnswers(t *testing.T) {
	inTime(t, nil, func(t *testing.T, r *rig, c *caller, _ net.Conn) {
		begun := time.Now()
		var writing sync.WaitGroup
		defer writing.Wait()
		writing.Go(func() {
			c.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3})
			c.ask(1, echo, "hello")
			for time.Since(begun) < 2*r.options.Silent {
				_ = c.conn.SetWriteDeadline(time.Now().Add(time.Second))
				_ = c.framer.WritePing(false, [8]byte{})
				time.Sleep(r.options.Silent / 4)
			}
		})
		if d := c.ear().hear(1); d.String() != "RST_STREAM CANCEL" || r.seen.count("unread") != 1 {
			t.Errorf("the answer ends by %s", d)
		}
		if took := time.Since(begun); took < r.options.Silent || took > r.options.Silent*5/4 {
			t.Errorf("it took %s", took)
		}
	})
}

// TestCallersWhoDoNotRead: who takes nothing off the line is cut off in time, and is not read from meanwhile.
func TestCallersWhoDoNotRead(t *testing.T) {
	inTime(t, nil, func(t *testing.T, r *rig, c *caller, conn net.Conn) {
		begun := time.Now()
		// Nothing is read: the first flush of the server waits.
		_, err := io.WriteString(conn, http2.ClientPreface)
		if err == nil {
			t.Error("a caller that reads nothing was read from")
		}
		if took := time.Since(begun); took < r.options.Silent || took > r.options.Silent*5/4 {
			t.Errorf("it took %s", took)
		}
		synctest.Wait()
		if r.seen.count("unread") != 1 {
			t.Error("it was not counted")
		}
	})
}

// TestShutdownOfTheSilent: a shutdown does not wait for callers that do not say that they have heard of it.
func TestShutdownOfTheSilent(t *testing.T) {
	inTime(t, nil, func(t *testing.T, r *rig, c *caller, conn net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		c.hello()
		synctest.Wait()
		begun := time.Now()
		if err := r.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took != drains {
			t.Errorf("it took %s", took)
		}
	})
}
