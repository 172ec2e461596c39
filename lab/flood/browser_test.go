package flood

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/browser"
	"weir/internal/testkit/needs"
)

// TestPageInBrowser: the page can be read on every screen, and asks for nothing.
func TestPageInBrowser(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	var page bytes.Buffer
	if err := aReport().Sheet().Page(&page); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" && r.URL.Path != "/favicon.ico" {
			t.Errorf("asked for %s", r.URL)
		}
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:")
		http.ServeContent(w, r, "page.html", time.Time{}, bytes.NewReader(page.Bytes()))
	}))
	t.Cleanup(server.Close)
	p := browser.Open(t)
	p.Inspect("flood", server.URL+"/", func(at string, status int, _ http.Header) {
		if status != http.StatusOK {
			t.Errorf("%s: status %d", at, status)
		}
		text := p.Text("main")
		for _, want := range []string{"so many people were served", "nginx 1.22.1", "How it was run"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q", at, want)
			}
		}
	})
}
