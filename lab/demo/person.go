package demo

import (
	"context"
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

// stampCookie is where the page of the gate puts a stamp.
const stampCookie = "weir-stamp"

// A person looks at one page, with a browser that keeps cookies, from an address of their own.
type person struct {
	client *http.Client
	page   *url.URL
	from   netip.Addr
	paid   *atomic.Int64 // by all people together
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
		paid := &s.Props.(*spending).people
		paid.Store(0)
		return func(ctx context.Context) Result {
			n := number.Add(1)
			jar, _ := cookiejar.New(nil) // no options, no error
			p := &person{&http.Client{Transport: transport, Jar: jar}, page,
				netip.AddrFrom4([4]byte{198, second, byte(n >> 8), byte(n)}), paid}
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

// pays does what the script of the page does: it works, and puts the stamp into a cookie.
func pays(ctx context.Context, p *person, h http.Header) error {
	paid, err := payer.Pay(ctx, h.Get(payer.ChallengeHeader), payer.Options{Workers: 1})
	if err != nil {
		return err
	}
	p.client.Jar.SetCookies(p.page, []*http.Cookie{{Name: stampCookie, Value: paid.Stamp, Path: "/"}})
	machine.Sleep(ctx, asPhone(paid, p.paid))
	return ctx.Err()
}

// asPhone returns how much longer a phone would have worked, and adds up how long in all.
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
