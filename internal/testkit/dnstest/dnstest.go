// Package dnstest is a DNS server for tests: it listens on loopback, and answers with the addresses that a test gives
// it.
package dnstest

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// A Server answers questions for addresses, over UDP. It is safe for concurrent use.
type Server struct {
	conn net.PacketConn

	mu    sync.Mutex
	names map[string][]netip.Addr
	fails bool
	asked int
}

// Start starts a server that knows no names. It ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{conn: conn, names: map[string][]netip.Addr{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return s
}

// Set gives a name these addresses. With none, the name exists and has no address.
func (s *Server) Set(name string, addrs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []netip.Addr{}
	for _, a := range addrs {
		all = append(all, netip.MustParseAddr(a))
	}
	s.names[name] = all
}

// Fail makes every answer a failure of the server, or not any more.
func (s *Server) Fail(fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
}

// Asked is how many questions there were.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Resolver asks this server only.
func (s *Server) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

func (s *Server) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer, err := s.answer(buf[:n]); err == nil {
			_, _ = s.conn.WriteTo(answer, from)
		}
	}
}

// answer answers a question. Only the first one of a message counts, as usual.
func (s *Server) answer(message []byte) ([]byte, error) {
	var p dnsmessage.Parser
	head, err := p.Start(message)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	addrs, known := s.names[strings.TrimSuffix(q.Name.String(), ".")]
	reply := dnsmessage.Message{Header: dnsmessage.Header{ID: head.ID, Response: true, Authoritative: true,
		RecursionDesired: head.RecursionDesired, RecursionAvailable: true}, Questions: []dnsmessage.Question{q}}
	switch {
	case s.fails:
		reply.RCode = dnsmessage.RCodeServerFailure
	case !known:
		reply.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addrs {
		var body dnsmessage.ResourceBody
		switch {
		case s.fails:
			continue
		case a.Is4() && q.Type == dnsmessage.TypeA:
			body = &dnsmessage.AResource{A: a.As4()}
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		default:
			continue
		}
		reply.Answers = append(reply.Answers, dnsmessage.Resource{Body: body,
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 1}})
	}
	return reply.Pack()
}
