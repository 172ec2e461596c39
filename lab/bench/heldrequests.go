//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// heldRequests is Q3: what a request costs in memory while it waits, and whether those who waited reach the upstream in
// order. It runs the real binary: the quota of one period is used up, then as many requests again wait, leave, and wait
// again, and go in the next period.
func heldRequests(o options) (_ []figure, err error) {
	n, period := 10_000, 40*time.Second
	if o.quick {
		n, period = 200, 4*time.Second
	}
	folder, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)

	seen, err := newArrivals()
	if err != nil {
		return nil, err
	}
	defer seen.stop()

	weir, err := startWeir(folder, fmt.Sprintf(`
data: %s
http:
- listen: 127.0.0.1:0
  upstream: http://%s
  account: ["header:X-Api-Key"]
  throttles: [plans]
  bounds: {waiting: 50000, requests: 50000, connections: 50000}
throttles:
  plans:
    quota:
      policies:
      - {name: period, limit: %d, period: %s, over: delay, delay: {max: %d, max_wait: 5m}}
console: {listen: "off"}
log: {access: "off"}
`, folder, seen.address, n, period, n))
	if err != nil {
		return nil, err
	}
	defer weir.Stop()
	before, err := residentKB(weir.Pid)
	if err != nil {
		return nil, err
	}

	// Begin with a period, so that there is time to fill the line before the next.
	time.Sleep(time.Until(time.Now().Truncate(period).Add(period)))
	end := time.Now().Truncate(period).Add(period)
	if err := weir.useUp(n); err != nil {
		return nil, err
	}

	// The memory first, without asking for the length of the line all the time: answering would cost memory too. The
	// second time counts: in a process that has just begun, much of what is allocated has never been touched.
	var held int64
	calls := make([]net.Conn, n)
	for range 2 {
		for i := range calls {
			if calls[i], err = weir.get("/"); err != nil {
				return nil, err
			}
		}
		if err := weir.waiting(n); err != nil {
			return nil, err
		}
		if held, err = residentKB(weir.Pid); err != nil {
			return nil, err
		}
		for _, c := range calls {
			c.Close()
		}
		if err := weir.waiting(0); err != nil {
			return nil, err
		}
	}

	// Then the order: each is sent when the one before it is in line.
	seen.clear()
	for i := range calls {
		if calls[i], err = weir.get(fmt.Sprintf("/%d", i)); err != nil {
			return nil, err
		}
		defer calls[i].Close()
		if err := weir.waiting(i + 1); err != nil {
			return nil, err
		}
	}
	if time.Now().After(end) {
		return nil, errors.New("this machine is too slow to fill the line within one period")
	}
	for _, c := range calls {
		c.SetReadDeadline(end.Add(2 * period))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("a request that waited got %s", resp.Status)
		}
	}
	each := float64(held-before) / float64(n)
	inversions, err := seen.inversions(n)
	if err != nil {
		return nil, err
	}
	return []figure{
		{fmt.Sprintf("memory of a held HTTP/1.1 request, %d held (resident size of weir serve)", n), "≤ 24 KB",
			fmt.Sprintf("%.1f KB", each), each <= 24},
		{fmt.Sprintf("… that reached the upstream ahead of one that was in line before it, of %d", n), "0",
			strconv.Itoa(inversions), inversions == 0},
	}, nil
}

// get sends a request on a connection of its own, whose answer is read later.
func (r *running) get(path string) (net.Conn, error) {
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(c,
		"GET %s HTTP/1.1\r\nHost: bench\r\nUser-Agent: weir-bench\r\nAccept: */*\r\nX-Api-Key: acme\r\n\r\n", path)
	return c, err
}

// useUp makes n requests, one after the other on one connection.
func (r *running) useUp(n int) error {
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		return err
	}
	defer c.Close()
	answers := bufio.NewReader(c)
	for range n {
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: bench\r\nX-Api-Key: acme\r\n\r\n")
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			return err
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("using up the quota: %s", resp.Status)
		}
	}
	return nil
}

// waiting waits until n requests are in line.
func (r *running) waiting(n int) error {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		s, err := r.control.Status(context.Background())
		if err != nil {
			return err
		}
		if s.Throttles[0].Table.Waiting == n {
			return nil
		}
	}
	return fmt.Errorf("there are never %d in line", n)
}
