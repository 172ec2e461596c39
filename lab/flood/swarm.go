package flood

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
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
