package nexthop

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/internal/clock"
)

// A Client hands mails to one next hop, which may be several servers. It is safe for concurrent use; make it with New.
type Client struct {
	opts    Options // with defaults
	env     Env
	name    string // by which it greets
	servers []*server
	slots   chan struct{} // one for each delivery under way
	logIns  chan struct{} // one for each log-in under way
	quits   chan struct{} // one for each connection that says good-bye

	life   context.Context // ends when deliveries are to be given up
	end    context.CancelFunc
	active sync.WaitGroup
	bye    sync.WaitGroup

	mu     sync.Mutex // guards what follows, and the state of the servers
	closed bool
	open   int // connections
	sweeps clock.Timer

	waiting, asking           atomic.Int64
	dials, reused, mails      atomic.Uint64
	lost, ambiguous, restarts atomic.Uint64
}

// New returns a client. Connections are made when they are needed.
func New(o Options, env Env) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	c := &Client{opts: o, env: env.withDefaults(), name: o.Hello,
		slots: make(chan struct{}, o.Connections), logIns: make(chan struct{}, o.Connections),
		quits: make(chan struct{}, o.Connections)}
	if c.name == "" {
		c.name = machineName()
	}
	var roots *x509.CertPool
	if o.CA != "" {
		var err error
		if roots, err = readCA(o.CA); err != nil {
			return nil, err
		}
	}
	for _, text := range o.Servers {
		to, err := parseTarget(text)
		if err != nil {
			return nil, err
		}
		trusting := o
		trusting.User = "somebody" // for the passwords of others as much is asked as for our own
		c.servers = append(c.servers, &server{target: to, mail: o.safety(to, roots), login: trusting.safety(to, roots)})
	}
	c.life, c.end = context.WithCancel(context.Background())
	return c, nil
}

func (o *Options) safety(to target, roots *x509.CertPool) safety {
	mode := o.tlsFor(to)
	return safety{mode, &tls.Config{
		ServerName:         to.host,
		RootCAs:            roots,
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: !o.verifies(mode),
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}}
}

// machineName is how this machine is called, or a name that can stand in a greeting.
func machineName() string {
	if name, err := os.Hostname(); err == nil && isHostName(name) {
		return name
	}
	return "localhost"
}

func readCA(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, &weir.FieldError{Path: "ca", Msg: "the file cannot be read: " + err.Error()}
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, &weir.FieldError{Path: "ca", Msg: fmt.Sprintf("there is no certificate in %s", path),
			Hint: "it begins with -----BEGIN CERTIFICATE-----"}
	}
	return roots, nil
}

// Close takes no more mail, waits for what is under way, and closes the connections. When ctx ends before that,
// deliveries are given up: before the final dot at once, after it when the server has not answered within 5 seconds.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		c.active.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		c.end()
		<-done
	}
	c.end()
	c.mu.Lock()
	if c.sweeps != nil {
		c.sweeps.Stop()
		c.sweeps = nil
	}
	c.mu.Unlock()
	for _, s := range c.servers {
		c.drop(s)
	}
	c.bye.Wait()
	return err
}

// Stats are figures of a client.
type Stats struct {
	Connections int    // open now
	Idle        int    // of them, waiting for the next mail
	Waiting     int    // deliveries that wait for a connection
	LogIns      int    // log-ins under way or waiting
	Dials       uint64 // connections that were begun
	Reused      uint64 // transactions over a connection that had had one
	Mails       uint64 // transactions that came to an end, good or bad
	Lost        uint64 // connections that could not be made, or ended before the final dot
	Ambiguous   uint64 // transactions without an answer after it
	Restarts    uint64 // idle connections that turned out to be dead
	Servers     []ServerStats
}

// ServerStats tell how a server is.
type ServerStats struct {
	Server string
	Up     bool
	Retry  time.Time // when it is tried again, where it is not up
	Reason string    // why it is not
}

// Stats returns how the client is.
func (c *Client) Stats() Stats {
	s := Stats{
		Waiting: int(c.waiting.Load()), LogIns: int(c.asking.Load()), Dials: c.dials.Load(), Reused: c.reused.Load(),
		Mails: c.mails.Load(),
		Lost:  c.lost.Load(), Ambiguous: c.ambiguous.Load(), Restarts: c.restarts.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Connections = c.open
	for _, server := range c.servers {
		s.Idle += len(server.idle)
		s.Servers = append(s.Servers, ServerStats{server.address, !server.paused, server.until, server.reason.Text})
	}
	return s
}
