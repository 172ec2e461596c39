//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"weir/lab/machine"
)

// A contestant is a farm in processes of its own.
type contestant struct {
	name    string
	request string   // in HTTP/1.1; an answer with status 200 grants
	nodes   []string // addresses
	pids    []int
}

// farmPeers is Q5p: six processes that share a limit of 1,000 a second for one account, offered 4,000 a second over
// HTTP, against HAProxy with a stick table that peers synchronise. All are asked by the same client in turns.
func farmPeers(t *trial) (figures []figure) {
	const nodes, limit, rate = 6, 1000, 4000
	runs, seconds := pick(t, 5, 1), pick(t, 5, 2)
	haproxy := program("haproxy")
	version, _, _ := strings.Cut(strings.TrimPrefix(output(exec.Command(haproxy, "-v")), "HAProxy version "), "-")
	all := []*contestant{
		t.startWeirs(nodes, limit),
		t.startHAProxies(haproxy, 1, limit, false),
		t.startHAProxies(haproxy, nodes, limit, false),
		t.startHAProxies(haproxy, nodes, limit, true),
	}
	var pids []int
	for _, c := range all {
		pids = append(pids, c.pids...)
	}
	offered := 0
	rounds, busy := quietRounds(runs, 3*time.Minute, pids, func() (round []float64) {
		for _, c := range all {
			granted, asked := ask(c, rate, seconds)
			offered = max(offered, asked/seconds)
			round = append(round, worst(granted, limit), float64(len(granted))/float64(limit*seconds))
		}
		return round
	})
	got := medians(rounds) // of each, the worst second's excess, and what was granted
	for i, c := range all {
		over := beside(100*got[2*i], "%.1f %%")
		if i == 0 {
			over = most(1, 100*got[0], "%.1f %%")
		}
		figures = append(figures, figure{fmt.Sprintf("one account, %d a second, offered %d a second over HTTP to %s: over the "+
			"limit in the worst second, granted in all, of what should be, median of %d", limit, offered,
			strings.Replace(c.name, "HAProxy", "HAProxy "+version, 1), len(rounds)),
			[]value{over, beside(100*got[2*i+1], "%.0f %%")}, busy})
	}
	return figures
}

// weirFarm is a node that answers by the decision API.
const weirFarm = `api:
  listen: 127.0.0.1:0
  tokens: ["%s"]
  policies: {web: [plans]}
throttles:
  plans:
    quota: {policies: [{name: p, limit: %d, period: 1s, window: sliding}]}
`

// startWeirs starts a farm that is asked over the decision API.
func (t *trial) startWeirs(nodes, limit int) *contestant {
	const token, question = "0123456789abcdef0123456789abcdef", `{"policy":"web","account":"x"}`
	c := &contestant{name: fmt.Sprintf("%d weirs, window sliding", nodes),
		request: fmt.Sprintf("POST /v1/decide?http=1 HTTP/1.1\r\nHost: w\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", token, len(question), question)}
	for _, r := range t.startFarm(nodes, fmt.Sprintf(weirFarm, token, limit)) {
		c.nodes, c.pids = append(c.nodes, r.address), append(c.pids, r.Pid)
	}
	return c
}

// haproxyFarm is HAProxy with a stick table that peers synchronise. Each pushes its entries to the others, and what
// arrives replaces what stood there: a table that several write to has the count of the last writer, not the sum. So
// where Summed is set, each node writes to a table of its own, and adds up all of them to decide. That counts what was
// granted; http_req_rate also counts what was refused.
const haproxyFarm = `global
    maxconn 1000
    nbthread 1
defaults
    mode http
    timeout client 1m
    timeout connect 2s
    timeout server 10s
    timeout http-keep-alive 1m
peers farm
{{- range .Peers}}
    peer {{.Name}} {{.Address}}
{{- end}}
{{- if .Summed}}
{{- range .Peers}}
    table {{.Name}} type string len 32 size 1k expire 10s store gpc0_rate(1s)
{{- end}}
{{- else}}
    table all type string len 32 size 1k expire 10s store http_req_rate(1s)
{{- end}}
frontend web
    bind {{.Listen}}
{{- if .Summed}}
    http-request set-var(txn.sum) int(0)
{{- range .Peers}}
    http-request set-var(txn.one) req.hdr(x-account),table_gpc0_rate(farm/{{.Name}})
    http-request set-var(txn.sum) var(txn.sum),add(txn.one)
{{- end}}
    http-request deny deny_status 429 if { var(txn.sum) -m int ge {{.Limit}} }
    http-request track-sc0 req.hdr(x-account) table farm/{{.Name}}
    http-request sc-inc-gpc0(0)
{{- else}}
    http-request track-sc0 req.hdr(x-account) table farm/all
    http-request deny deny_status 429 if { sc_http_req_rate(0) gt {{.Limit}} }
{{- end}}
    http-request return status 200
`

// startHAProxies starts nodes that are peers of each other.
func (t *trial) startHAProxies(program string, nodes, limit int, summed bool) *contestant {
	c := &contestant{name: fmt.Sprintf("%d HAProxy with peers, one table of http_req_rate", nodes),
		request: "GET / HTTP/1.1\r\nHost: h\r\nX-Account: x\r\n\r\n"}
	switch {
	case nodes == 1:
		c.name = "a single HAProxy, http_req_rate"
	case summed:
		c.name = fmt.Sprintf("%d HAProxy with peers, a table of gpc0_rate for each node, summed up", nodes)
	}
	type peer struct{ Name, Address string }
	var peers []peer
	for i := range nodes {
		peers = append(peers, peer{string(rune('a' + i)), try(machine.FreeAddress("127.0.0.1"))})
	}
	for _, p := range peers {
		listen, file := try(machine.FreeAddress("127.0.0.1")), filepath.Join(t.folder(), "haproxy.cfg")
		config := filled(haproxyFarm, map[string]any{"Name": p.Name, "Peers": peers, "Listen": listen, "Limit": limit,
			"Summed": summed})
		check(os.WriteFile(file, []byte(config), 0o600))
		run := t.launch(machine.Task{Program: program, Args: []string{"-db", "-L", p.Name, "-f", file}}, "tcp", listen)
		c.nodes, c.pids = append(c.nodes, listen), append(c.pids, run.Pid)
	}
	return c
}

// connections is how many each node is asked over.
const connections = 4

// ask offers requests, the same number to each node.
func ask(c *contestant, rate, seconds int) (granted []grant, asked int) {
	var conns []net.Conn
	var answers []*bufio.Reader
	for range connections {
		for _, node := range c.nodes {
			conn := try(net.Dial("tcp", node))
			defer conn.Close()
			conns, answers = append(conns, conn), append(answers, bufio.NewReader(conn))
		}
	}
	request := []byte(c.request)
	return offer(len(conns), rate, seconds, func(i int) (bool, error) {
		if _, err := conns[i].Write(request); err != nil {
			return false, err
		}
		status, err := answer(answers[i])
		if err != nil {
			err = fmt.Errorf("%s: %w", c.name, err)
		}
		return status == http.StatusOK, err
	})
}

// answer reads one answer.
func answer(r *bufio.Reader) (status int, err error) {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
		return 0, fmt.Errorf("it answers %s", resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// worst is by how much the limit was exceeded in the worst second, as a share of it. Only what was both sent and
// answered within the second counts: that was certainly decided within it.
func worst(granted []grant, limit int) float64 {
	most := 0
	for i, first := range granted {
		n, end := 0, first.sent.Add(time.Second)
		for _, g := range granted[i:] {
			if !g.sent.Before(end) {
				break
			}
			if g.answered.Before(end) {
				n++
			}
		}
		most = max(most, n)
	}
	return max(0, float64(most)/float64(limit)-1)
}
