package flood

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/lab/machine"
	"weir/throttle/stamp"
)

// swarmConnections is how many requests of a flood may be unanswered: each is on a connection of its own.
const swarmConnections = 1024

// swarmPatience is how long a request of a flood may stay unanswered.
const swarmPatience = 5 * time.Second

// A swarm is a flood. It keeps its connections, sends one request after the other on each, and ignores the answers.
// Requests that it cannot send because all connections wait for an answer are counted.
type swarm struct {
	front   string // the address that is flooded
	rate    float64
	sources int
	accept  string
	keys    bool          // each request has an invented key
	until   time.Duration // it is over then; 0 when it lasts as long as the round
	wait    time.Duration // for an answer
	workers int           // connections
	tally   *tally
}

// A shot is one request of a flood.
type shot struct {
	at     time.Duration // when it is due
	source int
	key    int // 0 for none
}

// run floods from begin until ctx ends, and then waits for answers. over is called when no more requests come that
// count.
func (s *swarm) run(ctx context.Context, begin time.Time, over func()) {
	shots := make(chan shot)
	var workers sync.WaitGroup
	for range s.workers {
		workers.Go(func() { s.work(shots, begin) })
	}
	over = sync.OnceFunc(over)
	s.aim(ctx, shots, begin, over)
	over()
	close(shots)
	workers.Wait()
}

// aim hands out what is due, in small bundles: sleeping for each request would cost more than sending it.
func (s *swarm) aim(ctx context.Context, shots chan<- shot, begin time.Time, over func()) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; {
		for due := int(time.Since(begin).Seconds() * s.rate); n < due; n++ {
			next := shot{at: time.Duration(float64(n) / s.rate * float64(time.Second)), source: n % s.sources}
			if s.until > 0 && next.at >= s.until {
				return
			}
			if s.keys {
				next.key = n + 1
			}
			if !s.tally.takes(next.at) {
				over()
			}
			select {
			case shots <- next:
			default:
				s.tally.add(flood, next.at, 0, unsent)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (s *swarm) work(shots <-chan shot, begin time.Time) {
	c := connection{address: s.front, accept: s.accept, wait: s.wait}
	defer c.close()
	for next := range shots {
		r := c.get(floodSource(next.source), next.key)
		s.tally.add(flood, next.at, time.Since(begin)-next.at, r)
	}
}

// floodSource returns the address of a source, in 10.0.0.0/8.
func floodSource(i int) netip.Addr {
	i++
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// A connection asks for pages, one after the other.
type connection struct {
	address string
	accept  string
	wait    time.Duration // for an answer
	conn    net.Conn
	answers *bufio.Reader
	request []byte
}

// get asks once. A connection that was closed meanwhile is made anew.
func (c *connection) get(source netip.Addr, key int) result {
	kept := c.conn != nil
	if !kept {
		conn, err := net.DialTimeout("tcp", c.address, c.wait)
		if err != nil {
			return failed
		}
		// Hanging up with a reset leaves no port in TIME_WAIT.
		_ = conn.(*net.TCPConn).SetLinger(0)
		c.conn, c.answers = conn, bufio.NewReader(conn)
	}
	_ = c.conn.SetDeadline(time.Now().Add(c.wait))
	c.request = append(c.request[:0], "GET / HTTP/1.1\r\nHost: "+host+"\r\nUser-Agent: "+agent+"\r\nAccept: "+c.accept+
		"\r\nX-Forwarded-For: "...)
	c.request = source.AppendTo(c.request)
	if key != 0 {
		c.request = strconv.AppendInt(append(c.request, "\r\n"+keyHeader+": invented-"...), int64(key), 10)
	}
	c.request = append(c.request, "\r\n\r\n"...)
	if _, err := c.conn.Write(c.request); err != nil {
		c.close()
		if kept {
			return c.get(source, key)
		}
		return failed
	}
	resp, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		c.close()
		if late, ok := errors.AsType[net.Error](err); kept && !(ok && late.Timeout()) { // it went as the request came
			return c.get(source, key)
		}
		return failed
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err != nil || resp.Close {
		c.close()
	}
	return resultOf(resp.StatusCode, err)
}

func (c *connection) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

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
	sources int  // addresses
	each    bool // each of them has one request at a time, and a new stamp for each
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
	connections, covers := payerConnections, payerCovers
	if p.each {
		connections, covers = p.sources, 1
	}
	workers.Go(func() { p.solve(ctx, puzzles, covers) })
	for i := range connections {
		workers.Go(func() { p.use(ctx, i) })
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

func (p *payer) solve(ctx context.Context, puzzles <-chan demand, covers int) {
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
			p.put(&bought{stamp: paid, id: z.id, source: z.source, left: covers})
		case <-ctx.Done():
			return
		}
	}
}

// use sends over one connection. It is that of an address where each of them has one.
func (p *payer) use(ctx context.Context, connection int) {
	for {
		b := p.take(ctx)
		if b == nil {
			return
		}
		if p.each {
			b.source = payerSource(connection)
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
