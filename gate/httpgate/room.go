package httpgate

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

// assetPath is where the files of the gate's own are.
const assetPath = "/.weir/"

//go:embed room.html
var roomHTML string

//go:embed room.js
var roomScript []byte

var roomPage = template.Must(template.New("room").Parse(roomHTML))

// roomPolicy lets the page use nothing but its own style, the scripts of the gate, and workers that run them. Where a
// form goes is left open: browsers hold that against redirects as well, and a shop may send its customers on to a bank.
// Any site may show the page in a frame, as it may show what is behind it: whoever is led to press something there
// repeats a request that they made, and nothing else.
var roomPolicy = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src '" +
	styleHash(renderRoom(&room{})) +
	"'; img-src data:; base-uri 'none'"

// styleHash is how a policy names the style that stands in a page.
func styleHash(page []byte) string {
	_, rest, _ := bytes.Cut(page, []byte("<style>"))
	style, _, _ := bytes.Cut(rest, []byte("</style>"))
	sum := sha256.Sum256(style)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// A room is the page that asks for a stamp, and keeps a place in line for those who cannot pay.
type room struct {
	Puzzle     string // the challenge; empty when there is none to solve
	Algorithm  string
	Work       uint64
	Takes      time.Duration // about so long on a phone
	Cookie     string        // the cookie that the stamp goes into
	CookiePath string
	CookieAge  int // seconds
	Secure     bool
	Cross      bool          // the cookie has a twin: see crosses
	InLine     bool          // the ticket was presented: the place counts
	Ahead      int           // how many are before
	Estimate   time.Duration // 0: nobody can tell
	Reload     time.Duration // 0: there is no line
	Full       bool          // the line is full: keep trying
	TooMany    bool          // too many of this network are in line
	Fields     []formField   // of a form to be sent again; Post says whether
	Post       bool
	Action     string // where to send it: path and query of the request
	Lost       string // why what was sent cannot be repeated and has to be sent again, as a sentence; empty when it can
	Limit      string // the client's own limit that is used up, as a sentence; empty where it is the load
	RequestID  string
	Assets     *assets // the scripts; without it they are named without their versions
}

// A formField is one field of a form, in the bytes that were sent. Nobody knows which charset they are in. The form in
// the page is sent in windows-1252, as in that one every byte stands for a character, and becomes the same byte again.
type formField struct{ Name, Value string }

// NameText and ValueText are what stands in the page.
func (f formField) NameText() string  { return fromWindows1252(f.Name) }
func (f formField) ValueText() string { return fromWindows1252(f.Value) }

// NamesCharset reports whether browsers would write the charset of the form into the field, were it a hidden one.
func (f formField) NamesCharset() bool { return strings.EqualFold(f.Name, "_charset_") }

// windows1252 are the characters of the bytes from 0x80 to 0x9f (https://encoding.spec.whatwg.org/#windows-1252). The
// others are as in Unicode.
var windows1252 = []rune("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ")

func fromWindows1252(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := rune(s[i])
		if c >= 0x80 && c < 0xa0 {
			c = windows1252[c-0x80]
		}
		b.WriteRune(c)
	}
	return b.String()
}

// renderRoom returns the page. It never fails: the template does nothing that could.
func renderRoom(r *room) []byte {
	var b bytes.Buffer
	if err := roomPage.Execute(&b, r); err != nil {
		return []byte("One moment, please: this site is very busy right now.\n")
	}
	return b.Bytes()
}

// Solver and Script are where the scripts of the page are.
func (r *room) Solver() string { return r.Assets.address("solver.js") }
func (r *room) Script() string { return r.Assets.address("room.js") }

// Shared reports whether a stamp that another tab paid does for this one as well.
func (r *room) Shared() bool { return r.Cookie == stampCookie }

// Why says why anything is asked.
func (r *room) Why() string {
	if r.Limit != "" {
		return r.Limit
	}
	return "This site is very busy right now."
}

// Repeats reports whether the page sends a form again.
func (r *room) Repeats() bool { return r.Post && r.Lost == "" }

// Refreshes reports whether the page comes again by itself without a script.
func (r *room) Refreshes() bool { return r.Reload > 0 && !r.Post && r.Lost == "" }

// ReloadSeconds is when to come again.
func (r *room) ReloadSeconds() int64 { return seconds(r.Reload) }

// TakesWords is how long the work takes, in words.
func (r *room) TakesWords() string {
	if r.Takes <= 0 {
		return ""
	}
	return inWords(seconds(r.Takes))
}

// Place says where in the line the client is.
func (r *room) Place() string {
	switch {
	case r.Reload <= 0:
		return "There is no line to wait in."
	case r.Full:
		return "The line is full right now."
	case r.TooMany:
		return "Too many in your network are in line already."
	case !r.InLine:
		return "You are being put in line."
	}
	before := "You are next"
	switch {
	case r.Ahead == 1:
		before = "1 person is before you"
	case r.Ahead > 1:
		before = strconv.Itoa(r.Ahead) + " people are before you"
	}
	if r.Estimate <= 0 {
		return before + ". Nobody can tell how long it will take."
	}
	return before + ", about " + inWords(seconds(r.Estimate)) + "."
}

// Next says what happens next, and what there is to do.
func (r *room) Next() string {
	again := inWords(r.ReloadSeconds())
	every := strings.TrimPrefix(again, "1 ")
	switch {
	case r.Reload <= 0 && r.Lost != "":
		return "Please go back after a while, and send it again."
	case r.Reload <= 0:
		return "Please try again after a while."
	case r.Lost != "" && (r.Full || r.TooMany):
		return "Please go back in " + again + ", and send it again: there may be room by then."
	case r.Lost != "":
		return "Please go back in " + again + ", and send it again: your place is kept until then, and a while longer."
	case r.Post && (r.Full || r.TooMany):
		return "What you sent is kept in this page. Please try again in " + again + ": there may be room by then."
	case r.Post:
		return "What you sent is kept in this page. Please try again in " + again +
			": your place is kept until then, and a while longer."
	case r.Full, r.TooMany:
		return "This page tries again every " + every + ", by itself. Please leave it open."
	}
	return "This page looks every " + every + " whether it is your turn, by itself. Please leave it open."
}

// assets are the files of the gate's own, by path. They do not change.
type assets struct {
	files map[string]*file
}

// A file is served as it is.
type file struct {
	kind    string
	version string // of the content
	plain   []byte
	packed  []byte
}

// newAssets takes the page's own script, and scripts from elsewhere by name.
func newAssets(scripts map[string][]byte) *assets {
	a := &assets{files: map[string]*file{}}
	a.add("room.js", roomScript)
	for name, script := range scripts {
		a.add(name, script)
	}
	return a
}

func (a *assets) add(name string, content []byte) {
	sum := sha256.Sum256(content)
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = z.Write(content)
	_ = z.Close()
	kind := "text/javascript; charset=utf-8"
	if ext := path.Ext(name); ext != ".js" {
		kind = mime.TypeByExtension(ext)
	}
	a.files[assetPath+name] = &file{kind, base64.RawURLEncoding.EncodeToString(sum[:9]), content, b.Bytes()}
}

// find returns the file at a path.
func (a *assets) find(path string) (*file, bool) {
	f, ok := a.files[path]
	return f, ok
}

// address is where a page finds a file. It names the version, so that a browser may keep the file for good.
func (a *assets) address(name string) string {
	if a != nil {
		if f, ok := a.find(assetPath + name); ok {
			return assetPath + name + "?v=" + f.version
		}
	}
	return assetPath + name
}

// How long a file may be kept: for good where its address names the version, else only for a while, as an update may
// change it.
const (
	keepForGood = "public, max-age=31536000, immutable"
	keepAWhile  = "public, max-age=300"
)

// serve answers a request for the file.
func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		h.Set("Content-Length", "0")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	// A weak tag does for both, packed or not: they unpack to the same.
	tag := `W/"` + f.version + `"`
	h.Set("ETag", tag)
	h.Add("Vary", "Accept-Encoding")
	h.Set("Cache-Control", keepAWhile)
	if r.URL.RawQuery == "v="+f.version {
		h.Set("Cache-Control", keepForGood)
	}
	if known(r.Header.Values("If-None-Match"), f.version) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.plain
	if takesGzip(r.Header.Values("Accept-Encoding")) {
		body = f.packed
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body)
	}
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
		for coding := range strings.SplitSeq(line, ",") {
			name, weight, _ := strings.Cut(coding, ";")
			q := 1.0
			if v, ok := strings.CutPrefix(strings.ReplaceAll(strings.ToLower(weight), " ", ""), "q="); ok {
				q, _ = strconv.ParseFloat(v, 64)
			}
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "gzip", "x-gzip":
				return q > 0
			case "*":
				others = q > 0
			}
		}
	}
	return others
}
