package httpgate

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"weir"
	"weir/admission"
	"weir/identify"
	"weir/policy"
)

// A setup is everything that a request needs to know of the gate's options. It does not change; a reload puts another one in its
// place, and a request keeps the one that it began with.
type setup struct {
	opts      Options // with defaults
	door      *policy.Door
	chain     *policy.Chain
	metered   bool             // a throttle of the chain counts bytes
	till      policy.Till      // nil where no stamps are taken
	lanes     *admission.Lanes // nil where the capacity is not limited
	tillName  string           // of the throttles
	lanesName string
	clients   *identify.Clients // sign what clients are given
	tickets   *admission.Tickets
	proxies   identify.Proxies
	accounts  identify.Accounts
	upstream  *url.URL // with a scheme that net/http knows
	transport *http.Transport
	proxy     *httputil.ReverseProxy
}

// newSetup checks the options. The transport of the setup before, if any, is kept where nothing changed for it, so that its
// connections to the upstream are used on.
func newSetup(o Options, accept, chain *policy.Chain, env Env, before *setup) (*setup, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	if chain == nil {
		chain, _ = policy.New(nil, nil)
	}
	s := &setup{opts: o, chain: chain, proxies: identify.NewProxies(o.TrustedProxies, o.ForwardedHeader)}
	if accept != nil {
		s.door = policy.NewDoor(accept, s.proxies.Trusts)
	}
	for _, link := range chain.Links() {
		if _, ok := link.Throttle.(weir.Meter); ok {
			s.metered = true
		}
		switch t := link.Throttle.(type) {
		case *admission.Lanes:
			s.lanes, s.lanesName = t, link.Name
		case policy.Till:
			if s.till == nil {
				s.till, s.tillName = t, link.Name
			}
		}
	}
	s.sign(env)
	s.accounts, _ = identify.ParseAccounts(o.Account)
	s.upstream, _ = parseUpstream(o.Upstream)
	if before != nil && before.opts.Upstream == o.Upstream && before.opts.Timeouts.Connect == o.Timeouts.Connect &&
		before.opts.Timeouts.Response == o.Timeouts.Response && before.opts.Bounds.Requests == o.Bounds.Requests {
		s.transport = before.transport
	} else {
		s.transport = newTransport(o, s.upstream.Scheme)
	}
	if s.upstream.Scheme == "h2c" {
		s.upstream.Scheme = "http"
	}
	s.proxy = &httputil.ReverseProxy{
		Rewrite:        s.rewrite,
		ModifyResponse: keepTrailers,
		Transport:      s.transport,
		BufferPool:     &buffers,
		ErrorHandler:   failed,
		ErrorLog:       slog.NewLogLogger(env.Log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// sign makes what signs ids and tickets.
func (s *setup) sign(env Env) {
	secrets := env.Secrets(s.opts.Throttles)
	s.clients, s.tickets = identify.NewClients(secrets[0], secrets[1:]...), admission.NewTickets(secrets[0])
}

func newTransport(o Options, scheme string) *http.Transport {
	dialer := &net.Dialer{Timeout: o.Timeouts.Connect.Std(), KeepAlive: 15 * time.Second}
	t := &http.Transport{
		Proxy: nil, // the upstream is the one configured, whatever the environment says
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, &unreachedError{err}
			}
			return c, nil
		},
		TLSHandshakeTimeout:   o.Timeouts.Connect.Std(),
		MaxIdleConnsPerHost:   o.Bounds.Requests,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    true, // bodies are passed on as they are
		ResponseHeaderTimeout: o.Timeouts.Response.Std(),
		ExpectContinueTimeout: time.Second,
		// What the upstream says is not bounded by what clients may say, but bounded.
		MaxResponseHeaderBytes: 1 << 20,
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
	}
	switch scheme {
	case "h2c":
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
	case "https":
		t.ForceAttemptHTTP2 = true
	}
	return t
}

// An unreachedError means that no connection to the upstream came about.
type unreachedError struct{ error }

func (e *unreachedError) Unwrap() error { return e.error }

// unreached reports whether a request cannot have reached the upstream.
func unreached(err error) bool {
	if _, ok := errors.AsType[*unreachedError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

// timedOut reports whether an error says that somebody took too long.
func timedOut(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// buffers are those through which bodies are copied.
var buffers bufferPool

type bufferPool struct{ pool sync.Pool }

const bufferSize = 32 << 10

func (b *bufferPool) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return make([]byte, bufferSize)
}

func (b *bufferPool) Put(p []byte) {
	if len(p) == bufferSize {
		b.pool.Put((*[bufferSize]byte)(p))
	}
}
