package sockio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// pair makes a connection. Its ends are as package net makes them.
func pair(t *testing.T, network string) (one, other net.Conn) {
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if other, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if one, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close(); other.Close() })
	return one, other
}

var networks = []string{"tcp", "unix"}

// each runs a test with both kinds of sockets: one end is ours, the other one is as package net makes it.
func each(t *testing.T, test func(t *testing.T, ours, theirs net.Conn)) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			one, other := pair(t, network)
			test(t, Of(one), other)
		})
	}
}

func TestBothWays(t *testing.T) {
	each(t, func(t *testing.T, ours, theirs net.Conn) {
		much := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // more than any buffer of the system
		go func() { _, _ = io.Copy(theirs, theirs) }()
		var sent sync.WaitGroup
		sent.Go(func() {
			if n, err := ours.Write(much); n != len(much) || err != nil {
				t.Errorf("%d of %d bytes were written: %v", n, len(much), err)
			}
			if err := ours.(Socket).CloseWrite(); err != nil {
				t.Error(err)
			}
		})
		got, err := io.ReadAll(io.LimitReader(ours, int64(len(much))))
		sent.Wait()
		if err != nil || !bytes.Equal(got, much) {
			t.Errorf("%d of %d bytes came back: %v", len(got), len(much), err)
		}
	})
}

// TestWritesStayWhole: what one goroutine writes has nothing of another one in between.
func TestWritesStayWhole(t *testing.T) {
	const writers, size = 4, 1 << 20
	each(t, func(t *testing.T, ours, theirs net.Conn) {
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() { _, _ = ours.Write(bytes.Repeat([]byte{byte('a' + i)}, size)) })
		}
		got := make([]byte, writers*size)
		if _, err := io.ReadFull(theirs, got); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		for i := range writers {
			if part := got[i*size:][:size]; !bytes.Equal(part, bytes.Repeat(part[:1], size)) {
				t.Errorf("part %d is of several writers", i)
			}
		}
	})
}

func TestEnd(t *testing.T) {
	each(t, func(t *testing.T, ours, theirs net.Conn) {
		if n, err := ours.Read(nil); n != 0 || err != nil {
			t.Errorf("no room: %d, %v", n, err)
		}
		if n, err := ours.Write(nil); n != 0 || err != nil {
			t.Errorf("nothing to write: %d, %v", n, err)
		}
		if err := theirs.(Socket).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if n, err := ours.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("at the end: %d, %v", n, err)
		}
	})
}

// TestSameErrors: errors are those of package net.
func TestSameErrors(t *testing.T) {
	read := func(c net.Conn) error { _, err := c.Read(make([]byte, 1)); return err }
	write := func(c net.Conn) error { _, err := c.Write(make([]byte, 1)); return err }
	for what, fails := range map[string]func(c, peer net.Conn) error{
		"late to read":  func(c, _ net.Conn) error { return errors.Join(c.SetDeadline(time.Unix(1, 0)), read(c)) },
		"late to write": func(c, _ net.Conn) error { return errors.Join(c.SetDeadline(time.Unix(1, 0)), write(c)) },
		"closed, read":  func(c, _ net.Conn) error { return errors.Join(c.Close(), read(c)) },
		"closed, write": func(c, _ net.Conn) error { return errors.Join(c.Close(), write(c)) },
		"no more writes": func(c, _ net.Conn) error {
			return errors.Join(c.(Socket).CloseWrite(), write(c))
		},
		"reset": func(c, peer net.Conn) error {
			if tcp, ok := peer.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			return errors.Join(peer.Close(), read(c))
		},
	} {
		for _, network := range networks {
			t.Run(what+"/"+network, func(t *testing.T) {
				one, other := pair(t, network)
				got := fails(Of(one), other)
				one, other = pair(t, network)
				if want := fails(one, other); described(got) != described(want) {
					t.Errorf("%s, and package net has %s", described(got), described(want))
				}
			})
		}
	}
}

// described is an error without its addresses, which differ.
func described(err error) string {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%s %s from %T to %T: %v, late %t, closed %t", op.Op, op.Net, op.Source, op.Addr, op.Err,
		op.Timeout(), errors.Is(err, net.ErrClosed))
}

// TestWaitingEnds: whoever waits is told of a deadline that is set meanwhile, and of the end.
func TestWaitingEnds(t *testing.T) {
	for what, end := range map[string]struct {
		by   func(c net.Conn) error
		want error
	}{
		"a deadline": {func(c net.Conn) error { return c.SetDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		"closed":     {net.Conn.Close, net.ErrClosed},
	} {
		t.Run(what, func(t *testing.T) {
			each(t, func(t *testing.T, ours, _ net.Conn) {
				var all sync.WaitGroup
				all.Go(func() {
					if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, end.want) {
						t.Errorf("who reads is told: %v", err)
					}
				})
				all.Go(func() {
					if _, err := ours.Write(make([]byte, 64<<20)); !errors.Is(err, end.want) {
						t.Errorf("who writes is told: %v", err)
					}
				})
				runtime.Gosched()
				if err := end.by(ours); err != nil {
					t.Error(err)
				}
				all.Wait()
			})
		})
	}
}

// TestNothingIsAllocated: a message there and back costs no memory.
func TestNothingIsAllocated(t *testing.T) {
	each(t, func(t *testing.T, ours, theirs net.Conn) {
		message := make([]byte, 100)
		if n := testing.AllocsPerRun(100, func() {
			_, wrote := ours.Write(message)
			_, came := io.ReadFull(theirs, message)
			_, sent := theirs.Write(message)
			_, read := io.ReadFull(ours, message)
			if err := errors.Join(wrote, came, sent, read); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// TestOthersStay: what is not a socket is returned as it is.
func TestOthersStay(t *testing.T) {
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	if Of(one) != one {
		t.Error("a pipe was wrapped")
	}
}
