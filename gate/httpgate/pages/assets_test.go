package pages

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"weir/throttle/stamp"
)

// TestRoomIsSmall: all that a browser loads before it can begin has at most 15 KB.
func TestRoomIsSmall(t *testing.T) {
	a := NewAssets(stamp.Scripts())
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = z.Write(renderRoom(&Room{Puzzle: strings.Repeat("x", stamp.MaxChallenge), Reload: time.Second, Assets: a}))
	_ = z.Close()
	size := b.Len()
	for _, name := range []string{"room.js", "solver.js"} {
		f := a.files[assetPath+name]
		if f == nil {
			t.Fatalf("no %s", name)
		}
		size += len(f.packed())
	}
	t.Logf("%d bytes", size)
	if size > 15_000 {
		t.Errorf("%d bytes", size)
	}
}

func TestAssets(t *testing.T) {
	content := []byte("let x = 1; " + strings.Repeat("// and on, and on\n", 100))
	a := NewAssets(map[string][]byte{"solver.js": content})
	if a.Serve(httptest.NewRecorder(), httptest.NewRequest("GET", "/.weir/", nil)) {
		t.Error("the folder is served")
	}
	address, err := url.Parse(a.address("solver.js"))
	if err != nil || address.Path != "/.weir/solver.js" || address.RawQuery == "" {
		t.Fatalf("address %q", address)
	}
	if got := a.address("unknown.js"); got != "/.weir/unknown.js" {
		t.Errorf("unknown: %q", got)
	}
	get := func(method, target string, header ...string) *http.Response {
		r := httptest.NewRequest(method, target, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		if !a.Serve(w, r) {
			t.Errorf("%s is not served", target)
		}
		return w.Result()
	}
	plain := get("GET", "/.weir/solver.js")
	if body, _ := io.ReadAll(plain.Body); plain.StatusCode != 200 || !bytes.Equal(body, content) ||
		plain.Header.Get("Content-Encoding") != "" ||
		plain.Header.Get("Content-Type") != "text/javascript; charset=utf-8" ||
		plain.Header.Get("X-Content-Type-Options") != "nosniff" ||
		plain.Header.Get("Vary") != "Accept-Encoding" ||
		strings.Contains(plain.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("plain: %d %v", plain.StatusCode, plain.Header)
	}
	if res := get("GET", address.String()); !strings.Contains(res.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("with its version: %v", res.Header)
	}
	if res := get("GET", "/.weir/solver.js?v=old"); strings.Contains(res.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("with another version: %v", res.Header)
	}
	for accept, packed := range map[string]bool{
		"gzip, deflate, br": true, "br;q=1, GZIP;Q=0.5": true, "*": true, "": false, "br": false, "gzip;q=0": false,
		"*, gzip;q=0": false, "identity, *;q=0": false, "gzip ; q=x": false,
	} {
		res := get("GET", "/.weir/solver.js", "Accept-Encoding", accept)
		body, _ := io.ReadAll(res.Body)
		if got := res.Header.Get("Content-Encoding") == "gzip"; got != packed ||
			fmt.Sprint(len(body)) != res.Header.Get("Content-Length") || res.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: %v", accept, res.Header)
		}
		if packed {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if body, _ = io.ReadAll(z); !bytes.Equal(body, content) {
				t.Errorf("%q: unpacks to %q", accept, body)
			}
		}
	}
	tag := plain.Header.Get("ETag")
	for match, want := range map[string]int{tag: 304, `"x", ` + tag: 304, strings.TrimPrefix(tag, "W/"): 304, "*": 304,
		`"x"`: 200, "": 200, "nonsense": 200} {
		if res := get("GET", "/.weir/solver.js", "If-None-Match", match); res.StatusCode != want ||
			res.Header.Get("ETag") != tag {
			t.Errorf("If-None-Match %s: %d %v", match, res.StatusCode, res.Header)
		}
	}
	// A worker may use WebAssembly, and nothing else.
	if got := get("GET", "/.weir/solver.js").Header.Get("Content-Security-Policy"); got !=
		"default-src 'none'; script-src 'wasm-unsafe-eval'" {
		t.Errorf("the policy of a worker: %s", got)
	}
	if res := get("HEAD", "/.weir/solver.js"); res.StatusCode != 200 ||
		res.Header.Get("Content-Length") != fmt.Sprint(len(content)) {
		t.Errorf("HEAD: %d %v", res.StatusCode, res.Header)
	} else if body, _ := io.ReadAll(res.Body); len(body) > 0 {
		t.Errorf("HEAD: body %q", body)
	}
	if res := get("POST", "/.weir/solver.js"); res.StatusCode != 405 || res.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", res.StatusCode, res.Header)
	}
}
