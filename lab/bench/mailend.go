//go:build linux

package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-smtp"

	"weir/store"
)

// signedText is a mail whose subject ends with a sum of its body, up to and with the final dot.
func signedText(subject string, n int, chance *rand.Rand) []byte {
	var body bytes.Buffer
	for body.Len() < n {
		fmt.Fprintf(&body, "%064x\r\n", chance.Uint64())
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "From: <ann@example.com>\r\nSubject: %s\r\nX-Sum: %08x\r\n\r\n%s.\r\n", subject,
		crc32.ChecksumIEEE(body.Bytes()), body.Bytes())
	return b.Bytes()
}

// whole reports whether a text is as signedText has made it, and its subject.
func whole(text []byte) (subject string, is bool) {
	head, body, _ := bytes.Cut(text, []byte("\r\n\r\n"))
	sum := ""
	for line := range strings.SplitSeq(string(head), "\r\n") {
		if value, ok := strings.CutPrefix(line, "Subject: "); ok {
			subject = value
		}
		if value, ok := strings.CutPrefix(line, "X-Sum: "); ok {
			sum = value
		}
	}
	return subject, sum == fmt.Sprintf("%08x", crc32.ChecksumIEEE(body))
}

// An end is where mails arrive. It notes what it takes before it says so, and lets whoever waits for the answer wait a
// little.
type end struct {
	address string
	server  *smtp.Server
	ended   chan struct{}

	mu      sync.Mutex
	arrived map[string][]string // by subject: under which ids of weir
	damaged []string
	count   atomic.Int64
}

func startEnd() (*end, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &end{address: l.Addr().String(), ended: make(chan struct{}), arrived: map[string][]string{}}
	e.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return arriving{e}, nil }))
	e.server.Domain = "end.example.org"
	e.server.ErrorLog = quiet{}
	go func() {
		defer close(e.ended)
		_ = e.server.Serve(l)
	}()
	return e, nil
}

func (e *end) stop() {
	_ = e.server.Close()
	<-e.ended
}

// quiet says nothing of connections that break: they are meant to.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

type arriving struct{ *end }

func (arriving) Reset()                               {}
func (arriving) Logout() error                        { return nil }
func (arriving) Mail(string, *smtp.MailOptions) error { return nil }
func (arriving) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (a arriving) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	a.take(text)
	time.Sleep(2 * time.Millisecond) // so that some are killed just then
	return nil
}

func (e *end) take(text []byte) {
	subject, intact := whole(text)
	_, id, _ := strings.Cut(string(text), " id ")
	id = id[:min(len(id), len(store.MailID(0).String()))]
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count.Add(1)
	e.arrived[subject] = append(e.arrived[subject], id)
	if !intact {
		e.damaged = append(e.damaged, subject+" arrived damaged")
	}
}
