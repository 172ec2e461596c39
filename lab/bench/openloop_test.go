//go:build linux

package main

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// stall plays three seconds of 1,000 requests a second over some connections to a server that answers after 100 µs,
// but takes requests one at a time, and none for 100 ms in the middle. Time is simulated. sent has how long each
// answer took after its request was sent, as a client would note that counts from there.
func stall(connections int) (p, sent *pace) {
	const work, from, to = 100 * time.Microsecond, 1500 * time.Millisecond, 1600 * time.Millisecond
	p, sent = newPace(1000, 3000), newPace(0, 3000)
	type request struct{ due, sent, end time.Duration }
	var open []request // in the order in which they are served
	var idle, now time.Duration
	for !p.done() {
		due, more := p.due(now)
		if more && len(open) < connections && (len(open) == 0 || due <= open[0].end) {
			now = max(now, due)
			begin := max(now, idle)
			if begin >= from && begin < to {
				begin = to
			}
			idle = begin + work
			open = append(open, request{due, now, idle})
			p.sent++
			continue
		}
		one := open[0]
		open = open[1:]
		now = max(now, one.end)
		p.answered(one.due, now)
		sent.answered(one.sent, now)
	}
	return p, sent
}

// TestPaceShowsAStall: 100 of 3,000 requests are due while the server stands still for 100 ms, whether or not there
// is a connection to send them on. The percentiles show it, where those of a client that counts from sending do not.
func TestPaceShowsAStall(t *testing.T) {
	for _, connections := range []int{1, 2, 1000} {
		p, sent := stall(connections)
		if p50 := p.percentile(500); p50 != 100*time.Microsecond {
			t.Errorf("%d connections: the median is %s", connections, p50)
		}
		if p99 := p.percentile(990); p99 < 60*time.Millisecond || p99 > 80*time.Millisecond {
			t.Errorf("%d connections: p99 is %s", connections, p99)
		}
		if p999 := p.percentile(999); p999 < 95*time.Millisecond || p999 > 101*time.Millisecond {
			t.Errorf("%d connections: p99.9 is %s", connections, p999)
		}
		if p999 := sent.percentile(999); connections <= 2 && p999 > time.Millisecond {
			t.Errorf("%d connections: p99.9 from sending is %s: the case shows nothing", connections, p999)
		}
	}
}

// TestPace: requests are due at their times, however late it is, and as many as there should be.
func TestPace(t *testing.T) {
	p := newPace(4, 3)
	for i, want := range []time.Duration{0, 250 * time.Millisecond, 500 * time.Millisecond} {
		if at, more := p.due(time.Hour); at != want || !more {
			t.Errorf("request %d is due at %s, %v", i, at, more)
		}
		p.sent++
	}
	if _, more := p.due(time.Hour); more {
		t.Error("one too many")
	}
	free := newPace(0, 1)
	if at, more := free.due(time.Second); at != time.Second || !more {
		t.Errorf("without a rate the next one is due at %s, %v", at, more)
	}
}

// TestCallers: every request is answered, by the right number of accounts, with a rate and without.
func TestCallers(t *testing.T) {
	one := &trial{}
	defer one.end()
	seen := one.newArrivals()
	c := one.dialCallers(seen.address.String(), 4, 3)
	for _, rate := range []int{5000, 0} {
		seen.clear()
		p := newPace(rate, 200)
		if err := attempt(func() { c.run(p) }); err != nil {
			t.Fatal(err)
		}
		seen.mu.Lock()
		n := len(seen.paths)
		seen.mu.Unlock()
		if n != 200 || len(p.late) != 200 || len(c.free) != 4 {
			t.Errorf("%d requests arrived, %d were answered, %d connections are free", n, len(p.late), len(c.free))
		}
	}
	if got := string(c.request[accountAt : accountAt+accountDigits]); c.next != 400%3 || got != "0000000" {
		t.Errorf("the last account is %s, the next one %d", got, c.next)
	}
}

func TestAnswerSize(t *testing.T) {
	for text, want := range map[string]int{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n":              0,
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe":        43,
		"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nA: b\r\n\r\n":  49,
		"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 0\r\n\r\n":  44,
		"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: x\r\n\r\n":  -1,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n": -1,
		"HTTP/1.1 429 No\r\nContent-Length: 5\r\n\r\n":          -1,
	} {
		got, err := answerSize([]byte(text))
		if want < 0 && !errors.Is(err, errAnswer) || want >= 0 && (err != nil || got != want) {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
}

// TestCallersLargeAnswer: one byte more than there is room for is an error, which says so.
func TestCallersLargeAnswer(t *testing.T) {
	one := &trial{}
	defer one.end()
	for more, want := range map[int]error{0: nil, 1: errLargeAnswer} {
		const room, head = 8 << 10, "HTTP/1.1 200 OK\r\nContent-Length: 8150\r\n\r\n"
		answer := head + strings.Repeat("x", 8150)
		answer = strings.Replace(answer, "OK", "OK"+strings.Repeat("!", room-len(answer)+more), 1)
		c := one.dialCallers(one.answering(answer), 1, 1)
		if err := attempt(func() { c.run(newPace(0, 1)) }); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v", len(answer), err)
		}
	}
}

// answering is a server that gives every request the same answer.
func (t *trial) answering(answer string) (address string) {
	l := try(net.Listen("tcp", "127.0.0.1:0"))
	t.cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1024)) // a request comes in one piece
			_, _ = conn.Write([]byte(answer))
		}
	}()
	return l.Addr().String()
}
