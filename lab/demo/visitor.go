package demo

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"weir/lab/machine"
	"weir/throttle/stamp/payer"
)

// patience is how long an actor waits for an answer.
const patience = 10 * time.Second

// visit returns how an account enters: as an HTTP client of the first gate that keeps its connections, one for each
// worker.
func visit(account string, workers int) func(*Stage) (func(context.Context) Result, func()) {
	return func(s *Stage) (func(context.Context) Result, func()) {
		// and no proxy: it is loopback
		transport := &http.Transport{MaxIdleConnsPerHost: workers, DisableCompression: true}
		client := &http.Client{Transport: transport, Timeout: patience}
		return func(ctx context.Context) Result {
			status, _, err := get(ctx, client, s.GateURL(0), http.Header{accountHeader: {account}})
			return answered(status, err)
		}, transport.CloseIdleConnections
	}
}

// get asks for a page.
func get(ctx context.Context, client *http.Client, url string, h http.Header) (int, http.Header, error) {
	status, h, _, err := ask(ctx, client, http.MethodGet, url, h, nil)
	return status, h, err
}

func ask(ctx context.Context, client *http.Client, method, url string, h http.Header, body io.Reader) (int, http.Header,
	[]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header = h
	return machine.Ask(client.Do, req)
}

// answered says what the status of an answer means.
func answered(status int, err error) Result {
	switch {
	case err == nil && status == http.StatusOK:
		return Served
	case err == nil && status == http.StatusTooManyRequests:
		return Refused
	}
	return Failed
}

// stampCookie is where the page of the gate puts a stamp.
const stampCookie = "weir-stamp"

// A person looks at one page, with a browser that keeps cookies, from an address of their own.
type person struct {
	client *http.Client
	page   *url.URL
	from   netip.Addr
	all    *spending // of all people together
}

// doing is what a person does when a page says that the site is busy, before they try again.
type doing func(ctx context.Context, p *person, h http.Header) error

// people returns how people enter. Each visit is by another person, from 198.18.0.0/16 or 198.19.0.0/16. busy is what
// they do when the page says that the site is busy.
func people(second byte, busy doing) func(*Stage) (func(context.Context) Result, func()) {
	return func(s *Stage) (func(context.Context) Result, func()) {
		transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
		page := &url.URL{Scheme: "http", Host: s.GateAddr(0), Path: "/"}
		var number atomic.Uint32
		all := spendingOf(s)
		all.people.Store(0)
		return func(ctx context.Context) Result {
			n := number.Add(1)
			jar, _ := cookiejar.New(nil) // no options, no error
			p := &person{&http.Client{Transport: transport, Jar: jar}, page,
				netip.AddrFrom4([4]byte{198, second, byte(n >> 8), byte(n)}), all}
			return p.visit(ctx, busy)
		}, transport.CloseIdleConnections
	}
}

// visit tries until the page is there, or patience ends.
func (p *person) visit(ctx context.Context, busy doing) Result {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		status, header, err := get(ctx, p.client, p.page.String(), from(p.from, "text/html"))
		switch {
		case err != nil:
			return Failed
		case header.Get(payer.ChallengeHeader) == "":
			return answered(status, nil)
		}
		if busy(ctx, p, header) != nil {
			return Refused
		}
	}
}

// paysOrWaits does what people do at the moment.
func paysOrWaits(ctx context.Context, p *person, h http.Header) error {
	if p.all.thrifty.Load() {
		return waits(ctx, p, h)
	}
	return pays(ctx, p, h)
}

// pays does what the script of the page does: it works, and puts the stamp into a cookie.
func pays(ctx context.Context, p *person, h http.Header) error {
	paid, err := payer.Pay(ctx, h.Get(payer.ChallengeHeader), payer.Options{Workers: 1})
	if err != nil {
		return err
	}
	p.client.Jar.SetCookies(p.page, []*http.Cookie{{Name: stampCookie, Value: paid.Stamp, Path: "/"}})
	machine.Sleep(ctx, asPhone(paid, &p.all.people))
	return ctx.Err()
}

// asPhone returns how much longer a phone would have worked, and adds its time to sum.
func asPhone(p payer.Payment, sum *atomic.Int64) time.Duration {
	takes := p.Work.Time(p.Algorithm)
	sum.Add(int64(takes))
	return takes - p.Took
}

// waits does what a browser without scripts does: it loads the page again when that is due. The cookies have the
// ticket.
func waits(ctx context.Context, _ *person, h http.Header) error {
	seconds, err := strconv.ParseUint(h.Get("Retry-After"), 10, 8)
	if err != nil {
		return err
	}
	machine.Sleep(ctx, time.Duration(seconds)*time.Second)
	return ctx.Err()
}

// from are the headers of a client with an address, behind a proxy.
func from(source netip.Addr, accept string) http.Header {
	return http.Header{"X-Forwarded-For": {source.String()}, "Accept": {accept}}
}

// swarm is a flood that does not pay. Each of its workers keeps a connection, and they come from as many addresses, of
// 10.0.0.0/16.
func swarm(s *Stage) (func(context.Context) Result, func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: stampFlooders, DisableCompression: true}
	client := &http.Client{Transport: transport, Timeout: stampGiveUp}
	var number atomic.Uint32
	return func(ctx context.Context) Result {
		n := number.Add(1) % stampFlooders
		source := netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
		return asked(get(ctx, client, s.GateURL(0), from(source, "*/*")))
	}, transport.CloseIdleConnections
}

// bots are a flood that pays. Each bot has an address and the processor of a phone. It has some requests under way at a
// time, and makes one stamp at a time for all of them.
func bots(s *Stage) (func(context.Context) Result, func()) {
	transport := &http.Transport{MaxIdleConnsPerHost: stampBots * stampTogether, DisableCompression: true}
	type bot struct {
		client *http.Client
		source netip.Addr
	}
	paid := &spendingOf(s).bots
	paid.Store(0)
	idle := make(chan bot, stampBots*stampTogether)
	for i := range stampBots {
		b := bot{source: netip.AddrFrom4([4]byte{10, 1, 0, byte(1 + i)}),
			client: &http.Client{Timeout: patience, Transport: &payer.Transport{
				Base: transport, Workers: 1, Paid: func(_ string, p payer.Payment) { time.Sleep(asPhone(p, paid)) },
			}}}
		for range stampTogether {
			idle <- b
		}
	}
	return func(ctx context.Context) Result {
		b := <-idle
		defer func() { idle <- b }()
		return asked(get(ctx, b.client, s.GateURL(0), from(b.source, "*/*")))
	}, transport.CloseIdleConnections
}

// asked says what an answer means to a client that does not pay: a demand for a stamp is a refusal.
func asked(status int, h http.Header, err error) Result {
	if h.Get(payer.ChallengeHeader) != "" && err == nil {
		return Refused
	}
	return answered(status, err)
}
