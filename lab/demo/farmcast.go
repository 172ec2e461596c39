package demo

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/console"
	"weir/lab/machine"
	"weir/throttle/stamp/payer"
)

// A balancer hands the requests of one client to the nodes in turn, as a load balancer without sticky sessions does.
type balancer struct {
	nodes []*http.Transport
	turn  atomic.Uint32 // the next one
}

func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	return b.nodes[int(b.turn.Add(1)-1)%len(b.nodes)].RoundTrip(r)
}

// balanced is how people enter. Each visit is by another person, from an address of 198.19.0.0/16, whose program pays
// as the page does.
func balanced(s *Stage) (func(context.Context) Result, func()) {
	nodes, leave := farmOf(s).weirs(farmPeople)
	var number atomic.Uint32
	return func(ctx context.Context) Result {
		n := number.Add(1)
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		b := &balancer{nodes: nodes}
		b.turn.Store(n)
		person := &http.Client{Transport: &payer.Transport{Base: b, Workers: 1, Paid: func(_ string, p payer.Payment) {
			machine.Sleep(ctx, p.Work.Time(p.Algorithm)-p.Took)
		}}}
		header := from(netip.AddrFrom4([4]byte{198, 19, byte(n >> 8), byte(n)}), "*/*")
		for {
			status, h, err := get(ctx, person, farmSite, header.Clone())
			if err != nil || h.Get(payer.ChallengeHeader) == "" {
				return turnedAway(status, h, err)
			}
			// A node that is too busy to answer the others costs a client one more stamp.
		}
	}, leave
}

// turnedAway says what an answer means. A client that is banned, or uses a stamp again, is forbidden to come in.
func turnedAway(status int, h http.Header, err error) Result {
	if err == nil && status == http.StatusForbidden {
		return Refused
	}
	return asked(status, h, err)
}

// A coin is a stamp that was paid, as a request brings it.
type coin struct {
	header   http.Header
	uses     int // so far; under the lock of copied
	accepted atomic.Int64
}

// buy asks a node for a page and pays what it wants. Where it wants nothing there is no coin, but an answer.
func buy(ctx context.Context, node *http.Client, source netip.Addr) (*coin, Result) {
	status, h, err := get(ctx, node, farmSite, from(source, "*/*"))
	challenge := h.Get(payer.ChallengeHeader)
	if err != nil || challenge == "" {
		return nil, turnedAway(status, h, err)
	}
	paid, err := payer.Pay(ctx, challenge, payer.Options{Workers: 1})
	if err != nil {
		return nil, Failed
	}
	c := &coin{header: from(source, "*/*")}
	c.header.Set(payer.StampHeader, paid.Stamp)
	for _, cookie := range (&http.Response{Header: h}).Cookies() {
		if cookie.Name == payer.ClientCookie {
			c.header.Set("Cookie", cookie.Name+"="+cookie.Value)
		}
	}
	return c, Refused
}

// copied counts the stamps that copiers have paid in this half, and what became of the copies.
type copied struct {
	mu                             sync.Mutex
	now                            *coin // nil: the next one has to be paid
	turn                           int
	stamps, copies, accepted, most int64
}

// copiers pay for one stamp at a time, and send it to all nodes, each as often as they can.
func copiers(s *Stage) (func(context.Context) Result, func()) {
	f := farmOf(s)
	transports, leave := f.weirs(farmCopiers)
	nodes := clients(transports)
	f.copied.begin()
	return func(ctx context.Context) Result {
		c, turn, result := f.copied.next(ctx, nodes, s.AtWork())
		node := nodes[turn%len(nodes)]
		switch {
		case c == nil && result == Nothing: // nobody asks for anything
			return turnedAway(get(ctx, node, farmSite, from(copier(0), "*/*")))
		case c == nil:
			return result
		}
		result = turnedAway(get(ctx, node, farmSite, c.header.Clone()))
		if result == Served {
			f.copied.accept(c)
		}
		return result
	}, leave
}

// copier is who pays for the n-th stamp.
func copier(n int64) netip.Addr { return netip.AddrFrom4([4]byte{10, 2, byte(n >> 8), byte(n)}) }

func clients(transports []*http.Transport) (nodes []*http.Client) {
	for _, t := range transports {
		nodes = append(nodes, &http.Client{Transport: t, Timeout: patience})
	}
	return nodes
}

func (l *copied) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now, l.stamps, l.copies, l.accepted, l.most = nil, 0, 0, 0, 0
}

// next returns a stamp and whose turn it is to get it. Where nothing is asked, there is Nothing to copy.
func (l *copied) next(ctx context.Context, nodes []*http.Client, atWork bool) (*coin, int, Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn++
	if !atWork {
		return nil, l.turn, Nothing
	}
	if l.now == nil || l.now.uses == farmCopies {
		c, result := buy(ctx, nodes[l.turn%len(nodes)], copier(l.stamps))
		if c == nil {
			return nil, l.turn, result
		}
		l.now = c
		l.stamps++
		l.turn++ // it is spent at another node than the one that asked
	}
	l.now.uses++
	l.copies++
	return l.now, l.turn, Served
}

func (l *copied) accept(c *coin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted++
	l.most = max(l.most, c.accepted.Add(1))
}

func (l *copied) report(r *Farm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Stamps, r.Copies, r.Accepted, r.Most = l.stamps, l.copies, l.accepted, l.most
}

// A forger asks node a for a page, brings a stamp with a forged signature, is banned there, and tries the other nodes.
type forger struct {
	source netip.Addr
	forged *coin
	caught time.Time       // zero: not yet
	away   [farmNodes]bool // which nodes have turned it away since
}

// chased are the forgers of a play.
type chased struct {
	mu     sync.Mutex
	number uint16
	caught []netip.Addr  // in this half
	spread machine.Times // how long it took from the ban at a until the last node knew of it
}

// forgers come one after the other, each from an address of its own.
func forgers(s *Stage) (func(context.Context) Result, func()) {
	f := farmOf(s)
	transports, leave := f.weirs(farmForgers)
	nodes := clients(transports)
	f.chased.begin()
	idle := make(chan *forger, farmForgers)
	for range farmForgers {
		idle <- f.chased.another()
	}
	return func(ctx context.Context) Result {
		b := <-idle
		result := b.act(ctx, nodes, &f.chased)
		if b.done() {
			b = f.chased.another()
		}
		idle <- b
		return result
	}, leave
}

// act does the next thing.
func (b *forger) act(ctx context.Context, nodes []*http.Client, others *chased) Result {
	switch {
	case others.full():
		return Nothing
	case b.forged == nil:
		c, result := buy(ctx, nodes[0], b.source)
		if c != nil {
			c.header.Set(payer.StampHeader, forge(c.header.Get(payer.StampHeader)))
			b.forged = c
		}
		return result
	case b.caught.IsZero():
		status, h, err := get(ctx, nodes[0], farmSite, b.forged.header)
		if err == nil && status == http.StatusForbidden {
			b.caught, b.away[0] = time.Now(), true
			others.add(b.source)
		}
		return turnedAway(status, h, err)
	}
	next := 1
	for b.away[next] && next < farmNodes-1 {
		next++
	}
	// It has thrown away the id that it had.
	status, h, err := get(ctx, nodes[next], farmSite, from(b.source, "*/*"))
	if err == nil && status == http.StatusForbidden {
		if b.away[next] = true; b.done() {
			others.turned(time.Since(b.caught))
		}
	}
	return turnedAway(status, h, err)
}

// done reports whether all nodes have turned the forger away.
func (b *forger) done() bool { return b.away == [farmNodes]bool{true, true, true} }

// forge changes the signature of a stamp, which stands at the end of the challenge.
func forge(stamp string) string {
	challenge, solution, _ := strings.Cut(stamp, ".")
	at := max(len(challenge)-8, 0)
	other := byte('A')
	if at < len(challenge) && challenge[at] == other {
		other = 'B'
	}
	return fmt.Sprintf("%s%c%s.%s", challenge[:at], other, challenge[min(at+1, len(challenge)):], solution)
}

func (c *chased) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.caught, c.spread = nil, machine.Times{}
}

// another returns a forger with an address of 10.3.0.0/16 that nobody had before.
func (c *chased) another() *forger {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	return &forger{source: netip.AddrFrom4([4]byte{10, 3, byte(c.number >> 8), byte(c.number)})}
}

func (c *chased) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.caught) >= farmCaught
}

func (c *chased) add(source netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.caught = append(c.caught, source)
}

func (c *chased) turned(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spread.Add(after)
}

// report looks for those who were caught on the lists of all nodes. The last ones may still be on their way.
func (c *chased) report(r *Farm, nodes []*console.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Caught, r.Followed = int64(len(c.caught)), c.spread.N
	r.Spread = inMilliseconds(c.spread.Quantile(0.5))
	ctx, cancel := context.WithTimeout(context.Background(), farmSettles)
	defer cancel()
	for r.Listed = c.listed(ctx, nodes); r.Listed < r.Caught; r.Listed = c.listed(ctx, nodes) {
		if !machine.Sleep(ctx, 10*time.Millisecond) {
			return
		}
	}
}

// listed counts those who were caught and are on the lists of all nodes.
func (c *chased) listed(ctx context.Context, nodes []*console.Client) (n int64) {
	on := map[string]int{}
	for _, node := range nodes {
		for after, more := "", true; more; more = after != "" {
			page, err := console.BansCall.Ask(ctx, node, console.BanQuery{After: after})
			if err != nil {
				return 0
			}
			for _, b := range page.Bans {
				on[b.Who]++
			}
			after = page.Next
		}
	}
	for _, source := range c.caught {
		if on[source.String()] == len(nodes) {
			n++
		}
	}
	return n
}
