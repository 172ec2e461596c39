package rolltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/throttle/stamp"
	"weir/throttle/stamp/payer"
)

const (
	customers = 4
	perStep   = 20 // pages that customers get before the next step
	kept      = 10 // stamps of each step that are tried at each node
	patience  = 2 * time.Minute
)

// between is how long a customer looks at a page. Nodes that start need the processors, too.
const between = 20 * time.Millisecond

// PageHeader of a request names the page that a customer pays for. The service behind the nodes may count them.
const PageHeader = "X-Page"

// A Load is customers who fetch pages through a balancer, pay for each, and then try to use each stamp again. The nodes
// must ask for a stamp for each page, and take the client's address from X-Forwarded-For. Call HAProxy first, then Run.
type Load struct {
	At string // the balancer
	// Dial connects to the balancer and to nodes.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	nodes  []Node
	served atomic.Int64
	mu     sync.Mutex
	spent  []visit
	room   int // for more of them
}

// A visit is one page for one customer: the address that they come from, and what they pay with.
type visit struct {
	page, source  string
	stamp, client string
}

// Run takes steps, one after the other, while customers pay. Each step must leave all nodes running. It is an error if
// a page is refused to who paid for it, or a stamp is taken twice, by the balancer or by any node. Run returns how many
// pages were paid for.
func (l *Load) Run(t *testing.T, steps ...func()) int {
	t.Helper()
	stop := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	end := sync.OnceFunc(func() { close(stop) })
	defer end()
	for i := range customers {
		all.Go(func() { l.pay(t, i, stop) })
	}
	l.more(t)
	for _, step := range steps {
		step()
		l.more(t)
		l.again(t)
	}
	end()
	all.Wait()
	return int(l.served.Load())
}

// more waits until customers have got more pages, so that every step is seen under load.
func (l *Load) more(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	l.room = kept
	l.mu.Unlock()
	want := l.served.Load() + perStep
	needs.Wait(t, "customers are served", func() bool { return l.served.Load() >= want || t.Failed() })
}

// again tries stamps that were spent in this step and before it at each node.
func (l *Load) again(t *testing.T) {
	t.Helper()
	via := &http.Transport{DialContext: l.Dial}
	defer via.CloseIdleConnections()
	l.mu.Lock()
	spent := slices.Clone(l.spent)
	l.mu.Unlock()
	for _, v := range spent {
		for _, node := range l.nodes {
			if err := refused(ask(t, via, node.Serves, v)); err != nil {
				t.Fatalf("page %s, paid for before, at %s: %v", v.page, node.Serves, err)
			}
		}
	}
}

// pay gets one page after the other until stop is closed.
func (l *Load) pay(t *testing.T, number int, stop <-chan struct{}) {
	via := &http.Transport{DialContext: l.Dial}
	defer via.CloseIdleConnections()
	for round := 0; ; round++ {
		select {
		case <-stop:
			return
		default:
		}
		// Each visit is from another network: clients without a cookie are counted by theirs, and each asks first.
		v := visit{page: fmt.Sprintf("%d-%d", number, round), source: fmt.Sprintf("2001:db8:%x:%x::1", number,
			round&0xffff)}
		resp, err := ask(t, via, l.At, v)
		// The node that asked for a stamp may be gone: then there is a new challenge.
		for end := time.Now().Add(patience); err == nil && resp.StatusCode == http.StatusServiceUnavailable &&
			time.Now().Before(end); {
			if err = v.solve(t, resp); err == nil {
				resp, err = ask(t, via, l.At, v)
			}
		}
		if err != nil || resp.StatusCode != http.StatusOK || v.stamp == "" {
			t.Errorf("page %s: %v, %v", v.page, resp, err)
			return
		}
		l.served.Add(1)
		for range 2 {
			if err := refused(ask(t, via, l.At, v)); err != nil {
				t.Errorf("page %s, paid for before: %v", v.page, err)
				return
			}
		}
		l.mu.Lock()
		if l.room > 0 {
			l.spent = append(l.spent, v)
			l.room--
		}
		l.mu.Unlock()
		<-time.After(between)
	}
}

// refused returns what is wrong with an answer to a spent stamp. A node whose stamp cannot be checked any more asks for
// another one.
func refused(resp *http.Response, err error) error {
	if err == nil && resp.StatusCode != http.StatusForbidden && (resp.StatusCode != http.StatusServiceUnavailable ||
		resp.Header.Get(payer.ChallengeHeader) == "") {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return err
}

// solve pays what an answer asks for.
func (v *visit) solve(t *testing.T, resp *http.Response) (err error) {
	for _, c := range resp.Cookies() {
		if c.Name == payer.ClientCookie {
			v.client = c.Value
		}
	}
	challenge := resp.Header.Get(payer.ChallengeHeader)
	if challenge == "" {
		return errors.New("refused, and asked for no stamp")
	}
	v.stamp, err = stamp.Solve(t.Context(), challenge, stamp.SolveOptions{})
	return err
}

// ask asks for a page, and reads the answer.
func ask(t *testing.T, via http.RoundTripper, at string, v visit) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/", nil)
	if err != nil {
		return nil, err
	}
	r.Host = "site.example" // a stamp pays for a page of a site, at whatever node
	r.Header.Set("X-Forwarded-For", v.source)
	r.Header.Set(PageHeader, v.page)
	if v.stamp != "" {
		r.Header.Set(payer.StampHeader, v.stamp)
	}
	if v.client != "" {
		r.AddCookie(&http.Cookie{Name: payer.ClientCookie, Value: v.client})
	}
	resp, err := via.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}
