package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/internal/testkit/netlab"
)

const redisServer = "redis-server"

// TestFarmExactNeverOver: of many requests at once exactly the limit goes on, wherever they come to, and however nodes
// ask the engine.
func TestFarmExactNeverOver(t *testing.T) {
	t.Parallel()
	for _, program := range []string{redisServer, "valkey-server"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			nodes, limit := 3, 100
			if needs.Long() {
				nodes, limit = 6, 1000
			}
			of := strconv.Itoa(limit)
			f := growExact(t, nodes, program, `{name: p, limit: `+of+`, period: year, farm: exact}`,
				`{name: p, limit: `+of+`, period: year, farm: exact, ahead: 0}`)
			evenly := func() int { return rand.IntN(nodes) }
			f.rush(6*limit, 0, "evenly", evenly)
			f.mustUse("evenly", limit)
			f.rush(6*limit, 0, "to one", func() int {
				if rand.IntN(100) < 95 {
					return 0
				}
				return 1 + rand.IntN(nodes-1)
			})
			f.mustUse("to one", limit)
			f.rush(6*limit, 1, "single asks", evenly)
			f.mustUse("single asks", limit)
		})
	}
}

// replaceEngine has clients use up two monthly quotas while the engine is replaced, one with blocks and one with single
// asks. replace returns when the new engine answers.
func (f *exactFarm) replaceEngine(limit int, replace func()) {
	f.t.Helper()
	const clients = 12
	blocks, single := f.press(clients, 0, "blocks"), f.press(clients, 1, "single")
	f.eventually("a part of both is used", func() bool {
		return len(f.of("blocks")) > limit/4 && len(f.of("single")) > limit/4
	})
	replace()
	began := time.Now()
	f.eventually("the quota is open again", func() bool {
		list := f.of("single")
		return list[len(list)-1].sent.After(began)
	})
	f.t.Logf("a monthly quota was open again %v after the engine was back", time.Since(began).Round(time.Millisecond))
	for _, c := range []struct {
		account string
		*crowd
		least int
	}{
		// What nodes had or were about to have when the engine died may be lost: a tenth of the limit ahead, and what
		// requests waited for.
		{"blocks", blocks, limit*90/100 - clients},
		{"single", single, limit * 99 / 100},
	} {
		f.eventually("what is left is used", func() bool { return len(f.of(c.account)) >= c.least })
		for last := -1; last != len(f.of(c.account)); { // until nothing goes on any more
			last = len(f.of(c.account))
			before := c.refused.Load()
			f.eventually("more is refused", func() bool { return c.refused.Load() > before+20 })
		}
		c.end()
		f.mustUseOf(c.account, limit, c.least)
	}
}

// monthly are two gates with a monthly quota.
func monthly(limit int) []string {
	of := strconv.Itoa(limit)
	return []string{`{name: p, limit: ` + of + `, period: month, farm: exact}`,
		`{name: p, limit: ` + of + `, period: month, farm: exact, ahead: 0}`}
}

func exactSize() (nodes, limit int) {
	if needs.Long() {
		return 6, 6000
	}
	return 3, 200
}

// TestFarmExactEngineRestarted: the engine is killed under load, and starts empty. Nothing is granted twice, and a
// monthly quota does not stay shut.
func TestFarmExactEngineRestarted(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	nodes, limit := exactSize()
	f := growExact(t, nodes, redisServer, monthly(limit)...)
	f.replaceEngine(limit, func() {
		f.redis.kill()
		f.redis.start()
	})
}

// TestFarmExactEnginePromoted: the primary is killed under load, and sentinels promote a replica that may lack the last
// moments.
func TestFarmExactEnginePromoted(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	nodes, limit := exactSize()
	f := newExact(t, nodes, redisServer, monthly(limit)...)
	f.redis.start()
	replica, sentinel := f.beside(f.redis.program, "6380"), f.beside(f.redis.program, "26379")
	replica.args = []string{"--replicaof", f.redis.host + " " + f.redis.port}
	replica.start()
	replica.eventually("it follows", func() bool {
		return strings.Contains(replica.ask("INFO replication"), "master_link_status:up")
	})
	sentinel.watch(f.redis)
	sentinel.eventually("it knows the replica", func() bool {
		return strings.Contains(sentinel.ask("INFO sentinel"), "slaves=1")
	})
	f.engine = "redis+sentinel://" + sentinel.address() + "/mymaster"
	f.grow()
	f.replaceEngine(limit, func() {
		f.redis.kill()
		replica.eventually("it is promoted", func() bool {
			return strings.Contains(replica.ask("INFO replication"), "role:master")
		})
	})
}

// drain asks some nodes in turns until all of them refuse. It returns how many went on.
func (f *exactFarm) drain(gate int, account string, nodes ...int) (n int) {
	for refused := 0; refused < len(nodes) && n < 1000; {
		refused = 0
		for _, i := range nodes {
			if status, _ := f.send(context.Background(), i, gate, account); status == http.StatusOK {
				n++
			} else {
				refused++
			}
		}
	}
	return n
}

// spendsItsLoan checks that nodes that have lost the engine grant no more than what they had taken ahead: a twentieth
// of the limit, divided by the number of nodes, and one at most where that is less. After a second they grant nothing.
func (f *exactFarm) spendsItsLoan(gate int, account string, limit int, nodes ...int) {
	f.t.Helper()
	before := f.audit(account, 0, 0).seen
	f.eventually("nothing goes on", func() bool { return f.drain(gate, account, nodes...) == 0 })
	most := len(nodes) * max(1, limit/(20*len(f.nodes)))
	if got := f.audit(account, 0, 0).seen - before; got > most {
		f.t.Errorf("%s: %d went on without the engine, at most %d were on loan", account, got, most)
	}
}

// TestFarmExactEngineStopped: while the engine stands still, policies do what on_loss says, and all others what they
// always do. Afterwards the engine knows what was granted without it.
func TestFarmExactEngineStopped(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	f := growExact(t, 3, redisServer,
		`{name: p, limit: 30, period: year, farm: exact}`,
		`{name: p, limit: 30, period: year, farm: exact, on_loss: share}`,
		`{name: p, limit: 30, period: year, farm: exact, on_loss: open}`,
		`{name: p, limit: 30, period: year, farm: local}`,
		`{name: p, limit: 30, period: year}`)
	const closed, share, open, local, broadcast = 0, 1, 2, 3, 4
	lost := func(is bool) {
		for i := range f.nodes {
			f.eventually("the nodes know of the engine", func() bool {
				_, _ = f.send(context.Background(), i, closed, "probe")
				return (f.status(i).Counters.State == "stalled") == is
			})
		}
	}
	for i := range f.nodes {
		if status := f.insist(i, closed, "early"); status != http.StatusOK {
			t.Errorf("before: %d", status)
		}
	}
	f.redis.signal(syscall.SIGSTOP)
	lost(true)
	f.spendsItsLoan(closed, "early", 30, 0, 1, 2)
	for i := range f.nodes {
		status, header := f.send(context.Background(), i, closed, "late")
		again, _ := strconv.Atoi(header.Get("Retry-After"))
		if left := header.Get("RateLimit"); status != http.StatusServiceUnavailable || again < 1 || again > 4 || left != "" {
			t.Errorf("closed: %d, Retry-After %q, RateLimit %q", status, header.Get("Retry-After"), left)
		}
	}
	for _, c := range []struct {
		name       string
		gate, want int
	}{{"share", share, 30}, {"open", open, 90}, {"local", local, 90}} {
		if n := f.drain(c.gate, c.name, 0, 1, 2); n != c.want || f.audit(c.name, 0, 0).seen != c.want {
			t.Errorf("%s: %d went on, want %d", c.name, n, c.want)
		}
	}
	// What one node has granted the others are told, as always.
	if n := f.drain(broadcast, "broadcast", 0); n != 30 {
		t.Errorf("broadcast: %d went on", n)
	}
	for _, i := range []int{1, 2} {
		f.eventually("the others were told", func() bool {
			status, _ := f.send(context.Background(), i, broadcast, "broadcast")
			return status == http.StatusTooManyRequests
		})
	}
	if a := f.audit("late", 0, 0); a.seen != 0 {
		t.Errorf("closed: the upstreams saw %d", a.seen)
	}

	f.redis.signal(syscall.SIGCONT)
	lost(false)
	f.rush(200, closed, "late", func() int { return rand.IntN(3) })
	f.mustUse("late", 30)
	f.eventually("the engine knows what was granted without it", func() bool {
		status, _ := f.send(context.Background(), 0, share, "share")
		return status == http.StatusTooManyRequests
	})
}

// TestFarmExactNodeKilled: a node dies with what it had taken ahead. Nobody gets it a second time, and it is back when
// the period is over.
func TestFarmExactNodeKilled(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	const limit, length = 100, 2 * time.Second
	f := growExact(t, 3, redisServer, `{name: p, limit: 100, period: 2s, farm: exact}`)
	l := f.press(8, 0, "x")
	full := func(after int64) func() bool {
		return func() bool {
			for n, seen := range f.audit("x", limit, length).periods {
				if n > after && 100*seen >= 99*limit {
					return true
				}
			}
			return false
		}
	}
	f.eventually("a period is used up", full(0))
	seen := len(f.of("x"))
	f.eventually("the next one has begun", func() bool { return len(f.of("x")) > seen+10 })
	if err := f.nodes[2].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-f.nodes[2].ended
	f.eventually("a later period is used up by the others", full(time.Now().UnixNano()/int64(length)))
	l.end()
	a := f.audit("x", limit, length)
	if a.over > 0 {
		t.Errorf("%d over: %v", a.over, a.periods)
	}
	t.Log(a.periods)
	f.start(2) // it is cleaned up like the others
	f.settled(0, 1, 2)
}

// cutFrom drops what a node sends to a port, or gets from there; or ends that.
func (f *exactFarm) cutFrom(node int, port string, cut bool) {
	f.t.Helper()
	nft := nftables(f.t)
	if err := f.Ends[node].Do(func() error {
		if !cut {
			return netlab.Command(nft, "delete", "table", "inet", "cut")
		}
		return errors.Join(netlab.Command(nft, "add", "table", "inet", "cut"),
			netlab.Command(nft, "add", "chain", "inet", "cut", "in", "{ type filter hook input priority 0; }"),
			netlab.Command(nft, "add", "rule", "inet", "cut", "in", "tcp", "sport", port, "drop"),
			netlab.Command(nft, "add", "rule", "inet", "cut", "in", "tcp", "dport", port, "drop"))
	}); err != nil {
		f.t.Fatal(err)
	}
}

// TestFarmExactCutOff: a node that does not reach the engine grants nothing but its loan, and takes nothing from the
// others. One that does not reach the other nodes counts with them all the same.
func TestFarmExactCutOff(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	nftables(t)
	f := growExact(t, 3, redisServer, `{name: p, limit: 90, period: year, farm: exact}`)
	anybody := func() int { return rand.IntN(3) }
	f.rush(30, 0, "engine", anybody)
	f.cutFrom(2, "6379", true)
	f.eventually("c has lost the engine", func() bool {
		_, _ = f.send(context.Background(), 2, 0, "probe")
		return f.status(2).Counters.State == "stalled"
	})
	f.spendsItsLoan(0, "engine", 90, 2)
	f.rush(180, 0, "engine", func() int { return rand.IntN(2) })
	f.cutFrom(2, "6379", false)
	f.rush(60, 0, "engine", anybody)
	f.mustUse("engine", 90)

	f.cutFrom(2, "7400", true)
	f.settled(0, 1)
	f.rush(270, 0, "nodes", anybody)
	f.mustUse("nodes", 90)
	f.cutFrom(2, "7400", false)
	f.settled(0, 1, 2)
}
