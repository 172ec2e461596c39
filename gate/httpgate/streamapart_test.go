package httpgate

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"weir/internal/testkit/needs"
)

// TestStreamsApart: many requests at once on one connection of HTTP/2, with bodies and without, small and large, with
// trailers, early hints and clients that leave. Each gets its own answer, and the upstream gets each as it was sent,
// although exchanges are used again and answers leave together.
func TestStreamsApart(t *testing.T) {
	t.Parallel()
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		tag := r.Header.Get("X-Tag")
		if r.URL.Path != "/"+tag || r.Host != tag+".example" || r.Header.Get("X-Forwarded-Host") != r.Host {
			t.Errorf("%s came as %s at %s", tag, r.URL.Path, r.Host)
		}
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasPrefix(tag, "early"):
			w.Header().Set("Link", "</"+tag+">")
			w.WriteHeader(http.StatusEarlyHints)
		case strings.HasPrefix(tag, "trailer"):
			w.Header().Set("Trailer", "X-End, X-Request-Id") // the second one never comes
			defer w.Header().Set("X-End", tag)
		}
		w.Header().Set("X-Tag", tag)
		_, _ = io.WriteString(w, strings.Repeat(tag, 1+len(tag)%2*3000))
		_, _ = w.Write(body)
	})
	a := newAuthority(t, "ca")
	g := startTLS(t, a, Options{Upstream: to(up.URL)})
	tr := a.transport(true, nil)
	ids := map[string]bool{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			for j := range 20 {
				kind := []string{"plain", "early", "trailer", "body", "gone"}[(i+j)%5]
				tag, body := fmt.Sprint(kind, i, "x", j), ""
				req := g.request("GET", "/"+tag, nil, "X-Tag", tag)
				if kind == "body" {
					body = strings.Repeat("b", 100*j)
					req = g.request("POST", "/"+tag, strings.NewReader(body), "X-Tag", tag)
				}
				req.Host = tag + ".example"
				if kind == "gone" {
					ctx, cancel := context.WithCancel(t.Context())
					go cancel()
					_, _, _ = try(tr, req.WithContext(ctx))
					continue
				}
				res, got, err := try(tr, req)
				if err != nil {
					t.Error(tag, err)
					return
				}
				if res.StatusCode != 200 || res.Header.Get("X-Tag") != tag || res.ProtoMajor != 2 ||
					got != strings.Repeat(tag, 1+len(tag)%2*3000)+body ||
					kind == "trailer" && res.Trailer.Get("X-End") != tag {
					t.Errorf("%s got %s %v, %d bytes, %v", tag, res.Status, res.Header, len(got), res.Trailer)
				}
				id := res.Header.Get("X-Request-Id")
				mu.Lock()
				if ids[id] || id == "" {
					t.Errorf("%s got the id %q again", tag, id)
				}
				ids[id] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	needs.Wait(t, "all over", func() bool { return g.UnderWay.Load() == 0 })
}
