//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"weir"
	"weir/console"
	"weir/farm"
	"weir/farm/redis"
	"weir/lab/machine"
	"weir/lab/peers"
	"weir/store/sqlite"
	"weir/throttle/quota"
)

// exactSpeed is Q6: farm: exact against farm: local, through the gate for HTTP and decision by decision; and with a
// question for each decision against envoyproxy/ratelimit, where both count in the same Redis.
func exactSpeed(t *trial) (figures []figure) {
	figures = append(figures, exactDecisions(t)...)
	if err := attempt(func() { figures = append(figures, exactEnvoy(t)...) }); err != nil {
		fmt.Fprintf(os.Stderr, "Q6 without envoyproxy/ratelimit: %v\n", err)
	}
	if err := attempt(func() { figures = append(figures, exactGate(t)...) }); err != nil {
		fmt.Fprintf(os.Stderr, "Q6 without the gate for HTTP: %v\n", err)
	}
	return figures
}

// speedConfig is a farm of one node.
const speedConfig = `
data: %[1]s
farm: {node: a, listen: "%[2]s", peers: ["%[2]s"], secret: a secret of this benchmark, counters: "redis://%[3]s"}
http:
- listen: 127.0.0.1:0
  upstream: http://%[4]s
  account: ["header:X-Api-Key"]
  throttles: [plans]
throttles:
  plans: {quota: {policies: [{name: hourly, limit: 1000000000, period: 1h, farm: %[5]s, on_loss: open}]}}
console: {listen: "off"}
log: {access: "off"}
`

// exactGate asks both over HTTP, as Q2 does.
func exactGate(t *trial) []figure {
	rounds, each := pick(t, 9, 1), pick[time.Duration](t, 3, 1)*time.Second
	ctx, wrk, folder := t.context(), program("wrk"), t.folder()
	service := t.startNginx(folder, "service", peers.NginxService, "")
	counters, engine := t.startRedis()
	binary := buildWeir(folder)
	var nodes []*running
	pids := []int{engine.Pid}
	for i, mode := range []string{"exact", "local"} {
		data := subfolder(folder, strconv.Itoa(i))
		r := t.runWeir(data, fmt.Sprintf(speedConfig, data, try(machine.FreeAddress("127.0.0.1")), counters, service, mode),
			os.Stderr, binary)
		nodes, pids = append(nodes, r), append(pids, r.Pid)
	}
	play := func() (round []float64) {
		for _, r := range nodes {
			round = append(round, askMany(ctx, wrk, r.address+"/", each, false))
		}
		return round
	}
	play() // connections and memory
	all, busy := quietRounds(rounds, 2*time.Minute, pids, play)
	rate := medians(all)
	answers(nodes[0])
	return []figure{{"proxied requests/s, 64 connections, one account, farm: exact against farm: local",
		[]value{least(0.9, rate[0]/rate[1], "%.2f ×")}, fmt.Sprintf("%.0f/s against %.0f/s%s", rate[0], rate[1], busy)}}
}

// A borrowing is a quota in this process that counts in an engine.
type borrowing struct {
	*quota.Quota
	lender *quota.Lender
	guard  *farm.Guarded
}

// borrow makes a quota with one policy, and ties it to an engine as a farm of one node would. What it may grant is on
// a real disk before.
func (t *trial) borrow(address string, p quota.Policy) *borrowing {
	pot := try(redis.Open("redis://"+address, redis.Options{}))
	kept := try(sqlite.Open(t.context(), sqlite.Options{Folder: t.folderOnDisk()}))
	b := &borrowing{Quota: try(quota.New(quota.Options{Policies: []quota.Policy{p}})),
		guard: farm.Guard(pot, farm.GuardOptions{Now: time.Now, Text: pot.Text})}
	began := time.Now()
	run := "a+" + strconv.FormatInt(began.UnixMicro(), 10)
	b.lender = b.Lend(quota.Lending{Pot: b.guard, Name: p.Name, Run: run,
		Farm: func() []string { return []string{"a"} }, Nodes: func() int { return 1 },
		Call: func([]byte) error { return nil }, Now: time.Now,
		Since: func() time.Duration { return time.Since(began) }, Disk: kept.Ceilings()})
	_, _, err := b.lender.Restore(t.context())
	check(err)
	b.guard.Watch(func(up bool) { b.lender.Lost(!up, time.Now()) })
	ctx, stop := context.WithCancel(context.Background())
	t.cleanup(func() {
		b.lender.Close()
		stop()
		b.guard.Close()
		check(kept.Close())
	})
	for _, c := range []weir.Clocked{b.Quota, b.lender} {
		go drive(ctx, c)
	}
	return b
}

// granted makes one decision and settles it. It reports whether it was granted.
func granted(q *quota.Quota, account string, a *weir.Answer) bool {
	now := time.Now()
	a.Clear()
	_ = q.Judge(context.Background(), &weir.Event{Time: now, Account: account}, a) // it has nothing but verdicts to say
	if !a.Hold.IsZero() {
		q.Settle(a.Hold, weir.Outcome{Time: now, Done: a.Verdict == weir.Admit, Status: http.StatusOK})
	}
	return a.Verdict == weir.Admit
}

// deciders is how many requests a node of Q6 has at a time.
const deciders = 64

// decideAll has many requests at a time ask for all accounts in turns, until a time has passed. It returns how many
// decisions were made in a second. One that the engine is lost for is made again.
func decideAll(q *quota.Quota, accounts []string, d time.Duration) float64 {
	var all atomic.Int64
	start := time.Now()
	end := start.Add(d)
	together(deciders, func(k int) error {
		var a weir.Answer
		n := 0
		for at := k * len(accounts) / deciders; n%64 != 0 || time.Now().Before(end); at++ {
			if n%64 == 0 {
				pause()
			}
			if !granted(q, accounts[at%len(accounts)], &a) {
				time.Sleep(time.Millisecond)
				continue
			}
			n++
		}
		all.Add(int64(n))
		return nil
	})
	return float64(all.Load()) / time.Since(start).Seconds()
}

// pause lets others go on. In one of four milliseconds nobody decides: as long as some goroutine can run, Go looks at
// the network every 10 ms only, and calls to the engine would take too long. Requests of a server wait for their
// clients.
func pause() {
	now := time.Now()
	if next := now.Truncate(time.Millisecond).Add(time.Millisecond); next.UnixMilli()%4 == 0 {
		time.Sleep(next.Sub(now))
		return
	}
	runtime.Gosched()
}

// exactDecisions makes decisions in this process.
func exactDecisions(t *trial) (figures []figure) {
	// Rounds are short and many, because the machine's own speed changes within seconds.
	rounds, each := pick(t, 25, 1), pick[time.Duration](t, 1000, 200)*time.Millisecond
	counters, engine := t.startRedis()
	policy := func(name string, mode quota.Farm) quota.Policy {
		return quota.Policy{Name: name, Limit: quota.Count(1_000_000_000), Period: weir.Period{Length: time.Hour},
			Farm: mode}
	}
	for _, accounts := range []int{1, 100, 10_000} {
		names := make([]string, accounts)
		for i := range names {
			names[i] = fmt.Sprintf("account-%06d", i)
		}
		exact := t.borrow(counters, policy(fmt.Sprintf("of-%d", accounts), quota.FarmExact))
		local := try(quota.New(quota.Options{Policies: []quota.Policy{policy("local", quota.FarmLocal)}}))
		all, busy := quietRounds(rounds, 2*time.Minute, []int{engine.Pid}, func() (round []float64) {
			for _, q := range []*quota.Quota{exact.Quota, local} {
				decideAll(q, names, each/2) // what lay idle meanwhile went back
				round = append(round, decideAll(q, names, each))
			}
			return round
		})
		got := medians(all)
		ratio := beside(got[0]/got[1], "%.2f ×")
		if accounts <= 100 {
			ratio = least(0.9, got[0]/got[1], "%.2f ×")
		}
		enough(exact.guard.Stats().Calls, exact.guard.Stats().Failures)
		figures = append(figures, figure{fmt.Sprintf("quota, decisions/s, %d at a time, accounts: %d in turns, window fixed, "+
			"farm: exact against farm: local", deciders, accounts), []value{ratio},
			fmt.Sprintf("%.0f/s against %.0f/s%s", got[0], got[1], busy)})
	}
	return figures
}

// enough fails where more than one in a hundred calls to an engine failed. The figure would be too good: nobody asks an
// engine that is lost.
func enough(calls, failed uint64) {
	if 100*failed > calls {
		check(fmt.Errorf("%.1f %% of the calls to the engine failed", 100*float64(failed)/float64(calls)))
	}
}

// answers fails where the engine of a node did not answer it.
func answers(r *running) {
	s := try(console.StatusCall.Ask(context.Background(), r.control, console.None{}))
	if s.Farm == nil || s.Farm.Counters == nil {
		check(errors.New("the node tells nothing of its engine"))
	}
	enough(s.Farm.Counters.Calls, s.Farm.Counters.Failures)
}

// exactEnvoyConfig counts what its peer is asked, in the peer's Redis, with a question for each decision.
const exactEnvoyConfig = `
data: %[1]s
farm: {node: a, listen: "%[2]s", peers: ["%[2]s"], secret: a secret of this benchmark, counters: "redis+unix://%[3]s"}
rls:
- listen: 127.0.0.1:0
  domains: {edge: {throttles: [plans]}}
throttles:
  plans: {quota: {policies: [{name: per-minute, limit: 1000000, period: 1m, farm: exact, ahead: 0, on_loss: open}]}}
console: {listen: "off"}
`

// exactEnvoy asks both as Envoy does. Both reach the Redis by a socket of the machine.
func exactEnvoy(t *trial) (figures []figure) {
	folder := t.folder()
	_ = writeRules(folder, peers.Ratelimit)
	peer, pids := t.startRatelimit(folder)
	counters := filepath.Join(folder, "redis.sock")
	node := t.startWeir(folder, fmt.Sprintf(exactEnvoyConfig, folder, try(machine.FreeAddress("127.0.0.1")), counters))
	for _, streams := range []int{1, 8} {
		ours, theirs, busy := t.askBoth(node, peer, pids, streams)
		answers(node)
		ratio := beside(ours.rate/theirs.rate, "%.2f ×")
		if streams == 1 {
			ratio = least(1.7, ours.rate/theirs.rate, "%.2f ×")
		}
		figures = append(figures, figure{envoyAsked(streams) + ", farm: exact with ahead: 0 against envoyproxy/ratelimit in " +
			"the same Redis: requests/s", []value{ratio}, fmt.Sprintf("%.0f/s against %.0f/s; p99 %.2f ms against %.2f ms%s",
			ours.rate, theirs.rate, ours.p99, theirs.p99, busy)})
	}
	return figures
}
