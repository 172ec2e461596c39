package rlsgate

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// A slowListener keeps the server from reading the connections that it has accepted.
type slowListener struct {
	net.Listener
	asked, closed, goOn chan struct{}
	ask, close          sync.Once
}

func (l *slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &slowConn{c, l}, nil
}

func (l *slowListener) Close() error {
	err := l.Listener.Close()
	l.close.Do(func() { close(l.closed) })
	return err
}

type slowConn struct {
	net.Conn
	listener *slowListener
}

func (c *slowConn) Read(b []byte) (int, error) {
	c.listener.ask.Do(func() { close(c.listener.asked) })
	<-c.listener.goOn
	return c.Conn.Read(b)
}

// TestShutdownAnswersArrivals: a call whose connection was accepted before the server is told to stop is not lost, even
// if nothing has been read from it. Later connections go to another server, as after a reload.
func TestShutdownAnswersArrivals(t *testing.T) {
	r := newRig(t, Options{Config: write(t, oneRule(5))}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	slow := &slowListener{Listener: l, asked: make(chan struct{}), closed: make(chan struct{}),
		goOn: make(chan struct{})}
	release := sync.OnceFunc(func() { close(slow.goOn) })
	s := r.newServer(r.Setup.Load().serverOptions())
	served := make(chan error, 1)
	go func() { served <- s.Serve(slow) }()
	t.Cleanup(func() {
		release()
		_ = s.Close()
		<-served
	})
	answered := make(chan error, 1)
	var dialled atomic.Int64
	client := rls.NewRateLimitServiceClient(dial(t, "passthrough:gate",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			to := r.Addr()
			if dialled.Add(1) == 1 {
				to = l.Addr()
			}
			return new(net.Dialer).DialContext(ctx, to.Network(), to.String())
		})))
	go func() {
		_, err := client.ShouldRateLimit(within(t),
			&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=ann")})
		answered <- err
	}()
	<-slow.asked
	shut := make(chan error, 1)
	go func() { shut <- s.Shutdown(within(t)) }()
	<-slow.closed
	select {
	case err := <-shut:
		t.Fatalf("the shutdown did not wait: %v", err)
	default:
	}
	release()
	if err := <-answered; err != nil {
		t.Errorf("a call on a connection that had been accepted was answered by %v", err)
	}
	if err := <-shut; err != nil {
		t.Error(err)
	}
}

// TestShutdownBeforeServe: a server that is replaced before it begins takes no connection.
func TestShutdownBeforeServe(t *testing.T) {
	r := newRig(t, Options{Config: write(t, oneRule(5))}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := r.newServer(r.Setup.Load().serverOptions())
	if err := s.Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err == nil {
		t.Error("a server that was shut down has served")
	}
	if _, err := l.Accept(); err == nil {
		t.Error("its listener is open")
	}
}
