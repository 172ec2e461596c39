package tcpgate

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"weir"
	"weir/gate"
	"weir/policy"
)

// packets are the buffers for replies. They have one byte more than any packet, so that none is cut short unnoticed.
var packets = sync.Pool{New: func() any { return new([maxPacket + 1]byte) }}

// A session is a client of UDP and its socket to the upstream. Packets come from the forwarder's goroutine, replies on
// one of the session's own.
type session struct {
	id       string
	client   netip.AddrPort
	upstream *net.UDPConn
	seat     *gate.Seat // among all sessions
	setup    *setup
	idle     idler
	answered atomic.Bool // the latest packet has had a reply

	mu     sync.Mutex
	passes [2]policy.Pass
	pass   int  // which of them is of the latest packet that was admitted, unsettled: replies are charged to it
	sent   bool // that packet went on
	muted  bool // replies cannot be charged, and bytes are limited
}

// judge puts a packet before the chain. The packet before it makes room for this one at limits on what is under way at
// once. Otherwise it stays until another one is admitted: a packet that is turned away costs the others no reply.
func (ss *session) judge(ctx context.Context, chain *policy.Chain, ev *weir.Event) weir.Verdict {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	asks := ss.passes[ss.pass].Leave(weir.Outcome{Time: ev.Time, Done: ss.sent})
	pass := &ss.passes[1-ss.pass]
	chain.Judge(ctx, ev, pass)
	verdict := pass.Answer.Verdict
	if verdict == weir.Admit {
		ss.settle(ev.Time)
		ss.pass, ss.muted = 1-ss.pass, false
		return verdict
	}
	pass.Settle(weir.Outcome{Time: ev.Time}) // packets do not wait in line
	ss.muted = ss.muted || !asks
	return verdict
}

// settle ends what is held for the latest packet that was admitted. ss.mu is held.
func (ss *session) settle(now time.Time) {
	ss.passes[ss.pass].Settle(weir.Outcome{Time: now, Done: ss.sent})
	ss.sent = false
}

// send sends a packet on to the upstream.
func (ss *session) send(p []byte) error {
	ss.answered.Store(false)
	_, err := ss.upstream.Write(p)
	if refused(err) {
		// The error is about an earlier packet. The system has not sent this one.
		_, err = ss.upstream.Write(p)
	}
	if err != nil {
		return err
	}
	ss.mu.Lock()
	ss.sent = true
	ss.mu.Unlock()
	ss.charge(int64(len(p)))
	return nil
}

// over settles the latest packet before another one comes.
func (ss *session) over(now time.Time) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.settle(now)
}

// charge counts bytes of a packet that went on.
func (ss *session) charge(n int64) {
	ss.idle.touch()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.passes[ss.pass].Flow(n, ss.idle.gate.env.Clock.Now())
}

// reply charges a reply and reports whether it may go on. A reply that is over a limit is dropped, as packets are.
func (ss *session) reply(n int64) bool {
	ss.idle.touch()
	now := ss.idle.gate.env.Clock.Now()
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.muted {
		return false
	}
	if n > 0 {
		if granted, _ := ss.passes[ss.pass].Ask(n, true, now); granted == 0 {
			return false
		}
	}
	ss.passes[ss.pass].Flow(n, now)
	return true
}

// refused reports whether an error is about an earlier packet.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH)
}
