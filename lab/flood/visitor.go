package flood

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"weir/lab/machine"
	"weir/throttle/stamp"
)

// What all clients say of themselves, so that it tells none apart.
const (
	host       = "service.example"
	agent      = "Mozilla/5.0"
	acceptPage = "text/html"
	acceptData = "application/json"
	acceptAny  = "*/*"
)

// keyHeader is where a client of an API says who it is.
const keyHeader = "X-Api-Key"

// challengeHeader is where a front says what it wants to be paid, stampHeader where it is paid.
const (
	challengeHeader = "Stamp-Challenge"
	stampHeader     = "Stamp"
)

// clientCookie is the id that a front gives to browsers.
const clientCookie = "weir-client"

// A crowd is people, each with an address, cookies and stamps of their own, over the connections of one proxy.
type crowd struct {
	front  string
	proxy  http.RoundTripper
	reload time.Duration
	tally  *tally
	solver solver
}

// A visitor is one of them, who may look at several pages at once.
type visitor struct {
	*crowd
	group  group
	accept string // a page, or data
	client *http.Client
	source netip.Addr
	stamp  chan string // the last one; while it is taken out, a new one is made

	solving time.Duration // how long making stamps took, for who has the stamp
	piece   int           // uploads, so many bytes at a time; 0 for who only reads
}

func (c *crowd) visitor(g group, n int) *visitor {
	jar, _ := cookiejar.New(nil) // no options, no error
	v := &visitor{crowd: c, group: g, accept: acceptPage, source: visitorSource(g, n), stamp: make(chan string, 1),
		client: &http.Client{Transport: c.proxy, Jar: jar,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	v.stamp <- ""
	// A script that fetches is told in a header what to pay; a page would carry it inside.
	if g == people {
		v.accept = acceptData
	}
	return v
}

// visitorSource returns the address of a visitor. Those without scripts are from 198.18.0.0/16, the others from
// 198.19.0.0/16.
func visitorSource(g group, n int) netip.Addr {
	second := byte(18)
	if g == people {
		second = 19
	}
	n++
	return netip.AddrFrom4([4]byte{198, second, byte(n >> 8), byte(n)})
}

// view looks at a page: it tries until the visitor is served or ctx, their patience, ends. at is when it should begin,
// since the beginning.
func (v *visitor) view(ctx context.Context, at time.Duration) result {
	for last := failed; ; {
		res, again := v.try(ctx, at)
		if res == served {
			return served
		}
		if ctx.Err() == nil { // a try that was cut off says less than the one before
			last = res
		}
		if !machine.Sleep(ctx, again) {
			return last
		}
	}
}

// try asks once, and pays if asked to. Otherwise it returns when to try again.
func (v *visitor) try(ctx context.Context, at time.Duration) (res result, again time.Duration) {
	req, err := request(ctx, v.front, v.accept, v.source)
	if err != nil {
		return failed, v.reload
	}
	if v.piece > 0 {
		req.Method, req.ContentLength = http.MethodPost, uploadSize
		req.Body = io.NopCloser(&slowBody{ctx: ctx, piece: v.piece, left: uploadSize})
	}
	paid, ok := v.purse(ctx)
	if !ok {
		return failed, v.reload
	}
	if paid != "" {
		req.Header.Set(stampHeader, paid)
	}
	status, h, body, err := machine.Ask(v.client.Do, req)
	switch res := resultOf(status, err); {
	case res == failed:
		return failed, v.reload
	case res == served:
		return served, 0
	}
	if challenge := h.Get(challengeHeader); v.group == people && challenge != "" {
		if err := v.pay(ctx, at, challenge, paid); err == nil {
			return refused, 0
		}
	}
	return refused, pause(h, body, v.reload)
}

// request returns a request for the page of a service, from an address.
func request(ctx context.Context, front, accept string, source netip.Addr) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+front+"/", nil)
	if err != nil {
		return nil, err
	}
	req.Host = host
	req.Header.Set("User-Agent", agent)
	req.Header.Set("X-Forwarded-For", source.String())
	req.Header.Set("Accept", accept)
	return req, nil
}

// resultOf says what an answer means.
func resultOf(status int, err error) result {
	switch {
	case err != nil:
		return failed
	case status == http.StatusOK:
		return served
	}
	return refused
}

// purse returns the visitor's stamp, when none is being made.
func (v *visitor) purse(ctx context.Context) (paid string, ok bool) {
	select {
	case paid = <-v.stamp:
		v.stamp <- paid
		return paid, true
	case <-ctx.Done():
		return "", false
	}
}

// pay solves a challenge, unless there is another stamp by now than the one that was not good enough.
func (v *visitor) pay(ctx context.Context, at time.Duration, challenge, not string) error {
	var has string
	select {
	case has = <-v.stamp:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { v.stamp <- has }()
	if has != not {
		return nil
	}
	c, err := stamp.ParseChallenge(challenge)
	if err != nil {
		return fmt.Errorf("a challenge that cannot be read: %w", err)
	}
	began := time.Now()
	paid, took, err := v.solver.solve(ctx, challenge)
	v.solving += time.Since(began)
	if err != nil {
		return err
	}
	has = paid
	v.tally.pay(at, paymentOf(c, took))
	return nil
}

func paymentOf(c stamp.Challenge, took time.Duration) payment {
	return payment{work: uint64(c.Work), took: took, phone: c.Work.Time(c.Algorithm)}
}

// metaRefresh is how a page asks to be loaded again.
var metaRefresh = regexp.MustCompile(`(?i)<meta\s+http-equiv="?refresh"?\s+content="?\s*(\d+)`)

// pause returns when an answer wants to be asked for again: as a browser reads it, or by Retry-After.
func pause(h http.Header, body []byte, otherwise time.Duration) time.Duration {
	refresh, _, _ := strings.Cut(h.Get("Refresh"), ";")
	var meta string
	if found := metaRefresh.FindSubmatch(body[:min(len(body), 4<<10)]); found != nil {
		meta = string(found[1])
	}
	for _, text := range []string{refresh, meta, h.Get("Retry-After")} {
		if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16); err == nil {
			return time.Duration(n) * time.Second
		}
	}
	return otherwise
}

// A caller is a program such as curl or the client library of an API. It neither pays nor keeps cookies and tickets,
// and asks for no pages.
type caller struct {
	front  string
	proxy  http.RoundTripper
	source netip.Addr
	key    string        // of the API; empty for none
	tries  int           // how often it asks at most
	pause  time.Duration // between two tries
	wait   time.Duration // for an answer
}

// call asks until it is served or has tried often enough. It returns the result of the last try.
func (c *caller) call(ctx context.Context) result {
	for n := 1; ; n++ {
		if res := c.try(ctx); res == served || n >= c.tries || !machine.Sleep(ctx, c.pause) {
			return res
		}
	}
}

func (c *caller) try(ctx context.Context) result {
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	req, err := request(ctx, c.front, acceptAny, c.source)
	if err != nil {
		return failed
	}
	if c.key != "" {
		req.Header.Set(keyHeader, c.key)
	}
	status, _, _, err := machine.Ask(c.proxy.RoundTrip, req)
	return resultOf(status, err)
}
