package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir"
	"weir/console"
	"weir/farm"
	"weir/farm/redis"
	"weir/internal/clock"
	"weir/internal/readfile"
)

// How often the engine of the counters is checked, besides the calls that it gets.
const (
	checkAgain    = 2 * time.Second // while it cannot be used
	checkEvery    = 5 * time.Second // its settings may be changed
	checkPatience = 5 * time.Second
)

// An engine is where the farm counts exactly. weir starts and serves without it: policies then do what on_loss says.
type engine struct {
	*farm.Guarded
	pot   *redis.Pot
	clock clock.Clock // the machine's
	log   *slog.Logger

	ctx    context.Context
	cancel context.CancelFunc
	checks sync.WaitGroup

	mu     sync.Mutex
	timer  clock.Timer
	closed bool
	said   string // what was wrong at the last check, as it was logged
}

// openEngine opens the engine that the options name; nil where they name none. changed is told when it is lost and when
// it is back.
func (a *App) openEngine(o *farm.Options, log *slog.Logger, changed func(up bool)) (*engine, error) {
	if o.Counters == "" {
		return nil, nil
	}
	certs, err := engineTLS(o.CountersTLS)
	if err != nil {
		return nil, weir.Under("farm.counters_tls", err)
	}
	pot, err := redis.Open(o.Counters, redis.Options{TLS: certs})
	if err != nil {
		return nil, weir.Under("farm.counters", err)
	}
	e := &engine{pot: pot, clock: a.opts.Clock, log: log.With("engine", pot.Where())}
	e.Guarded = farm.Guard(pot, farm.GuardOptions{Now: e.clock.Now, Text: pot.Text})
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.Watch(func(up bool) {
		e.announce(up)
		changed(up)
	})
	e.later(0)
	return e, nil
}

// engineTLS reads the certificates for the connection to an engine. This node's own is read anew for each connection.
func engineTLS(files farm.TLS) (*tls.Config, error) {
	if files == (farm.TLS{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if files.CA != "" {
		text, err := readfile.Read(files.CA, readfile.MaxPEM)
		if err != nil {
			return nil, &weir.FieldError{Path: "ca", Msg: err.Error()}
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, &weir.FieldError{Path: "ca", Msg: files.CA + " has no certificates", Hint: "it must be in PEM"}
		}
	}
	if files.Cert != "" {
		load := func() (*tls.Certificate, error) {
			cert, err := readfile.Pair(files.Cert, files.Key)
			return &cert, err
		}
		if _, err := load(); err != nil {
			return nil, &weir.FieldError{Path: "cert", Msg: err.Error()}
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return c, nil
}

// announce logs that the engine is lost, or back.
func (e *engine) announce(up bool) {
	if up {
		e.log.Info("the engine of exact limits is back")
		return
	}
	e.log.Error("the engine of exact limits is lost: policies with farm: exact do what on_loss says", "err",
		e.Stats().Error)
}

// later checks the engine after a while.
func (e *engine) later(after time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.timer = e.clock.AfterFunc(after, func() {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return
		}
		e.checks.Add(1)
		e.mu.Unlock()
		defer e.checks.Done()
		e.check()
	})
}

// check looks whether the engine can be used, and says so when that has changed. One that evicts keys is not used: it
// would forget limits.
func (e *engine) check() {
	ctx, cancel := context.WithTimeout(e.ctx, checkPatience)
	defer cancel()
	err := e.pot.Check(ctx)
	if e.ctx.Err() != nil {
		return
	}
	if errors.Is(err, redis.ErrEvicts) {
		e.Bar(err)
	} else if err == nil {
		e.Bar(nil)
	}
	said, again := "", checkEvery
	if err != nil {
		said, again = e.pot.Text(err), checkAgain
	}
	e.mu.Lock()
	news := said != e.said
	e.said = said
	e.mu.Unlock()
	switch {
	case news && err != nil:
		e.log.Error("the engine of exact limits cannot be used: policies with farm: exact do what on_loss says", "err", said)
	case news:
		e.log.Info("the engine of exact limits can be used")
	}
	e.later(again)
}

// close lets go of the engine. There may be none.
func (e *engine) close() {
	if e == nil {
		return
	}
	e.mu.Lock()
	e.closed = true
	if e.timer != nil {
		e.timer.Stop()
	}
	e.mu.Unlock()
	e.cancel()
	e.Close()
	e.checks.Wait()
}

// status is the engine as the console shows it.
func (e *engine) status() *console.CounterStatus {
	if e == nil {
		return nil
	}
	s := e.Stats()
	c := &console.CounterStatus{Address: e.pot.Where(), Engine: s.Engine, State: string(s.State), Since: s.Since,
		Calls: s.Calls, Failures: s.Failures, Refused: s.Refused, Error: s.Error, ErrorAt: s.ErrorAt,
		Latency: console.Latency{P50: inMS(s.P50), P99: inMS(s.P99)}, Sum: s.Sum.Seconds()}
	for i, n := range s.Counts {
		c.Calltimes = append(c.Calltimes, console.Calltime{Count: n})
		if i < len(farm.CallTimes) {
			c.Calltimes[i].UpTo = farm.CallTimes[i].Seconds()
		}
	}
	return c
}

// engineOf is what a fingerprint tells of the engine: all nodes must have the same. Each may have a user of its own.
func engineOf(o *farm.Options) string {
	where, err := redis.Where(o.Counters)
	if o.Counters == "" || err != nil {
		return ""
	}
	return fmt.Sprintf("counters %s", where)
}
