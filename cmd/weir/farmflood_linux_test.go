package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/console"
	"weir/internal/testkit/needs"
	"weir/throttle/stamp/payer"
)

// memory is how many bytes of the machine's memory a node has.
func (g *grange) memory(i int) (size int) {
	g.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.nodes[i].Process.Pid))
	if err != nil {
		g.t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(text, []byte("VmRSS:"))
	if _, err := fmt.Fscan(bytes.NewReader(rest), &size); err != nil {
		g.t.Fatal(err)
	}
	return size << 10
}

// control gives orders to a node as its operator does.
func (g *grange) control(i int) *console.Client {
	return console.NewClient(filepath.Join(filepath.Dir(g.config[i]), "weir.sock"))
}

// bans is what a node tells of its block list.
func (g *grange) bans(i int) console.BanStatus {
	g.t.Helper()
	s, err := console.StatusCall.Ask(g.t.Context(), g.control(i), console.None{})
	if err != nil {
		g.t.Fatal(err)
	}
	return s.Bans
}

// inTurn does something with each number below n, several at a time.
func inTurn(n int, do func(int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for k := int(next.Add(1)); k <= n; k = int(next.Add(1)) {
				do(k - 1)
			}
		})
	}
	all.Wait()
}

// A forger shows the same forged stamp to a node from one address after the other.
type forger struct {
	via   *http.Transport
	at    string
	stamp paid
}

func (g *grange) forger(i int) *forger {
	g.t.Helper()
	f := &forger{&http.Transport{DialContext: g.dialer(), MaxIdleConnsPerHost: 8}, g.Address(i) + ":8080", g.stamp(i)}
	g.t.Cleanup(f.via.CloseIdleConnections)
	text := []byte(f.stamp.stamp)
	last := &text[bytes.IndexByte(text, '.')-5] // of the tag
	if *last++; *last == 'A'+1 {
		*last = 'C'
	} else {
		*last = 'A'
	}
	f.stamp.stamp = string(text)
	return f
}

// forge shows the stamp from an address, with the id that weir gave to a client, if any.
func (f *forger) forge(ctx context.Context, source, client string) (status int, err error) {
	resp, err := f.ask(ctx, source, paid{f.stamp.stamp, client})
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}

func (f *forger) ask(ctx context.Context, source string, with paid) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.at+"/", nil)
	if err != nil {
		return nil, err
	}
	r.Host = "site.example"
	r.Header.Set("X-Forwarded-For", source)
	r.Header.Set("Accept", "text/html") // who reads pages gets an id
	if with.put(r); with.client == "" {
		r.Header.Del("Cookie")
	}
	resp, err := f.via.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp, err
}

// newcomer is the id that weir gives to a client.
func (f *forger) newcomer(ctx context.Context, source string) (string, error) {
	resp, err := f.ask(ctx, source, paid{})
	if err != nil {
		return "", err
	}
	for _, c := range resp.Cookies() {
		if c.Name == payer.ClientCookie {
			return c.Value, nil
		}
	}
	return "", fmt.Errorf("%s, and no id", resp.Status)
}

// TestFarmIsFlooded: very many offences at two nodes and orders of operators at the third do not fill the memory of any
// node. The list stays as long as it may be, what finds no place is counted, and operators are obeyed by all nodes.
func TestFarmIsFlooded(t *testing.T) {
	t.Parallel()
	most, sources := 100, 500
	if needs.Long() {
		most, sources = 5000, 50_000
	}
	const times = 5 // as much memory as at the start: the race detector takes its share of both
	g := growFarmWith(t, false, true, fmt.Sprintf("bans: {max: %d, address_from: 1}", most))
	began := make([]int, len(g.nodes))
	for i := range g.nodes {
		began[i] = g.memory(i)
	}
	forgers := []*forger{g.forger(0), g.forger(1)}
	operator := func(k int) string { return fmt.Sprintf("2001:db8:%x:%x::/64", k>>16, k&0xffff) }
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}

	var all sync.WaitGroup
	for at, f := range forgers {
		all.Go(func() {
			inTurn(sources/2, func(k int) {
				source, client := fmt.Sprintf("10.%d.%d.%d", at<<6|k>>16, k>>8&0xff, k&0xff), ""
				var err error
				switch k % 10 {
				case 0: // somebody with an id, who is banned with their address
					client, err = f.newcomer(t.Context(), source)
					must(err)
				case 1:
					source = "::ffff:" + source
				case 2:
					source = fmt.Sprintf("2001:db8:f%x:%x::1", at, k)
				}
				status, err := f.forge(t.Context(), source, client)
				if must(err); status != http.StatusForbidden {
					t.Errorf("a forger from %s: %d", source, status)
				}
			})
		})
	}
	all.Go(func() {
		inTurn(most, func(k int) {
			_, err := console.BanAddCall.Ask(t.Context(), g.control(2), console.BanOrder{Who: operator(k)})
			must(err)
		})
	})
	all.Wait()
	if t.Failed() {
		return
	}

	// One ban more than there is room for, of an operator and of a forger.
	for i := range g.nodes {
		g.eventually("all nodes have the operators' bans", func() bool { return g.bans(i).Operators == most })
	}
	before := g.bans(0)
	if said, code := g.weir(0, "ban", "add", "192.0.2.1"); code == exitOK || !strings.Contains(said, "bans.max") {
		t.Errorf("%d: %s", code, said)
	}
	if status, err := forgers[0].forge(t.Context(), "192.0.2.2", ""); err != nil || status != http.StatusForbidden {
		t.Errorf("%d, %v", status, err)
	}
	if now := g.bans(0); now.Refused < before.Refused+2 || now.Operators != most || now.Clients+now.Networks != most {
		t.Errorf("one ban too many: %+v, then %+v", before, now)
	}

	// Another node lets all of them go again.
	inTurn(most, func(k int) {
		_, err := console.BanRemoveCall.Ask(t.Context(), g.control(1), console.BanWho{Who: operator(k)})
		must(err)
	})
	g.must(0, "ban", "add", "192.0.2.1", "--reason", "still obeyed")
	offences := uint64(0)
	for i := range g.nodes {
		g.eventually("all nodes do what operators say", func() bool {
			page, err := console.BansCall.Ask(t.Context(), g.control(i), console.BanQuery{Filter: "still obeyed"})
			must(err)
			return page.Total == 1 && g.bans(i).Operators == 1
		})
		var b console.BanStatus
		g.eventually("no ban is lost without being counted", func() bool {
			b = g.bans(i)
			return b.Added == uint64(b.Clients+b.Networks)+b.Removed+b.Expired+b.Evicted
		})
		if offences += b.Offences; b.Clients+b.Networks > most || b.Evicted == 0 {
			t.Errorf("%c: %+v", 'a'+i, b)
		}
		farm, memory := g.status(i), g.memory(i)
		t.Logf("%c: %d MB, then %d MB; %+v; %d messages dropped, %d missed", 'a'+i, began[i]>>20, memory>>20, b,
			farm.Dropped, farm.Missed)
		if memory > times*began[i] {
			t.Errorf("%c has %d MB, and had %d MB at the start", 'a'+i, memory>>20, began[i]>>20)
		}
	}
	if want := uint64(sources + 1); offences != want {
		t.Errorf("%d offences were counted, want %d", offences, want)
	}
}
