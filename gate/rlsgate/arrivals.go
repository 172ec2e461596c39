package rlsgate

import (
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// arrivals counts the connections that a server has accepted and that gRPC has not begun with. A gRPC server that is
// told to stop closes those, although their callers may have sent a request already; it finishes all others. The zero
// value has counted none. Its methods may be called from several goroutines.
type arrivals struct {
	mu       sync.Mutex
	ended    bool
	listener net.Listener   // nil before serve
	open     sync.WaitGroup // the connections, and one while listener is served
}

// serve gives serve a listener whose connections are counted. The server's credentials must be arrivalCredentials.
func (a *arrivals) serve(l net.Listener, serve func(net.Listener) error) error {
	a.mu.Lock()
	if a.ended {
		a.mu.Unlock()
		_ = l.Close()
		return net.ErrClosed
	}
	a.listener = l
	a.open.Add(1)
	a.mu.Unlock()
	defer a.open.Done()
	return serve(&arrivalListener{l, a})
}

// end closes the listener, and returns when gRPC has begun with every connection.
func (a *arrivals) end() {
	a.mu.Lock()
	a.ended = true
	l := a.listener
	a.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	a.open.Wait()
}

// An arrivalListener counts what it accepts.
type arrivalListener struct {
	net.Listener
	arrivals *arrivals
}

// Accept is called within serve, so that open is above zero.
func (l *arrivalListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.arrivals.open.Add(1)
	return &arrival{Conn: c, over: sync.OnceFunc(l.arrivals.open.Done)}, nil
}

// An arrival is a connection that is counted until gRPC begins with it, or closes it.
type arrival struct {
	net.Conn
	over func()
}

func (c *arrival) Close() error {
	err := c.Conn.Close()
	c.over()
	return err
}

// arrivalCredentials are none. Their handshake is how gRPC says that it has begun with a connection: from there on it
// waits for what the caller has to say, even when the server is told to stop.
type arrivalCredentials struct {
	credentials.TransportCredentials
}

func newArrivalCredentials() arrivalCredentials { return arrivalCredentials{insecure.NewCredentials()} }

// ServerHandshake also takes the counting off the connection.
func (a arrivalCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if arrived, ok := c.(*arrival); ok {
		arrived.over()
		c = arrived.Conn
	}
	return a.TransportCredentials.ServerHandshake(c)
}

// Clone returns the same: there is nothing that could change.
func (a arrivalCredentials) Clone() credentials.TransportCredentials { return a }
