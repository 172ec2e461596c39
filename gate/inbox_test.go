package gate

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestInbox(t *testing.T) {
	addr := &net.TCPAddr{Port: 25}
	d := newInbox(addr)
	if d.Addr() != addr {
		t.Errorf("it stands at %v", d.Addr())
	}
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	taken := make(chan bool)
	go func() { taken <- d.put(here) }()
	if c, err := d.Accept(); c != here || err != nil || !<-taken {
		t.Errorf("%v, %v", c, err)
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if d.put(here) {
		t.Error("taken at a closed inbox")
	}
	if _, err := d.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepted at a closed inbox: %v", err)
	}
}

// A system without room is asked again, less and less often; with the next connection the pauses are short again.
func TestAcceptPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		failures, taken, began := 0, 0, time.Now()
		Accept(func() (net.Conn, error) {
			switch failures++; failures {
			case 11:
				return nil, nil
			case 13:
				return nil, net.ErrClosed
			}
			return nil, errors.New("no descriptors")
		}, make(chan struct{}), slog.New(slog.NewTextHandler(&log, nil)), func(net.Conn) { taken++ })
		// 5, 10, 20 … 640 ms are eight, then comes a second twice, and 5 ms after the connection.
		if slept := time.Since(began); taken != 1 || slept != 1275*time.Millisecond+2*time.Second+5*time.Millisecond {
			t.Errorf("%d taken after %s", taken, slept)
		}
		if n := strings.Count(log.String(), "cannot accept connections for the moment"); n != 11 ||
			!strings.Contains(log.String(), "again_in=640ms") {
			t.Errorf("%d lines: %s", n, &log)
		}
	})
}

func TestAcceptStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, over := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(over)
			Accept(func() (net.Conn, error) { return nil, errors.New("no descriptors") }, stop,
				slog.New(slog.DiscardHandler), nil)
		}()
		time.Sleep(time.Minute)
		at := time.Now()
		close(stop)
		<-over
		if waited := time.Since(at); waited != 0 {
			t.Errorf("a pause of %s went on", waited)
		}
	})
}
