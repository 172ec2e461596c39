package flood

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/testkit/needs"
	"weir/lab/machine"
	"weir/throttle/stamp"
)

// briefScene is a run of scenes that takes no time worth noticing.
func briefScene(scenes []Scene, fronts ...string) Options {
	o := brief(fronts...)
	o.Scenes, o.Haste = scenes, 40
	return o
}

// soundScenes holds what was played against what is true of any run.
func soundScenes(t *testing.T, r *Report, fronts ...string) {
	t.Helper()
	for i := range r.Scenes {
		p := &r.Scenes[i]
		if len(p.Rounds) != len(fronts) {
			t.Fatalf("%s: %d rounds, want %d", p.Scene, len(p.Rounds), len(fronts))
		}
		for j := range p.Rounds {
			one := &p.Rounds[j]
			if one.Front != fronts[j] || len(one.Parts) != len(p.Scene.parts()) {
				t.Fatalf("%s: %+v", p.Scene, one)
			}
			for k := range one.Parts {
				part := &one.Parts[k]
				for name, f := range map[string]Figures{"clients": part.Clients, "attack": part.Attack} {
					if f.Offered != f.Served+f.Refused+f.Failed+f.Unsent || f.Share < 0 || f.Share > 1 ||
						f.P50 > f.P95 {
						t.Errorf("%s, %s, %s: the %s do not add up: %+v", p.Scene, one.Title, part.Beside, name, f)
					}
				}
				if part.Clients.Offered == 0 || part.Clients.Unsent != 0 {
					t.Errorf("%s, %s, %s: clients %+v", p.Scene, one.Title, part.Beside, part.Clients)
				}
				if attacked := p.Scene != Payer || k > 0; attacked != (part.Attack.Offered > 0) {
					t.Errorf("%s, %s, %s: attack %+v", p.Scene, one.Title, part.Beside, part.Attack)
				}
			}
		}
	}
}

// idlePayer reports whether an attacker has offered nothing in one of the rounds.
func idlePayer(r *Report) bool {
	for i := range r.Scenes {
		for j := range r.Scenes[i].Rounds {
			for k, part := range r.Scenes[i].Rounds[j].Parts {
				if (r.Scenes[i].Scene != Payer || k > 0) && part.Attack.Offered == 0 {
					return true
				}
			}
		}
	}
	return false
}

// TestScenes plays all that are not a flood, in small and over real sockets.
func TestScenes(t *testing.T) {
	t.Parallel()
	for from, want := range map[int]int{1: 2 + 2 + 6, 4: 8 + 2 + 4} { // three scenes, and how many rounds they have
		t.Run(string(Scenes[from]), func(t *testing.T) {
			t.Parallel()
			playScenes(t, Scenes[from:from+3], want)
		})
	}
}

func playScenes(t *testing.T, scenes []Scene, want int) {
	t.Helper()
	o := briefScene(scenes, "none", "weir")
	o.For = time.Second // a payer needs time before they offer anything, and more on a busy machine
	rounds, seen := 0, map[Scene]bool{}
	o.Watch = func(p Progress) {
		rounds, seen[p.Scene] = max(rounds, p.Round), true
		if p.Rounds != want || p.Kind != "" || p.Expected <= 0 {
			t.Errorf("progress %+v", p)
		}
	}
	r, err := Run(t.Context(), o)
	for ; err == nil && idlePayer(&r) && o.For < 16*time.Second; r, err = Run(t.Context(), o) {
		o.For *= 2
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Floods) != 0 || len(r.Scenes) != len(scenes) || rounds != want || len(seen) != len(scenes) {
		t.Fatalf("%d rounds of %v: %+v", rounds, seen, r)
	}
	soundScenes(t, &r, "none", "weir")
	// The flood is counted from its beginning, which is before the clients are.
	if got, all := r.Scenes[0].Rounds[0].Parts[0].Attack.Offered,
		int64(burstRate*burst.Seconds()/o.Haste); scenes[0] == AfterFlood && got != all {
		t.Errorf("the flood was %d, want %d", got, all)
	}
}

// TestScenesOfPeers plays them with the peers that are here.
func TestScenesOfPeers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nginx", "haproxy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := machine.Find(name); err != nil {
				needs.Skip(t, name+" is not installed")
			}
			r, err := Run(t.Context(), briefScene([]Scene{AfterFlood, Keys, Shared, Uploads}, name))
			if err != nil {
				t.Fatal(err)
			}
			soundScenes(t, &r, name)
		})
	}
}

// TestSceneStopped: who stops it gets the scenes that were finished.
func TestSceneStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	o := briefScene([]Scene{Keys, Payer}, "none")
	o.Watch = func(p Progress) {
		if p.Scene == Payer {
			cancel()
		}
	}
	r, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) || len(r.Scenes) != 1 || r.Scenes[0].Scene != Keys {
		t.Errorf("%v, %+v", err, r.Scenes)
	}
}

func TestCaller(t *testing.T) {
	for name, c := range map[string]struct {
		tries  int
		key    string
		status []int // of the answers; 0 for none
		want   result
		asked  int
		took   time.Duration
	}{
		"served":             {4, "", []int{200}, served, 1, 0},
		"served at last":     {4, "", []int{503, 429, 0, 200}, served, 4, 3*time.Second + 10*time.Second},
		"refused":            {4, "", []int{503, 503, 503, 503}, refused, 4, 3 * time.Second},
		"asks once":          {1, "acme", []int{503}, refused, 1, 0},
		"not answered":       {1, "acme", []int{0}, failed, 1, 10 * time.Second},
		"not answered twice": {2, "", []int{0, 0}, failed, 2, 21 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				h := wire(func(w http.ResponseWriter, r *http.Request) error {
					if r.Header.Get("Accept") != acceptAny || r.Header.Get(keyHeader) != c.key ||
						r.Header.Get("X-Forwarded-For") != "198.19.0.1" || len(r.Cookies()) != 0 {
						t.Errorf("headers %v", r.Header)
					}
					status := c.status[asked]
					asked++
					if status == 0 {
						return late(w, r)
					}
					http.SetCookie(w, &http.Cookie{Name: "weir-ticket", Value: "7", Path: "/"})
					w.WriteHeader(status)
					return nil
				})
				began := time.Now()
				one := caller{front: "front", proxy: h, source: visitorSource(people, 0), key: c.key, tries: c.tries,
					pause: callPause, wait: callWait}
				if res, took := one.call(t.Context()), time.Since(began); res != c.want || asked != c.asked ||
					took != c.took {
					t.Errorf("result %d after %s and %d tries, want %d after %s and %d", res, took, asked, c.want,
						c.took, c.asked)
				}
			})
		})
	}
}

// anOffice asks everybody for a stamp, except those who have paid.
func anOffice(t *testing.T, covers int, paid func(r *http.Request)) http.HandlerFunc {
	t.Helper()
	issuer, err := stamp.New(stamp.Options{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ids := atomic.Int64{}
	return func(w http.ResponseWriter, r *http.Request) {
		id := ""
		if c, err := r.Cookie(clientCookie); err == nil {
			id = c.Value
		}
		if _, err := issuer.Verify(r.Context(), time.Now(), r.Header.Get(stampHeader),
			stamp.Demand{Client: id, Covers: covers}); err == nil {
			paid(r)
			return
		}
		if id == "" && r.Header.Get("Accept") == acceptPage {
			id = "client-" + time.Unix(ids.Add(1), 0).UTC().Format("150405")
			http.SetCookie(w, &http.Cookie{Name: clientCookie, Value: id, Path: "/"})
		}
		challenge, err := issuer.Issue(time.Now(),
			stamp.Ask{Algorithm: stamp.SHA256K, Work: 1000, Lifetime: time.Minute, Client: id})
		if err != nil {
			t.Error(err)
		}
		w.Header().Set(challengeHeader, challenge)
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// TestLoad: a page is loaded as a browser does it, and paid for once.
func TestLoad(t *testing.T) {
	var mu sync.Mutex
	var accepts []string
	stamps := map[string]bool{}
	server := httptest.NewServer(anOffice(t, 50, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		accepts = append(accepts, r.Header.Get("Accept"))
		stamps[r.Header.Get(stampHeader)] = true
	}))
	defer server.Close()
	o := Options{}.WithDefaults()
	tally := newTally(o)
	c := &crowd{front: strings.TrimPrefix(server.URL, "http://"), proxy: server.Client().Transport, reload: o.Reload,
		tally: tally, solver: newHere()}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if res := c.visitor(people, 0).load(ctx, o.WarmUp); res != served {
		t.Errorf("result %d", res)
	}
	server.Close()
	if want := append([]string{acceptPage}, slices.Repeat([]string{acceptAny}, pageParts)...); !slices.Equal(accepts,
		want) || len(stamps) != 1 || len(tally.paid) != 1 {
		t.Errorf("asked for %q with %d stamps, paid %d", accepts, len(stamps), len(tally.paid))
	}
}

// TestLoadWithAPartMissing: a page is served when all of it is.
func TestLoadWithAPartMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := atomic.Int64{}
		h := wire(func(w http.ResponseWriter, r *http.Request) error {
			if asked.Add(1) == 1+pageParts {
				return late(w, r)
			}
			return nil
		})
		o := Options{}.WithDefaults()
		c := &crowd{front: "front", proxy: h, reload: o.Reload, tally: newTally(o), solver: newHere()}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if res := c.visitor(people, 0).load(ctx, 0); res != failed {
			t.Errorf("result %d", res)
		}
	})
}

// TestPayer: each stamp is used as often as it covers, from all addresses, with the id that it is for, and made one at
// a time.
func TestPayer(t *testing.T) {
	const sources, enough = 3, 5 * payerCovers
	var mu sync.Mutex
	total, uses, from := 0, map[string]int{}, map[string]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := httptest.NewServer(anOffice(t, payerCovers, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		total++
		uses[r.Header.Get(stampHeader)]++
		from[r.Header.Get("X-Forwarded-For")] = true
		if total >= enough && len(from) == sources {
			cancel()
		}
	}))
	defer server.Close()
	tally := newTally(Options{For: time.Hour})
	solver := &oneAtATime{t: t}
	p := &payer{front: strings.TrimPrefix(server.URL, "http://"), proxy: server.Client().Transport, solver: solver,
		sources: sources, tally: tally, begin: time.Now()}
	p.run(ctx)
	server.Close() // The end calls requests off, and what they reached may still be counting.
	for paid, n := range uses {
		if n > payerCovers {
			t.Errorf("%d uses of %s", n, paid)
		}
	}
	if f := tally.of(flood); f.Served > int64(total) || f.Served == 0 || len(tally.paid) < enough/payerCovers {
		t.Errorf("%d served, %d stamps: %+v", total, len(tally.paid), f)
	}
}

// oneAtATime fails the test when it is asked for two stamps at once: the payer has one core.
type oneAtATime struct {
	t    *testing.T
	busy atomic.Bool
}

func (o *oneAtATime) solve(ctx context.Context, challenge string) (string, time.Duration, error) {
	if !o.busy.CompareAndSwap(false, true) {
		o.t.Error("two at a time")
	}
	defer o.busy.Store(false)
	return newHere().solve(ctx, challenge)
}

// TestPayersInTurns: each address has one request at a time, with a stamp that nobody has used before.
func TestPayersInTurns(t *testing.T) {
	const sources, enough = 3, 60
	var mu sync.Mutex
	total, under, stamps, newest := 0, map[string]int{}, map[string]bool{}, make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := httptest.NewServer(anOffice(t, payerCovers, func(r *http.Request) {
		from, paid := r.Header.Get("X-Forwarded-For"), r.Header.Get(stampHeader)
		mu.Lock()
		if under[from]++; under[from] > 1 || stamps[paid] {
			t.Errorf("%d from %s, a new stamp: %t", under[from], from, !stamps[paid])
		}
		stamps[paid] = true
		if total++; total >= enough && len(under) == sources {
			cancel()
		}
		// The newest request stays until another one comes, so that two of one address would meet.
		close(newest)
		newest = make(chan struct{})
		newer := newest
		mu.Unlock()
		select {
		case <-newer:
		case <-ctx.Done():
		}
		mu.Lock()
		under[from]--
		mu.Unlock()
	}))
	defer server.Close()
	p := &payer{front: strings.TrimPrefix(server.URL, "http://"), proxy: server.Client().Transport,
		solver: &oneAtATime{t: t}, sources: sources, each: true, tally: newTally(Options{For: time.Hour}),
		begin: time.Now()}
	p.run(ctx)
}

// TestUploads: bodies are sent piece by piece from one address, and again when they are refused.
func TestUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &slowBody{ctx: t.Context(), piece: uploadPiece, left: 2*uploadPiece + 1}
		began := time.Now()
		if n, err := io.Copy(io.Discard, b); n != 2*uploadPiece+1 || err != nil ||
			time.Since(began) != 3*uploadPause {
			t.Errorf("%d bytes in %s, %v", n, time.Since(began), err)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.ContentLength != uploadSize ||
			r.Header.Get("X-Forwarded-For") != visitorSource(without, uploadSource).String() {
			t.Errorf("%s with %d bytes from %v", r.Method, r.ContentLength, r.Header)
		}
		if asked.Add(1) > 2*4 {
			cancel()
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	tally := newTally(Options{For: time.Hour})
	r := &round{begin: time.Now()}
	r.waits.Add(1)
	r.uploads(part{places: 4}, tally)(ctx, &crowd{front: strings.TrimPrefix(server.URL, "http://"), tally: tally})
	if f := tally.of(flood); f.Refused < 4 || f.Served != 0 {
		t.Errorf("%+v", f)
	}
}

// TestEqualTurns: a page of five requests has a round for each.
func TestEqualTurns(t *testing.T) {
	if got := (part{payers: 12, places: 4}).turns(); got != 1825*time.Millisecond {
		t.Error(got)
	}
}

// TestPayerWhoIsNotAsked: while nothing is asked, a payer sends without a stamp.
func TestPayerWhoIsNotAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get(stampHeader) != "" || r.Header.Get("X-Forwarded-For") != payerSource(0).String() {
			t.Errorf("headers %v", r.Header)
		}
		if asked.Add(1) == 1000 {
			cancel()
		}
	}))
	defer server.Close()
	tally := newTally(Options{For: time.Hour})
	p := &payer{front: strings.TrimPrefix(server.URL, "http://"), proxy: server.Client().Transport, solver: newHere(),
		sources: 1, tally: tally, begin: time.Now()}
	p.run(ctx)
	if f := tally.of(flood); f.Served == 0 || len(tally.paid) != 0 {
		t.Errorf("%+v, %d stamps", f, len(tally.paid))
	}
}

// TestPurse: the newest stamp first, at most so many of them, and what did not count is had back.
func TestPurse(t *testing.T) {
	p := &payer{sources: 1, asked: true}
	p.change.L = &p.mu
	ctx, cancel := context.WithCancel(t.Context())
	for i := range payerStamps + 1 {
		p.put(&bought{stamp: "x", left: 2, source: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})})
	}
	if len(p.purse) != payerStamps || p.purse[0].source.As4()[3] != 1 {
		t.Fatalf("%d stamps, the oldest %v", len(p.purse), p.purse[0])
	}
	newest := p.take(ctx)
	if newest.source.As4()[3] != payerStamps || p.take(ctx) != newest || p.take(ctx) == newest {
		t.Fatalf("took %v", newest)
	}
	p.back(newest, true)
	if p.purse[0] != newest || newest.left != 1 || len(p.purse) != payerStamps {
		t.Errorf("a use was not given back: %v", newest)
	}
	p.back(newest, false)
	if newest.left != 0 {
		t.Errorf("a bad stamp has %d uses", newest.left)
	}
	for range 2*(payerStamps-1) - 1 {
		if b := p.take(ctx); b.stamp == "" || b == newest {
			t.Fatalf("took %v", b)
		}
	}
	cancel()
	if b := p.take(ctx); b != nil {
		t.Errorf("one more: %v", b)
	}
	p.asked = false
	if b := p.take(t.Context()); b == nil || b.stamp != "" {
		t.Errorf("while nothing is asked: %v", b)
	}
}

func TestJudge(t *testing.T) {
	part := func(offered, served int64, median float64) Part {
		return Part{Clients: Figures{Offered: offered, Served: served,
			Share: float64(served) / float64(max(offered, 1))}, MedianMS: median}
	}
	turn := func(offered, served int64, most float64) Part {
		p := part(offered, served, 0)
		p.Clients.P95, p.TurnsMS = most, 1000
		return p
	}
	for name, c := range map[string]struct {
		scene Scene
		parts []Part
		met   bool
	}{
		"at the target":      {Keys, []Part{part(20, 19, 90)}, true},
		"below":              {AfterFlood, []Part{part(100, 94, 90)}, false},
		"nobody came":        {AfterFlood, []Part{part(0, 0, 0)}, false},
		"twice":              {Payer, []Part{part(9, 9, 160), part(9, 9, 320), part(9, 0, 30000)}, true},
		"more":               {Payer, []Part{part(9, 9, 160), part(9, 9, 321), part(9, 9, 160)}, false},
		"no page came":       {Payer, []Part{part(9, 0, 100), part(9, 0, 100), part(9, 9, 100)}, false},
		"in time":            {Turns, []Part{turn(20, 19, 1500), turn(9, 9, 100)}, true},
		"late":               {Turns, []Part{turn(9, 9, 100), turn(20, 20, 1501)}, false},
		"few came":           {Uploads, []Part{part(9, 9, 100), part(10, 9, 100)}, false},
		"few came beside it": {Payer, []Part{part(9, 9, 100), part(10, 5, 150), part(9, 9, 100)}, false},
	} {
		one := SceneRound{Parts: c.parts}
		c.scene.judge(&one)
		if one.Met != c.met {
			t.Errorf("%s: met %t", name, one.Met)
		}
	}
	one := SceneRound{Parts: []Part{part(9, 9, 160), part(9, 9, 400), part(9, 9, 800)}}
	Payer.judge(&one)
	if one.Parts[0].Times != 0 || one.Parts[1].Times != 2.5 || one.Parts[2].Times != 5 {
		t.Errorf("%+v", one.Parts)
	}
}

func TestMedian(t *testing.T) {
	tally := newTally(Options{For: time.Minute})
	for i, r := range []result{served, served, refused, failed} {
		tally.add(people, 0, time.Duration(i+1)*time.Second, r)
	}
	if got := tally.median(people, 30*time.Second); got != 30*time.Second {
		t.Errorf("%s: two of four were never served", got)
	}
	tally.add(people, 0, 9*time.Second, served)
	if got := tally.median(people, 30*time.Second); got != 9*time.Second {
		t.Errorf("%s", got)
	}
	if got := newTally(Options{For: time.Minute}).median(people, time.Second); got != 0 {
		t.Errorf("%s of nobody", got)
	}
}
