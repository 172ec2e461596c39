package nats

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"weir/farm"
)

// DefaultEvery is how often names of peers are resolved.
const DefaultEvery = 5 * time.Second

// Options make a bus. The farm's options come with their defaults filled in.
type Options struct {
	Node farm.Node
	farm.Options
	Log *slog.Logger     // default: none
	Now func() time.Time // for certificates, and to forget who was refused. Default: time.Now
	// Resolve looks a name up. Default: net.DefaultResolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Every is how often names of peers are looked up. Default: DefaultEvery.
	Every time.Duration

	major int // in tests
}

// A Bus is a farm.Bus over NATS. Make it with Open. Goroutines may share it.
type Bus struct {
	node    farm.Node
	log     *slog.Logger
	debug   bool
	now     func() time.Time
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	every   time.Duration
	major   int
	host    string // to listen at
	port    int

	troubles *troubles
	server   *server.Server // nil with an external one
	addr     *net.TCPAddr
	conn     *nats.Conn
	outbox   *outbox
	asks     asks
	answers  chan struct{} // one for each question that is being answered
	renew    chan struct{}
	stop     context.CancelFunc
	running  sync.WaitGroup // the goroutines of the bus

	sent, received, dropped atomic.Uint64

	mu      sync.Mutex
	options farm.Options
	secured *tls.Config
	routes  []netip.AddrPort
	hearing map[*nats.Subscription]struct{}
	closed  bool

	closing   sync.Once
	closeDone chan struct{}
	closeErr  error
}

var _ farm.Bus = (*Bus)(nil)

// Open starts the bus of a node. It returns when others can connect; whether anybody is there is another matter. An
// external server may be away: the bus connects when it comes.
func Open(o Options) (*Bus, error) {
	ctx, stop := context.WithCancel(context.Background())
	b := &Bus{
		node: o.Node, log: o.Log, now: o.Now, resolve: o.Resolve, every: cmp.Or(o.Every, DefaultEvery),
		major: cmp.Or(o.major, farm.Major), options: o.Options,
		answers: make(chan struct{}, maxAnswers), renew: make(chan struct{}, 1), stop: stop,
		hearing: map[*nats.Subscription]struct{}{}, closeDone: make(chan struct{}),
		outbox: newOutbox(), asks: asks{waiting: map[string]chan answer{}},
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.now == nil {
		b.now = time.Now
	}
	if b.resolve == nil {
		b.resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	b.debug = b.log.Enabled(ctx, slog.LevelDebug)
	b.troubles = newTroubles(b.log, b.now)
	if err := b.open(ctx); err != nil {
		stop()
		if b.conn != nil {
			b.conn.Close()
		}
		if b.server != nil {
			b.server.Shutdown()
		}
		return nil, err
	}
	return b, nil
}

func (b *Bus) open(ctx context.Context) error {
	if b.options.NATS == "" {
		var err error
		if b.host, b.port, err = splitListen(b.options.Listen); err != nil {
			return err
		}
		if err = b.secure(b.options); err != nil {
			return err
		}
		if err = b.startServer(ctx); err != nil {
			return err
		}
	}
	if err := b.connect(); err != nil {
		return err
	}
	b.running.Go(b.sendAll)
	if b.server != nil {
		b.running.Go(func() { b.findPeers(ctx) })
	}
	return nil
}

// secure makes the node's certificates.
func (b *Bus) secure(o farm.Options) error {
	id, err := newIdentity(o, b.major)
	if err != nil {
		return err
	}
	b.secured = id.config(b.now, b.troubles.refuse)
	return nil
}

// Reconfigure takes new options: peers, secrets and certificates, which are read again. Connections that stand stay as
// they are. It changes nothing when it returns an error.
func (b *Bus) Reconfigure(o farm.Options) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return farm.ErrClosed
	}
	for _, c := range []struct{ name, was, is string }{
		{"farm.node", b.options.Node, o.Node},
		{"farm.listen", b.options.Listen, o.Listen},
		{"farm.nats", b.options.NATS, o.NATS},
	} {
		if c.was != c.is {
			return fmt.Errorf("farm: %s has changed: restart weir to apply it", c.name)
		}
	}
	if b.server != nil {
		before := b.secured
		if err := b.secure(o); err != nil {
			return err
		}
		if err := b.reload(); err != nil {
			b.secured = before
			return err
		}
	}
	b.options = o
	b.options.Peers = slices.Clone(o.Peers)
	select {
	case b.renew <- struct{}{}:
	default: // it is to be done anyway
	}
	return nil
}

// reload gives the server its options anew, under the lock.
func (b *Bus) reload() error {
	if err := b.server.ReloadOptions(b.serverOptions(b.secured, b.routes)); err != nil {
		return fmt.Errorf("farm: the server of the bus: %w", err)
	}
	return nil
}

// setRoutes tells the server which nodes to connect to.
func (b *Bus) setRoutes(routes []netip.AddrPort) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.routes = routes
	listed := make([]string, len(routes))
	for i, r := range routes {
		listed[i] = r.String()
	}
	b.troubles.list(listed)
	if err := b.reload(); err != nil {
		b.log.Error("farm: the peers were not applied: " + err.Error())
	}
}

func (b *Bus) peerList() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.options.Peers
}

// Addr is where the other nodes connect: nil with an external server.
func (b *Bus) Addr() net.Addr {
	if b.addr == nil {
		return nil
	}
	return b.addr
}

// Own reports whether this node itself listens at an address.
func (b *Bus) Own(at netip.AddrPort) bool { return b.addr != nil && ownAddress(b.addr)(at) }

// Stats says how the bus does.
func (b *Bus) Stats() farm.BusStats {
	b.mu.Lock()
	dropped := b.dropped.Load()
	for sub := range b.hearing {
		dropped += droppedBy(sub)
	}
	b.mu.Unlock()
	return farm.BusStats{
		Sent: b.sent.Load(), Received: b.received.Load(), Dropped: dropped,
		Waiting: b.outbox.waiting(), Refused: b.troubles.lately(),
	}
}

// Away returns the addresses of peers that do not answer, and why.
func (b *Bus) Away() map[string]string { return b.troubles.unanswered() }

// Close sends what waits, until ctx ends, and lets go of everything. Only the first call has an effect; all return when
// it is done.
func (b *Bus) Close(ctx context.Context) error {
	b.closing.Do(func() {
		go func() {
			defer close(b.closeDone)
			b.closeErr = b.close(ctx)
		}()
	})
	select {
	case <-b.closeDone:
		return b.closeErr
	case <-ctx.Done():
	}
	// what is left is bounded by the deadlines of writes
	<-b.closeDone
	return b.closeErr
}

func (b *Bus) close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.stop()
	b.asks.close()
	b.outbox.close()
	var err error
	select {
	case <-b.outbox.empty:
		err = b.flush(ctx)
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.dropped.Add(uint64(b.outbox.abandon()))
	b.conn.Close()
	if b.server != nil {
		b.server.Shutdown()
	}
	b.running.Wait()
	b.waitBusy(ctx)
	if err != nil {
		return fmt.Errorf("farm: the bus was closed before all was sent: %w", err)
	}
	return nil
}

// waitBusy waits for answers that are being computed, until ctx ends: they are not the bus's own code.
func (b *Bus) waitBusy(ctx context.Context) {
	for range cap(b.answers) {
		select {
		case b.answers <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// flush waits until the server has what was sent. A server that is away gets nothing more: that is no mistake.
func (b *Bus) flush(ctx context.Context) error {
	// It is watched before it is asked for: one that goes in between would be waited for until ctx ends.
	away := b.conn.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer b.conn.RemoveStatusListener(away)
	if !b.conn.IsConnected() {
		return nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, writeDeadline)
		defer cancel()
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-away:
			cancel()
		case <-waiting.Done():
		}
	}()
	err := b.conn.FlushWithContext(waiting)
	if errors.Is(err, nats.ErrConnectionClosed) || waiting.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}
