package nexthop

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"weir"
	"weir/internal/clock"
	"weir/internal/readfile"
	"weir/internal/turns"
)

// A Client hands messages to one next hop, which may be several servers. It is safe for concurrent use. New makes one.
type Client struct {
	opts    Options // with defaults
	env     Env
	name    string // in EHLO
	servers []*server
	slots   *turns.Turns  // of deliveries
	logIns  *turns.Turns  // of logins
	quits   chan struct{} // one for each connection that sends QUIT

	life   context.Context // ends when deliveries are given up
	end    context.CancelFunc
	active sync.WaitGroup
	bye    sync.WaitGroup

	mu     sync.Mutex // guards the following fields, and the state of the servers
	closed bool
	open   int // connections
	sweeps clock.Timer

	waiting                   atomic.Int64
	dials, reused, mails      atomic.Uint64
	lost, ambiguous, restarts atomic.Uint64
}

// New returns a client. It connects when a message comes.
func New(o Options, env Env) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	c := &Client{opts: o, env: env.withDefaults(), name: cmp.Or(o.Hello, machineName()),
		slots: turns.New(o.Connections, math.MaxInt), logIns: turns.New(o.Connections, logInsPerSlot*o.Connections),
		quits: make(chan struct{}, o.Connections)}
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
		trusting.User = "somebody" // passwords of users are as safe as our own
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

// machineName is the name of this machine, if that can be used in EHLO.
func machineName() string {
	if name, err := os.Hostname(); err == nil && isHostName(name) {
		return name
	}
	return "localhost"
}

func readCA(path string) (*x509.CertPool, error) {
	pem, err := readfile.Read(path, readfile.MaxPEM)
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

// Close takes no more messages, waits for deliveries under way, and closes the connections. When ctx ends first,
// deliveries are given up: at once before the final dot, and 5 seconds later after it.
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

// An Env is what a client needs of its surroundings. The zero value has the machine's time, net.Dialer and no log.
type Env struct {
	Clock clock.Clock
	Log   *slog.Logger
	// Dial makes a connection, as net.Dialer.DialContext does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (e Env) withDefaults() Env {
	if e.Clock == nil {
		e.Clock = clock.System
	}
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	if e.Dial == nil {
		e.Dial = new(net.Dialer).DialContext
	}
	return e
}

// Errors of Auth. Any other error says why no server could be asked.
var (
	ErrWrong = errors.New("nexthop: wrong name or password")
	ErrBusy  = errors.New("nexthop: too many logins at once")
)

const (
	maxLogIn      = 1024 // bytes of a name or a password that is passed on
	logInsPerSlot = 10   // logins of strangers that may wait for each that is under way
)

// Auth asks the next hop whether a password is right, by a login on a connection of its own. It is encrypted as for our
// own password. As many are under way at once as there may be connections for mail. Ten times as many strangers wait,
// and one more gets ErrBusy. The rank says who goes first.
func (c *Client) Auth(ctx context.Context, rank turns.Rank, name, password string) error {
	if name == "" || len(name) > maxLogIn || len(password) > maxLogIn || strings.ContainsRune(name+password, 0) {
		return ErrWrong // AUTH PLAIN separates with NUL
	}
	ctx, leave, err := c.enter(ctx, c.logIns, rank)
	switch {
	case errors.Is(err, turns.ErrBusy):
		return ErrBusy
	case err != nil:
		return fmt.Errorf("nexthop: %w", err)
	}
	defer leave()
	reason := Result{Text: "no server can be used"}
	for _, s := range c.servers {
		c.mu.Lock()
		pausing := s.paused && c.env.Clock.Now().Before(s.until)
		if pausing {
			reason = s.reason
		}
		c.mu.Unlock()
		if pausing {
			continue
		}
		k, why := c.dial(ctx, s, s.login, name, password)
		switch {
		case why == nil:
			c.goodbye(k)
			return nil
		case why.Code == 535:
			return ErrWrong
		case ctx.Err() != nil:
			return fmt.Errorf("nexthop: %w", errStopped)
		case why.Status == statusNoAnswer:
			c.down(s, why.Result)
		}
		reason = why.Result
	}
	return fmt.Errorf("nexthop: %s: %s", reason.Server, reason.Text)
}
