package tcpgate

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"weir"
	"weir/gate"
	"weir/identify"
)

const (
	// socketRoom is how many bytes of unread packets the system is asked to keep. It may grant less.
	socketRoom = 1 << 20
	// lastReply is how long a stop waits for replies.
	lastReply = time.Second
)

// A forwarder takes packets from clients, one after the other, and sends those that the chain admits on to the
// upstream.
type forwarder struct {
	gate   *Gate
	socket *net.UDPConn

	// Held while a packet is dealt with, so that its session does not end meanwhile.
	mu       sync.Mutex
	sessions map[netip.AddrPort]*session
	newcomer *session // for the next client without a session, so that a refused client costs nothing
	event    weir.Event
}

func newForwarder(g *Gate, socket *net.UDPConn) *forwarder {
	_ = socket.SetReadBuffer(socketRoom)
	return &forwarder{gate: g, socket: socket, sessions: map[netip.AddrPort]*session{}, newcomer: new(session)}
}

// Addr is where packets come in.
func (u *forwarder) Addr() net.Addr { return u.socket.LocalAddr() }

// Close makes the forwarder take no more packets. Its socket stays open for replies.
func (u *forwarder) Close() error { return u.socket.SetReadDeadline(time.Unix(1, 0)) }

// Serve takes packets until the gate stops.
func (u *forwarder) Serve() {
	context.AfterFunc(u.gate.Base, u.cut)
	defer u.dismiss()
	buf := make([]byte, maxPacket+1)
	var pause gate.Pause
	for {
		n, client, err := u.socket.ReadFromUDPAddrPort(buf)
		if err != nil {
			if !pause.After(err, "cannot take packets for the moment", u.gate.Serving.Done(), u.gate.env.Log) {
				return
			}
			continue
		}
		pause = 0
		u.take(buf[:n], client)
	}
}

// take deals with one packet.
func (u *forwarder) take(p []byte, client netip.AddrPort) {
	g := u.gate
	defer g.Recover(gate.ConnectionFailed, nil)
	u.mu.Lock()
	defer u.mu.Unlock()
	s := g.Setup.Load()
	if len(p) > int(s.opts.Bounds.Packet) {
		g.env.Observer.Bounded(BoundPacket)
		return
	}
	ss, known := u.sessions[client]
	if !known {
		if g.crowd.Full(client.Addr(), s.opts.Bounds.Clients) {
			g.env.Observer.Bounded(BoundClients)
			return
		}
		ss = u.newcomer
	}
	u.event = weir.Event{Time: g.env.Clock.Now(), Source: identify.Plain(client.Addr()), Kind: KindUDP, ID: ss.id,
		Cost: 1, Bytes: int64(len(p))}
	verdict := ss.judge(g.Base, s.chain, &u.event)
	g.env.Observer.Judged(verdict)
	if verdict != weir.Admit {
		return
	}
	var err error
	if !known {
		err = u.open(ss, s, client)
	}
	if err == nil {
		err = ss.send(p)
	}
	if err != nil {
		ss.over(u.event.Time)
		g.unreached(ss.id, err)
		return
	}
	g.env.Observer.Passed(int64(len(p)), 0)
}

// open makes the newcomer a session. u.mu is held.
func (u *forwarder) open(ss *session, s *setup, client netip.AddrPort) error {
	upstream, err := net.DialUDP("udp", nil, s.remote)
	if err != nil {
		return err
	}
	ss.id, ss.client, ss.upstream, ss.setup = gate.NewID(), client, upstream, s
	ss.idle.gate, ss.idle.patience = u.gate, s.opts.Timeouts.Idle.Std()
	ss.idle.expired = func() { u.expire(ss) }
	u.sessions[client], u.newcomer = ss, new(session)
	ss.seat = u.gate.crowd.Enter(client.Addr(), s.opts.Bounds.Clients, func() { // u.mu is held
		u.gate.env.Observer.Bounded(BoundClients)
		delete(u.sessions, ss.client)
		_ = ss.upstream.Close()
	})
	u.gate.Open.Add(1)
	u.gate.env.Observer.Connections(1)
	ss.idle.start()
	u.gate.Go(func() { u.replies(ss) })
	return nil
}

// replies sends what comes back from the upstream to the client, until the session is over.
func (u *forwarder) replies(ss *session) {
	defer u.end(ss)
	defer u.gate.Recover(gate.ConnectionFailed, nil, slog.String("id", ss.id))
	for wait := awaitReadable(ss.upstream); wait() == nil; {
		if !u.reply(ss) || u.gate.Stopping() {
			return
		}
	}
}

// reply sends one packet back. It reports false when no more can come.
func (u *forwarder) reply(ss *session) bool {
	g := u.gate
	buf := packets.Get().(*[maxPacket + 1]byte)
	defer packets.Put(buf)
	n, err := ss.upstream.Read(buf[:])
	ss.answered.Store(true)
	switch {
	case refused(err):
		g.unreached(ss.id, err)
		return true
	case err != nil:
		return false
	case n > int(ss.setup.opts.Bounds.Packet):
		g.env.Observer.Bounded(BoundPacket)
		return true
	}
	if !ss.reply(int64(n)) {
		g.env.Observer.Judged(weir.Refuse)
		return true
	}
	// A client that cannot be written to cannot be told either.
	if _, err := u.socket.WriteToUDPAddrPort(buf[:n], ss.client); err == nil {
		g.env.Observer.Passed(0, int64(n))
	}
	return true
}

// expire forgets a session, unless something has moved in the meantime.
func (u *forwarder) expire(ss *session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if left := ss.idle.left(); left > 0 {
		ss.idle.again(left)
		return
	}
	delete(u.sessions, ss.client)
	ss.seat.Leave()
	_ = ss.upstream.Close() // this ends the session
}

// end is deferred: it leaves nothing of a session behind, whatever happened.
func (u *forwarder) end(ss *session) {
	g := u.gate
	u.mu.Lock()
	if u.sessions[ss.client] == ss { // an expired session may have a successor
		delete(u.sessions, ss.client)
	}
	u.mu.Unlock()
	ss.idle.stop()
	_ = ss.upstream.Close()
	g.Open.Add(-1)
	ss.seat.Leave()
	g.env.Observer.Connections(-1)
	defer g.Recover(gate.ConnectionFailed, nil, slog.String("id", ss.id))
	ss.over(g.env.Clock.Now())
}

// dismiss ends the sessions that wait for no reply, and gives the others a moment.
func (u *forwarder) dismiss() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, ss := range u.sessions {
		if ss.answered.Load() {
			_ = ss.upstream.Close()
		} else {
			_ = ss.upstream.SetReadDeadline(time.Now().Add(lastReply))
		}
	}
}

// cut ends all sessions.
func (u *forwarder) cut() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, ss := range u.sessions {
		_ = ss.upstream.Close()
	}
}
