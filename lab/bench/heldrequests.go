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
	"strconv"
	"time"
)

// heldRequests is Q3: the memory of a request while it waits, and whether requests that waited reach the upstream in
// order. It runs the real binary: the quota of one period is used up, then as many requests again wait, leave, wait
// again, and go in the next period.
func heldRequests(t *trial) []figure {
	n, period := 10_000, 40*time.Second
	if t.quick {
		n, period = 200, 4*time.Second
	}
	folder, seen := t.folder(), t.newArrivals()
	weir := t.startWeir(folder, fmt.Sprintf(`
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
	before := memoryKB(weir.Pid, "VmRSS")

	// Begin with a period, so that there is time to fill the line before the next.
	time.Sleep(time.Until(time.Now().Truncate(period).Add(period)))
	end := time.Now().Truncate(period).Add(period)
	weir.useUp(n)

	// The memory first, without asking for the length of the line all the time: answering would cost memory too. The
	// second time counts: a process that has just begun has never touched much of what it allocated.
	var held int64
	calls := make([]net.Conn, n)
	for range 2 {
		for i := range calls {
			calls[i] = weir.get("/")
		}
		weir.waiting(n)
		held = memoryKB(weir.Pid, "VmRSS")
		for _, c := range calls {
			c.Close()
		}
		weir.waiting(0)
	}

	// Then the order: each is sent when the one before it is in line.
	seen.clear()
	for i := range calls {
		calls[i] = weir.get(fmt.Sprintf("/%d", i))
		defer calls[i].Close()
		weir.waiting(i + 1)
	}
	if time.Now().After(end) {
		check(errors.New("this machine is too slow to fill the line within one period"))
	}
	for _, c := range calls {
		c.SetReadDeadline(end.Add(2 * period))
		if resp := try(http.ReadResponse(bufio.NewReader(c), nil)); resp.StatusCode != http.StatusOK {
			check(fmt.Errorf("a request that waited got %s", resp.Status))
		}
	}
	each, inversions := float64(held-before)/float64(n), seen.inversions(n)
	return []figure{
		{fmt.Sprintf("memory of a held HTTP/1.1 request, %d held (resident size of weir serve)", n), "≤ 24 KB",
			fmt.Sprintf("%.1f KB", each), each <= 24},
		{fmt.Sprintf("… that reached the upstream ahead of one that was in line before it, of %d", n), "0",
			strconv.Itoa(inversions), inversions == 0},
	}
}

// get sends a request on a connection of its own, whose answer is read later.
func (r *running) get(path string) net.Conn {
	c := try(net.Dial("tcp", r.address))
	try(fmt.Fprintf(c,
		"GET %s HTTP/1.1\r\nHost: bench\r\nUser-Agent: weir-bench\r\nAccept: */*\r\nX-Api-Key: acme\r\n\r\n", path))
	return c
}

// useUp makes n requests, one after the other on one connection.
func (r *running) useUp(n int) {
	c := try(net.Dial("tcp", r.address))
	defer c.Close()
	answers := bufio.NewReader(c)
	for range n {
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: bench\r\nX-Api-Key: acme\r\n\r\n")
		resp := try(http.ReadResponse(answers, nil))
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			check(fmt.Errorf("using up the quota: %s", resp.Status))
		}
	}
}

// waiting waits until n requests are in line.
func (r *running) waiting(n int) {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if try(r.control.Status(context.Background())).Throttles[0].Table.Waiting == n {
			return
		}
	}
	check(fmt.Errorf("there are never %d in line", n))
}
