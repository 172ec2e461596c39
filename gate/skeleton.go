package gate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/logs"
)

// A Listener is what a gate listens on: a net.Listener, whose connections go to Hooks.Take, or something with a method
// Serve() that takes what comes in, such as packets, until it is closed.
type Listener interface {
	Addr() net.Addr
	// Close ends Serve, or Accept. What has come in goes on.
	Close() error
}

// Hooks are what a gate adds to its Skeleton. What and Open are needed, and Take where Open returns a net.Listener. The
// hooks Open, Start and Replaced are called one at a time.
type Hooks[S any] struct {
	// What is under way at the gate, for errors and the log, such as "requests".
	What string
	// Open opens the socket.
	Open func(s *S) (Listener, error)
	// Take is given one connection after the other. The next one is accepted when it returns.
	Take func(c net.Conn)

	// Server makes the server that gets the connections given to Hand. After a reload the server is replaced, unless
	// Same reports that the old one will do. Both are nil where the gate serves its connections by itself.
	Server func(s *S) Server
	Same   func(old, next *S) bool

	Start func()                          // Start has been called, and nothing has been accepted yet
	Drain func(ctx context.Context) error // waits for what neither UnderWay nor Server knows of
	End   func()                          // the gate has stopped

	Replaced func(old, next *S, serving bool) // a setup has taken the place of another one
	Dropped  func(next *S)                    // a setup will not be used
}

// A Skeleton is the life cycle of a gate with setups of type S. New makes one.
type Skeleton[S any] struct {
	Setup    atomic.Pointer[S] // the current one. What is under way keeps the one that it began with
	Open     atomic.Int64      // connections
	UnderWay atomic.Int64      // what a stop waits for
	// Serving ends when the gate begins to stop: what waits for a client need not wait any longer.
	Serving context.Context
	// Base is the context of everything that goes on at the gate. It ends when a stop has no more patience: what is
	// under way is cut off.
	Base context.Context

	env    Env
	crowd  Crowd // of Counted
	hooks  Hooks[S]
	began  time.Time
	panics logs.Rates

	stop      context.CancelFunc // ends Serving
	cancel    context.CancelFunc // ends Base
	accepting chan struct{}      // closed when nothing more is accepted
	over      chan struct{}      // closed when the stop is over

	mu       sync.Mutex
	listener Listener // nil before Listen
	started  bool
	shut     bool     // the listener is closed
	ending   bool     // Stop was called
	servers  *servers // nil before Start, and where there is no Hooks.Server
}

// New returns the skeleton of a gate that listens nowhere yet.
func New[S any](env Env, first *S, hooks Hooks[S]) *Skeleton[S] {
	k := &Skeleton[S]{env: env.WithDefaults(), hooks: hooks, accepting: make(chan struct{}), over: make(chan struct{})}
	k.began = k.env.Clock.Now()
	k.Serving, k.stop = context.WithCancel(context.Background())
	k.Base, k.cancel = context.WithCancel(context.Background())
	k.Setup.Store(first)
	return k
}

// Listen binds the address, or makes the socket. Port 0 takes a free one; see Addr.
func (k *Skeleton[S]) Listen() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.listener != nil {
		return errors.New("the gate listens already")
	}
	if k.Stopping() {
		return net.ErrClosed
	}
	l, err := k.hooks.Open(k.Setup.Load())
	if err != nil {
		return err
	}
	k.listener = l
	return nil
}

// Addr is where the gate listens, or nil before Listen.
func (k *Skeleton[S]) Addr() net.Addr {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.listener == nil {
		return nil
	}
	return k.listener.Addr()
}

// Start begins to serve and returns at once. Listen must have succeeded; without it, Start does nothing.
func (k *Skeleton[S]) Start() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.listener == nil || k.started || k.Stopping() {
		return
	}
	k.started = true
	call(k.hooks.Start)
	if k.hooks.Server != nil {
		k.servers = newServers(k.listener.Addr())
		k.servers.put(k.hooks.Server(k.Setup.Load()))
	}
	go func() {
		defer close(k.accepting)
		switch l := k.listener.(type) {
		case net.Listener:
			Accept(l.Accept, k.Serving.Done(), k.env.Log, k.take)
		case interface{ Serve() }:
			l.Serve()
		}
	}()
}

// take gives a connection to the gate. If that panics, the connection is closed and the gate goes on.
func (k *Skeleton[S]) take(c net.Conn) {
	defer k.Recover(ConnectionFailed, func() { _ = c.Close() })
	k.hooks.Take(c)
}

// Hand gives a connection to the current server. It belongs to Hooks.Take, or to what that has started.
func (k *Skeleton[S]) Hand(c net.Conn) { k.servers.hand(c) }

// Replace is how Prepare ends, once the next setup has been made, or could not be made. It returns commit, which puts
// the setup in the place of the current one, and abort. One of them must be called; neither can fail.
func (k *Skeleton[S]) Replace(next *S, wrong error) (commit, abort func(), err error) {
	if wrong != nil {
		return nil, nil, wrong
	}
	var once sync.Once
	commit = func() { once.Do(func() { k.replace(next) }) }
	abort = func() {
		once.Do(func() {
			if k.hooks.Dropped != nil {
				k.hooks.Dropped(next)
			}
		})
	}
	return commit, abort, nil
}

func (k *Skeleton[S]) replace(next *S) {
	k.mu.Lock()
	defer k.mu.Unlock()
	old := k.Setup.Swap(next)
	if k.hooks.Replaced != nil {
		k.hooks.Replaced(old, next, k.started && !k.Stopping())
	}
	if k.servers != nil && !k.hooks.Same(old, next) {
		k.servers.put(k.hooks.Server(next))
	}
}

// lastWait is how long a stop waits for what has been cut off already.
const lastWait = 5 * time.Second

// Unlisten closes the listener, so that another gate can have its address at once. Stop must follow: it waits for what
// is under way. A gate for packets keeps its socket until then, as answers go out by it.
func (k *Skeleton[S]) Unlisten() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stop()
	if k.listener != nil && !k.shut {
		k.shut = true
		_ = k.listener.Close()
	}
}

// Stop takes nothing more and waits until what is under way has come to its end. When ctx ends first, the rest is cut
// off and the error of ctx returned. A second call waits for the first.
func (k *Skeleton[S]) Stop(ctx context.Context) error {
	k.Unlisten()
	k.mu.Lock()
	first := !k.ending
	k.ending = true
	started, servers := k.started, k.servers
	k.mu.Unlock()
	if !first {
		return waitFor(ctx, k.over)
	}
	defer close(k.over)
	if servers != nil {
		servers.shut()
	}
	if !started {
		close(k.accepting)
	}
	cut, err := k.drain(ctx, servers)
	k.cancel()
	if servers != nil {
		servers.close()
	}
	// Nothing holds up what is left. It must have settled before the throttles are taken down.
	last, cancel := context.WithTimeout(context.Background(), lastWait)
	defer cancel()
	if k.idle(last) != nil {
		k.env.Log.Error(k.hooks.What+" are still under way after the stop", k.hooks.What, k.UnderWay.Load())
	}
	call(k.hooks.End)
	switch {
	case err == nil:
		return nil
	case cut > 0:
		return fmt.Errorf("%d %s were cut off: %w", cut, k.hooks.What, err)
	}
	return fmt.Errorf("connections were cut off: %w", err)
}

// drain waits until nothing is accepted and nothing is under way any more. When ctx ends first, it returns how much is.
func (k *Skeleton[S]) drain(ctx context.Context, servers *servers) (cut int64, err error) {
	if waitFor(ctx, k.accepting) != nil {
		cut = k.UnderWay.Load()
		k.cancel() // it may be what holds up Take
		last, cancel := context.WithTimeout(context.Background(), lastWait)
		defer cancel()
		_ = waitFor(last, k.accepting)
	}
	var drained, shut error
	var both sync.WaitGroup
	if servers != nil {
		both.Go(func() { shut = servers.shutdown(ctx) })
	}
	if k.hooks.Drain != nil {
		both.Go(func() { drained = k.hooks.Drain(ctx) })
	}
	both.Wait()
	if err = errors.Join(shut, drained); err == nil {
		err = k.idle(ctx)
	}
	if ctx.Err() != nil && (err != nil || cut > 0) {
		err = ctx.Err()
	}
	return max(cut, k.UnderWay.Load()), err
}

// idle waits until nothing is under way.
func (k *Skeleton[S]) idle(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !isClosed(k.accepting) || k.UnderWay.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Stopping reports whether the gate stops.
func (k *Skeleton[S]) Stopping() bool { return k.Serving.Err() != nil }

// call calls a hook that may be missing.
func call(hook func()) {
	if hook != nil {
		hook()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waitFor waits until a channel is closed, or returns the error of ctx.
func waitFor(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
