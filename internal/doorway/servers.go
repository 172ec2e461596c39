package doorway

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

// Servers are the one http.Server that takes connections now, and those before it whose last requests are under way:
// what a server takes once and for all, such as its timeouts, changes by putting another one in its place, while the
// socket stays open. Its methods may be called from several goroutines; Put comes before the first Hand.
type Servers struct {
	addr    net.Addr
	current atomic.Pointer[server]

	shut   chan struct{} // closed when no more connections are taken
	base   context.Context
	cancel context.CancelFunc // ends what old servers wait for

	mu  sync.Mutex
	all []*server
}

// A server is one http.Server and the doorway that it gets its connections through.
type server struct {
	http    *http.Server
	doorway *Doorway
	done    chan struct{} // closed when Serve has returned
}

// NewServers returns servers that are told that they listen on addr. There is none yet.
func NewServers(addr net.Addr) *Servers {
	s := &Servers{addr: addr, shut: make(chan struct{})}
	s.base, s.cancel = context.WithCancel(context.Background())
	return s
}

// Put puts a server in place. The one before it, if any, takes no more connections: idle ones are closed, those that
// have just been made get their first answer, and requests under way go on. After Shut it does nothing.
func (s *Servers) Put(h *http.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isShut() {
		return
	}
	next := &server{http: h, doorway: New(s.addr), done: make(chan struct{})}
	old := s.current.Swap(next)
	s.all = append(s.all, next)
	go func() {
		defer close(next.done)
		_ = h.Serve(next.doorway)
	}()
	if old != nil {
		go s.retire(old)
	}
}

// retire ends a server whose place another one has taken.
func (s *Servers) retire(old *server) {
	_ = old.doorway.Close()
	old.http.SetKeepAlivesEnabled(false)
	// Shutdown drops connections whose first request has not been read; by then the header timeout has dealt with them.
	patience := time.NewTimer(old.http.ReadHeaderTimeout + time.Second)
	defer patience.Stop()
	select {
	case <-patience.C:
	case <-s.shut:
		return // Shutdown and Close take care of it
	}
	_ = old.http.Shutdown(s.base)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(one *server) bool { return one == old })
}

// Hand gives a connection to the server of the hour. After Shut it is closed.
func (s *Servers) Hand(c net.Conn) {
	for !s.current.Load().doorway.Hand(c) { // another one is in place, or none will be
		if s.isShut() {
			_ = c.Close()
			return
		}
	}
}

// Shut takes no more connections. What is open stays open.
func (s *Servers) Shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isShut() {
		return
	}
	close(s.shut)
	for _, one := range s.all {
		_ = one.doorway.Close()
	}
}

func (s *Servers) isShut() bool {
	select {
	case <-s.shut:
		return true
	default:
		return false
	}
}

// Shutdown waits, after Shut, until the requests under way have been answered, or ctx ends: then its error is returned.
func (s *Servers) Shutdown(ctx context.Context) error {
	servers := s.list()
	ended := make(chan error, len(servers))
	for _, one := range servers {
		go func() { ended <- one.http.Shutdown(ctx) }()
	}
	var err error
	for range servers {
		err = errors.Join(err, <-ended)
	}
	return err
}

// Close cuts off, after Shut, whatever is still open.
func (s *Servers) Close() {
	s.cancel()
	for _, one := range s.list() {
		_ = one.http.Close()
		<-one.done
	}
}

func (s *Servers) list() []*server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}
