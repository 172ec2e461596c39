package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/console"
)

// A buyer brings its id and a stamp, which is a new one for each request unless it keeps it.
type buyer struct {
	*person
	cookie string // its id; empty where it is known by its address
	stamp  string
	keeps  bool
	calls  []*call
}

func (s *site) buyer(address string) *buyer { return &buyer{person: s.program(address)} }

// visitor is a buyer with an id of its own, as browsers have.
func (s *site) visitor(address string) *buyer {
	s.t.Helper()
	p := &buyer{person: s.person(address), keeps: true}
	p.stamp = solve(s.t, p.look("/").header.Get("Stamp-Challenge"))
	for _, c := range p.client.Jar.Cookies(&url.URL{Scheme: "http", Host: s.app.Addr("http", 0).String()}) {
		if c.Name == "weir-client" {
			p.cookie = c.Name + "=" + c.Value
		}
	}
	if p.cookie == "" {
		s.t.Fatal("a browser got no id")
	}
	return p
}

// asks sends a request that is paid for.
func (p *buyer) asks(path string) {
	p.s.t.Helper()
	if !p.keeps || p.stamp == "" {
		p.stamp = solve(p.s.t, p.get("/").header.Get("Stamp-Challenge"))
	}
	header := []string{"Stamp", p.stamp}
	if p.cookie != "" {
		header = append(header, "Cookie", p.cookie)
	}
	p.calls = append(p.calls, p.s.send(from(p.address, path, header...)))
}

// A round is a site of one place, at which a request stays until the next one has its turn.
type round struct {
	*site
	leave  chan struct{}
	waits  int
	buyers map[string]*buyer // by path
}

func newRound(t *testing.T) *round {
	t.Helper()
	r := &round{leave: make(chan struct{}), buyers: map[string]*buyer{}}
	r.site = stamped(t, "capacity: {concurrent: 1, max_wait: 10m}, throttles: [stamps]", always)
	r.does(func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-r.leave:
		case <-req.Context().Done():
		}
	})
	r.buyer("203.0.113.1").asks("/first")
	r.arrives("/first")
	return r
}

// joins has a buyer wait with one more request.
func (r *round) joins(p *buyer, path string) {
	r.t.Helper()
	r.buyers[path] = p
	p.asks(path)
	r.waits++
	r.until(path+" to wait", func() bool { return r.capacity().Stamped == r.waits })
}

// turn returns the path of the request that is next.
func (r *round) turn() string {
	r.t.Helper()
	select {
	case r.leave <- struct{}{}:
	case <-time.After(patience):
		r.t.Fatal("nobody is at the upstream")
	}
	select {
	case path := <-r.arrived:
		r.waits--
		return path
	case <-time.After(patience):
		r.t.Fatal("nobody had a turn")
		return ""
	}
}

// TestOneCoreAndADozenAddresses: twelve addresses have one request each all the time, each with a new stamp. Somebody
// who loads a page of five requests with one stamp has a turn in each round.
func TestOneCoreAndADozenAddresses(t *testing.T) {
	t.Parallel()
	r := newRound(t)
	for i := range 12 {
		r.joins(r.buyer(fmt.Sprintf("198.51.100.%d", i+1)), fmt.Sprintf("/core/%d", i))
	}
	reader := r.visitor("192.0.2.1")
	r.joins(reader, "/page")
	parts, others := 0, 0
	for parts < 5 {
		path := r.turn()
		if p := r.buyers[path]; p != reader {
			if others++; others > 12 {
				t.Fatalf("%d had turns before part %d of the page", others, parts+1)
			}
			r.joins(p, path)
			continue
		}
		parts, others = parts+1, 0
		for i := range 4 {
			if path == "/page" {
				r.joins(reader, fmt.Sprintf("/part/%d", i))
			}
		}
	}
	r.turn()
	for _, c := range reader.calls {
		c.want(200)
	}
}

// TestPeopleShareAnAddress: two people with stamps of their own at one address both have turns beside eight who pay for
// each request, and these have theirs.
func TestPeopleShareAnAddress(t *testing.T) {
	t.Parallel()
	r := newRound(t)
	for i := range 8 {
		r.joins(r.buyer(fmt.Sprintf("198.51.100.%d", i+1)), fmt.Sprintf("/alone/%d", i))
	}
	for _, name := range []string{"/a", "/b"} {
		r.joins(r.visitor("192.0.2.1"), name)
	}
	turns := map[string]int{}
	for range 24 { // of which six are for the address, and two rounds for all
		path := r.turn()
		turns[path]++
		r.joins(r.buyers[path], path)
	}
	for path := range r.buyers {
		if least := 1 + strings.Count("/a /b", path); turns[path] < least {
			t.Errorf("%s had %d turns: %v", path, turns[path], turns)
		}
	}
	if both := turns["/a"] + turns["/b"]; both < 6 || both > 9 || max(turns["/a"], turns["/b"]) > both/2+1 {
		t.Errorf("the address had %d turns: %v", both, turns)
	}
}

// TestWaitsOfOthersAreNotCut: all places are taken, and requests come, also some with a stamp whose bodies come late.
// Each waits for as long as it may, to the second.
func TestWaitsOfOthersAreNotCut(t *testing.T) {
	t.Parallel()
	const late, maxWait = 5, 8
	s := stamped(t, "capacity: {concurrent: 2, max_wait: 8s}, throttles: [stamps]", "first: 64")
	release := sync.OnceFunc(s.holding())
	defer release()
	busy := s.asking(2)
	paying := s.visitor("192.0.2.1")
	var held, uploads []*call
	answered := func(calls []*call, from int, second int) { // nobody of these may have an answer yet
		t.Helper()
		for came := max(from, 0); came < len(calls); came++ {
			select {
			case <-calls[came].done:
				t.Fatalf("second %d: a request of second %d did not wait for %d s: %s", second, came, maxWait, calls[came].body)
			default:
			}
		}
	}
	for second := range 20 {
		held = append(held, s.send(from(fmt.Sprintf("203.0.113.%d", second), "/held")))
		uploads = append(uploads, s.send(strings.Replace(from("192.0.2.1", "/upload", "Stamp", paying.stamp, "Cookie",
			paying.cookie, "Content-Length", "5"), "GET", "POST", 1)))
		if came := second - late; came >= 0 {
			if _, err := uploads[came].conn.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
		}
		pool, stamps := min(second+1, maxWait), min(max(second+1-late, 0), maxWait)
		var c console.Capacity
		s.until(fmt.Sprintf("%d and %d to wait in second %d", pool, stamps, second), func() bool {
			answered(held, second+1-maxWait, second)
			answered(uploads, second+1-maxWait-late, second)
			c = s.capacity()
			return c.Pool == pool && c.Stamped == stamps
		})
		s.clock.Advance(time.Second - time.Millisecond)
		if c = s.capacity(); c.Pool != pool || c.Stamped != stamps {
			t.Fatalf("second %d, 1 ms before its end: %d and %d wait, want %d and %d", second, c.Pool, c.Stamped, pool, stamps)
		}
		s.clock.Advance(time.Millisecond)
		for _, c := range []struct {
			calls  []*call
			over   int
			reason string
		}{{held, second + 1 - maxWait, "unpaid"}, {uploads, second + 1 - maxWait - late, "wait-too-long"}} {
			if c.over >= 0 {
				c.calls[c.over].want(503)
				if got := c.calls[c.over].problem()["reason"]; got != c.reason {
					t.Fatalf("second %d: %v", second, got)
				}
			}
		}
	}
	release()
	for _, c := range slices.Concat(busy, held[13:]) {
		c.want(200)
	}
}

// TestSlowUploadsHoldNoPlaces: one address has uploads at all places, which stand still or come slowly. The others are
// served, whether the uploads were paid for or not, and where no stamps are asked for.
func TestSlowUploadsHoldNoPlaces(t *testing.T) {
	t.Parallel()
	const lanes = "capacity: {concurrent: 8, max_wait: 10m}"
	for name, c := range map[string]struct {
		gate, options string
		pays          bool
	}{
		"unpaid":         {lanes + ", throttles: [stamps]", "first: 64", false},
		"paid":           {lanes + ", throttles: [stamps]", always, true},
		"without stamps": {lanes, always, false},
	} {
		for _, speed := range []int{0, 1000, 8 << 10} { // bytes a second; the last is quick enough for a fair part
			t.Run(fmt.Sprintf("%s, %d", name, speed), func(t *testing.T) {
				t.Parallel()
				s := stamped(t, c.gate, c.options)
				s.does(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
				paid := func(address string) (header []string) {
					if c.pays {
						header = []string{"Stamp", solve(t, s.program(address).get("/").header.Get("Stamp-Challenge"))}
					}
					return header
				}
				header := append(paid("198.51.100.1"), "Content-Length", fmt.Sprint(1<<20))
				var uploads, others []*call
				for range 8 {
					uploads = append(uploads, s.send(strings.Replace(from("198.51.100.1", "/upload", header...),
						"GET", "POST", 1)))
					s.arrives("/upload")
				}
				for i := range 12 {
					address := fmt.Sprintf("192.0.2.%d", i+1)
					others = append(others, s.send(from(address, "/other", paid(address)...)))
				}
				s.until("the others to wait", func() bool { c := s.capacity(); return c.Pool+c.Stamped == 12 })
				began := s.clock.Now()
				for s.capacity().Refused["lost"] == 0 {
					if took := s.clock.Now().Sub(began); took > 30*time.Second {
						t.Fatalf("none is lost after %s", took)
					}
					for _, u := range uploads {
						_, _ = u.conn.Write(make([]byte, speed))
					}
					s.clock.Advance(time.Second)
				}
				for _, o := range others {
					o.want(200)
				}
			})
		}
	}
}
