package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"weir/console"
	"weir/internal/netlab"
)

// An arrival is a request that an upstream saw.
type arrival struct {
	account string
	node    int
	at      time.Time
}

// A log is all that the upstreams of a farm saw. It alone decides what was granted.
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

// worst is the most that was granted to an account in one second of the clock.
func worst(list []arrival) (n int) {
	counts := map[int64]int{}
	for _, a := range list {
		counts[a.at.Unix()]++
		n = max(n, counts[a.at.Unix()])
	}
	return n
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
	c.serves = fmt.Sprintf(`
http:
- listen: ":8080"
  upstream: http://127.0.0.1:3000
  account: ["header:X-Api-Key"]
  throttles: [plans]
throttles:
  plans: {quota: {policies: [%s]}}
`, policies)
	all := make([]int, nodes)
	for i := range nodes {
		all[i] = i
		c.serve(i)
		c.write(i, false, "")
		c.ways = append(c.ways, &http.Transport{DialContext: c.dialer(), MaxIdleConnsPerHost: 64})
	}
	for i := range nodes {
		c.start(i)
	}
	c.settled(all...)
	return c
}

// serve is the upstream of a node. It answers a request for /N with N bytes, and one for /wait when the client goes.
func (c *crop) serve(i int) {
	c.t.Helper()
	var l net.Listener
	if err := c.Ends[i].Do(func() (err error) { l, err = net.Listen("tcp", "127.0.0.1:3000"); return err }); err != nil {
		c.t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.add(arrival{r.Header.Get("X-Api-Key"), i, time.Now()})
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
	said, code := c.weir(i, "account", "get", account, "--json")
	var a console.Account
	if code != exitOK || json.Unmarshal([]byte(said), &a) != nil || len(a.Throttles) == 0 {
		return -1
	}
	return a.Throttles[0].Rules[0].Remaining
}

// part cuts a node off from the others, and not from its clients; or ends that.
func (c *crop) part(i int, cut bool) {
	c.t.Helper()
	if err := c.Ends[i].Do(func() error {
		if !cut {
			return netlab.Command("nft", "delete", "table", "inet", "cut")
		}
		return errors.Join(netlab.Command("nft", "add", "table", "inet", "cut"),
			netlab.Command("nft", "add", "chain", "inet", "cut", "in", "{ type filter hook input priority 0; }"),
			netlab.Command("nft", "add", "rule", "inet", "cut", "in", "tcp", "dport", "7400", "drop"),
			netlab.Command("nft", "add", "rule", "inet", "cut", "in", "tcp", "sport", "7400", "drop"))
	}); err != nil {
		c.t.Fatal(err)
	}
}

// TestFarmKeepsOneLimit is the document's case: four may go on, and five servers are sent one each.
func TestFarmKeepsOneLimit(t *testing.T) {
	t.Parallel()
	c := growQuotas(t, 5, `{name: four, limit: 4, period: 1h}`)
	const rounds = 20
	for round := range rounds {
		account := fmt.Sprint("account-", round)
		for i := range c.nodes {
			want := http.StatusOK
			if i == 4 {
				want = http.StatusTooManyRequests
				// Of four at most the last can be under way still: nobody is told later than that they are.
				c.eventually("the fifth is refused", func() bool {
					return len(c.of(account)) > 4 || c.remaining(4, account) == 0
				})
			}
			if got := c.ask((round+i)%5, account); got != want {
				t.Errorf("round %d, request %d: %d", round, i, got)
			}
		}
		if n := len(c.of(account)); n != 4 {
			t.Errorf("round %d: %d went on", round, n)
		}
	}

	// A month's counter is exact after each node was restarted in turn.
	for i := range c.nodes {
		c.nodes[i].stop(t)
		c.start(i)
		c.settled(0, 1, 2, 3, 4)
	}
	for round := range rounds {
		for i := range c.nodes {
			if got := c.ask(i, fmt.Sprint("account-", round)); got != http.StatusTooManyRequests {
				t.Errorf("after the restarts account %d is let in at %c: %d", round, 'a'+i, got)
			}
		}
	}
	c.must(3, "account", "reset", "account-0")
	for i := range c.nodes {
		c.eventually("the reset is known everywhere", func() bool {
			left := c.remaining(i, "account-0")
			return left == 4 || left < 0 // or it has nothing to remember
		})
	}
}

// TestFarmParted: while the nodes of a farm do not hear each other, each side grants its share, and no more.
func TestFarmParted(t *testing.T) {
	t.Parallel()
	c := growQuotas(t, 3, `{name: p, limit: 30, period: 1h, on_loss: share}`)
	drain := func(account string, nodes ...int) (n int) {
		for refused := 0; refused < len(nodes); {
			refused = 0
			for _, i := range nodes {
				if c.ask(i, account) == http.StatusOK {
					n++
				} else {
					refused++
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
	// Both count together, so that one more may go on before the other is told.
	if n := drain("x", 0, 1); n < 20 || n > 21 {
		t.Errorf("two of three grant %d of 30", n)
	}
	c.part(2, false)
	c.settled(0, 1, 2)
	for i := range c.nodes {
		c.eventually("all totals agree", func() bool { return c.remaining(i, "x") == 0 })
	}
	if n := drain("y", 0); n != 30 {
		t.Errorf("healed, one node grants %d of 30", n)
	}
}

// TestFarmFreesPlaces: places at once are counted over all nodes, and those of a node that dies come free.
func TestFarmFreesPlaces(t *testing.T) {
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
	c.eventually("b knows that both places are taken", func() bool { return c.ask(1, "x") == http.StatusTooManyRequests })
	first.Body.Close()
	c.eventually("a place came free", func() bool { return c.ask(1, "x") == http.StatusOK })
	third := hold(0)
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
