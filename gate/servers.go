package gate

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Server serves the connections of a listener. *http.Server is one.
type Server interface {
	// Serve serves the connections of a listener until that is closed.
	Serve(net.Listener) error
	// Shutdown takes no more requests, and returns when those under way have been answered or ctx has ended.
	Shutdown(ctx context.Context) error
	// Close cuts off what is under way.
	Close() error
}

// servers are the server that takes connections now, and those before it whose last requests are under way. Options
// that a server takes once and for all, such as its timeouts, change when another server is put in its place, while the
// socket stays open. The methods may be called from several goroutines; put comes before the first hand.
type servers struct {
	addr    net.Addr
	current atomic.Pointer[serving]

	closing chan struct{} // closed when no more connections are taken
	base    context.Context
	cancel  context.CancelFunc // ends what old servers wait for

	mu  sync.Mutex
	all []*serving
}

// serving is a server and the inbox that it gets its connections through.
type serving struct {
	Server
	inbox *inbox
	done  chan struct{} // closed when Serve has returned
}

// newServers returns servers that are told that they listen on addr. There is none yet.
func newServers(addr net.Addr) *servers {
	s := &servers{addr: addr, closing: make(chan struct{})}
	s.base, s.cancel = context.WithCancel(context.Background())
	return s
}

// put puts a server in place. The one before it, if any, takes no more connections: idle ones are closed, those that
// have just been made get their first answer, and requests under way go on. After shut it does nothing.
func (s *servers) put(one Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isShut() {
		return
	}
	next := &serving{Server: one, inbox: newInbox(s.addr), done: make(chan struct{})}
	old := s.current.Swap(next)
	s.all = append(s.all, next)
	go func() {
		defer close(next.done)
		_ = next.Serve(next.inbox)
	}()
	if old != nil {
		go s.retire(old)
	}
}

// retire ends a server that has been replaced.
func (s *servers) retire(old *serving) {
	_ = old.inbox.Close()
	if h, ok := old.Server.(*http.Server); ok {
		h.SetKeepAlivesEnabled(false)
		// Shutdown drops connections whose first request has not been read. It waits until the header timeout has dealt
		// with them.
		patience := time.NewTimer(h.ReadHeaderTimeout + time.Second)
		defer patience.Stop()
		select {
		case <-patience.C:
		case <-s.closing:
			return // shutdown and close take care of it
		}
	}
	_ = old.Shutdown(s.base)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(one *serving) bool { return one == old })
}

// hand gives a connection to the current server. After shut it is closed.
func (s *servers) hand(c net.Conn) {
	for !s.current.Load().inbox.put(c) { // another server is in place, or the gate stops
		if s.isShut() {
			_ = c.Close()
			return
		}
	}
}

// shut takes no more connections. What is open stays open.
func (s *servers) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isShut() {
		return
	}
	close(s.closing)
	for _, one := range s.all {
		_ = one.inbox.Close()
	}
}

func (s *servers) isShut() bool { return isClosed(s.closing) }

// shutdown waits, after shut, until the requests under way have been answered, or ctx ends: then its error is returned.
func (s *servers) shutdown(ctx context.Context) error {
	all := s.list()
	ended := make(chan error, len(all))
	for _, one := range all {
		go func() { ended <- one.Shutdown(ctx) }()
	}
	var err error
	for range all {
		err = errors.Join(err, <-ended)
	}
	return err
}

// close cuts off, after shut, whatever is still open.
func (s *servers) close() {
	s.cancel()
	for _, one := range s.list() {
		_ = one.Close()
		<-one.done
	}
}

func (s *servers) list() []*serving {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}
