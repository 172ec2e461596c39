package demo

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// A crowd comes from many networks: one /24 of 127.0.0.0/8 after the other, each of which opens some connections before
// the next one takes its place. It belongs to one play of a scene. Its methods may be called at the same time, except
// begin.
type crowd struct {
	crowdPlan
	seen []atomic.Uint32 // the half in which each network came last

	half   uint32       // which one it is
	base   int          // its first network
	volley int          // connections of each network in it
	came   atomic.Int64 // connections in it so far
	inHalf atomic.Int64 // networks that came in it
	ever   atomic.Int64 // networks that came
}

type crowdPlan struct {
	first uint16 // the first network: the second and third byte of its addresses
	size  int    // how many networks there are
	lanes int    // how many of them come at a time
	wants int    // connections of a network that is never turned away
	tries int    // connections of a network that is: it tries again
}

func newCrowd(p crowdPlan) *crowd { return &crowd{crowdPlan: p, seen: make([]atomic.Uint32, p.size)} }

// begin starts a half. No connection is turned away in shadow.
func (c *crowd) begin(atWork bool) {
	if came := int(c.came.Swap(0)); came > 0 {
		last := (came-1)/c.lanes*c.lanes + c.lanes - 1 // in the last round, the one that is furthest
		c.base = (c.network(last)/c.lanes + 1) * c.lanes
	}
	c.volley = c.wants
	if atWork {
		c.volley = c.tries
	}
	c.half++
	c.inHalf.Store(0)
}

// next returns the source of the next connection: each of a network's connections is from another of its addresses.
func (c *crowd) next() netip.Addr {
	i := int(c.came.Add(1) - 1)
	n := c.network(i) % c.size
	switch c.seen[n].Swap(c.half) {
	case c.half:
	case 0:
		c.ever.Add(1)
		fallthrough
	default:
		c.inHalf.Add(1)
	}
	at := int(c.first) + n
	return netip.AddrFrom4([4]byte{127, byte(at >> 8), byte(at), byte(1 + i/c.lanes%c.volley)})
}

// network returns the network of the i-th connection. The lanes are apart by a part of the volley, so that new networks
// do not come all at once.
func (c *crowd) network(i int) int {
	lane, round := i%c.lanes, i/c.lanes
	return c.base + (round+lane*c.volley/c.lanes)/c.volley*c.lanes + lane
}

// knock returns how a crowd enters: with a new connection to the first gate for every request, from the crowd's current
// network.
func knock(of func(*Stage) *crowd) func(*Stage) (func(context.Context) Result, func()) {
	return func(s *Stage) (func(context.Context) Result, func()) {
		c, gate, reset := of(s), s.GateAddr(0), Failed
		if s.AtWork() {
			reset = Refused // in shadow, whatever resets a connection is no throttle
		}
		c.begin(s.AtWork())
		return func(ctx context.Context) Result { return request(ctx, c.next(), gate, reset) }, func() {}
	}
}

func networksOf(of func(*Stage) *crowd) func(*Stage) Networks {
	return func(s *Stage) Networks {
		c := of(s)
		return Networks{Half: c.inHalf.Load(), Ever: c.ever.Load()}
	}
}

// amongOthers is networksOf for a crowd whose networks are counted at another door.
func amongOthers(of func(*Stage) *crowd) func(*Stage) Networks {
	return func(s *Stage) Networks { return Networks{Half: of(s).inHalf.Load()} }
}

// request connects from an address of this machine, asks for one page and hangs up. A gate that turns a connection away
// resets it, which shows when it is made, written to or read.
func request(ctx context.Context, from netip.Addr, gate string, reset Result) Result {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), Timeout: patience}
	conn, err := d.DialContext(ctx, "tcp4", gate)
	if err != nil {
		return lost(err, reset)
	}
	defer conn.Close()
	// Hanging up with a reset leaves no port in TIME_WAIT, on either side.
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", gate); err != nil {
		return lost(err, reset)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return lost(err, reset)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return lost(err, reset)
	}
	return answered(resp.StatusCode, nil)
}

// lost says what the error of a connection means.
func lost(err error, reset Result) Result {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return reset
	}
	return Failed
}

// wideLoopback returns an error where connections cannot come from all of 127.0.0.0/8. On some systems, loopback is one
// address.
func wideLoopback() error {
	l, err := net.Listen("tcp4", "127.200.1.1:0")
	if err != nil {
		return fmt.Errorf("it needs all of 127.0.0.0/8, and this system has but a part of that: %w", err)
	}
	return l.Close()
}

// A login is a service next door that asks the decision API of weir about each attempt.
type login struct {
	token  string
	client *http.Client
}

func newLogin() *login {
	return &login{token: rand.Text(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: bloomAskers},
		Timeout: patience}}
}

// attempts returns how a crowd comes to the service next door: from each network so many times at once. The service
// asks about several networks together.
func attempts(networks, times int, of func(*Stage) (*crowd, *login)) func(*Stage) (func(context.Context) Result,
	func()) {
	return func(s *Stage) (func(context.Context) Result, func()) {
		c, l := of(s)
		c.begin(s.AtWork())
		url := "http://" + s.weir.Addr("api", 0).String() + "/v1/decide"
		return func(ctx context.Context) Result {
			var body bytes.Buffer
			for i := range networks {
				source := c.next()
				for j := range times {
					fmt.Fprintf(&body, "%c{\"source\":\"%s\"}", "[,"[min(i+j, 1)], source)
				}
			}
			body.WriteByte(']')
			return l.ask(ctx, url, &body, networks*times)
		}, l.client.CloseIdleConnections
	}
}

// ask asks so many questions. One refusal among the answers counts as refused.
func (l *login) ask(ctx context.Context, url string, body io.Reader, questions int) Result {
	status, _, answer, err := ask(ctx, l.client, http.MethodPost, url,
		http.Header{"Authorization": {"Bearer " + l.token}}, body)
	switch {
	case err != nil || status != http.StatusOK:
		return Failed
	case bytes.Contains(answer, []byte(`"verdict":"refuse"`)):
		return Refused
	case bytes.Count(answer, []byte(`"verdict":"admit"`)) == questions:
		return Served
	}
	return Failed
}
