package stamp

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/browser"
)

// TestScriptIsSmall: with the page around it, it has to stay below 15 KB compressed.
func TestScriptIsSmall(t *testing.T) {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = z.Write(Script())
	_ = z.Close()
	if b.Len() > 8<<10 {
		t.Errorf("%d bytes compressed", b.Len())
	}
	if !strings.Contains(string(Script()), primeHex) {
		t.Error("the script has another prime")
	}
}

// TestBrowser: a real browser pays in workers, under a strict policy, and the stamps are accepted.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	t.Parallel()
	o := NewOffice(Parts{})
	asks := map[string]Ask{
		"sha256-k":     ask(SHA256K, 1<<16),
		"least":        ask(SHA256K, 16),
		"dlog":         ask(DLog, 1<<12),
		"dlog-classic": ask(DLogClassic, 1<<24),
	}
	type answer struct{ name, stamp string }
	answers := make(chan answer, len(asks))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /solver.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		w.Header().Set("Content-Security-Policy", "default-src 'none'")
		_, _ = w.Write(Script())
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
		w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:; script-src 'self'; worker-src 'self'; connect-src 'self'")
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><title>stamps</title><link rel="icon" href="data:,"><main><h1>Stamps</h1><p></p><ul>`)
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

// BenchmarkBrowser is target S4: hashes a second of one worker, against a worker that awaits WebCrypto for every hash, in turns.
func BenchmarkBrowser(b *testing.B) {
	done := make(chan string, 1)
	mux := http.NewServeMux()
	for path, file := range map[string]struct{ kind, text string }{
		"/solver.js": {"text/javascript", string(Script())},
		"/awaits.js": {"text/javascript", `onmessage = async e => {
  const block = new Uint8Array(48);
  for (let n = 0; n < e.data.count; n++) { block[47] = n; await crypto.subtle.digest('SHA-256', block); }
  postMessage(0);
};`},
		"/{$}": {"text/html", `<!doctype html><html lang="en"><title>stamps</title><link rel="icon" href="data:,"><script>
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
