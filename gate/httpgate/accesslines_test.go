package httpgate

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/gate"
	"weir/gate/gatetest"
	"weir/gate/httpgate/accesslog"
	"weir/identify"
	"weir/internal/http1"
	"weir/internal/logs"
	"weir/internal/testkit/needs"
	behind "weir/upstream"
)

// accessTo is an access log of a format, and where its lines go.
func accessTo(t testing.TB, format string) (accesslog.Log, *gatetest.Log) {
	t.Helper()
	o := accesslog.Options{Format: format}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	to := new(gatetest.Log)
	return o.Ready(to), to
}

// accessLines waits for so many lines.
func accessLines(t testing.TB, to *gatetest.Log, n int) []string {
	t.Helper()
	needs.Wait(t, fmt.Sprintf("%d lines", n), func() bool { return strings.Count(to.String(), "\n") >= n })
	return strings.Split(strings.TrimSuffix(to.String(), "\n"), "\n")
}

// TestCombinedIsNginx: of the same requests, byte for byte as they came, nginx writes the same lines as weir.
func TestCombinedIsNginx(t *testing.T) {
	requests := []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /old HTTP/1.0\r\nHost: a\r\n\r\n",
		"HEAD /x/%C3%A4;y HTTP/1.1\r\nHost: a\r\nUser-Agent: curl/8.5.0\r\nReferer: https://example.com/from\r\n\r\n",
		"GET /it's/\"quoted\"/back\\slash HTTP/1.1\r\nHost: a\r\nUser-Agent: \"quoted\" back\\slash\ttab\r\n\r\n",
		"GET /%0d%0a/%22 HTTP/1.1\r\nHost: a\r\nUser-Agent: caf\xc3\xa9 \xff\r\nReferer: x\" 200 1 \"y\r\n\r\n",
		"OPTIONS /o HTTP/1.1\r\nHost: a\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n\r\n",
		"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
		"DELETE /missing HTTP/1.1\r\nHost: a\r\n\r\n",
	}
	service := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			w.WriteHeader(404)
		}
		_, _ = w.Write([]byte("hello"))
	})
	folder := t.TempDir()
	nginx := startNginxIn(t, folder, strings.Replace(nginxInstead, "access_log off", "access_log FOLDER/access combined", 1),
		service.Listener.Addr().String())
	theirs := func() string { b, _ := os.ReadFile(filepath.Join(folder, "access")); return string(b) }
	access, to := accessTo(t, accesslog.FormatCombined)
	g := startIn(t, Env{Access: access}, Options{Upstream: behind.To(service.URL)})
	when := regexp.MustCompile(`\[(.*?)\]`)
	for i, r := range requests {
		here, there := g.dial(), gatetest.Dial(t, tcpAddr(t, nginx))
		for _, c := range []net.Conn{here, there} {
			g.send(c, r)
			method, _, _ := strings.Cut(r, " ")
			res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = c.Close()
		}
		needs.Wait(t, "nginx writes", func() bool { return strings.Count(theirs(), "\n") > i })
		ours, nginxs := accessLines(t, to, i+1)[i], strings.Split(theirs(), "\n")[i]
		if when.ReplaceAllString(ours, "[]") != when.ReplaceAllString(nginxs, "[]") {
			t.Errorf("\nweir  %s\nnginx %s", ours, nginxs)
		}
		const layout = "02/Jan/2006:15:04:05 -0700"
		if at, err := time.Parse(layout, when.FindStringSubmatch(ours)[1]); err != nil || !at.Equal(epoch) {
			t.Errorf("%s: %v", ours, err)
		}
	}
}

func tcpAddr(t *testing.T, at string) net.Addr {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// TestAccessFormats: every format tells of a refusal who was refused and by what, and no secret.
func TestAccessFormats(t *testing.T) {
	const target = "/v1/k%65y/x?token=key&next=%6bey"
	for format, want := range map[string]string{
		accesslog.FormatCombined: `127.0.0.1 - MASK [01/May/2024:12:00:00 +0000] "GET /v1/MASK/x HTTP/1.1" 429 OUT ` +
			`"https://example.com/a" "tester \x22x\x22"`,
		accesslog.FormatJSON: `{"time":"2024-05-01T12:00:00.000Z","gate":"127.0.0.1:0","id":"ID","source":"127.0.0.1",` +
			`"account":"MASK","method":"GET","host":"api.example.com","path":"/v1/MASK/x","protocol":"HTTP/1.1",` +
			`"user_agent":"tester \"x\"","status":429,"in":0,"out":OUT,"verdict":"refuse","by":"t0","rule":"per-second",` +
			`"reason":"over-limit","waited_ms":0.000,"total_ms":0.000}`,
		"{source} {method} {path} {status} {took}": "127.0.0.1 GET /v1/MASK/x 429 0.000",
		"{query} {by}/{rule}":                      "token=MASK&next=MASK t0/per-second",
	} {
		access, to := accessTo(t, format)
		g := startIn(t, Env{Access: access}, Options{Upstream: behind.To("http://127.0.0.1:1"), Account: []string{"path:2"}},
			newThrottle(overLimit))
		r := g.request("GET", target, nil, "User-Agent", `tester "x"`, "Referer", "https://example.com/a?session=key#key")
		r.Host = "api.example.com"
		res, body := g.do(r)
		got := accessLines(t, to, 1)
		want := strings.NewReplacer("MASK", identify.Mask("key"), "OUT", fmt.Sprint(len(body)), "ID",
			res.Header.Get("X-Request-Id")).Replace(want)
		if len(got) != 1 || got[0] != want {
			t.Errorf("%s:\n got %s\nwant %s", format, got, want)
		}
		if strings.Contains(g.log.String(), `"msg":"request"`) {
			t.Errorf("%s: a line in the log, too", format)
		}
	}
}

// TestEveryRequestHasItsLine: a destination of its own gets all lines of a flood, unless the operator wants the first
// only. A reload changes the format at once.
func TestEveryRequestHasItsLine(t *testing.T) {
	access, to := accessTo(t, "{status}")
	g := startIn(t, Env{Access: access}, Options{Upstream: behind.To(echo(t).URL)}, newThrottle(overLimit))
	flood := func() {
		for range 3 * maxRefused {
			g.do(g.request("GET", "/", nil))
		}
		needs.Wait(t, "all are over", func() bool { return g.UnderWay.Load() == 0 })
	}
	flood()
	if n := len(accessLines(t, to, 3*maxRefused)); n != 3*maxRefused {
		t.Errorf("%d lines", n)
	}
	first, second := accessTo(t, "{status} {verdict}")
	first.Every = false
	g.SetAccess(first)
	flood()
	lines := accessLines(t, second, maxRefused)
	if len(lines) != maxRefused || lines[0] != "429 refuse" || strings.Count(to.String(), "\n") != 3*maxRefused {
		t.Errorf("%d lines, the first is %s", len(lines), lines[0])
	}
	g.clock.Advance(time.Second)
	needs.Wait(t, "summed up", func() bool { return strings.Contains(g.log.String(), `"requests":20`) })
}

// TestSlowDisk: an access log whose disk hangs holds up no request.
func TestSlowDisk(t *testing.T) {
	r, w := io.Pipe() // nobody reads
	out := logs.NewGathering(w, 100, 20, time.Second)
	var dropped atomic.Int64
	out.Tell(func(n int64) { dropped.Add(n) }, nil)
	defer out.Close(0)
	defer r.Close()
	g := startIn(t, Env{Access: accesslog.Options{Format: "{status} {path}"}.Ready(out)},
		Options{Upstream: behind.To(echo(t).URL)})
	for range 50 {
		if res, _ := g.do(g.request("GET", "/path", nil)); res.StatusCode != 200 {
			t.Fatal(res.Status)
		}
	}
	needs.Wait(t, "all are over", func() bool { return g.UnderWay.Load() == 0 })
	if n := dropped.Load(); n < 50-2*100/10-2 || n > 50 {
		t.Errorf("%d lines were left out", n)
	}
}

// TestAccessToAFile: lines of a real gate go to a real file, and to a new one after it was moved away.
func TestAccessToAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	f, err := logs.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := logs.NewGathering(f, 1<<20, 1, time.Second)
	g := startIn(t, Env{Access: accesslog.Options{Format: "combined"}.Ready(out)},
		Options{Upstream: behind.To(echo(t).URL)})
	line := func(path string) string { b, _ := os.ReadFile(path); return string(b) }
	g.do(g.request("GET", "/one", nil))
	needs.Wait(t, "a line", func() bool { return strings.Contains(line(path), "/one") })
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	commit, _, err := f.Replace()
	if err != nil {
		t.Fatal(err)
	}
	commit()
	g.do(g.request("GET", "/two", nil))
	needs.Wait(t, "another line", func() bool { return strings.Contains(line(path), "/two") })
	if strings.Contains(line(path+".1"), "/two") || strings.Contains(line(path), "/one") {
		t.Errorf("%q, then %q", line(path+".1"), line(path))
	}
	out.Close(time.Minute)
	_ = f.Close()
}

// discard takes lines.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkAccessLine is what a line costs a request, from the exchange to the buffer.
func BenchmarkAccessLine(b *testing.B) {
	g, err := New(Options{Listen: "127.0.0.1:0", Upstream: behind.To("http://127.0.0.1:1")}, nil, chainOf(b),
		Env{Env: gate.Env{Log: slog.New(slog.NewJSONHandler(io.Discard, nil))}})
	if err != nil {
		b.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/v1/search", nil)
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)")
	x := exchanges.Get().(*exchange)
	x.gate, x.setup, x.r, x.ctx, x.status = g, g.Setup.Load(), r, r.Context(), 200
	x.out.Store(261)
	x.own = new(http1.Fields)
	x.fields = x.own
	x.own.AddHeader(r.Header)
	now := time.Now()
	x.event.Time, x.event.ID, x.event.Source = now, "m7ehk9hv2bwakgkd", netip.MustParseAddr("192.0.2.7")
	for _, format := range []string{"log", "json", "combined", "{source} {method} {path} {status} {took}"} {
		b.Run(strings.Fields(format)[0], func(b *testing.B) {
			g.SetAccess(accesslog.Options{Format: format, Floods: accesslog.FloodsAll}.Ready(discard{}))
			b.ReportAllocs()
			for b.Loop() {
				x.log(now)
			}
		})
	}
}
