package app

import (
	"context"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/admission"
	"weir/config"
	"weir/farm"
	"weir/internal/testkit/needs"
)

// lanes are those of a node's gate.
func (f *fold) lanes(i int) *admission.Lanes { return f.nodes[i].current.Load().gates[0].lanes.Lanes }

func (f *fold) capacity(i int) admission.Stats { return f.lanes(i).Stats(f.nodes[i].clock.Now()) }

// enter sends a request to the lanes of a node, and reports whether it was let in at once.
func (f *fold) enter(i int, source netip.Addr, work uint64) (settle func(), in bool) {
	f.t.Helper()
	l, now := f.lanes(i), f.nodes[i].clock.Now()
	ev := weir.Event{Time: now, Source: source}
	if work > 0 {
		ev.Purse = weir.NewPurse(func(context.Context, *weir.Event) (weir.Paid, func()) {
			return weir.Paid{Work: work}, nil
		})
		ev.Purse.Open(f.t.Context(), &ev)
	}
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
	resp, err := (&http.Client{Timeout: time.Minute}).Do(r)
	if err != nil {
		f.t.Fatalf("%c: %v, with %+v", 'a'+i, err, f.capacity(i))
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
	needs.Wait(f.t, "the capacity is divided", func() bool {
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
			needs.Wait(f.t, "it is known who was let in", func() bool { return f.capacity(at).Visitors > from })
			jar["weir-ticket"] = ticket
			if got := f.browse(at, jar); got != http.StatusServiceUnavailable {
				t.Errorf("a ticket of %c that was used is good at %c: %d", 'a'+from, 'a'+at, got)
			}
		}
	}

	// What reaches one node alone may have all places, but for one that each of the others keeps.
	var settle []func()
	for n := range 200 {
		done, _ := f.enter(0, netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), 0)
		settle = append(settle, done)
	}
	needs.Wait(f.t, "one node has all places", func() bool { return f.capacity(0).InUse == 98 })
	for i := range 3 {
		needs.Wait(f.t, "the load is the farm's", func() bool {
			share, _ := f.lanes(i).Load(f.nodes[i].clock.Now())
			return share > 1.5
		})
	}
	for i := 1; i < 3; i++ {
		done, in := f.enter(i, netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}), 0)
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
	needs.Wait(f.t, "a node that starts anew knows who was let in", func() bool { return f.capacity(2).Visitors >= 3 })
	needs.Wait(f.t, "the capacity is divided again", func() bool {
		parts, sum := here()
		return sum == 100 && min(parts[0], parts[1], parts[2]) > 25
	})

	// An upstream that is a node's own has a capacity of its own, and shares it again.
	for _, local := range []bool{true, false} {
		cfg, err := config.Load(f.config[0])
		if err != nil {
			t.Fatal(err)
		}
		cfg.HTTP[0].Capacity.Local = &local
		if err := f.nodes[0].Reload(cfg); err != nil {
			t.Fatal(err)
		}
		needs.Wait(f.t, "a reload decides whether it is shared", func() bool {
			s := f.capacity(0)
			return s.Here == 0 == local && (local && s.Capacity == 100 || s.Here > 25 && s.Here < 50)
		})
	}
}

func TestRoomTopic(t *testing.T) {
	t.Parallel()
	a, b, c := roomTopic("http://one", 0), roomTopic("http://one", 1), roomTopic("http://two", 0)
	if a == b || a == c || a != roomTopic("http://one", 0) || len(a) > farm.MaxTopic {
		t.Error(a, b, c)
	}
}

// TestFarmRestartsKeepTheLine: people keep their places in the waiting room while every node is restarted, one after
// the other, over the real bus.
func TestFarmRestartsKeepTheLine(t *testing.T) {
	t.Parallel()
	const people = 5
	f := newFold(t)
	settle := [3][]func(){}
	// full fills the place of a node with those who pay, and has more wait than may get the place of a node that is
	// gone: nobody is called then. A node that has not met the others in time, on a busy machine, has more places.
	full := func(i int) {
		settle[i] = nil
		for n, waiting := 0, 0; waiting < 3; n++ {
			done, in := f.enter(i, netip.AddrFrom4([4]byte{10, 0, byte(i), byte(n)}), 1000)
			if settle[i] = append(settle[i], done); in && waiting > 0 || !in && n == 0 {
				t.Fatalf("%c: let in %t, with %+v", 'a'+i, in, f.capacity(i))
			}
			if !in {
				waiting++
			}
		}
	}
	for i := range f.nodes {
		text, err := os.ReadFile(f.config[i])
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(text), "concurrent: 100",
			"concurrent: 3, strict: true, reload: 1m, max_wait: 10m", 1)
		if err := os.WriteFile(f.config[i], []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(f.config[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := f.nodes[i].Reload(cfg); err != nil {
			t.Fatal(err)
		}
	}
	for i := range f.nodes {
		needs.Wait(f.t, "each node has a place", func() bool { return f.capacity(i).Here == 1 })
		if full(i); len(settle[i]) != 4 {
			t.Fatalf("%c: %d were let in, with %+v", 'a'+i, len(settle[i])-3, f.capacity(i))
		}
	}
	// A node calls people for another that has told it of free places, until it hears that these are taken. What is
	// asked of all of them is four for each place; where one has not been heard, it is less than three.
	heard := func() {
		for i := range f.nodes {
			needs.Wait(f.t, "all nodes know that the others are full", func() bool {
				share, _ := f.lanes(i).Load(f.nodes[i].clock.Now())
				return share > 3.5
			})
		}
	}
	heard()
	var jars [people]map[string]string
	for i := range jars {
		jars[i] = map[string]string{}
		for _, at := range []int{i % 3, (i + 1) % 3} { // a ticket, and a place in line elsewhere
			if got := f.browse(at, jars[i]); got != http.StatusServiceUnavailable {
				t.Fatalf("%d at %c", got, 'a'+at)
			}
		}
	}
	// Some are called while a node that has just started has nobody else to serve.
	inLine := func(i int) bool { s := f.capacity(i); return s.InLine+s.Called == people }
	for i := range f.nodes {
		needs.Wait(f.t, "all nodes know the line", func() bool { return inLine(i) })
	}
	for i := range f.nodes {
		if err := f.nodes[i].Stop(context.Background()); err != nil {
			t.Error(err)
		}
		f.start(i)
		full(i)
		f.settled()
		needs.Wait(f.t, "a node that starts anew knows the line", func() bool { return inLine(i) })
	}
	heard()
	// The newest goes after all of them.
	newest := map[string]string{}
	for range 2 {
		f.browse(0, newest)
	}
	needs.Wait(f.t, "one more is in line", func() bool { s := f.capacity(2); return s.InLine+s.Called == people+1 })
	for i := range settle {
		for _, done := range settle[i] {
			done()
		}
	}
	for i := range jars {
		if got := f.browse((i+2)%3, jars[i]); got != http.StatusOK {
			t.Errorf("number %d: %d", i, got)
		}
	}
}
