package gate

import (
	"net/netip"
	"sync"

	"weir/identify"
	"weir/internal/queue"
)

// A Crowd bounds how many connections there are. At the bound the source with the most of them makes room for one that
// has fewer: its newest connection is cut. So a source cannot keep the others out. A source is an IPv4 address or an
// IPv6 /64. The zero value is empty. A Crowd is safe for concurrent use.
type Crowd struct {
	mu      sync.Mutex
	open    int
	sources map[netip.Addr]*crowdSource
	most    queue.Ranked[crowdSource] // first the one with the most
}

type crowdSource struct {
	addr  netip.Addr
	seats queue.Listed[Seat] // the newest is the last
	n     int
	rank  int // index in Crowd.most
}

// A Seat is one connection in a Crowd.
type Seat struct {
	crowd *Crowd
	of    *crowdSource // nil where the source is not known, or has left
	cut   func()
	gone  bool
	spot  queue.Node[Seat]
}

// Enter counts a connection, of which there may be most. It returns nil if there is no room. The zero Addr stands for
// many clients, such as those of a proxy: it never has to make room. cut ends the connection where that has to make
// room; it is called once at most, from any goroutine.
func (c *Crowd) Enter(source netip.Addr, most int, cut func()) *Seat {
	s := &Seat{crowd: c, cut: cut}
	c.mu.Lock()
	var other *Seat
	if c.open >= most {
		if other = c.instead(sourceOf(source)); other == nil {
			c.mu.Unlock()
			return nil
		}
		other.leave()
	}
	c.open++
	s.belong(source)
	c.mu.Unlock()
	if other != nil {
		other.cut()
	}
	return s
}

// Full reports whether Enter would find no room.
func (c *Crowd) Full(source netip.Addr, most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open >= most && c.instead(sourceOf(source)) == nil
}

// Len is how many there are.
func (c *Crowd) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// instead returns the seat that makes room for one more of a source, or nil. c.mu is held.
func (c *Crowd) instead(source netip.Addr) *Seat {
	own := 0
	if s := c.sources[source]; s != nil {
		own = s.n
	}
	if top := c.most.First(); top != nil && top.n > own+1 {
		return top.seats.Last()
	}
	return nil
}

// Of says whose connection it is, where that was not known at first.
func (s *Seat) Of(source netip.Addr) {
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	if !s.gone {
		s.part()
		s.belong(source)
	}
}

// Leave makes room for another connection. It may be called more than once.
func (s *Seat) Leave() {
	if s == nil {
		return
	}
	s.crowd.mu.Lock()
	defer s.crowd.mu.Unlock()
	s.leave()
}

func (s *Seat) leave() {
	if !s.gone {
		s.gone = true
		s.crowd.open--
		s.part()
	}
}

func (s *Seat) belong(source netip.Addr) {
	c, addr := s.crowd, sourceOf(source)
	if !addr.IsValid() {
		return
	}
	of := c.sources[addr]
	if of == nil {
		if c.sources == nil {
			c.sources = map[netip.Addr]*crowdSource{}
			c.most = queue.NewRanked(func(a, b *crowdSource) bool { return a.n > b.n },
				func(s *crowdSource) *int { return &s.rank })
		}
		of = &crowdSource{addr: addr}
		c.sources[addr] = of
		c.most.Add(of)
	}
	of.n++
	of.seats.Add(&s.spot, s)
	c.most.Fix(of)
	s.of = of
}

func (s *Seat) part() {
	of := s.of
	if of == nil {
		return
	}
	s.of = nil
	of.seats.Remove(&s.spot)
	if of.n--; of.n > 0 {
		s.crowd.most.Fix(of)
		return
	}
	s.crowd.most.Remove(of)
	delete(s.crowd.sources, of.addr)
}

func sourceOf(addr netip.Addr) netip.Addr { return identify.Network(addr, 32, 64).Addr() }
