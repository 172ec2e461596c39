package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/console"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/netlab"
)

// An arrival is a request that an upstream saw.
type arrival struct {
	account string
	node    int
	at      time.Time
	sent    time.Time // as the client says; zero where it says nothing
}

// arrivals are all that the upstreams of a farm saw. They alone decide what was granted.
type arrivals struct {
	mu  sync.Mutex
	all []arrival
}

func (l *arrivals) add(a arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, a)
}

// of returns what the upstreams saw of an account, in order.
func (l *arrivals) of(account string) (list []arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.all {
		if a.account == account {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b arrival) int { return a.at.Compare(b.at) })
	return list
}

// A crop is a farm whose nodes count together.
type crop struct {
	*grange
	arrivals
	ways []http.RoundTripper // to each node
}

// growQuotas starts nodes with these policies.
func growQuotas(t testing.TB, nodes int, policies string) *crop {
	t.Helper()
	c := &crop{grange: newGrange(t, nodes)}
	c.serves = quotaOf(policies)
	c.grow()
	return c
}

// quotaOf is a gate with policies.
func quotaOf(policies string) string {
	return fmt.Sprintf(`
http:
- listen: ":8080"
  upstream: http://127.0.0.1:3000
  account: ["header:X-Api-Key"]
  throttles: [plans]
throttles:
  plans: {quota: {policies: [%s]}}
`, policies)
}

// grow starts all nodes and their upstreams, and waits until they are whole.
func (c *crop) grow() {
	c.t.Helper()
	c.plant()
	c.start(c.everyone()...)
	c.whole()
}

// whole waits until all nodes see each other, have their parts of the limits, and know what was used.
func (c *crop) whole() {
	c.t.Helper()
	c.settled(c.everyone()...)
	for i := range c.nodes {
		c.eventually("all nodes have their parts", func() bool {
			s := c.status(i)
			return s.Parts == len(c.nodes) && s.Knows
		})
	}
}

// plant makes all configurations and upstreams.
func (c *crop) plant() {
	c.t.Helper()
	for i := range c.nodes {
		c.serve(i)
		c.write(i, false, "")
		c.ways = append(c.ways, &http.Transport{DialContext: c.dialer(), MaxIdleConnsPerHost: 64})
	}
}

// serve is the upstream of a node. It answers a request for /N with N bytes, and one for /wait when the client goes.
func (c *crop) serve(i int) {
	c.t.Helper()
	var l net.Listener
	if err := c.Ends[i].Do(func() (err error) {
		l, err = net.Listen("tcp", "127.0.0.1:3000")
		return err
	}); err != nil {
		c.t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.add(arrival{r.Header.Get("X-Api-Key"), i, time.Now(), sentAt(r)})
		if r.URL.Path == "/wait" {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		n, _ := strconv.Atoi(r.URL.Path[1:])
		_, _ = w.Write(make([]byte, n))
	})}
	go s.Serve(l)
	c.t.Cleanup(func() { s.Close() })
}

// sentHeader has when a client sent a request, in nanoseconds.
const sentHeader = "X-Sent"

func sentAt(r *http.Request) (at time.Time) {
	if n, err := strconv.ParseInt(r.Header.Get(sentHeader), 10, 64); err == nil {
		at = time.Unix(0, n)
	}
	return at
}

// ask sends a request of an account to a node, and returns the status; 0 where there is no answer.
func (c *crop) ask(i int, account string) int {
	resp, err := c.open(i, account, "/")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func (c *crop) open(i int, account, path string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+c.Address(i)+":8080"+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Api-Key", account)
	return (&http.Client{Transport: c.ways[i], Timeout: time.Minute}).Do(req)
}

// remaining is what a node thinks is left to an account; -1 where it knows nothing of it.
func (c *crop) remaining(i int, account string) int64 {
	c.t.Helper()
	a, err := console.AccountGetCall.Ask(c.t.Context(), c.control(i), console.Name{Name: account})
	if err != nil || len(a.Throttles) == 0 {
		return -1
	}
	return a.Throttles[0].Rules[0].Remaining
}

// waiting is how many of an account wait at a node.
func (c *crop) waiting(i int, account string) int {
	c.t.Helper()
	a, err := console.AccountGetCall.Ask(c.t.Context(), c.control(i), console.Name{Name: account})
	if err != nil || len(a.Throttles) == 0 {
		return 0
	}
	return a.Throttles[0].Waiting
}

// nftables is the program that parts nodes.
func nftables(t testing.TB) string { return needs.Program(t, "nft", "apt-get install nftables") }

// part cuts a node off from the others, and not from its clients; or ends that.
func (c *crop) part(i int, cut bool) {
	c.t.Helper()
	nft := nftables(c.t)
	if err := c.Ends[i].Do(func() error {
		if !cut {
			return netlab.Command(nft, "delete", "table", "inet", "cut")
		}
		return errors.Join(netlab.Command(nft, "add", "table", "inet", "cut"),
			netlab.Command(nft, "add", "chain", "inet", "cut", "in", "{ type filter hook input priority 0; }"),
			netlab.Command(nft, "add", "rule", "inet", "cut", "in", "tcp", "dport", "7400", "drop"),
			netlab.Command(nft, "add", "rule", "inet", "cut", "in", "tcp", "sport", "7400", "drop"))
	}); err != nil {
		c.t.Fatal(err)
	}
}

// TestFarmKeepsOneLimit is the document's case: four may go on, and five servers are sent one each.
func TestFarmKeepsOneLimit(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	c := growQuotas(t, 5, `{name: four, limit: 4, period: year}`)
	const rounds = 5
	for round := range rounds {
		account := fmt.Sprint("account-", round)
		for i := range c.nodes {
			node, want := (round+i)%5, http.StatusOK
			if i == 4 {
				want = http.StatusTooManyRequests
				// Of four at most the last can be under way still: nobody is told later than that they are.
				c.eventually("the fifth is refused", func() bool {
					return len(c.of(account)) > 4 || c.remaining(node, account) == 0
				})
			}
			if got := c.ask(node, account); got != want {
				t.Errorf("round %d, request %d: %d", round, i, got)
			}
		}
		if n := len(c.of(account)); n != 4 {
			t.Errorf("round %d: %d went on", round, n)
		}
	}

	// A year's counter is exact after each node was restarted in turn, and after all of them were.
	exact := func(when string) {
		t.Helper()
		for round := range rounds {
			for i := range c.nodes {
				account := fmt.Sprint("account-", round)
				c.eventually("the node knows what was used", func() bool { return c.remaining(i, account) == 0 })
				if got := c.ask(i, account); got != http.StatusTooManyRequests {
					t.Errorf("after %s account %d is let in at %c: %d", when, round, 'a'+i, got)
				}
			}
		}
	}
	for i := range c.nodes {
		c.nodes[i].stop(t)
		c.start(i)
		c.settled(0, 1, 2, 3, 4)
	}
	exact("each was restarted")
	if got := c.ask(0, "a new one"); got != http.StatusOK {
		t.Errorf("a new account: %d", got)
	}
	for i := range c.nodes {
		c.nodes[i].stop(t)
	}
	c.start(0, 1, 2, 3, 4)
	c.settled(0, 1, 2, 3, 4)
	for i := range c.nodes {
		c.eventually("all totals agree", func() bool { return c.remaining(i, "a new one") == 3 })
	}
	exact("all were restarted")
	c.must(3, "account", "reset", "account-0")
	for i := range c.nodes {
		c.eventually("the reset is known everywhere", func() bool {
			left := c.remaining(i, "account-0")
			return left == 4 || left < 0 // or it has nothing to remember
		})
	}
}

// TestFarmDelays: of five requests to five servers the fifth waits, and is served in the next period though others come
// first then.
func TestFarmDelays(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	const length = 2 * time.Second
	c := growQuotas(t, 5, `{name: four, limit: 4, period: 2s, over: delay}`)
	begin := func(late time.Duration) {
		at := time.Now().Truncate(length).Add(length + late)
		needs.Wait(t, "a period begins", func() bool { return !time.Now().Before(at) })
	}
	const last = 4
	account := ""
	var done sync.WaitGroup
	send := func(i int) {
		account := account
		done.Go(func() {
			if got := c.ask(i, account); got != http.StatusOK {
				t.Errorf("server %d: %d", i, got)
			}
		})
	}
	// All of it has to come early in one period, so that the other nodes are told who waits. A busy machine may miss
	// that.
	c.eventually("the fifth waits", func() bool {
		begin(100 * time.Millisecond)
		period := time.Now().Truncate(length)
		account = fmt.Sprint("began at ", period.Unix())
		early := func() bool { return time.Since(period) < length/2 }
		for i := range 4 {
			send(i)
		}
		soon := func(what string, so func() bool) bool {
			needs.Wait(t, what, func() bool { return !early() || so() })
			return early()
		}
		if !soon("the four are known", func() bool { return c.remaining(last, account) == 0 }) {
			return false
		}
		send(last)
		return soon("the fifth waits", func() bool { return c.waiting(last, account) > 0 })
	})
	begin(0)
	for range 4 {
		send(0)
	}
	done.Wait()
	// Three of the newcomers may go before it, as it needs one of four.
	list := c.of(account)
	if at := slices.IndexFunc(list, func(a arrival) bool { return a.node == last }); len(list) != 9 || at < 4 ||
		at > 7 {
		t.Errorf("the fifth was served as number %d of %v", at+1, list)
	}
}

// TestFarmMetersBytes: two nodes stream to one account, together as much as it may have.
func TestFarmMetersBytes(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	c := growQuotas(t, 2, `{name: volume, kind: volume, limit: 1MB, period: 365d}`)
	var sum int64
	for round := 0; round < 100; round++ {
		resp, err := c.open(round%2, "x", "/50000")
		if err != nil {
			t.Fatal(err)
		}
		n, _ := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode == http.StatusTooManyRequests {
			break
		}
		sum += n
		left := c.remaining(round%2, "x")
		c.eventually("the other node knows", func() bool { return c.remaining(1-round%2, "x") <= left })
	}
	if sum < 1_000_000 || sum > 1_050_000 { // the last one is let in while there is a byte left
		t.Errorf("%d bytes", sum)
	}
}

// TestFarmParted: while the nodes of a farm do not hear each other, each side grants its share, and no more.
func TestFarmParted(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	nftables(t)
	c := growQuotas(t, 3, `{name: p, limit: 30, period: 365d, on_loss: share}`)
	drain := func(account string, nodes ...int) (n int) {
		for refused := 0; refused < len(nodes); {
			refused = 0
			for _, i := range nodes {
				if c.ask(i, account) != http.StatusOK {
					refused++
					continue
				}
				n++
				left := c.remaining(i, account)
				for _, other := range nodes {
					c.eventually("the others know", func() bool { return c.remaining(other, account) <= left })
				}
			}
		}
		return n
	}
	c.part(2, true)
	c.settled(0, 1)
	c.eventually("c is alone", func() bool {
		return !c.sees(2, func(n console.NodeStatus) bool { return n.State == "up" })
	})
	if n := drain("x", 2); n != 10 {
		t.Errorf("one of three grants %d of 30", n)
	}
	if n := drain("x", 0, 1); n != 20 {
		t.Errorf("two of three grant %d of 30", n)
	}
	c.part(2, false)
	c.whole()
	for i := range c.nodes {
		c.eventually("all totals agree", func() bool { return c.remaining(i, "x") == 0 })
	}
	if n := drain("y", 0); n != 30 {
		t.Errorf("healed, one node grants %d of 30", n)
	}
}

// TestFarmFreesPlaces: places at once are counted over all nodes, and those of a node that dies come free.
func TestFarmFreesPlaces(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	c := growQuotas(t, 3, `{name: places, kind: concurrent, limit: 2}`)
	hold := func(i int) *http.Response {
		t.Helper()
		resp, err := c.open(i, "x", "/wait")
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	first, second := hold(0), hold(2)
	defer second.Body.Close()
	if first.StatusCode != http.StatusOK || second.StatusCode != http.StatusOK {
		t.Fatal(first.Status, second.Status)
	}
	c.eventually("b knows that both places are taken",
		func() bool { return c.ask(1, "x") == http.StatusTooManyRequests })
	first.Body.Close()
	c.eventually("a place came free", func() bool { return c.ask(1, "x") == http.StatusOK })
	var third *http.Response
	c.eventually("a knows that the place is free", func() bool { // b has told it, or is about to
		if third = hold(0); third.StatusCode != http.StatusOK {
			third.Body.Close()
			return false
		}
		return true
	})
	defer third.Body.Close()
	c.eventually("b knows that both places are taken again", func() bool {
		return c.ask(1, "x") == http.StatusTooManyRequests
	})
	if err := c.nodes[2].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.nodes[2].ended
	c.eventually("a dead node's place came free", func() bool { return c.ask(1, "x") == http.StatusOK })
	c.start(2)
	c.settled(0, 1, 2)
}

// BenchmarkFarmKeepsOneLimit is the document's case with its figures: four a second, and five servers that are sent one
// each, so many milliseconds apart. It reports in how many of a hundred rounds the fifth was refused.
func BenchmarkFarmKeepsOneLimit(b *testing.B) {
	c := growQuotas(b, 5, `{name: four, limit: 4, period: 1s}`)
	for _, apart := range []time.Duration{20 * time.Millisecond, 3 * time.Millisecond} {
		b.Run(apart.String(), func(b *testing.B) {
			var refused atomic.Int64
			var rounds sync.WaitGroup
			for round := range b.N {
				// Ten in each second, none of which goes over its end.
				if round%10 == 0 {
					time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + 50*time.Millisecond)))
				}
				account := fmt.Sprintf("%s %d %d", apart, b.N, round)
				rounds.Go(func() {
					for i := range c.nodes {
						if code := c.ask((round+i)%5, account); i == 4 && code == http.StatusTooManyRequests {
							refused.Add(1)
						}
						time.Sleep(apart)
					}
				})
				time.Sleep(70 * time.Millisecond)
			}
			rounds.Wait()
			b.ReportMetric(100*float64(refused.Load())/float64(b.N), "refused-%")
		})
	}
}

// BenchmarkFarmDelay is a limit of one a second, six nodes, and a line on each. It reports how many seconds had another
// number than one, and how unevenly the nodes were served.
func BenchmarkFarmDelay(b *testing.B) {
	for _, window := range []string{"fixed", "sliding", "gcra"} {
		b.Run(window, func(b *testing.B) {
			c := growQuotas(b, 6, fmt.Sprintf(
				`{name: one, limit: 1, period: 1s, window: %s, over: delay, delay: {max: 1000, max_wait: 10m}}`,
				window))
			ctx, stop := context.WithCancel(context.Background())
			var lines sync.WaitGroup
			for i := range c.nodes {
				for range 3 {
					lines.Go(func() {
						for ctx.Err() == nil {
							req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Address(i)+":8080/",
								nil)
							if err != nil {
								b.Error(err)
								return
							}
							req.Header.Set("X-Api-Key", "x")
							if resp, err := c.ways[i].RoundTrip(req); err == nil {
								resp.Body.Close()
							}
						}
					})
				}
			}
			time.Sleep(time.Duration(b.N+5) * time.Second)
			stop()
			lines.Wait()
			list := c.of("x")
			begun := list[0].at.Add(4 * time.Second)
			list = slices.DeleteFunc(list, func(a arrival) bool { return a.at.Before(begun) })
			counts, served := map[int64]int{}, map[int]int{}
			for _, a := range list {
				counts[a.at.Add(20*time.Millisecond).Unix()]++ // those of a period come a little after it begins
				served[a.node]++
			}
			other := 0
			for at := list[0].at.Unix() + 1; at < list[len(list)-1].at.Unix(); at++ {
				if counts[at] != 1 {
					other++
				}
			}
			least, most := b.N, 0
			for i := range c.nodes {
				least, most = min(least, served[i]), max(most, served[i])
			}
			b.ReportMetric(float64(other), "seconds-with-another-number")
			b.ReportMetric(float64(least), "least-served")
			b.ReportMetric(float64(most), "most-served")
			b.ReportMetric(float64(len(list))/list[len(list)-1].at.Sub(list[0].at).Seconds(), "a-second")
		})
	}
}

// BenchmarkFarmVolume is 10 MB a minute, of which two nodes stream as much as they can. It reports by how much the
// minute with the most differed from the limit. In short a minute has two seconds.
func BenchmarkFarmVolume(b *testing.B) {
	minute := int64(60)
	if testing.Short() {
		minute = 2
	}
	c := growQuotas(b, 2, fmt.Sprintf(
		`{name: volume, kind: volume, limit: 10MB, period: %ds, over: delay, delay: {max_wait: 1h}}`, minute))
	ctx, stop := context.WithCancel(context.Background())
	var streams sync.WaitGroup
	var mu sync.Mutex
	minutes := map[int64]int64{}
	for i := range c.nodes {
		streams.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.Address(i)+":8080/1000000000", nil)
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set("X-Api-Key", "x")
			resp, err := c.ways[i].RoundTrip(req)
			if err != nil {
				b.Error(err)
				return
			}
			defer resp.Body.Close()
			for buf := make([]byte, 16<<10); ; {
				n, err := resp.Body.Read(buf)
				mu.Lock()
				minutes[time.Now().Unix()/minute] += int64(n)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	first := time.Now().Unix()/minute + 1
	time.Sleep(time.Until(time.Unix((first+int64(b.N))*minute, 0)))
	stop()
	streams.Wait()
	worst := 0.
	for at := first; at < first+int64(b.N); at++ {
		worst = max(worst, math.Abs(float64(minutes[at])/10e6-1))
	}
	b.ReportMetric(100*worst, "off-%")
}
