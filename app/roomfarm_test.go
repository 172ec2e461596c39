package app

import (
	"context"
	"net/http"
	"net/netip"
	"testing"

	"weir"
	"weir/admission"
)

// lanes are those of a node's gate.
func (f *fold) lanes(i int) *admission.Lanes { return f.nodes[i].current.Load().gates[0].lanes.Lanes }

func (f *fold) capacity(i int) admission.Stats { return f.lanes(i).Stats(f.nodes[i].clock.Now()) }

// enter sends a request to the lanes of a node, and reports whether it was let in at once.
func (f *fold) enter(i int, source netip.Addr) (settle func(), in bool) {
	f.t.Helper()
	l, now := f.lanes(i), f.nodes[i].clock.Now()
	ev := weir.Event{Time: now, Source: source}
	var a weir.Answer
	if err := l.Judge(f.t.Context(), &ev, &a); err != nil {
		f.t.Fatal(err)
	}
	h := a.Hold
	a.Clear()
	l.Enter(&h, now, &a)
	return func() { l.Settle(h, weir.Outcome{Time: f.nodes[i].clock.Now(), Done: true}) }, a.Verdict == weir.Admit
}

// browse asks a node for a page as a browser does, with the cookies that it has, and keeps those that it gets.
func (f *fold) browse(i int, jar map[string]string) int {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), "GET", "http://"+f.nodes[i].Addr("http", 0).String(), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	r.Host = "site.example"
	r.Header.Set("Accept", "text/html")
	for name, value := range jar {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	resp.Body.Close()
	for _, c := range resp.Cookies() {
		jar[c.Name] = c.Value
	}
	return resp.StatusCode
}

// TestFarmSharesRooms: over the real bus, the capacity of one upstream is that of three gates, a ticket of one node is
// good at another and used once, and a node that starts anew knows that.
func TestFarmSharesRooms(t *testing.T) {
	t.Parallel()
	f := newFold(t)
	here := func() (parts [3]int, sum int) {
		for i := range f.nodes {
			parts[i] = f.capacity(i).Here
			sum += parts[i]
		}
		return parts, sum
	}
	f.eventually("the capacity is divided", func() bool {
		parts, sum := here()
		return sum == 100 && min(parts[0], parts[1], parts[2]) == 33
	})

	// A ticket of one is good at the next, and then used up at all of them.
	for from := range f.nodes {
		jar := map[string]string{}
		if got := f.browse(from, jar); got != http.StatusServiceUnavailable || jar["weir-ticket"] == "" {
			t.Fatalf("%d, and the cookies %v", got, jar)
		}
		ticket := jar["weir-ticket"]
		if got := f.browse((from+1)%3, jar); got != http.StatusOK {
			t.Fatalf("a ticket of %c is not good at %c: %d", 'a'+from, 'a'+(from+1)%3, got)
		}
		for at := range f.nodes {
			f.eventually("it is known who was let in", func() bool { return f.capacity(at).Visitors > from })
			jar["weir-ticket"] = ticket
			if got := f.browse(at, jar); got != http.StatusServiceUnavailable {
				t.Errorf("a ticket of %c that was used is good at %c: %d", 'a'+from, 'a'+at, got)
			}
		}
	}

	// What reaches one node alone may have all places, but for one that each of the others keeps.
	var settle []func()
	for n := range 200 {
		done, _ := f.enter(0, netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}))
		settle = append(settle, done)
	}
	f.eventually("one node has all places", func() bool { return f.capacity(0).InUse == 98 })
	for i := range 3 {
		f.eventually("the load is the farm's", func() bool {
			share, _ := f.lanes(i).Load(f.nodes[i].clock.Now())
			return share > 1.5
		})
	}
	for i := 1; i < 3; i++ {
		done, in := f.enter(i, netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}))
		if settle = append(settle, done); !in {
			t.Errorf("%c has no place for the first who comes", 'a'+i)
		}
	}

	// A node that starts anew knows what the others do: who was let in, and what places are left.
	for _, done := range settle {
		done()
	}
	if err := f.nodes[2].Stop(context.Background()); err != nil {
		t.Error(err)
	}
	f.start(2)
	f.eventually("a node that starts anew knows who was let in", func() bool { return f.capacity(2).Visitors >= 3 })
	f.eventually("the capacity is divided again", func() bool {
		parts, sum := here()
		return sum == 100 && min(parts[0], parts[1], parts[2]) > 25
	})
}
