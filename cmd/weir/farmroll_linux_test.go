package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/throttle/stamp"
	"weir/throttle/stamp/payer"
)

// TestFarmRolls: nodes behind a balancer are started anew, one after the other, while clients pay for each page and
// then try to use their stamps again. No request fails for it, and no stamp is accepted twice.
func TestFarmRolls(t *testing.T) {
	t.Parallel()
	l := &rollLoad{grange: growFarm(t, false, true)}
	l.haproxy()
	stop := make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	end := sync.OnceFunc(func() { close(stop) })
	defer end()
	for i := range rollClients {
		all.Go(func() { l.payUntil(t, i, stop) })
	}
	l.more(t)
	for i := range l.nodes {
		l.nodes[i].stop(t)
		l.start(i)
		l.settled(l.everyone()...)
		l.more(t)
		l.again(t)
	}
	end()
	all.Wait()
	t.Logf("%d pages", l.served.Load())
}

const (
	rollBalancer = "127.0.0.1:8000"
	rollClients  = 4
	rollPages    = 20 // that clients get before the next step
	rollStamps   = 10 // of each step that are tried at each node
	rollPatience = 2 * time.Minute
	rollPause    = 20 * time.Millisecond // between two pages of a client: nodes that start need the processors, too
)

// A rollLoad is clients who fetch pages of a farm through a balancer, pay for each, and then try to use each stamp
// again.
type rollLoad struct {
	*grange
	served atomic.Int64
	mu     sync.Mutex
	spent  []rollVisit
	room   int // for more of them
}

// A rollVisit is one page for one client: the address that they come from, and what they pay with.
type rollVisit struct {
	page, source  string
	stamp, client string
}

// haproxy runs HAProxy in front of the nodes, with health checks and redispatch. A node that answers slowly on a busy
// machine is not taken for one that is down. But a check has only as long as until the next one to connect, and where
// HAProxy itself does not run for so long, it takes all nodes for down at once: then it asks them all the same.
func (l *rollLoad) haproxy() {
	l.t.Helper()
	program := needs.Program(l.t, "haproxy", "apt-get install haproxy")
	var servers, unchecked strings.Builder
	for i := range l.nodes {
		at := l.Address(i)
		fmt.Fprintf(&servers, "  server %c %s:8080 check addr %s port 9000 inter 100ms fall 1 rise 1\n", 'a'+i, at, at)
		fmt.Fprintf(&unchecked, "  server %c %s:8080\n", 'a'+i, at)
	}
	path := filepath.Join(l.t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(path, []byte(`
defaults
  mode http
  timeout connect 2s
  timeout client 30s
  timeout server 30s
  timeout check 30s
frontend in
  bind `+rollBalancer+`
  use_backend unchecked if { nbsrv(weirs) eq 0 }
  default_backend weirs
backend weirs
  balance roundrobin
  option httpchk GET /readyz
  option redispatch 1
  retries 3
  retry-on conn-failure empty-response
`+servers.String()+`
backend unchecked
  balance roundrobin
  option redispatch 1
  retries 3
  retry-on conn-failure empty-response
`+unchecked.String()), 0o600); err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.Command(program, "-db", "-f", path)
	if err := l.Ends[l.clients()].Do(cmd.Start); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	needs.Wait(l.t, "HAProxy listens", func() bool {
		c, err := l.dialer()(l.t.Context(), "tcp", rollBalancer)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// more waits until clients have got more pages, so that every step is seen under load.
func (l *rollLoad) more(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	l.room = rollStamps
	l.mu.Unlock()
	want := l.served.Load() + rollPages
	needs.Wait(t, "clients are served", func() bool { return l.served.Load() >= want || t.Failed() })
}

// again tries stamps that were spent in this step and before it at each node.
func (l *rollLoad) again(t *testing.T) {
	t.Helper()
	via := &http.Transport{DialContext: l.dialer()}
	defer via.CloseIdleConnections()
	l.mu.Lock()
	spent := slices.Clone(l.spent)
	l.mu.Unlock()
	for _, v := range spent {
		for i := range l.nodes {
			if err := spentAlready(v.fetch(t, via, l.Address(i)+":8080")); err != nil {
				t.Fatalf("page %s, paid for before, at %c: %v", v.page, 'a'+i, err)
			}
		}
	}
}

// payUntil gets one page after the other until stop is closed.
func (l *rollLoad) payUntil(t *testing.T, number int, stop <-chan struct{}) {
	via := &http.Transport{DialContext: l.dialer()}
	defer via.CloseIdleConnections()
	for round := 0; ; round++ {
		select {
		case <-stop:
			return
		case <-time.After(rollPause):
		}
		// Each visit is from another network: clients without a cookie are counted by theirs, and each asks first.
		v := rollVisit{page: fmt.Sprintf("%d-%d", number, round), source: fmt.Sprintf("2001:db8:%x:%x::1", number,
			round&0xffff)}
		resp, err := v.fetch(t, via, rollBalancer)
		// The node that asked for a stamp may be gone: then there is a new challenge.
		for end := time.Now().Add(rollPatience); err == nil && resp.StatusCode == http.StatusServiceUnavailable &&
			time.Now().Before(end); {
			if err = v.solve(t, resp); err == nil {
				resp, err = v.fetch(t, via, rollBalancer)
			}
		}
		if err != nil || resp.StatusCode != http.StatusOK || v.stamp == "" {
			t.Errorf("page %s: %v, %v", v.page, resp, err)
			return
		}
		l.served.Add(1)
		for range 2 {
			if err := spentAlready(v.fetch(t, via, rollBalancer)); err != nil {
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
	}
}

// spentAlready returns what is wrong with an answer to a spent stamp. A node whose stamp cannot be checked any more
// asks for another one.
func spentAlready(resp *http.Response, err error) error {
	if err == nil && resp.StatusCode != http.StatusForbidden && (resp.StatusCode != http.StatusServiceUnavailable ||
		resp.Header.Get(payer.ChallengeHeader) == "") {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return err
}

// solve pays what an answer asks for.
func (v *rollVisit) solve(t *testing.T, resp *http.Response) (err error) {
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

// fetch asks for the page, and reads the answer.
func (v *rollVisit) fetch(t *testing.T, via http.RoundTripper, at string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(t.Context(), rollPatience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/", nil)
	if err != nil {
		return nil, err
	}
	r.Host = "site.example" // a stamp pays for a page of a site, at whatever node
	r.Header.Set("X-Forwarded-For", v.source)
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
