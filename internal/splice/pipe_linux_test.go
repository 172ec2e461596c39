package splice

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pair is a connection over loopback, with the raw socket of its first end.
func pair(t *testing.T) (ours *net.TCPConn, raw syscall.RawConn, theirs *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = dialed.Close(), accepted.Close() })
	ours, theirs = dialed.(*net.TCPConn), accepted.(*net.TCPConn)
	if raw, err = ours.SyscallConn(); err != nil {
		t.Fatal(err)
	}
	return ours, raw, theirs
}

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// All bytes arrive, in order, although the receiver takes nothing at first: a deadline for writing ends Pass, and the
// next one goes on where it ended.
func TestBytesArrive(t *testing.T) {
	_, from, source := pair(t)
	out, to, sink := pair(t)
	want := noise(16 << 20) // more than the buffers of a socket hold
	go func() {
		_, _ = source.Write(want)
		_ = source.CloseWrite()
	}()
	var got []byte
	var reading sync.WaitGroup
	defer reading.Wait()
	ended := 0
	for left := int64(len(want)); left > 0; {
		p, err := Take(from, left)
		if err != nil {
			t.Fatalf("%d left: %v", left, err)
		}
		if left -= int64(p.Len()); p.Len() == 0 || p.Len() > size {
			t.Fatalf("%d bytes in a pipe", p.Len())
		}
		for p.Len() > 0 {
			if ended == 0 {
				_ = out.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			}
			before := p.Len()
			n, err := p.Pass(to)
			if n != before-p.Len() {
				t.Fatalf("%d passed of %d, %d left", n, before, p.Len())
			}
			if err == nil {
				continue
			} else if !errors.Is(err, os.ErrDeadlineExceeded) || p.Len() == 0 {
				t.Fatalf("%d left: %v", p.Len(), err)
			}
			if ended++; ended == 1 {
				_ = out.SetWriteDeadline(time.Time{})
				reading.Go(func() { got, _ = io.ReadAll(sink) })
			}
		}
		p.Free()
	}
	if ended != 1 {
		t.Errorf("%d deadlines", ended)
	}
	if p, err := Take(from, 1); p != nil || err != io.EOF {
		t.Errorf("at the end: %v, %v", p, err)
	}
	_ = out.CloseWrite()
	reading.Wait()
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived, or others than the %d sent", len(got), len(want))
	}
}

// No more is taken than was asked for.
func TestMost(t *testing.T) {
	ours, from, source := pair(t)
	if _, err := source.Write([]byte("hello, world")); err != nil {
		t.Fatal(err)
	}
	p, err := Take(from, 5)
	if err != nil || p.Len() != 5 {
		t.Fatal(p, err)
	}
	p.Free()
	rest := make([]byte, 7)
	if _, err := io.ReadFull(ours, rest); err != nil || string(rest) != ", world" {
		t.Errorf("%q, %v", rest, err)
	}
}

// What was left in a pipe is not seen by whoever has one next, and a receiver that is gone is an error.
func TestLeftOver(t *testing.T) {
	_, from, source := pair(t)
	out, to, sink := pair(t)
	for range 2 * MaxPipes {
		_, _ = source.Write([]byte("lost"))
		p, err := Take(from, 4)
		if err != nil {
			t.Fatal(err)
		}
		p.Free()
	}
	_, _ = source.Write([]byte("passed on"))
	p, err := Take(from, 9)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Pass(to); err != nil {
		t.Fatal(err)
	}
	p.Free()
	got := make([]byte, 20)
	if n, err := sink.Read(got); err != nil || string(got[:n]) != "passed on" {
		t.Errorf("%q, %v", got[:n], err)
	}
	_ = out.Close()
	_, _ = source.Write([]byte("too late"))
	if p, err = Take(from, 8); err != nil {
		t.Fatal(err)
	}
	if n, err := p.Pass(to); err == nil || n != 0 || p.Len() != 8 {
		t.Errorf("%d bytes passed to a closed socket: %v", n, err)
	}
	p.Free()
}

// There are MaxPipes. The next one is refused, and nothing is lost; a pipe that was given back can be had again.
func TestMaxPipes(t *testing.T) {
	ours, from, source := pair(t)
	if _, err := source.Write(noise(MaxPipes + 2)); err != nil {
		t.Fatal(err)
	}
	var all []*Pipe
	for range MaxPipes {
		p, err := Take(from, 1)
		if err != nil {
			t.Fatalf("after %d: %v", len(all), err)
		}
		all = append(all, p)
	}
	if p, err := Take(from, 1); p != nil || err != ErrNone {
		t.Errorf("one too many: %v, %v", p, err)
	}
	all[0].Free()
	p, err := Take(from, 1)
	if err != nil {
		t.Fatal(err)
	}
	all[0] = p
	for _, p := range all {
		p.Free()
	}
	rest := make([]byte, 1)
	if _, err := ours.Read(rest); err != nil || rest[0] != noise(MaxPipes + 2)[MaxPipes+1] {
		t.Errorf("%v, %v", rest, err)
	}
	if n := inUse.Load(); n != 0 {
		t.Errorf("%d in use at the end", n)
	}
}

// Who waits for bytes has no pipe, and the deadline for reading ends it.
func TestWaitingNeedsNoPipe(t *testing.T) {
	var waiting sync.WaitGroup
	var silent []*net.TCPConn
	for range MaxPipes + 1 {
		ours, raw, _ := pair(t)
		silent = append(silent, ours)
		waiting.Go(func() {
			for { // it may find no pipe for a moment
				p, err := Take(raw, 1)
				if err == ErrNone {
					continue
				}
				if p != nil || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%v, %v", p, err)
				}
				return
			}
		})
	}
	_, from, source := pair(t)
	_, _ = source.Write([]byte("x"))
	for {
		p, err := Take(from, 1)
		if err == nil {
			p.Free()
			break
		} else if err != ErrNone {
			t.Fatal(err)
		}
	}
	for _, c := range silent {
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
	waiting.Wait()
	if n := inUse.Load(); n != 0 {
		t.Errorf("%d in use at the end", n)
	}
}
