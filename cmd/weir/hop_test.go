package main

import (
	"io"
	"log"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/emersion/go-smtp"
)

// A hop is a next hop that counts what it gets. It takes mail for recipients with a prefix, and tells all others to
// come later.
type hop struct {
	address string
	takes   string
	mu      sync.Mutex
	got     map[string]int // by recipient
	arrived atomic.Int64   // recipients
	changed chan struct{}
}

func newHop(t *testing.T, takes string) *hop {
	h := &hop{takes: takes, got: map[string]int{}, changed: make(chan struct{}, 1)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.address = l.Addr().String()
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &hopSession{h: h}, nil }))
	server.ErrorLog = log.New(io.Discard, "", 0) // connections of those who were killed
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return h
}

type hopSession struct {
	h  *hop
	to []string
}

func (s *hopSession) Reset()                               { s.to = nil }
func (s *hopSession) Logout() error                        { return nil }
func (s *hopSession) Mail(string, *smtp.MailOptions) error { return nil }
func (s *hopSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if !strings.HasPrefix(to, s.h.takes) {
		return &smtp.SMTPError{Code: 450, EnhancedCode: smtp.EnhancedCode{4, 2, 0}, Message: "later"}
	}
	s.to = append(s.to, to)
	return nil
}

func (s *hopSession) Data(r io.Reader) error {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	for _, to := range s.to {
		s.h.got[to]++
	}
	s.h.arrived.Add(int64(len(s.to)))
	select {
	case s.h.changed <- struct{}{}:
	default:
	}
	return nil
}

// lacks returns those who got nothing, and how many got a mail twice.
func (h *hop) lacks(want map[string]bool) (lacking []string, twice int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for to := range want {
		switch n := h.got[to]; {
		case n == 0:
			lacking = append(lacking, to)
		case n > 1:
			twice++
		}
	}
	return lacking, twice
}
