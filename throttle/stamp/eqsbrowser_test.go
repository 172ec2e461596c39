package stamp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// withWasm is the policy that gates serve the solver with.
const withWasm = "default-src 'none'; script-src 'wasm-unsafe-eval'"

// eqsSite serves the solver under a policy, after another line of script, and a page that allows WebAssembly.
func eqsSite(tb testing.TB, mux *http.ServeMux, policy, line string) *httptest.Server {
	tb.Helper()
	mux.HandleFunc("GET /solver.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		w.Header().Set("Content-Security-Policy", policy)
		_, _ = io.WriteString(w, line)
		_, _ = w.Write(solverScript())
	})
	mux.HandleFunc("GET /module.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = io.WriteString(w, "var module = {exports: {}};")
	})
	mux.HandleFunc("GET /vectors.json", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, vectorFile)
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:; "+
			"script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'")
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><title>eqs60</title><link rel="icon" href="data:,">`+
			`<h1>eqs60</h1><script src="/module.js"></script><script src="/solver.js"></script>`)
	})
	server := httptest.NewServer(mux)
	tb.Cleanup(server.Close)
	return server
}

// TestEqsBrowser: a browser pays in workers: in WebAssembly where it may, and else in plain JavaScript.
func TestEqsBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	for name, c := range map[string]struct {
		policy, line string
		wasm         bool
	}{
		"WebAssembly":  {withWasm, "", true},
		"forbidden":    {"default-src 'none'", "", false},
		"switched off": {withWasm, "self.WebAssembly = undefined;\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewIssuer(Parts{})
			server := eqsSite(t, http.NewServeMux(), c.policy, c.line)
			page := browser.Open(t)
			page.Visit(server.URL + "/")
			for _, w := range []Work{1, 1 << 18} {
				a := ask(EQS60, w)
				challenge, err := o.Issue(start, a)
				if err != nil {
					t.Fatal(err)
				}
				got := browser.Await[string](page, fmt.Sprintf("weirStamp.solve(%q)", challenge))
				r, err := o.Verify(bg, start, got, demand(a))
				if err != nil {
					t.Errorf("%s: %v", w, err)
				}
				t.Logf("%s of %s", r.Algorithm, r.Work)
			}
			if wasm := browser.Eval[bool](page, "weirStamp.wasm"); wasm != c.wasm {
				t.Errorf("WebAssembly: %t", wasm)
			}
		})
	}
}

// TestEqsBrowserVectors: the solvers for browsers agree with the vectors, in WebAssembly and in JavaScript.
func TestEqsBrowserVectors(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	server := eqsSite(t, http.NewServeMux(), withWasm, "")
	page := browser.Open(t)
	page.Visit(server.URL + "/")
	want, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	var all []eqsVector
	if err := json.Unmarshal(want, &all); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"search60", "solutions60"} {
		text := browser.Await[string](page, `fetch('/vectors.json').then(r => r.json()).then(all => {
  const s = module.exports, pad = n => (n >>> 0).toString(16).padStart(8, '0');
  const hex = b => [...b].map(n => n.toString(16).padStart(2, '0')).join('');
  return JSON.stringify(all.map(v => {
    const key = s.keyOf(Uint8Array.from(v.seed.match(/../g), b => parseInt(b, 16)));
    s.KEY.set(key);
    const values = [0, 1, 65535].map(m => {
      s.MESSAGE[0] = m << 16 | m; s.MESSAGE[1] = m >>> 16; s.sip(1, 0);
      return pad(s.sum[1]) + pad(s.sum[0]);
    });
    return {seed: v.seed, key: [0, 2, 4, 6].map(i => pad(key[i + 1]) + pad(key[i])), values, counters: v.counters.map(({counter}) => {
      const found = s.`+how+`(counter).sort((a, b) => hex([...a].reverse()) < hex([...b].reverse()) ? -1 : 1);
      return {counter, solutions: found.map(hex), efforts: found.map(f => s.effort60(counter, f).map(pad).join(''))};
    })};
  }));
})`)
		var got []eqsVector
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		one, _ := json.Marshal(got)
		other, _ := json.Marshal(all)
		if string(one) != string(other) {
			t.Errorf("%s: got\n%s\nwant\n%s", how, one, other)
		}
	}
	if !browser.Eval[bool](page, "module.exports.usesWasm()") {
		t.Error("the second way was not WebAssembly")
	}
}

// BenchmarkEqsBrowser is what one worker takes to search a counter, in WebAssembly and in JavaScript, against Go on one
// core, in turns.
func BenchmarkEqsBrowser(b *testing.B) {
	with := eqsSite(b, http.NewServeMux(), withWasm, "")
	without := eqsSite(b, http.NewServeMux(), "default-src 'none'", "")
	run := func(page *browser.Page, count int) float64 {
		return browser.Await[float64](page, fmt.Sprintf(`new Promise(resolve => {
  window.worker = window.worker || new Worker('/solver.js');
  const t = performance.now();
  worker.onmessage = () => resolve((performance.now() - t) / %[1]d);
  worker.postMessage({key: [1, 0, 2, 0, 3, 0, 4, 0], target: [0, 0], from: 0, count: %[1]d});
})`, count))
	}
	wasm, js := browser.Open(b), browser.Open(b)
	wasm.Visit(with.URL + "/")
	js.Visit(without.URL + "/")
	table, k := new(eqsTable), sipKey{1, 2, 3, 4}
	native := func(count int) float64 {
		began := time.Now()
		for n := range count {
			table.solutions(&k, uint32(n))
		}
		return float64(time.Since(began).Microseconds()) / 1000 / float64(count)
	}
	run(wasm, 20)
	run(js, 20)
	var times [3][]float64
	for b.Loop() {
		for range 5 {
			for i, ms := range []float64{run(wasm, 10), run(js, 10), native(10)} {
				times[i] = append(times[i], ms)
			}
		}
	}
	var median [3]float64
	for i, all := range times {
		slices.Sort(all)
		median[i] = all[len(all)/2]
	}
	b.ReportMetric(median[0], "ms-wasm")
	b.ReportMetric(median[1], "ms-js")
	b.ReportMetric(median[2], "ms-go")
	b.ReportMetric(median[0]/median[2], "wasm/go")
	b.ReportMetric(median[1]/median[2], "js/go")
}
