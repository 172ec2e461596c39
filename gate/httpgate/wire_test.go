package httpgate

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"weir"
	"weir/gate"
)

// pipeSocket is one end of a pipe in the place of a system's socket.
type pipeSocket struct{ net.Conn }

func (pipeSocket) CloseWrite() error                     { return nil }
func (pipeSocket) SyscallConn() (syscall.RawConn, error) { return nil, errors.ErrUnsupported }

// A client is cut off after the progress timeout, however much it took at first, and not while it takes a little now
// and then.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const progress = 8 * time.Second
		s := &setup{opts: Options{Timeouts: Timeouts{Progress: weir.Duration(progress)}}}
		g := &Gate{Skeleton: gate.New(gate.Env{}, s, gate.Hooks[setup]{})}
		for name, c := range map[string]struct {
			takes []time.Duration // a byte each time
			cut   time.Duration
		}{
			"nothing":  {nil, 0},
			"one byte": {[]time.Duration{0}, 0},
			"a few":    {[]time.Duration{0, time.Second, time.Second}, 2 * time.Second},
			"now and then": {[]time.Duration{7 * time.Second, 7 * time.Second, 7 * time.Second, 7 * time.Second},
				28 * time.Second},
		} {
			ours, theirs := net.Pipe()
			w := &wire{socket: pipeSocket{ours}, gate: g}
			go func() {
				for _, d := range c.takes {
					time.Sleep(d)
					_, _ = theirs.Read(make([]byte, 1))
				}
			}()
			began := time.Now()
			n, err := w.Write(make([]byte, 100))
			took := time.Since(began) - c.cut
			if n != len(c.takes) || !errors.Is(err, os.ErrDeadlineExceeded) || took < progress-progress/8 ||
				took > progress+progress/4 {
				t.Errorf("%s: %d bytes, cut off %s after the last, %v", name, n, took, err)
			}
			_ = ours.Close()
			_ = theirs.Close()
		}
	})
}

// A slow client is not cut off below TLS, although TLS cannot go on after a deadline in the middle of a record.
func TestProgressBelowTLS(t *testing.T) {
	a := newAuthority(t, "ca")
	files := a.server("www.example.com")
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		const progress, size = 8 * time.Second, 100_000
		s := &setup{opts: Options{Timeouts: Timeouts{Progress: weir.Duration(progress)}}}
		g := &Gate{Skeleton: gate.New(gate.Env{}, s, gate.Hooks[setup]{})}
		ours, theirs := net.Pipe()
		sent := make(chan error, 1)
		go func() {
			over := tls.Server(&wire{socket: pipeSocket{ours}, gate: g},
				&tls.Config{Certificates: []tls.Certificate{pair}})
			_, err := over.Write(make([]byte, size))
			sent <- err
		}()
		began := time.Now()
		client := tls.Client(trickle{theirs}, &tls.Config{RootCAs: a.Pool, ServerName: "www.example.com",
			Time: func() time.Time { return epoch }})
		if n, err := io.CopyN(io.Discard, client, size); err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 10*progress {
			t.Errorf("took only %s", took)
		}
		_ = theirs.Close()
	})
}

// trickle takes its time for each bit of a record: more than the timeout in all.
type trickle struct{ net.Conn }

func (c trickle) Read(p []byte) (int, error) {
	time.Sleep(3 * time.Second)
	return c.Conn.Read(p[:min(len(p), 1000)])
}
