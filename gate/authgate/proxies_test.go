package authgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir"
	"weir/gate/gatetest"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/throttle/quota"
)

// A front is a real proxy, with the configuration of examples/, in front of a service and asking a gate.
type front struct {
	t       testing.TB
	gate    *rig
	address string
	app     *httptest.Server
	log     *gatetest.Log
	silent  bool // it cannot tell clients of limits that let them pass
}

// The addresses that the examples have.
const (
	exampleWeir = "127.0.0.1:9003"
	exampleApp  = "127.0.0.1:3000"
)

// recipe reads a file of examples/ and puts the addresses of a test into it. Each pair of changes must change
// something.
func recipe(t testing.TB, name string, changes ...string) string {
	t.Helper()
	raw, err := os.ReadFile("../../examples/" + name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("%s: there is no %q", name, changes[i])
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	return text
}

// limits is the chain that the proxies ask: somebody is banned, an account has three requests a minute, and without a
// key there is 401.
func limits(t testing.TB, c *clock.Fake) (*quota.Quota, *probe) {
	t.Helper()
	banned := newProbe(func(ev *weir.Event, a *weir.Answer) {
		if ev.Source == netip.MustParseAddr("127.0.0.66") {
			a.Verdict, a.Reason = weir.Refuse, weir.Banned
		}
	})
	q := gatetest.Quota(t, c, quota.Options{Policies: []quota.Policy{perMinute(3)}, OnMissing: quota.MissingRefuse})
	return q, banned
}

// newFront starts a gate and a service, and nothing that stands in front of it yet.
func newFront(t *testing.T, o Options) (f *front, asked *probe, app string) {
	t.Helper()
	c := clock.NewFake(noon)
	q, banned := limits(t, c)
	o.Account = []string{"header:X-Api-Key"}
	// the clients of these tests are the rest of this machine
	o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	f = &front{t: t, gate: start(t, o, c, chainOf(t, banned, q)), log: new(gatetest.Log)}
	f.app = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
	}))
	t.Cleanup(f.app.Close)
	return f, banned, strings.TrimPrefix(f.app.URL, "http://")
}

// startFront starts a proxy. run says how, given where to listen, where the service is and a folder.
func startFront(t *testing.T, o Options, run func(listen, app, folder string, gate *rig) *exec.Cmd) (*front, *probe) {
	t.Helper()
	f, asked, app := newFront(t, o)
	f.address = needs.FreeAddress()
	if f.run(run(f.address, app, t.TempDir(), f.gate)) {
		return f, asked
	}
	t.Fatalf("the proxy does not start: %s", f.log)
	return nil, nil
}

// run starts the program and waits until it listens.
func (f *front) run(cmd *exec.Cmd) bool {
	cmd.Stdout, cmd.Stderr = f.log, f.log
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	stop := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	f.t.Cleanup(stop)
	up := false
	needs.Wait(f.t, "the proxy listens", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		c, err := net.Dial("tcp", f.address)
		if up = err == nil; up {
			_ = c.Close()
		}
		return up
	})
	return up
}

// get sends a request through the proxy, as a client with this address and with these headers.
func (f *front) get(from, uri string, headers ...string) answer {
	f.t.Helper()
	return f.send(http.MethodGet, from, uri, "", headers...)
}

func (f *front) send(method, from, uri, body string, headers ...string) (a answer) {
	f.t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true}
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+f.address, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.URL.Opaque = uri // as it is written here
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := (&http.Client{Transport: transport, Timeout: patience}).Do(req)
	if err != nil {
		f.t.Fatal(err, f.log)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	a.status, a.header, a.body = res.StatusCode, res.Header, string(text)
	return a
}

// behave puts a front through what every recipe promises.
func (f *front) behave(asked *probe) {
	t := f.t
	t.Helper()
	// What is admitted passes, with its body, and tells the client of its limit.
	a := f.send("POST", "127.0.0.2", "/v1/a%20b?c=d", "text", "X-Api-Key", "acme")
	if a.status != 200 || a.body != "POST /v1/a%20b?c=d text" {
		t.Error(a.status, a.header, a.body, f.log)
	}
	if !f.silent && (a.header.Get("RateLimit") != `"per-minute";r=2;t=60` ||
		a.header.Get("RateLimit-Policy") != `"per-minute";q=3;w=60`) {
		t.Error(a.header)
	}
	ev := asked.last(t)
	if want := (weir.Route{Method: "POST", Host: "127.0.0.1", Path: "/v1/a b"}); ev.Source.String() != "127.0.0.2" ||
		!reflect.DeepEqual(ev.Route, want) || ev.Agent != "Go-http-client/1.1" {
		t.Errorf("%+v", ev)
	}
	// What a client writes into the headers that the proxy writes is not believed.
	forged := []string{"X-Api-Key", "acme", "X-Forwarded-For", "192.0.2.9", "X-Real-IP", "192.0.2.9", "X-Original-URI",
		"/free", "X-Original-Method", "GET",
		"X-Original-Host", "free.example", "X-Forwarded-Host", "free.example", "Forwarded", "for=192.0.2.9",
		"Content-Length", "0"}
	if a := f.get("127.0.0.3", "/paid", forged...); a.status != 200 {
		t.Error(a.status, a.body, f.log)
	}
	if ev := asked.last(t); ev.Source.String() != "127.0.0.3" || ev.Route.Path != "/paid" ||
		ev.Route.Host != "127.0.0.1" {
		t.Errorf("%+v", ev)
	}
	if a := f.get("127.0.0.3", "/", "X-Api-Key", "acme"); a.status != 200 {
		t.Error(a.status, a.body, f.log)
	}
	f.gate.clock.Advance(15 * time.Second)
	// Over the limit it is a real 429.
	a = f.get("127.0.0.2", "/", "X-Api-Key", "acme")
	if a.status != 429 || a.header.Get("Retry-After") != "45" || a.header.Get("RateLimit") != `"per-minute";r=0;t=45` ||
		a.header.Get("Content-Type") != "application/problem+json" ||
		!strings.Contains(a.body, `"urn:weir:over-limit"`) {
		t.Error(a.status, a.header, a.body, f.log)
	}
	if a := f.get("127.0.0.2", "/", "X-Api-Key", "other"); a.status != 200 {
		t.Error("another account:", a.status, a.body)
	}
	if a := f.get("127.0.0.2", "/"); a.status != 401 ||
		a.header.Get("WWW-Authenticate") != `ApiKey realm="weir", in="header", name="X-Api-Key"` {
		t.Error("no account:", a.status, a.header, a.body)
	}
	if a := f.get("127.0.0.66", "/", "X-Api-Key", "other"); a.status != 403 ||
		!strings.Contains(a.body, "urn:weir:banned") {
		t.Error("banned:", a.status, a.header, a.body)
	}
	if a := f.get("127.0.0.2", "/", "X-Api-Key", strings.Repeat("k", 300)); a.status != 400 {
		t.Error("a mistake of the client's:", a.status, a.header, a.body)
	}
}

// goAway stops weir while the proxy goes on.
func (f *front) goAway() { f.gate.end() }

func nginxFront(t *testing.T, o Options, changes ...string) (*front, *probe) {
	program := needs.Program(t, "nginx", "apt-get install nginx")
	return startFront(t, o, func(listen, app, folder string, gate *rig) *exec.Cmd {
		at := gate.Addr().String()
		if gate.Addr().Network() == "unix" {
			at = "unix:" + at
		}
		text := recipe(t, "nginx-auth.conf",
			append([]string{"listen 80;", "listen " + listen + ";", exampleWeir, at, exampleApp, app}, changes...)...)
		var b bytes.Buffer
		fmt.Fprintf(&b, "daemon off;\nmaster_process off;\npid %[1]s/pid;\nevents {}\nhttp {\naccess_log off;\n",
			folder)
		for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			fmt.Fprintf(&b, "%s_temp_path %s/%s;\n", temp, folder, temp)
		}
		b.WriteString(text + "}\n")
		config := filepath.Join(folder, "nginx.conf")
		if err := os.WriteFile(config, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return exec.Command(program, "-p", folder, "-e", "stderr", "-c", config)
	})
}

func TestNginx(t *testing.T) {
	for name, o := range map[string]Options{"auto": {}, "named": {For: Nginx},
		"socket": {Listen: "unix:" + filepath.Join(t.TempDir(), "auth")}} {
		t.Run(name, func(t *testing.T) {
			f, asked := nginxFront(t, o)
			f.behave(asked)
			// A client that writes the headers of another kind of proxy harms itself, or nobody.
			want := map[Dialect]int{"": 400, Nginx: 200}[o.For]
			if a := f.get("127.0.0.4", "/", "X-Api-Key", "third", "X-Forwarded-Uri", "/free"); a.status != want {
				t.Error(a.status, a.body)
			}
			f.goAway()
			if a := f.get("127.0.0.2", "/", "X-Api-Key", "fresh"); a.status != 500 {
				t.Error("weir is away:", a.status, a.body)
			}
		})
	}
}

// The two examples of proxies are written for the one example of weir.
func TestExamplesFit(t *testing.T) {
	text := recipe(t, "auth.yaml", "listen: "+exampleWeir, "")
	found := regexp.MustCompile(`(?m)^  for: (\w+)$`).FindStringSubmatch(text)
	if found == nil {
		t.Fatal("examples/auth.yaml does not say which proxy asks")
	}
	o := Options{For: Dialect(found[1])}
	nginx, asked := nginxFront(t, o)
	nginx.behave(asked)
	haproxy, asked := haproxyFront(t, o, recipe(t, "haproxy-weir.lua"))
	haproxy.behave(asked)
}

func TestNginxFailsOpen(t *testing.T) {
	f, asked := nginxFront(t, Options{}, "#error_page", "error_page")
	f.behave(asked)
	f.goAway()
	if a := f.get("127.0.0.2", "/v1", "X-Api-Key", "acme"); a.status != 200 || a.body != "GET /v1 " {
		t.Error(a.status, a.body, f.log)
	}
}

// nginx holds the request while weir holds its answer.
func TestNginxWaits(t *testing.T) {
	f, _ := nginxFront(t, Options{})
	turns := make(chan *weir.Turn, 1)
	commit, _, err := f.gate.Prepare(Options{TrustedProxies: f.gate.Setup.Load().opts.TrustedProxies},
		chainOf(t, lineOf(turns, time.Time{})))
	if err != nil {
		t.Fatal(err)
	}
	commit()
	done := make(chan answer, 1)
	go func() { done <- f.get("127.0.0.2", "/") }()
	f.gate.untilWaiting(1)
	receive(t, turns).Grant()
	if a := receive(t, done); a.status != 200 || a.body != "GET / " {
		t.Error(a.status, a.body)
	}
}

func haproxyFront(t *testing.T, o Options, script string, changes ...string) (*front, *probe) {
	t.Helper()
	program := needs.Program(t, "haproxy", "apt-get install haproxy")
	if out, err := exec.Command(program, "-vv").Output(); err != nil || !bytes.Contains(out, []byte("+LUA")) {
		needs.Skip(t, fmt.Sprintf("this HAProxy has no Lua: %v", err))
	}
	return startFront(t, o, func(listen, app, folder string, gate *rig) *exec.Cmd {
		at := gate.Addr().String()
		if gate.Addr().Network() == "unix" {
			at = "unix@" + at
		}
		file := filepath.Join(folder, "weir.lua")
		text := recipe(t, "haproxy-auth.cfg",
			append(changes, "bind :80", "bind "+listen, exampleWeir, at, exampleApp, app,
				"/etc/haproxy/haproxy-weir.lua", file)...)
		config := filepath.Join(folder, "haproxy.cfg")
		if err := errors.Join(os.WriteFile(config, []byte(text), 0o600),
			os.WriteFile(file, []byte(script), 0o600)); err != nil {
			t.Fatal(err)
		}
		return exec.Command(program, "-db", "-f", config)
	})
}

func TestHAProxy(t *testing.T) {
	for name, o := range map[string]Options{"auto": {}, "named": {For: HAProxy},
		"socket": {Listen: "unix:" + filepath.Join(t.TempDir(), "auth")}} {
		t.Run(name, func(t *testing.T) {
			f, asked := haproxyFront(t, o, recipe(t, "haproxy-weir.lua"))
			f.behave(asked)
			f.goAway()
			if a := f.get("127.0.0.2", "/", "X-Api-Key", "fresh"); a.status != 503 {
				t.Error("weir is away:", a.status, a.body)
			}
		})
	}
}

func TestHAProxyFailsOpen(t *testing.T) {
	f, asked := haproxyFront(t, Options{}, recipe(t, "haproxy-weir.lua"), "9003 closed", "9003 open")
	f.behave(asked)
	f.goAway()
	if a := f.get("127.0.0.2", "/v1", "X-Api-Key", "acme"); a.status != 200 || a.body != "GET /v1 " {
		t.Error(a.status, a.body, f.log)
	}
}

// A script that fails lets nobody pass: HAProxy would go on without a verdict.
func TestHAProxyScriptFails(t *testing.T) {
	f, asked := haproxyFront(t, Options{},
		recipe(t, "haproxy-weir.lua", "local lines = {", "local lines = no_such_thing.at_all or {"))
	if a := f.get("127.0.0.2", "/v1", "X-Api-Key", "acme"); a.status != 503 || len(asked.asked()) > 0 {
		t.Error(a.status, a.body, f.log)
	}
}

// asTraefik does to requests what Traefik's ForwardAuth and Caddy's forward_auth are documented to do: they ask with
// GET and all headers of the client, their own X-Forwarded-… in the place of the client's, go on after any 2xx, and
// otherwise hand weir's answer to the client as it is. They are not in Debian, so that this stands in for them.
func (f *front) asTraefik(app string, keepHost bool) http.Handler {
	on := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: app})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.Clone(r.Context())
		q.Method, q.RequestURI, q.Body, q.ContentLength = http.MethodGet, "", nil, 0
		q.URL, _ = url.Parse(f.gate.url + "/auth")
		if !keepHost {
			q.Host = q.URL.Host
		}
		from, _, _ := net.SplitHostPort(r.RemoteAddr)
		for name, value := range map[string]string{"X-Forwarded-Method": r.Method, "X-Forwarded-Proto": "http",
			"X-Forwarded-Host": r.Host,
			"X-Forwarded-Uri":  r.URL.RequestURI(), "X-Forwarded-For": from} {
			q.Header.Set(name, value)
		}
		res, err := f.gate.client.Do(q)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		if res.StatusCode >= 200 && res.StatusCode < 300 {
			on.ServeHTTP(w, r)
			return
		}
		maps.Copy(w.Header(), res.Header)
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	})
}

// caddyFront starts a real Caddy, which here speaks HTTP and asks no authority for certificates.
func caddyFront(t *testing.T) (*front, *probe) {
	program := needs.Program(t, "caddy", "apt-get install caddy")
	return startFront(t, Options{For: Caddy}, func(listen, app, folder string, gate *rig) *exec.Cmd {
		text := "{\n\tadmin off\n}\n" + recipe(t, "caddy-auth.caddyfile", "example.com {",
			"http://"+listen+" {\n\tbind 127.0.0.1", exampleWeir, gate.Addr().String(), exampleApp, app)
		config := filepath.Join(folder, "Caddyfile")
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "run", "--config", config, "--adapter", "caddyfile")
		cmd.Env = append(os.Environ(), "HOME="+folder, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
		return cmd
	})
}

func TestCaddy(t *testing.T) {
	f, asked := caddyFront(t)
	f.silent = true
	f.behave(asked)
	f.goAway()
	if a := f.get("127.0.0.2", "/", "X-Api-Key", "fresh"); a.status != 502 {
		t.Error("weir is away:", a.status, a.body)
	}
}

// TestTraefikFile: Traefik's own code reads the file of examples/, and knows every field in it.
func TestTraefikFile(t *testing.T) {
	needs.Unwatched(t)
	check := needs.Module(t, "../../internal/checks/traefik")
	out, err := exec.Command(check, "../../examples/traefik-auth.yml").CombinedOutput()
	if err != nil || string(out) != "weir http://127.0.0.1:9003/\n" {
		t.Errorf("%v\n%s", err, out)
	}
	wrong := filepath.Join(t.TempDir(), "wrong.yml")
	text := recipe(t, "traefik-auth.yml", "address:", "adress:")
	if err := os.WriteFile(wrong, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(check, wrong).CombinedOutput(); err == nil || !strings.Contains(string(out), "adress") {
		t.Errorf("a field that does not exist: %v\n%s", err, out)
	}
}

func TestTraefikAndCaddy(t *testing.T) {
	for _, d := range []Dialect{Traefik, Caddy} {
		t.Run(string(d), func(t *testing.T) {
			f, asked, app := newFront(t, Options{For: d})
			proxy := httptest.NewServer(f.asTraefik(app, d == Caddy))
			t.Cleanup(proxy.Close)
			f.address, f.silent = strings.TrimPrefix(proxy.URL, "http://"), true
			f.behave(asked)
			f.goAway()
			if a := f.get("127.0.0.2", "/", "X-Api-Key", "fresh"); a.status != 502 {
				t.Error("weir is away:", a.status, a.body)
			}
		})
	}
}

// What the page shows of the recipes is in them, word for word; "…" stands for what is left out.
func TestPageShowsRecipes(t *testing.T) {
	raw, err := os.ReadFile("../../docs/forward-auth.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, name := range []string{"nginx-auth.conf", "haproxy-auth.cfg", "caddy-auth.caddyfile", "traefik-auth.yml"} {
		for line := range strings.Lines(recipe(t, name)) {
			known[strings.Join(strings.Fields(line), " ")] = true
		}
	}
	inside, shown := false, 0
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "```") {
			inside = !inside && (line == "```nginx\n" || line == "```text\n" || line == "```yaml fragment\n")
			continue
		}
		line = strings.Join(strings.Fields(line), " ")
		if !inside || line == "" || strings.Contains(line, "…") {
			continue
		}
		if shown++; !known[line] {
			t.Errorf("no recipe has %q", line)
		}
	}
	if shown < 25 {
		t.Errorf("%d lines were found", shown)
	}
}
