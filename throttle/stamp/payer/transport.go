package payer

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/throttle/stamp"
)

// What a gate and its clients tell each other.
const (
	StampHeader     = "Stamp"                  // of a request: a stamp
	ChallengeHeader = "Stamp-Challenge"        // of an answer: what is to be paid
	ClientCookie    = "weir-client"            // of both: the id that the gate gave
	hostCookie      = "__Host-" + ClientCookie // the same over TLS
)

const (
	defaultMaxTries = 2
	// maxRounds bounds how often one request is sent: others may use up each stamp that it waited for.
	maxRounds = 64
)

// ErrBody says that a request must be sent again and its body cannot be.
var ErrBody = errors.New("payer: the body of the request cannot be sent again")

// A Transport pays for the requests of an http.Client. Most callers want
//
//	client := &http.Client{Transport: &payer.Transport{}}
//
// An answer that asks for a stamp (503 or 429, with Stamp-Challenge) is paid, on all cores and within the request's
// context, and the request is sent again. The stamp is remembered for its host until the gate asks again or it has
// expired; one that pays for a single message is used for that one only. Requests to one host share the work.
//
// A request is sent again if it has no body, if it has GetBody (as http.NewRequest makes it), or if its body is of a
// known length of up to MaxBody, which is then read first. Otherwise the answer is returned as it came. Retry-After is
// left to the caller: a Transport never sleeps. The timeout of an http.Client includes the work.
//
// The zero value is ready. A Transport is safe for concurrent use; do not change its fields after the first request.
type Transport struct {
	Base    http.RoundTripper // nil: http.DefaultTransport
	MaxTime time.Duration     // longer is worked on no stamp; what takes longer is a TooDearError. 0: DefaultMaxTime
	// MaxTries is how many stamps are made for one request that are refused, before the refusal is returned. 0: 2.
	MaxTries int
	Workers  int // 0: as many as there are cores
	// Progress is told how the work for a host goes on, as in Options.
	Progress func(host string, done, expected stamp.Work)
	// Paid is told of every stamp that was made.
	Paid func(host string, p Payment)
	// Fault is told why an answer that asks for a stamp was returned as it came: the challenge is malformed or of an
	// algorithm that is not known here (stamp.ErrMalformed), or the body cannot be sent again (ErrBody).
	Fault func(r *http.Request, err error)

	wallets wallets
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip sends a request, and pays for it if it has to.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	// A request with a stamp has paid. The base refuses an invalid request.
	if r.URL == nil || r.Header == nil || r.Header.Get(StampHeader) != "" {
		return t.base().RoundTrip(r)
	}
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	k := keyOf(r)
	w := t.wallets.find(k)
	with := w.take(time.Now())
	refused := 0
	for round := 0; ; round++ {
		sent := time.Now()
		resp, err := t.send(r, body, with, round)
		if err != nil {
			return nil, err
		}
		text := resp.Header.Get(ChallengeHeader)
		if text == "" || resp.StatusCode != http.StatusServiceUnavailable &&
			resp.StatusCode != http.StatusTooManyRequests {
			with.honour()
			return resp, nil
		}
		if w == nil {
			w = t.wallets.open(k)
		}
		w.drop(with)
		if round > 0 && !with.honoured() {
			refused++
		}
		if refused >= cmp.Or(max(t.MaxTries, 0), defaultMaxTries) || round >= maxRounds {
			return resp, nil
		}
		c, err := stamp.ParseChallenge(text)
		if err == nil && !body.again() {
			err = ErrBody
		}
		if err != nil {
			t.fault(r, err)
			return resp, nil
		}
		setAside(resp)
		with, err = w.pay(r.Context(), t, &bill{
			host: r.URL.Host, text: text, single: c.Message != "", client: cmp.Or(given(resp), with.id()),
			// The gate made the challenge after the request was sent, whatever its clock says.
			until: sent.Add(c.Lifetime),
		})
		if err != nil && (errors.Is(err, ErrTooDear) || r.Context().Err() != nil) {
			resp.Body.Close()
			return nil, err
		}
		if err != nil {
			t.fault(r, err)
			return resp, nil
		}
		resp.Body.Close()
	}
}

// send sends the request once, with what it is paid with. The caller's request stays as it is.
func (t *Transport) send(r *http.Request, body *body, with *coin, round int) (*http.Response, error) {
	if with == nil && !body.kept { // the caller's request can be sent as it is
		return t.base().RoundTrip(r)
	}
	out := r.Clone(r.Context())
	if err := body.put(out, round); err != nil {
		return nil, err
	}
	if with != nil {
		if with.stamp != "" {
			out.Header.Set(StampHeader, with.stamp)
		}
		if with.client != "" {
			setCookie(out.Header, with.client)
		}
	}
	resp, err := t.base().RoundTrip(out)
	if resp != nil {
		resp.Request = r
	}
	return resp, err
}

// CloseIdleConnections is for http.Client.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base != nil {
		return t.Base
	}
	return http.DefaultTransport
}

func (t *Transport) fault(r *http.Request, err error) {
	if t.Fault != nil {
		t.Fault(r, err)
	}
}

// given is the cookie with the id that an answer gives the client, as a request has it.
func given(resp *http.Response) string {
	for _, c := range resp.Cookies() {
		if c.Name == ClientCookie || c.Name == hostCookie {
			return c.Name + "=" + c.Value
		}
	}
	return ""
}

// setCookie puts a cookie into a request in place of one of the same name. The others stay as they were written.
func setCookie(h http.Header, cookie string) {
	name, _, _ := strings.Cut(cookie, "=")
	var kept []string
	for _, line := range h["Cookie"] {
		for c := range strings.SplitSeq(line, ";") {
			if c = strings.TrimSpace(c); c != "" && !strings.HasPrefix(c, name+"=") {
				kept = append(kept, c)
			}
		}
	}
	h.Set("Cookie", strings.Join(append(kept, cookie), "; "))
}

// A key says where a request goes, and by which id the caller is known there, if it sends one.
type key struct{ scheme, address, host, client string }

func keyOf(r *http.Request) key {
	k := key{scheme: r.URL.Scheme, address: strings.ToLower(r.URL.Host),
		host: strings.ToLower(cmp.Or(r.Host, r.URL.Host))}
	for _, name := range []string{ClientCookie, hostCookie} {
		if c, err := r.Cookie(name); err == nil {
			k.client = c.Value
		}
	}
	return k
}

// wallets are what is remembered, by host.
type wallets struct {
	mu  sync.Mutex
	all map[key]*wallet
}

// maxWallets is how many hosts are remembered. Beyond that any one is forgotten, which costs another stamp there.
const maxWallets = 1000

// find returns the wallet for a host, or nil.
func (s *wallets) find(k key) *wallet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[k]
}

func (s *wallets) open(k key) *wallet {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.all[k]; w != nil {
		return w
	}
	if s.all == nil {
		s.all = map[key]*wallet{}
	}
	for old := range s.all {
		if len(s.all) < maxWallets {
			break
		}
		delete(s.all, old)
	}
	w := &wallet{turn: make(chan struct{}, 1)}
	s.all[k] = w
	return w
}
