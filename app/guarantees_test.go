package app_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir/console"
)

// from is a request of a program at an address, as it goes over the wire.
func from(address, path string, header ...string) string {
	r := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: %s\r\n", path, address)
	for i := 0; i+1 < len(header); i += 2 {
		r += header[i] + ": " + header[i+1] + "\r\n"
	}
	return r + "\r\n"
}

// capacity is how it stands with the places at the upstream.
func (s *site) capacity() console.Capacity {
	s.t.Helper()
	st, err := console.StatusCall.Ask(context.Background(), s.control, console.None{})
	if err != nil {
		s.t.Fatal(err)
	}
	return *st.Gates[0].Capacity
}

// asking fills the places of the upstream with requests that do not pay, until stamps are asked for.
func (s *site) asking(places int) (busy []*call) {
	s.t.Helper()
	for i := range places {
		busy = append(busy, s.send(from(fmt.Sprintf("198.51.100.%d", i+1), fmt.Sprintf("/busy/%d", i))))
		s.arrives(fmt.Sprintf("/busy/%d", i))
	}
	for range 50 {
		s.clock.Advance(100 * time.Millisecond)
		if s.stamps().Stamp.Most() > 0 {
			return busy
		}
	}
	s.t.Fatal("nothing was asked")
	return nil
}

// TestProgramsAreHeldAndBrowsersGetThePage: while stamps are asked for, a program that cannot pay waits for a place
// like before, a browser gets the page, and whoever pays goes first.
func TestProgramsAreHeldAndBrowsersGetThePage(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 2, max_wait: 10m}, throttles: [stamps]", "first: 64")
	release := s.holding()
	busy := s.asking(2)
	program := s.send(from("192.0.2.1", "/program"))
	s.until("the program to be held", func() bool { return s.capacity().Pool == 1 })
	r := s.person("192.0.2.2").look("/page")
	if r.status != 503 || r.header.Get("Stamp-Challenge") == "" {
		t.Fatalf("%d %v", r.status, r.header)
	}
	visitor := s.person("192.0.2.3")
	good := solve(t, visitor.look("/first").header.Get("Stamp-Challenge"))
	paid := make(chan *reply, 1)
	go func() { paid <- visitor.try("GET", "/paid", "", "Stamp", good) }()
	s.until("the paid request to wait", func() bool { return s.capacity().Stamped == 1 })
	release()
	for _, c := range busy {
		c.want(200)
	}
	program.want(200)
	if got := <-paid; got == nil || got.status != 200 {
		t.Fatalf("%+v", got)
	}
	st := s.stamps().Stamp
	if st.Held != 1 || st.Challenged == 0 {
		t.Errorf("%+v", st)
	}
}

// TestAFreePlaceIsForWhoeverIsThere: stamps are still asked for, and nobody is at the upstream: neither program nor
// browser has to pay.
func TestAFreePlaceIsForWhoeverIsThere(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 2, max_wait: 10m}, throttles: [stamps]", "first: 64")
	release := s.holding()
	busy := s.asking(2)
	away := s.person("192.0.2.9")
	away.look("/away") // has the smallest number, and stays away
	release()
	for _, c := range busy {
		c.want(200)
	}
	if s.stamps().Stamp.Most() == 0 {
		t.Fatal("nothing is asked")
	}
	s.program("192.0.2.1").get("/program").want(200, "")
	if r := s.person("192.0.2.2").look("/page"); r.status != 200 {
		t.Errorf("a browser got %d", r.status)
	}
	for range 1100 { // more than patience allows of those who are asked
		s.program("192.0.2.3").get("/often").want(200, "")
		<-s.arrived
	}
}

// TestWhoStandsStillLosesThePlace: somebody who paid waits, and one who did not pay is late: the body does not come, or
// nobody reads the answer.
func TestWhoStandsStillLosesThePlace(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/upload", "/large"} {
		t.Run(path[1:], func(t *testing.T) {
			s := stamped(t, "capacity: {concurrent: 1, max_wait: 10m}, throttles: [stamps]", "first: 64")
			s.does(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/upload":
					_, _ = io.Copy(io.Discard, r.Body)
				case "/large":
					piece := make([]byte, 1<<20)
					for range 1 << 10 { // more than all the buffers on the way hold
						if _, err := w.Write(piece); err != nil {
							return
						}
					}
				default:
					fmt.Fprint(w, "hello")
				}
			})
			stands, err := net.Dial("tcp", s.app.Addr("http", 0).String())
			if err != nil {
				t.Fatal(err)
			}
			defer stands.Close()
			about := []string{"Connection", "close"}
			if path == "/upload" {
				about = append(about, "Content-Length", "100000")
			}
			if _, err := io.WriteString(stands, from("198.51.100.1", path, about...)); err != nil {
				t.Fatal(err)
			}
			s.arrives(path)
			for s.stamps().Stamp.Most() == 0 {
				s.clock.Advance(100 * time.Millisecond)
			}
			visitor := s.person("192.0.2.1")
			good := solve(t, visitor.look("/paid").header.Get("Stamp-Challenge"))
			paid := make(chan *reply, 1)
			go func() { paid <- visitor.try("GET", "/paid", "", "Stamp", good) }()
			s.until("the paid request to wait", func() bool { return s.capacity().Stamped == 1 })
			s.until("the place to be lost", func() bool { // when all buffers are full
				s.clock.Advance(500 * time.Millisecond)
				return s.capacity().Refused["lost"] == 1
			})
			if got := <-paid; got == nil || got.status != 200 {
				t.Fatalf("%+v", got)
			}
			answer, _ := io.ReadAll(stands)
			if told := strings.HasPrefix(string(answer), "HTTP/1.1 503 "); told != (path == "/upload") {
				t.Errorf("it was told %.40q", answer)
			}
		})
	}
}

// TestAClientBesideInventedKeys: one address asks with a new key each time, and fills all it may. A client with an
// own key and address is next.
func TestAClientBesideInventedKeys(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 1, max_wait: 10m}, throttles: [stamps]", "first: 64")
	release := s.holding()
	s.asking(1)
	for i := range 20 {
		s.send(from("198.51.100.9", fmt.Sprintf("/invented/%d", i), "X-Api-Key", fmt.Sprintf("invented-%d", i)))
	}
	s.until("them to be held", func() bool { return s.capacity().Pool == 20 })
	own := s.send(from("192.0.2.1", "/own", "X-Api-Key", "own"))
	s.until("the client to be held", func() bool { return s.capacity().Pool == 21 })
	release()
	own.want(200)
	for n := 1; ; n++ {
		if path := <-s.arrived; path == "/own" {
			if n > 2 {
				t.Errorf("%d went before it", n-1)
			}
			return
		}
	}
}

// TestShadowLeavesNoTenth: stamps in shadow ask nobody, and so nothing is left to those who would pay.
func TestShadowLeavesNoTenth(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", "first: 64")
	if _, err := console.ShadowCall.Ask(context.Background(), s.control,
		console.Shadow{Throttles: []string{"stamps"}, On: true}); err != nil {
		t.Fatal(err)
	}
	release := s.holding()
	for i := range 9 {
		s.send(from("198.51.100.1", fmt.Sprintf("/busy/%d", i)))
		s.arrives(fmt.Sprintf("/busy/%d", i))
	}
	for s.stamps().Stamp.Most() == 0 {
		s.clock.Advance(100 * time.Millisecond)
	}
	last := s.send(from("198.51.100.1", "/last"))
	s.arrives("/last")
	release()
	last.want(200)
}

// TestWhyKnowsThePool: weir why says of a request that does not pay what would become of it.
func TestWhyKnowsThePool(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 1, max_wait: 10m}, throttles: [stamps]", "first: 64")
	release := s.holding()
	busy := s.asking(1)
	why := func() string {
		e, err := console.WhyAskCall.Ask(context.Background(), s.control, console.Question{Source: "192.0.2.1", Method: "GET", Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		return e.Verdict.String()
	}
	if got := why(); got != "wait" {
		t.Errorf("while the place is taken: %s", got)
	}
	release()
	busy[0].want(200)
	if got := why(); got != "admit" {
		t.Errorf("while it is free: %s", got)
	}
}
