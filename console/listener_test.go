package console

import (
	"net"
	"sync/atomic"
	"testing"
)

func TestConnectionsAreBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	reached := make(chan struct{}, 1)
	var known atomic.Bool
	known.Store(true)
	l := &boundedListener{Listener: inner, max: 8, known: func(net.Addr) bool { return known.Load() },
		reached: func() { reached <- struct{}{} }}
	defer l.Close()
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	host := byte(1)
	dial := func() net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, host)}}
		c, err := d.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	turnedAway := func(c net.Conn) {
		t.Helper()
		<-reached
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a connection beyond the bound is open")
		}
	}
	var open []net.Conn
	for range 8 {
		dial()
		open = append(open, <-accepted)
	}
	turnedAway(dial())
	host = 2 // another source has room, and the newest of the one with most goes
	dial()
	other := <-accepted
	<-reached
	if _, err := open[7].Read(make([]byte, 1)); err == nil {
		t.Error("the newest one is open")
	}
	other.Close()
	host = 1
	for _, c := range open {
		c.Close()
		c.Close() // a second close gives no second place
	}
	known.Store(false)
	dial()
	open = []net.Conn{<-accepted}
	turnedAway(dial())
	known.Store(true)
	dial()
	(<-accepted).Close()
	open[0].Close()
}
