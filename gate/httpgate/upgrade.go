package httpgate

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// tunnel copies in both directions until both have ended, one has failed, or the gate stops.
func (x *exchange) tunnel(client *upgraded, server io.ReadWriteCloser) {
	x.begun.Store(true)
	x.waits()
	end := func() {
		_ = server.Close()
		_ = client.Conn.Close()
	}
	defer context.AfterFunc(x.ctx, end)()
	copied := make(chan bool, 2) // whether the other direction may go on
	copyTo := func(to io.Writer, from io.Reader) {
		_, err := io.Copy(to, from)
		half, ok := to.(interface{ CloseWrite() error })
		copied <- err == nil && ok && half.CloseWrite() == nil
	}
	go copyTo(server, client)
	go copyTo(client, server)
	if <-copied {
		<-copied
		return
	}
	end()
	<-copied
}

// hijack takes the connection over for an upgrade.
func (x *exchange) hijack() (*upgraded, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	x.hijacked = true
	if x.status == 0 {
		x.status = http.StatusSwitchingProtocols
		x.finalHeaders()
	}
	up := &upgraded{Conn: c, x: x, ahead: rw.Reader}
	x.gate.upgraded.Store(c, nil)
	return up, rw, nil
}

// An upgraded connection counts and meters what flows in either direction.
type upgraded struct {
	net.Conn
	x        *exchange
	ahead    *bufio.Reader // what the client sent before the switch
	inAfter  time.Time     // reads pause until then; one goroutine reads
	outAfter time.Time     // writes pause until then; one goroutine writes
	closed   sync.Once
}

func (u *upgraded) Read(p []byte) (int, error) {
	if err := u.x.pause(u.inAfter); err != nil {
		return 0, err
	}
	p = u.x.bite(p)
	var n int
	var err error
	if u.ahead.Buffered() > 0 {
		n, err = u.ahead.Read(p)
	} else {
		n, err = u.Conn.Read(p)
	}
	u.x.in.Add(int64(n))
	if failed := u.x.ration(n, &u.inAfter); failed != nil {
		return 0, failed
	}
	return n, err
}

func (u *upgraded) Write(p []byte) (sent int, err error) {
	for {
		if err := u.x.pause(u.outAfter); err != nil {
			return sent, err
		}
		piece := u.x.bite(p[sent:])
		if err := u.x.ration(len(piece), &u.outAfter); err != nil {
			return sent, err
		}
		u.x.taking.Add(1)
		n, err := u.Conn.Write(piece)
		u.x.taking.Add(-1)
		sent += n
		u.x.out.Add(int64(n))
		if err != nil || sent == len(p) {
			return sent, err
		}
	}
}

// CloseWrite passes on the end of one direction.
func (u *upgraded) CloseWrite() error {
	if c, ok := u.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

func (u *upgraded) Close() error {
	u.closed.Do(func() { u.x.gate.upgraded.Delete(u.Conn) })
	return u.Conn.Close()
}
