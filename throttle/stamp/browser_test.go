package stamp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
	"weir/throttle/stamp/classic"
)

// TestScriptIsSmall: with the page around it, it has to stay below 15 KB compressed.
func TestScriptIsSmall(t *testing.T) {
	for name, most := range map[string]int{"solver.js": 10 << 10, "fetch.js": 2 << 10} {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		_, _ = z.Write(Scripts()[name])
		_ = z.Close()
		if b.Len() > most {
			t.Errorf("%s: %d bytes compressed", name, b.Len())
		}
	}
	if !strings.Contains(string(solverScript()), classic.Modulus) {
		t.Error("the script has another prime")
	}
}

// TestRounds: the rounds of SHA-256 that stand in the script one by one are those of the standard. Whoever wants them
// otherwise changes the text here, and puts into the script what the test then shows.
func TestRounds(t *testing.T) {
	var want strings.Builder
	for i := 12; i < 64; i++ {
		want.WriteString(schedule(i) + round(i))
	}
	if !strings.Contains(string(solverSource), want.String()) {
		t.Errorf("the script has other rounds than\n%s", want.String())
	}
}

// fixedWord reports whether a word of the schedule is the same for all counters of a chunk. Word 11 is what changes.
func fixedWord(i int) bool { return i < 18 && i != 11 || i < 24 && i%2 == 1 && i != 11 }

// schedule is the line for a word of the schedule, the sum of what is fixed done before.
func schedule(i int) string {
	if i < 16 || fixedWord(i) {
		return ""
	}
	var before string
	var terms []string
	for _, j := range []int{i - 16, i - 15, i - 7, i - 2} {
		if fixedWord(j) && j != 8 && j != 13 && j != 14 { // those are zero
			terms = []string{fmt.Sprintf("c%d", i)}
		}
	}
	for _, j := range []int{i - 16, i - 7} {
		if !fixedWord(j) {
			terms = append(terms, fmt.Sprintf("w%d", j))
		}
	}
	if j := i - 15; !fixedWord(j) {
		before += fmt.Sprintf("p = (w%[1]d >>> 11 | w%[1]d << 21) ^ w%[1]d; ", j)
		terms = append(terms, fmt.Sprintf("((p >>> 7 | p << 25) ^ w%d >>> 3)", j))
	}
	if j := i - 2; !fixedWord(j) {
		before += fmt.Sprintf("q = (w%[1]d >>> 2 | w%[1]d << 30) ^ w%[1]d; ", j)
		terms = append(terms, fmt.Sprintf("((q >>> 17 | q << 15) ^ w%d >>> 10)", j))
	}
	return fmt.Sprintf("    %sconst w%d = %s | 0;\n", before, i, strings.Join(terms, " + "))
}

// round is the line for a round. The letters move on instead of their values.
func round(i int) string {
	letter := func(j int) string { return string("abcdefgh"[(j+64-i)%8]) }
	add := fmt.Sprintf("w%d + ", i)
	k := rounds[i]
	switch {
	case i < 16: // the end of the block: a single bit, zeros, and the length
		add = ""
		k += map[int]uint32{12: 1 << 31, 15: 384}[i]
	case fixedWord(i):
		add = fmt.Sprintf("c%d + ", i)
	}
	a, b, d, e, f, g, h := letter(0), letter(1), letter(3), letter(4), letter(5), letter(6), letter(7)
	return fmt.Sprintf("    x = (%[4]s >>> 14 | %[4]s << 18) ^ %[4]s; x = (x >>> 5 | x << 27) ^ %[4]s; "+
		"t = %[7]s + %[8]s%#[9]x + (%[6]s ^ %[4]s & (%[5]s ^ %[6]s)) + (x >>> 6 | x << 26) | 0; %[3]s = %[3]s + t | 0; "+
		"x = (%[1]s >>> 9 | %[1]s << 23) ^ %[1]s; x = (x >>> 11 | x << 21) ^ %[1]s; "+
		"%[7]s = (x >>> 2 | x << 30) + (m & (m = %[1]s ^ %[2]s) ^ %[2]s) + t | 0;\n", a, b, d, e, f, g, h, add, k)
}

// rounds are the constants of the rounds: the first bits of the cube roots of the first primes (FIPS 180-4, 4.2.2).
var rounds = func() (k [64]uint32) {
	n := 0
	for p := int64(2); n < len(k); p++ {
		if !big.NewInt(p).ProbablyPrime(0) {
			continue
		}
		// floor(cbrt(p) * 2^32) is the integer cube root of p * 2^96.
		cube, root := new(big.Int).Lsh(big.NewInt(p), 96), new(big.Int)
		for bit := 36; bit >= 0; bit-- {
			try := new(big.Int).SetBit(root, bit, 1)
			if new(big.Int).Exp(try, big.NewInt(3), nil).Cmp(cube) <= 0 {
				root.Set(try)
			}
		}
		k[n] = uint32(root.Uint64())
		n++
	}
	return k
}()

// TestBrowser: a real browser pays in workers, under a strict policy, and the stamps are accepted.
func TestBrowser(t *testing.T) {
	t.Parallel()
	o := NewIssuer(Parts{})
	asks := map[string]Ask{
		"sha256-k":     ask(SHA256K, 1<<16),
		"least":        ask(SHA256K, 16),
		"dlog":         ask(DLog, 1<<12),
		"dlog-classic": ask(DLogClassic, 1<<24),
		"eqs60":        ask(EQS60, 1<<17),
		"cheap":        ask(EQS60, 1),
	}
	type answer struct{ name, stamp string }
	answers := make(chan answer, len(asks))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /solver.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		_, _ = w.Write(solverScript())
	})
	mux.HandleFunc("GET /page.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, `
for (const li of document.querySelectorAll('li')) {
  let told = 0;
  weirStamp.solve(li.dataset.challenge, {progress: () => told++})
    .then(stamp => fetch('/done/' + li.id, {method: 'POST', body: stamp}))
    .then(() => { li.textContent = 'paid'; }, e => { li.textContent = e.message; });
}
const gone = new AbortController();
weirStamp.solve(document.querySelector('li').dataset.challenge, {signal: gone.signal}).catch(e => { document.querySelector('p').textContent = e.message; });
gone.abort();
`)
	})
	mux.HandleFunc("POST /done/{name}", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, MaxStamp+1))
		answers <- answer{r.PathValue("name"), string(body)}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy",
			"default-src 'none'; img-src data:; script-src 'self'; worker-src 'self'; connect-src 'self'")
		_,
			_ = io.WriteString(w,
			`<!doctype html><html lang="en"><title>stamps</title><link rel="icon" href="data:,"><main><h1>Stamps</h1><p></p><ul>`)
		for name, a := range asks {
			c, err := o.Issue(start, a)
			if err != nil {
				t.Error(err)
			}
			_, _ = fmt.Fprintf(w, "<li id=%q data-challenge=%q>working</li>", name, c)
		}
		_, _ = io.WriteString(w, `</ul></main><script src="/solver.js"></script><script src="/page.js"></script>`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	page := browser.Open(t)
	page.Visit(server.URL + "/")
	patience, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	for range asks {
		var got answer
		select {
		case got = <-answers:
		case <-patience.Done():
			t.Fatal("no answer: ", page.Text("main"))
		}
		r, err := o.Verify(bg, start, got.stamp, demand(asks[got.name]))
		if err != nil {
			t.Errorf("%s: %v", got.name, err)
		}
		t.Logf("%s: %s of %s", got.name, r.Algorithm, r.Work)
	}
	if text := page.Text("p"); text != "stamp: aborted" {
		t.Errorf("aborted: %q", text)
	}
}

// A tollbooth is a service that takes stamps, as a gate does.
type tollbooth struct {
	t      *testing.T
	issuer *Issuer
	covers atomic.Int64
	work   atomic.Int64
	binds  atomic.Bool

	mu     sync.Mutex
	asked  int             // challenges given
	stamps map[string]int  // requests let in, by stamp
	served []string        // what was let in
	gone   map[string]bool // stamps that are not taken any more
}

func (b *tollbooth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	a := ask(SHA256K, Work(b.work.Load()))
	a.Message = ""
	if b.binds.Load() {
		a.Message = ID(r.Method, r.URL.Path, string(body))
	}
	d := demand(a)
	d.Covers = int(b.covers.Load())
	stamp := r.Header.Get("Stamp")
	if _, err := b.issuer.Verify(bg, start, stamp, d); err != nil || b.gone[stamp] {
		if stamp != "" && !b.gone[stamp] && !errors.Is(err, ErrReplayed) && !errors.Is(err, ErrForeign) {
			b.t.Errorf("%s: %v", r.URL.Path, err)
		}
		c, err := b.issuer.Issue(start, a)
		if err != nil {
			b.t.Error(err)
		}
		b.asked++
		w.Header().Set("Stamp-Challenge", c)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "busy")
		return
	}
	b.stamps[stamp]++
	b.served = append(b.served, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(body))
	_, _ = io.WriteString(w, "served")
}

// count returns how many challenges were given and how many stamps were taken since the last time.
func (b *tollbooth) count() (asked, stamps int, served []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked, stamps, served = b.asked, len(b.stamps), b.served
	for s := range b.stamps {
		b.gone[s] = true
	}
	b.asked, b.stamps, b.served = 0, map[string]int{}, nil
	return asked, stamps, served
}

// TestFetch: the scripts of a site pay by themselves.
func TestFetch(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	booth := &tollbooth{t: t, issuer: NewIssuer(Parts{}), stamps: map[string]int{}, gone: map[string]bool{}}
	booth.covers.Store(50)
	booth.work.Store(1 << 10)
	mux := http.NewServeMux()
	mux.Handle("/api/", booth)
	for name, script := range Scripts() {
		mux.HandleFunc("GET /.weir/"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(script)
		})
	}
	mux.HandleFunc("GET /nowhere/fetch.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write(fetchScript)
	})
	var elsewhere string
	page := func(script string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Security-Policy",
				"default-src 'none'; img-src data:; script-src 'self'; worker-src 'self'; connect-src 'self' "+
					elsewhere)
			_,
				_ = io.WriteString(w,
				`<!doctype html><html lang="en"><title>fetch</title><link rel="icon" href="data:,"><h1>Fetch</h1><script src="`+script+`"></script>`)
		}
	}
	mux.HandleFunc("GET /{$}", page("/.weir/fetch.js"))
	mux.HandleFunc("GET /broken", page("/nowhere/fetch.js"))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.Header.Get("Stamp") != "" {
			t.Errorf("elsewhere: %s with stamp %q", r.Method, r.Header.Get("Stamp"))
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Expose-Headers", "Stamp-Challenge")
		w.Header().Set("Stamp-Challenge", "x")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(other.Close)
	elsewhere = other.URL

	p := browser.Open(t)
	p.Tolerate("status of 503")
	p.Visit(server.URL + "/")
	fetches := func(script string) string {
		t.Helper()
		return browser.Await[string](p, "Promise.resolve("+script+").then(String, e => e.name + ': ' + e.message)")
	}
	expect := func(what string, asked, stamps int, want ...string) {
		t.Helper()
		a, s, served := booth.count()
		slices.Sort(served)
		if a != asked || s != stamps || len(served) != len(want) {
			t.Errorf("%s: %d challenges, %d stamps, served %q; want %d, %d, %q", what, a, s, served, asked, stamps,
				want)
			return
		}
		for i, w := range want {
			if ok, _ := regexp.MatchString("^(?s:"+w+")$", served[i]); !ok {
				t.Errorf("%s: served %q, want %q", what, served[i], w)
			}
		}
	}

	// Whoever is challenged together waits for one solution, and the next uses it as well.
	if got := fetches(`Promise.all([1, 2, 3, 4, 5].map(n => weirFetch('/api/' + n).then(r => r.text()))).then(all => weirFetch('/api/6').then(r => all + r.status))`); got !=
		"served,served,served,served,served200" {
		t.Errorf("together: %s", got)
	}
	if _, s, served := booth.count(); s != 1 || len(served) != 6 {
		t.Errorf("together: %d stamps for %q", s, served)
	}

	// Bodies come as they were sent, the second time too.
	fetches(`weirFetch('/api/text', {method: 'POST', body: 'zwölf\n\r\n'})`)
	expect("text", 1, 1, `POST /api/text text/plain;charset=UTF-8 zwölf\n\r\n`)
	fetches(`weirFetch(new Request('/api/request', {method: 'PUT', body: new Uint8Array([49, 50]), headers: {'Content-Type': 'a/b'}}))`)
	expect("request", 1, 1, `PUT /api/request a/b 12`)
	fetches(`(() => { const f = new FormData(); f.append('a', 'ü'); return weirFetch('/api/form', {method: 'POST', body: f}); })()`)
	expect("form", 1, 1, `POST /api/form multipart/form-data; boundary=.*name="a"\r\n\r\nü\r\n.*`)

	// A stamp for one request only is not used for another.
	booth.covers.Store(1)
	booth.binds.Store(true)
	if got := fetches(`Promise.all([1, 2].map(n => weirFetch('/api/' + n).then(r => r.status)))`); got != "200,200" {
		t.Errorf("bound: %s", got)
	}
	expect("bound", 2, 2, "GET /api/1  ", "GET /api/2  ")
	booth.binds.Store(false)
	booth.covers.Store(50)

	// One who gives up does not spoil it for those who wait for the same.
	booth.work.Store(1 << 22)
	if got := fetches(`(() => { const c = new AbortController(), a = weirFetch('/api/left', {signal: c.signal}), b = weirFetch('/api/stays');
		return new Promise(done => setTimeout(done, 30)).then(() => c.abort()).then(() => Promise.all([a.catch(e => e.name), b.then(r => r.status)])); })()`); got != "AbortError,200" {
		t.Errorf("one gives up: %s", got)
	}
	booth.count()
	booth.work.Store(1 << 40)
	if got := fetches(`(() => { const c = new AbortController(); setTimeout(() => c.abort(), 30); return weirFetch('/api/left', {signal: c.signal}); })()`); !strings.HasPrefix(got, "AbortError: ") {
		t.Errorf("all give up: %s", got)
	}
	booth.work.Store(1 << 10)
	if got := fetches(`weirFetch('/api/after').then(r => r.status)`); got != "200" {
		t.Errorf("afterwards: %s", got)
	}
	booth.count()

	// Installed, it is for this origin alone.
	if got := fetches(`(weirFetch.install(), Promise.all([fetch('/api/plain'), fetch(new Request('/api/plain')), fetch('` + other.URL + `/x')])).then(all => all.map(r => r.status))`); got !=
		"200,200,503" {
		t.Errorf("installed: %s", got)
	}
	if got := fetches(`fetch('http://[')`); !strings.HasPrefix(got, "TypeError: ") {
		t.Errorf("nonsense: %s", got)
	}
	// Where there is no solver, the answer of the server is what one gets.
	p.Tolerate("nowhere/solver.js")
	p.Visit(server.URL + "/broken")
	if got := fetches(`weirFetch('/api/x').then(r => r.text().then(text => r.status + text))`); got != "503busy" {
		t.Errorf("without a solver: %s", got)
	}
}

// TestFetchOnce: what cannot be sent twice is sent once, and a service that never has enough is asked three times.
func TestFetchOnce(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	o := NewIssuer(Parts{})
	a := ask(SHA256K, 16)
	a.Message = ""
	mux := http.NewServeMux()
	for name, script := range Scripts() {
		mux.HandleFunc("GET /.weir/"+name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write(script)
		})
	}
	var asked atomic.Int64
	mux.HandleFunc("GET /never", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		c, _ := o.Issue(start, a)
		w.Header().Set("Stamp-Challenge", c)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	// Browsers send streams over HTTP/2 only, so here the browser's own fetch is stood in for.
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_,
			_ = io.WriteString(w,
			`<!doctype html><html lang="en"><title>fetch</title><link rel="icon" href="data:,"><h1>Fetch</h1>
<script>let sent = 0; const real = fetch; self.fetch = (input, init) => init && init.body ?
	(sent++, Promise.resolve(new Response('', {status: 503, headers: {'Stamp-Challenge': 'x'}}))) : real(input, init);</script>
<script src="/.weir/fetch.js"></script>`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p := browser.Open(t)
	p.Tolerate("status of 503")
	p.Visit(server.URL + "/")
	if got := browser.Await[string](p,
		`weirFetch('/x', {method: 'POST', body: new ReadableStream(), duplex: 'half'}).then(r => r.status + ' ' + sent)`); got != "503 1" {
		t.Errorf("a stream: %s", got)
	}
	if got := browser.Await[int](p, `weirFetch('/never').then(r => r.status)`); got != 503 || asked.Load() != 3 {
		t.Errorf("never enough: %d after %d", got, asked.Load())
	}
}

// BenchmarkBrowser is target S4: hashes a second of one worker, against a worker that awaits WebCrypto for every hash,
// in turns.
func BenchmarkBrowser(b *testing.B) {
	done := make(chan string, 1)
	mux := http.NewServeMux()
	for path, file := range map[string]struct{ kind, text string }{
		"/solver.js": {"text/javascript", string(solverScript())},
		"/awaits.js": {"text/javascript", `onmessage = async e => {
  const block = new Uint8Array(48);
  for (let n = 0; n < e.data.count; n++) { block[47] = n; await crypto.subtle.digest('SHA-256', block); }
  postMessage(0);
};`},
		"/{$}": {"text/html",
			`<!doctype html><html lang="en"><title>stamps</title><link rel="icon" href="data:,"><script>
(async () => {
  const job = {id: 1, seed: [1, 2, 3, 4, 5, 6, 7, 8], target: [0, 0], part: 1, from: 0}, median = a => a.sort((x, y) => x - y)[a.length >> 1];
  const rate = (w, count) => new Promise(resolve => {
    const t = performance.now();
    w.onmessage = () => resolve(count / (performance.now() - t));
    w.postMessage({...job, count});
  });
  const ours = new Worker('/solver.js'), theirs = new Worker('/awaits.js'), plain = [], awaited = [];
  await rate(ours, 300000);
  await rate(theirs, 5000);
  for (let i = 0; i < 41; i++) {
    plain.push(await rate(ours, 30000));
    awaited.push(await rate(theirs, 500));
  }
  await fetch('/done', {method: 'POST', body: median(plain) + ' ' + median(awaited)});
})();
</script>`},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.kind)
			_, _ = io.WriteString(w, file.text)
		})
	}
	mux.HandleFunc("POST /done", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		done <- string(body)
	})
	server := httptest.NewServer(mux)
	b.Cleanup(server.Close)
	page := browser.Open(b)
	for b.Loop() {
		page.Visit(server.URL + "/")
		var plain, awaited float64
		if _, err := fmt.Sscan(<-done, &plain, &awaited); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(plain*1000, "hashes/s")
		b.ReportMetric(plain/awaited, "times-WebCrypto")
	}
}
