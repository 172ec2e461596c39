package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"weir/identify"
	"weir/internal/words"
)

// assetPath is where the gate's own files are.
const assetPath = "/.weir/"

//go:embed room.js
var roomScript []byte

// Assets are the gate's own files, by path. They do not change.
type Assets struct{ files map[string]*file }

// A file is served as it is.
type file struct {
	kind    string
	version string // of the content
	plain   []byte
	packed  func() []byte // with gzip, when somebody asks for it first
}

// roomScripts are the names of the waiting room's script in each language: room.js, room.de.js.
var roomScripts = each(func(l *words.Language) string {
	if l == words.English {
		return "room.js"
	}
	return "room." + l.Tag() + ".js"
})

// translated is the script of the waiting room in each language, made once for all gates.
var translated = sync.OnceValue(func() [][]byte {
	return each(func(l *words.Language) []byte { return l.Script(roomScript) })
})

// NewAssets takes the script of the waiting room in every language, and other scripts by name.
func NewAssets(scripts map[string][]byte) *Assets {
	a := &Assets{files: map[string]*file{}}
	for i, script := range translated() {
		a.add(roomScripts[i], script)
	}
	for name, script := range scripts {
		a.add(name, script)
	}
	return a
}

func (a *Assets) add(name string, content []byte) {
	sum := sha256.Sum256(content)
	packed := sync.OnceValue(func() []byte {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		_, _ = z.Write(content)
		_ = z.Close()
		return b.Bytes()
	})
	kind := "text/javascript; charset=utf-8"
	if ext := path.Ext(name); ext != ".js" {
		kind = mime.TypeByExtension(ext)
	}
	a.files[assetPath+name] = &file{kind, base64.RawURLEncoding.EncodeToString(sum[:9]), content, packed}
}

// address is where a page finds a file. It names the version, so that a browser may keep the file permanently.
func (a *Assets) address(name string) string {
	if a != nil {
		if f := a.files[assetPath+name]; f != nil {
			return assetPath + name + "?v=" + f.version
		}
	}
	return assetPath + name
}

// How long a file may be kept: permanently if its address names the version, else for a while, as an update may change
// it.
const (
	keepForGood = "public, max-age=31536000, immutable"
	keepAWhile  = "public, max-age=300"
)

// scriptPolicy is what a worker may do that runs one of the files: compute, in WebAssembly too, and nothing else. A
// worker has the policy of its own file, so that no page behind the gate has to allow WebAssembly.
const scriptPolicy = "default-src 'none'; script-src 'wasm-unsafe-eval'"

// Serve answers a request for one of the files. It reports false, and does nothing, when there is none at its path.
func (a *Assets) Serve(w http.ResponseWriter, r *http.Request) bool {
	f := a.files[r.URL.Path]
	if f == nil {
		return false
	}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", scriptPolicy)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		h.Set("Content-Length", "0")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return true
	}
	// A weak tag is right for both, packed or not: they unpack to the same.
	h.Set("ETag", `W/"`+f.version+`"`)
	h.Add("Vary", "Accept-Encoding")
	h.Set("Cache-Control", keepAWhile)
	if r.URL.RawQuery == "v="+f.version {
		h.Set("Cache-Control", keepForGood)
	}
	if known(r.Header["If-None-Match"], f.version) {
		w.WriteHeader(http.StatusNotModified)
		return true
	}
	body := f.plain
	if takesGzip(r.Header["Accept-Encoding"]) {
		body = f.packed()
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body)
	}
	return true
}

// known reports whether a client has the version already (RFC 9110, 13.1.2).
func known(lines []string, version string) bool {
	for _, line := range lines {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			if tag == "*" || tag == `"`+version+`"` {
				return true
			}
		}
	}
	return false
}

// takesGzip reports whether a client can unpack gzip (RFC 9110, 12.5.3).
func takesGzip(lines []string) bool {
	others := false
	for _, line := range lines {
		for element := range strings.SplitSeq(line, ",") {
			switch name, q := weight(element); name {
			case "gzip", "x-gzip":
				return q > 0
			case "*":
				others = q > 0
			}
		}
	}
	return others
}

// WantsPage reports whether a person looks at the answer: a browser says so when it navigates. Other clients prefer
// HTML to JSON.
func WantsPage(f identify.Fields) bool {
	if mode := first(f, "Sec-Fetch-Mode"); mode != "" {
		// Nobody looks at what a link saves (<a download>).
		return mode == "navigate" && first(f, "Sec-Fetch-Dest") != "empty"
	}
	html, other := 0.0, 0.0
	for _, line := range f.Values("Accept") {
		for element := range strings.SplitSeq(line, ",") {
			switch kind, q := weight(element); kind {
			case "text/html", "application/xhtml+xml":
				html = max(html, q)
			case "application/json", "application/problem+json":
				other = max(other, q)
			}
		}
	}
	return html > 0 && html > other
}

func first(f identify.Fields, name string) string {
	if all := f.Values(name); len(all) > 0 {
		return all[0]
	}
	return ""
}

// weight returns an element of a list, in lower case, and its weight (RFC 9110, 12.4.2).
func weight(element string) (name string, q float64) {
	name, params, _ := strings.Cut(element, ";")
	q = 1
	for param := range strings.SplitSeq(params, ";") {
		if v, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(param)), "q="); ok {
			q, _ = strconv.ParseFloat(v, 64)
		}
	}
	return strings.ToLower(strings.TrimSpace(name)), q
}
