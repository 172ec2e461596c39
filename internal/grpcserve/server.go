package grpcserve

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Server. Message, Streams, HeaderList, Connect and Silent must be above zero.
type Options struct {
	// Methods are those that are known, by path, such as "/package.Service/Method". Others are not implemented.
	Methods map[string]Method
	// Services are those whose health is told: they are serving until StopHealth is called. "" is the server.
	Services []string
	// Message is the largest message. A larger one is answered by RESOURCE_EXHAUSTED.
	Message int
	// Streams is how many calls a connection may have at once. One more is refused, and may be repeated.
	Streams int
	// HeaderList is the most that the headers of a call may come to.
	HeaderList int
	// Connect is how long the beginning of a connection may take.
	Connect time.Duration
	// Silent is how long a connection may be silent: then the caller is asked whether it is there, and cut off when it
	// is silent for as long again. A request must come to its end in this time, and an answer be taken.
	Silent time.Duration
	// Bounded is told the name of a bound that was reached, one of Bounds. It must not block.
	Bounded func(name string)
	// Panicked is told of a panic that has been recovered from.
	Panicked func(what any)
}

// A Method answers the calls of one method.
type Method struct {
	// Answer appends the answer to a message. An error is told to the caller as its gRPC status. The message is valid
	// until Answer returns.
	Answer func(ctx context.Context, message, to []byte) ([]byte, error)
	// Prompt reports whether Answer does not wait for anything. A call is then answered by who reads the connection.
	// Nil means that it may wait.
	Prompt func() bool
}

// A Server serves connections. Its methods may be called from several goroutines.
type Server struct {
	o       Options
	methods map[string]*Method
	base    context.Context // of all calls; ends with Close
	cancel  context.CancelFunc
	workers workers
	tick    atomic.Int64

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	open      int // connections, and listeners that are served
	ending    bool
	unhealthy bool
	over      chan struct{} // closed when the server ends and nothing is open
	watching  bool
}

// New returns a server that serves nothing yet.
func New(o Options) *Server {
	s := &Server{o: o, listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{}, over: make(chan struct{})}
	s.methods = make(map[string]*Method, len(o.Methods))
	for path, m := range o.Methods {
		s.methods[path] = &m
	}
	s.base, s.cancel = context.WithCancel(context.Background())
	s.workers.jobs = make(chan *stream)
	s.workers.done = s.over
	return s
}

// Serve serves the connections of a listener until that is closed. After Shutdown or Close it closes the listener.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.ending {
		s.mu.Unlock()
		_ = l.Close()
		return net.ErrClosed
	}
	s.listeners[l] = struct{}{}
	s.open++
	if !s.watching {
		s.watching = true
		go s.watch()
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, l)
		s.left()
	}()
	for {
		nc, err := l.Accept()
		if err != nil {
			return err
		}
		s.begin(nc)
	}
}

// begin serves a connection. One that was accepted before the server was told to end is served, too.
func (s *Server) begin(nc net.Conn) {
	c := newConn(s, nc)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.open++
	ending, cut := s.ending, s.base.Err() != nil
	s.mu.Unlock()
	if ending {
		c.drain()
	}
	if cut {
		_ = nc.Close()
	}
	go c.serve()
}

// end forgets a connection.
func (s *Server) end(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.left()
}

// left is called with mu locked, when something that was open is not any more.
func (s *Server) left() {
	if s.open--; s.open == 0 && s.ending {
		s.finish()
	}
}

// finish is called with mu locked.
func (s *Server) finish() {
	select {
	case <-s.over:
	default:
		close(s.over)
	}
}

// Shutdown takes no more connections and calls, and returns when those under way have been answered, or ctx has ended.
// Callers are told twice, so that none of their calls is lost: before it is known which call is the last, and after.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, c := range s.stopListening() {
		c.drain()
	}
	select {
	case <-s.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close cuts off what is under way.
func (s *Server) Close() error {
	s.cancel()
	for _, c := range s.stopListening() {
		_ = c.nc.Close()
	}
	return nil
}

// stopListening returns the connections that are open.
func (s *Server) stopListening() (open []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for l := range s.listeners {
		_ = l.Close()
	}
	if s.open == 0 {
		s.finish()
	}
	return s.list()
}

// list is called with mu locked.
func (s *Server) list() []*conn {
	all := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

// watch looks at all connections now and then.
func (s *Server) watch() {
	t := time.NewTicker(s.o.Silent / ticks)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.over:
			return
		case <-s.base.Done():
			return
		}
		now := s.tick.Add(1)
		s.mu.Lock()
		all := s.list()
		s.mu.Unlock()
		for _, c := range all {
			c.look(now)
		}
	}
}
