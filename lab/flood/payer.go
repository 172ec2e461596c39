package flood

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/lab/machine"
	"weir/throttle/stamp"
)

// What an attacker who pays has.
const (
	payerConnections = 128
	// connections that ask for puzzles, so that the core always has one to work on
	payerAskers   = 4
	payerCovers   = 50                     // how often a stamp is used, unless another one is asked for before
	payerStamps   = 64                     // stamps that are kept; the newest are worth most
	payerPause    = 250 * time.Millisecond // after a refusal
	payerPatience = 30 * time.Second       // for an answer
	payerSolves   = time.Minute            // how long a stamp may take
)

// A payer is an attacker who pays: one core makes stamps as fast as it can, and all connections use them. While nothing
// is asked they send without. Each stamp is for a new id, so that only the addresses show that it is one attacker.
type payer struct {
	front   string
	proxy   http.RoundTripper
	solver  solver
	sources int // addresses
	tally   *tally
	begin   time.Time
	next    atomic.Int64 // the address that is used next

	mu     sync.Mutex
	change sync.Cond // of what follows
	asked  bool      // stamps are asked for
	purse  []*bought // the newest is the last
}

// A bought stamp.
type bought struct {
	stamp  string // empty while nothing is asked
	id     string // the cookie of the client that it is for
	source netip.Addr
	left   int // how often it can be used
}

// A demand is a challenge, and the client that it is for.
type demand struct {
	challenge, id string
	source        netip.Addr
}

func (p *payer) run(ctx context.Context) {
	p.change.L = &p.mu
	defer context.AfterFunc(ctx, func() {
		p.mu.Lock() // no worker is between looking at ctx and waiting
		defer p.mu.Unlock()
		p.change.Broadcast()
	})()
	var workers sync.WaitGroup
	puzzles := make(chan demand)
	for range payerAskers {
		workers.Go(func() { p.ask(ctx, puzzles) })
	}
	workers.Go(func() { p.solve(ctx, puzzles) })
	for range payerConnections {
		workers.Go(func() { p.use(ctx) })
	}
	workers.Wait()
}

// ask gets puzzles. It asks as a browser, which is told at once what to pay.
func (p *payer) ask(ctx context.Context, puzzles chan<- demand) {
	for ctx.Err() == nil {
		z := demand{source: p.source()}
		status, h, err := p.send(ctx, acceptPage, &bought{source: z.source})
		if err == nil {
			z.challenge = h.Get(challengeHeader)
		}
		if z.challenge == "" {
			if status == http.StatusOK {
				p.isAsked(false)
			}
			machine.Sleep(ctx, payerPause)
			continue
		}
		p.isAsked(true)
		z.id = idOf(h)
		select {
		case puzzles <- z:
		case <-ctx.Done():
		}
	}
}

// idOf returns the cookie by which a front knows its client.
func idOf(h http.Header) string {
	for _, c := range (&http.Response{Header: h}).Cookies() {
		if c.Name == clientCookie {
			return c.Value
		}
	}
	return ""
}

func (p *payer) solve(ctx context.Context, puzzles <-chan demand) {
	for {
		select {
		case z := <-puzzles:
			working, cancel := context.WithTimeout(ctx, payerSolves)
			at := time.Since(p.begin)
			paid, took, err := p.solver.solve(working, z.challenge)
			cancel()
			if err != nil {
				continue // there are others
			}
			if c, err := stamp.ParseChallenge(z.challenge); err == nil {
				p.tally.pay(at, paymentOf(c, took))
			}
			p.put(&bought{stamp: paid, id: z.id, source: z.source, left: payerCovers})
		case <-ctx.Done():
			return
		}
	}
}

func (p *payer) use(ctx context.Context) {
	for {
		b := p.take(ctx)
		if b == nil {
			return
		}
		at := time.Since(p.begin)
		status, h, err := p.send(ctx, acceptAny, b)
		res := resultOf(status, err)
		p.tally.add(flood, at, time.Since(p.begin)-at, res)
		if res == served {
			continue
		}
		asked := h.Get(challengeHeader) != ""
		switch {
		case b.stamp == "" && asked:
			p.isAsked(true)
		case b.stamp != "" && res == refused:
			p.back(b, !asked)
		}
		machine.Sleep(ctx, payerPause)
	}
}

func (p *payer) send(ctx context.Context, accept string, b *bought) (int, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, payerPatience)
	defer cancel()
	req, err := request(ctx, p.front, accept, b.source)
	if err != nil {
		return 0, nil, err
	}
	if b.stamp != "" {
		req.Header.Set(stampHeader, b.stamp)
	}
	if b.id != "" {
		req.AddCookie(&http.Cookie{Name: clientCookie, Value: b.id})
	}
	status, h, _, err := machine.Ask(p.proxy.RoundTrip, req)
	return status, h, err
}

// source returns the addresses in turns. They are in networks of their own.
func (p *payer) source() netip.Addr { return payerSource(int(p.next.Add(1)) % p.sources) }

// payerSource returns an address of a payer: one in each /24 of 10.0.0.0/8.
func payerSource(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}) }

func (p *payer) isAsked(asked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = asked
	p.change.Broadcast()
}

// put keeps a stamp. The oldest goes when there are too many.
func (p *payer) put(b *bought) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.purse = append(p.purse, b)
	if len(p.purse) > payerStamps {
		p.purse = append(p.purse[:0], p.purse[1:]...)
	}
	p.change.Broadcast()
}

// take returns what to send with next: the newest stamp, or none while nothing is asked. It waits for a stamp where one
// is needed, and returns nil when ctx ends.
func (p *payer) take(ctx context.Context) *bought {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ctx.Err() == nil {
		for len(p.purse) > 0 {
			last := p.purse[len(p.purse)-1]
			if last.left > 0 {
				last.left--
				return last
			}
			p.purse = p.purse[:len(p.purse)-1]
		}
		if !p.asked {
			return &bought{source: p.source()}
		}
		p.change.Wait()
	}
	return nil
}

// back gives back a use that did not count, or discards a stamp that is not good any more.
func (p *payer) back(b *bought, good bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !good {
		b.left = 0
		return
	}
	b.left++
	if !slices.Contains(p.purse, b) && len(p.purse) < payerStamps {
		p.purse = slices.Insert(p.purse, 0, b)
	}
	p.change.Broadcast()
}
