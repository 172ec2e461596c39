//go:build linux

package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-smtp"

	"weir/store"
)

// signedText is a mail with a checksum of its body in the header, up to and with the final dot.
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

// whole returns the subject of a text, and whether the text is as signedText made it.
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

// An end is a mail server that notes every mail before it acknowledges it, after a short delay.
type end struct {
	address string

	mu      sync.Mutex
	arrived map[string][]string // by subject: the ids that weir gave it
	damaged []string
	count   atomic.Int64
}

func (t *trial) startEnd() *end {
	l := try(net.Listen("tcp", "127.0.0.1:0"))
	e := &end{address: l.Addr().String(), arrived: map[string][]string{}}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return arriving{e}, nil }))
	server.Domain = "end.example.org"
	server.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // connections are meant to break
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	t.cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return e
}

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
	time.Sleep(2 * time.Millisecond) // some kills come just then
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
