package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/logs"
)

// Bounds of what is remembered about others.
const (
	maxRefused   = 16
	refusedFor   = time.Minute
	maxAway      = 128
	maxReason    = 300 // bytes
	routeConnect = "Error trying to connect to route"
)

// A refusedNode is somebody who was not let in, or did not let this node in.
type refusedNode struct {
	why      string
	at       time.Time
	times    int
	sure     bool // this node knows why; otherwise the other end just hung up
	stranger bool // no node at all: somebody who tries ports
}

// troubles notices what is wrong with other nodes, and logs each thing once. It is the server's logger: what happens to
// routes is told nowhere else. The server calls it while it holds locks, so it calls nothing of the server.
type troubles struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	refused map[string]refusedNode // by address
	away    map[string]string      // addresses that do not answer, and why
	listed  []string               // addresses that this node connects to
	fatal   error                  // what kept the server from listening
	started time.Time
	strange logs.Line
}

func newTroubles(log *slog.Logger, now func() time.Time) *troubles {
	return &troubles{log: log, now: now, refused: map[string]refusedNode{}, away: map[string]string{}, started: now()}
}

// refuse notes that a connection with an address was refused.
func (t *troubles) refuse(addr string, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.listed, addr) {
		addr = hostOf(addr) // those who connect have another port every time
	}
	now := t.now()
	t.expire(now)
	n := judged(why)
	before, known := t.refused[addr]
	n.at, n.times = now, before.times+1
	if known && before.sure && !n.sure {
		before.at, before.times = now, n.times
		t.refused[addr] = before
		return
	}
	if !known && len(t.refused) >= maxRefused && !t.evict(n.stranger) {
		return
	}
	t.refused[addr] = n
	if known && before.why == n.why {
		return
	}
	if n.stranger {
		if hidden, ok := t.strange.Now(now.Sub(t.started)); ok {
			t.log.Info(fmt.Sprintf("farm: %s was turned away: %s", addr, n.why), "others", hidden)
		}
		return
	}
	t.log.Warn(fmt.Sprintf("farm: %s is refused: %s", addr, n.why))
}

// judged says what an error of a handshake means.
func judged(err error) refusedNode {
	var known *refusal
	var alert *net.OpError // what crypto/tls makes of the other end's alert
	switch {
	case errors.As(err, &known):
		return refusedNode{why: shorten(known.why), sure: true}
	case errors.As(err, &alert) && alert.Op == "remote error":
		return refusedNode{why: shorten(fmt.Sprintf("it refuses this node (%v): the log of the other node says why",
			alert.Err))}
	case errors.Is(err, errNoNode):
		return refusedNode{why: errNoNode.Error(), stranger: true}
	default:
		return refusedNode{why: shorten("it is not a node of a farm: " + err.Error()), stranger: true}
	}
}

func shorten(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxReason)], "") }

// expire forgets those who have not tried lately.
func (t *troubles) expire(now time.Time) {
	maps.DeleteFunc(t.refused, func(_ string, n refusedNode) bool { return now.Sub(n.at) >= refusedFor })
}

// evict makes room for one more. Strangers go first, and never push a node out.
func (t *troubles) evict(forStranger bool) bool {
	var oldest string
	found := false
	for addr, n := range t.refused {
		if forStranger && !n.stranger {
			continue
		}
		o := t.refused[oldest]
		if !found || n.stranger && !o.stranger || n.stranger == o.stranger && n.at.Before(o.at) {
			oldest, found = addr, true
		}
	}
	delete(t.refused, oldest)
	return found
}

// lately returns who was refused lately.
func (t *troubles) lately() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(t.now())
	if len(t.refused) == 0 {
		return nil
	}
	all := make(map[string]string, len(t.refused))
	for addr, n := range t.refused {
		all[addr] = n.why
	}
	return all
}

// fails notes that an address does not answer.
func (t *troubles) fails(addr, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.away[addr]; known || len(t.away) >= maxAway {
		return
	}
	t.away[addr] = why
	t.log.Warn(fmt.Sprintf("peers: %s does not answer: %s; weir goes on without it", addr, why))
}

// answers notes that an address does.
func (t *troubles) answers(addr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.away[addr]; known {
		delete(t.away, addr)
		t.log.Info(fmt.Sprintf("peers: %s answers again", addr))
	}
}

// unanswered returns the addresses that do not answer, and why.
func (t *troubles) unanswered() map[string]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.away)
}

// list takes the addresses that this node connects to, and forgets what it knew about others.
func (t *troubles) list(listed []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.listed = listed
	maps.DeleteFunc(t.away, func(addr, _ string) bool { return !slices.Contains(listed, addr) })
}

func (t *troubles) failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fatal
}

// Fatalf takes what keeps the server from listening. The listener for clients is meant to fail.
func (t *troubles) Fatalf(format string, v ...any) {
	if !strings.Contains(format, "router port") {
		t.Debugf(format, v...)
		return
	}
	err := cmp.Or(firstError(v), fmt.Errorf(format, v...))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fatal = err
}

// Errorf takes routes that cannot be made. The server's lines about a connection begin with its address.
func (t *troubles) Errorf(format string, v ...any) {
	err := firstError(v)
	switch {
	case err == nil:
		t.Debugf(format, v...)
	case strings.HasPrefix(format, routeConnect):
		addr, why := unreachable(err)
		t.fails(addr, why)
	case strings.Contains(format, "handshake error"):
		if addr, _, found := strings.Cut(format, " - "); found {
			t.refuse(addr, err)
		}
	default:
		t.Debugf(format, v...)
	}
}

// Noticef takes routes that were made.
func (t *troubles) Noticef(format string, v ...any) {
	if strings.HasSuffix(format, "Route connection created") {
		if addr, _, found := strings.Cut(format, " - "); found {
			t.answers(addr)
		}
	}
	t.Debugf(format, v...)
}

// Warnf, Debugf and Tracef are for those who look into the server.
func (t *troubles) Warnf(format string, v ...any)  { t.Debugf(format, v...) }
func (t *troubles) Tracef(format string, v ...any) { t.Debugf(format, v...) }
func (t *troubles) Debugf(format string, v ...any) {
	if t.log.Enabled(context.Background(), slog.LevelDebug) {
		t.log.Debug("nats: " + fmt.Sprintf(format, v...))
	}
}

func firstError(v []any) error {
	for _, a := range v {
		if err, ok := a.(error); ok {
			return err
		}
	}
	return nil
}

// unreachable says which address an error of a dial is about, and what is wrong there.
func unreachable(err error) (addr, why string) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Addr == nil {
		return "a node", shorten(err.Error())
	}
	inner := op.Err
	for next := errors.Unwrap(inner); next != nil; next = errors.Unwrap(inner) {
		inner = next // connect: connection refused → connection refused
	}
	return op.Addr.String(), shorten(inner.Error())
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
