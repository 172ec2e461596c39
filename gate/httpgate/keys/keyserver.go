package keys

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/internal/clock"
)

// Bounds on fetching a set of keys.
const (
	fetchEvery = 10 * time.Minute // a set is fetched again after this
	// and never sooner, whatever clients send: the next try after one that failed, or for a key that is not known
	fetchSoonest = 30 * time.Second
	fetchTimeout = 10 * time.Second
	maxSet       = 1 << 20 // bytes
	maxRedirects = 3
)

var (
	errLargeSet = fmt.Errorf("the set of keys is larger than %d bytes", maxSet)
	errRedirect = errors.New("the answer redirects to another server, or in a circle")
	errNotHere  = errors.New("the address is not one of this machine, and http is good for no other")
)

// A keyServer fetches a set of keys from an identity provider, now and then and in the background, from newKeyServer
// until end. The last good set stays while a try fails. It is safe for concurrent use.
type keyServer struct {
	address string
	env     Env
	client  *http.Client
	take    func(set []byte) error // an error means that the set is of no use

	stopped context.Context
	cancel  context.CancelFunc

	mu    sync.Mutex
	set   []byte        // the last good one; nil before
	last  time.Time     // when the last try began
	under chan struct{} // closed when the try under way is over; nil when there is none
	timer clock.Timer   // of the next one
	wrong string        // why the last try failed
}

// newKeyServer begins to fetch. Where the server before, if any, is the same, its set and its time are taken over.
func newKeyServer(address string, env Env, take func([]byte) error, before *keyServer) (*keyServer, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	s := &keyServer{address: address, env: env, client: newKeyClient(u, env.Roots), take: take}
	if before != nil {
		before.mu.Lock()
		s.set, s.last = before.set, before.last
		before.mu.Unlock()
	}
	if s.set != nil {
		if err := take(s.set); err != nil {
			return nil, err
		}
	}
	s.stopped, s.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.launch()
		return s, nil
	}
	s.timer = env.Clock.AfterFunc(max(0, fetchEvery-env.Clock.Now().Sub(s.last)), s.fetch)
	return s, nil
}

// newKeyClient asks one server and no other. It keeps no connections: the next time is far away.
func newKeyClient(u *url.URL, roots *x509.CertPool) *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
	}
	if u.Scheme == "http" { // a name may resolve to anything
		transport.Proxy = nil
		transport.DialContext = (&net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
			if to, err := netip.ParseAddrPort(address); err != nil || !to.Addr().IsLoopback() {
				return errNotHere
			}
			return nil
		}}).DialContext
	}
	return &http.Client{Transport: transport, Timeout: fetchTimeout,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects || r.URL.Scheme != u.Scheme || !strings.EqualFold(r.URL.Host, u.Host) {
				return errRedirect
			}
			return nil
		}}
}

// want asks for a new set because a token names a key that is not known. It returns at once, and most of the time does
// nothing.
func (s *keyServer) want(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := now.Sub(s.last); since >= 0 && since < fetchSoonest { // else the clock was set back
		return
	}
	s.launch()
}

// fetch is called when it is time.
func (s *keyServer) fetch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.launch()
}

// launch begins a try. s.mu is held.
func (s *keyServer) launch() {
	if s.under != nil || s.stopped.Err() != nil {
		return
	}
	s.under, s.last = make(chan struct{}), s.env.Clock.Now()
	if s.timer != nil {
		s.timer.Stop()
	}
	go func() {
		set, err := s.get()
		if err == nil {
			err = s.take(set)
		}
		s.finish(set, err)
	}()
}

// finish notes how a try ended, and sets the time of the next one.
func (s *keyServer) finish(set []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.under)
	s.under = nil
	if s.stopped.Err() != nil {
		return
	}
	next := fetchEvery
	if err == nil {
		s.set, s.wrong = set, ""
	} else {
		next = fetchSoonest
		s.failed(err)
	}
	s.timer = s.env.Clock.AfterFunc(next, s.fetch)
}

// failed counts a try that failed, and logs it unless the one before failed in the same way.
func (s *keyServer) failed(err error) {
	s.env.Unusable()
	text := err.Error()
	if text == s.wrong {
		return
	}
	s.wrong = text
	msg := "the new keys of tokens cannot be fetched; the old ones stay"
	if s.set == nil {
		msg = "the keys of tokens cannot be fetched; until then, tokens signed with them count as none"
	}
	s.env.Log.Error(msg, "jwks", s.address, "error", err)
}

// get asks the server.
func (s *keyServer) get() ([]byte, error) {
	r, err := http.NewRequestWithContext(s.stopped, http.MethodGet, s.address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	r.Header.Set("User-Agent", "weir")
	res, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", s.address, res.Status)
	}
	set, err := io.ReadAll(io.LimitReader(res.Body, maxSet+1))
	if err == nil && len(set) > maxSet {
		err = errLargeSet
	}
	return set, err
}

// await waits until no try is under way, at most fetchTimeout, and reports why there are no keys.
func (s *keyServer) await() error {
	s.wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set != nil {
		return nil
	}
	return fmt.Errorf("jwt: cannot fetch the keys: %s", s.wrong)
}

func (s *keyServer) wait() {
	s.mu.Lock()
	under := s.under
	s.mu.Unlock()
	if under != nil {
		<-under
	}
}

// end stops fetching. Nothing is under way afterwards.
func (s *keyServer) end() {
	s.mu.Lock()
	s.cancel()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.wait()
}
