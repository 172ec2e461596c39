package console

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"weir/console/access"
	"weir/internal/clock"
)

// The operators of these tests, and their password.
var operators = map[string]access.Role{"vera": access.View, "ann": access.Act, "root": access.Admin}

const testPassword = "correct horse battery"

// A hall is a console that operators log in to.
type hall struct {
	*backend
	t   *testing.T
	url string
	log *syncBuffer
	m   *Metrics
}

// A syncBuffer is a log that goroutines may share.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func newHall(t *testing.T, o Options) *hall {
	t.Helper()
	h := &hall{backend: newBackend(), t: t, log: &syncBuffer{}, m: NewMetrics("test")}
	h.operators = accessOperators(t, clock.System)
	for name, role := range operators {
		if _, err := h.operators.AddOperator(t.Context(), access.Local("root"), name, role, testPassword); err != nil {
			t.Fatal(err)
		}
	}
	o.Listen = "127.0.0.1:0"
	s, err := New(o, h, h.m, slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Stop(t.Context()) })
	h.url = "http://" + s.Addr().String()
	return h
}

// A visitor is a browser without scripts.
type visitor struct {
	*http.Client
	h *hall
}

func (h *hall) visitor() *visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	c := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &visitor{c, h}
}

// An answer is what the console said.
type reply struct {
	code   int
	body   string
	header http.Header
}

func (v *visitor) send(method, path string, body io.Reader, headers ...string) reply {
	v.h.t.Helper()
	req, err := http.NewRequest(method, v.h.url+path, body)
	if err != nil {
		v.h.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := v.Do(req)
	if err != nil {
		v.h.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		v.h.t.Fatal(err)
	}
	return reply{resp.StatusCode, string(text), resp.Header}
}

func (v *visitor) get(path string, headers ...string) reply {
	v.h.t.Helper()
	return v.send("GET", path, nil, headers...)
}

// post sends a form, as our own page would.
func (v *visitor) post(path string, values url.Values, headers ...string) reply {
	v.h.t.Helper()
	return v.send("POST", path, strings.NewReader(values.Encode()),
		append([]string{"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin"},
			headers...)...)
}

var formToken = regexp.MustCompile(`name="form" value="([^"]+)"`)

// token returns the token of the forms of a page.
func (v *visitor) token(path string) string {
	v.h.t.Helper()
	found := formToken.FindStringSubmatch(v.get(path).body)
	if found == nil {
		v.h.t.Fatalf("there is no form on %s: %s", path, v.get(path).body)
	}
	return found[1]
}

// logIn logs in, as a person does.
func (v *visitor) logIn(name, password string, headers ...string) reply {
	v.h.t.Helper()
	return v.post("/login", url.Values{"form": {v.token("/login")}, "name": {name}, "password": {password}}, headers...)
}

// as returns a visitor who has logged in.
func (h *hall) as(name string) *visitor {
	h.t.Helper()
	v := h.visitor()
	if r := v.logIn(name, testPassword); r.code != http.StatusSeeOther || r.header.Get("Location") != "./" {
		h.t.Fatalf("%s cannot log in: %d %s", name, r.code, r.body)
	}
	return v
}

// bearer makes a token and returns the header for it.
func (h *hall) bearer(role access.Role) []string {
	h.t.Helper()
	_, secret, err := h.operators.AddToken(h.t.Context(), access.Local("root"), "t-"+string(role), role, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	return []string{"Authorization", "Bearer " + secret}
}

func TestLogInPages(t *testing.T) {
	h := newHall(t, Options{})
	v := h.visitor()
	// Who has not logged in is asked to, and led back.
	if r := v.get("/"); r.code != http.StatusSeeOther || r.header.Get("Location") != "./login" || r.body != "" {
		t.Errorf("%d %v %s", r.code, r.header, r.body)
	}
	if r := v.get("/nowhere"); r.code != http.StatusSeeOther || r.header.Get("Location") != "./login" {
		t.Errorf("an unknown page: %d %v", r.code, r.header)
	}
	if r := v.logIn("ann", "wrong"); r.code != http.StatusForbidden || !strings.Contains(r.body, "Wrong name or password") ||
		strings.Contains(r.body, `value="wrong"`) {
		t.Errorf("%d %s", r.code, r.body)
	}
	if r := v.logIn("nobody", "wrong"); r.code != http.StatusForbidden {
		t.Errorf("%d %s", r.code, r.body)
	}
	r := v.logIn("ann", testPassword)
	if r.code != http.StatusSeeOther {
		t.Fatalf("%d %s", r.code, r.body)
	}
	for _, line := range r.header.Values("Set-Cookie") {
		if !strings.Contains(line, "HttpOnly") || !strings.Contains(line, "SameSite=Strict") ||
			strings.Contains(line, "Domain=") {
			t.Errorf("a cookie: %s", line)
		}
	}
	r = v.get("/")
	if r.code != 200 || !strings.Contains(r.body, "ann</a> <small>act</small>") || !strings.Contains(r.body, "Overview") {
		t.Errorf("%d %s", r.code, r.body)
	}
	if r := v.get("/nowhere"); r.code != http.StatusNotFound || !strings.Contains(r.body, "no such page") {
		t.Errorf("an unknown page: %d %s", r.code, r.body)
	}
	for header, want := range map[string]string{"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin",
		"Content-Security-Policy": contentPolicy + "; img-src data:; frame-ancestors 'none'; base-uri 'none'"} {
		if got := r.header.Get(header); got != want {
			t.Errorf("%s: %q", header, got)
		}
	}
	if strings.Contains(contentPolicy, "unsafe") || strings.Contains(r.body, "<script>") ||
		strings.Contains(r.body, "style=") {
		t.Error("something is inline")
	}
	if r := v.post("/logout", url.Values{"form": {v.token("/")}}); r.code != http.StatusSeeOther {
		t.Errorf("%d %s", r.code, r.body)
	}
	if r := v.get("/"); r.code != http.StatusSeeOther {
		t.Errorf("after the log-out: %d", r.code)
	}
	if _, body, _ := get(t, "GET", h.url+"/metrics", ""); !strings.Contains(body,
		`weir_console_logins_total{result="ok"} 1`) || !strings.Contains(body,
		`weir_console_logins_total{result="wrong"} 2`) {
		t.Error("the log-ins are not counted")
	}
}

// TestLogInLeadsBackToOurPagesOnly: a link cannot make a log-in end elsewhere.
func TestLogInLeadsBackToOurPagesOnly(t *testing.T) {
	h := newHall(t, Options{})
	for to, want := range map[string]string{"": "./", "https://evil.example/": "./", "//evil.example": "./",
		"/\\evil.example": "./", "javascript:alert(1)": "./", "../evil": "./", "?x=1": "./?x=1",
		"?said=forged&x=1": "./?x=1", "nowhere": "./", "\r\nSet-Cookie: a=b": "./"} {
		v := h.visitor()
		r := v.post("/login", url.Values{"form": {v.token("/login")}, "name": {"ann"}, "password": {testPassword},
			"to": {to}})
		if r.code != http.StatusSeeOther || r.header.Get("Location") != want {
			t.Errorf("%q: %d to %q", to, r.code, r.header.Get("Location"))
		}
	}
}

// TestLogInFromElsewhere: a page of another site cannot log somebody in, neither as itself nor as somebody else.
func TestLogInFromElsewhere(t *testing.T) {
	h := newHall(t, Options{})
	v := h.visitor()
	good := url.Values{"form": {v.token("/login")}, "name": {"ann"}, "password": {testPassword}}
	for what, headers := range map[string][]string{"cross-site": {"Sec-Fetch-Site", "cross-site"},
		"another port of this host": {"Sec-Fetch-Site", "same-site"},
		"another origin":            {"Sec-Fetch-Site", "", "Origin", "https://evil.example"}} {
		if r := v.post("/login", good, headers...); r.code != http.StatusForbidden {
			t.Errorf("%s: %d", what, r.code)
		}
	}
	stranger := h.visitor() // without the cookie that belongs to the form
	if r := stranger.post("/login", good); r.code != http.StatusForbidden {
		t.Errorf("a form of another browser: %d", r.code)
	}
	good.Set("form", "x")
	if r := v.post("/login", good); r.code != http.StatusForbidden {
		t.Errorf("without the token: %d", r.code)
	}
}

// TestSessionFixation: a log-in begins a session of its own, and ends the one that the browser was given before.
func TestSessionFixation(t *testing.T) {
	h := newHall(t, Options{})
	attacker := h.as("vera")
	at, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	victim := h.visitor()
	victim.Jar.SetCookies(at, attacker.Jar.Cookies(at)) // planted
	if r := victim.logIn("root", testPassword); r.code != http.StatusSeeOther {
		t.Fatal(r.code)
	}
	if r := victim.get("/"); !strings.Contains(r.body, "root</a> <small>admin</small>") {
		t.Errorf("the victim: %s", r.body)
	}
	if r := attacker.get("/"); r.code != http.StatusSeeOther {
		t.Errorf("the attacker goes on in the session: %d %s", r.code, r.body)
	}
}

// TestForms: a form makes the call that the API has, and leads back with the result.
func TestForms(t *testing.T) {
	h := newHall(t, Options{})
	v := h.as("ann")
	token := v.token("/")
	r := v.post("/do/ban-add", url.Values{"form": {token}, "back": {"?x=1"}, "who": {"192.0.2.9"}, "for": {"1h"},
		"reason": {"a & b"}})
	if r.code != http.StatusSeeOther || !strings.HasPrefix(r.header.Get("Location"), "../?x=1&said=") {
		t.Fatalf("%d %v %s", r.code, r.header, r.body)
	}
	if h.bans.order.Who != "192.0.2.9" || h.bans.order.Reason != "a & b" || h.bans.order.For.String() != "1h" ||
		h.bans.by != "ann" {
		t.Errorf("%+v by %s", h.bans.order, h.bans.by)
	}
	shown := v.get("/" + strings.TrimPrefix(r.header.Get("Location"), "../"))
	if !strings.Contains(shown.body, `<p class="said good" role="status">Banned: 192.0.2.9.</p>`) {
		t.Errorf("%s", shown.body)
	}
	e := h.noted[0]
	if e.By != "ann" || e.What != "ban-add" || e.From != "127.0.0.1" || !strings.Contains(e.Text, "192.0.2.9") ||
		!strings.Contains(string(e.After), `"who":"192.0.2.9"`) {
		t.Errorf("%+v", e)
	}
	// What makes no sense is said on the page.
	r = v.post("/do/ban-add", url.Values{"form": {token}, "who": {"192.0.2.9"}, "for": {"soon"}})
	shown = v.get("/" + strings.TrimPrefix(r.header.Get("Location"), "../"))
	if r.code != http.StatusSeeOther || !strings.Contains(shown.body, `role="alert">Not done: for: `) {
		t.Errorf("%d %s", r.code, shown.body)
	}
	if len(h.noted) != 1 {
		t.Errorf("what was not done is noted: %+v", h.noted)
	}
	// A link cannot make the page say something, nor can what another one was told.
	other := h.as("vera")
	for _, forged := range []string{"1aGVsbG8", "1aGVsbG8.x", strings.TrimPrefix(r.header.Get("Location"), "../?said=")} {
		said := other.get("/?said=" + forged).body
		if strings.Contains(said, `class="said`) {
			t.Errorf("%s: %s", forged, said)
		}
	}
	for path, code := range map[string]int{"/do/nothing": 404, "/do/backup": 403} {
		if r := h.as("root").post(path, url.Values{"form": {token}}); r.code != code && r.code != 403 {
			t.Errorf("%s: %d", path, r.code)
		}
	}
}

// TestForgedForms: nothing is done for a page of another site, nor without the token of this session.
func TestForgedForms(t *testing.T) {
	h := newHall(t, Options{})
	v, other := h.as("ann"), h.as("ann")
	good := url.Values{"form": {v.token("/")}, "who": {"192.0.2.9"}}
	for what, headers := range map[string][]string{"cross-site": {"Sec-Fetch-Site", "cross-site"},
		"another port of this host": {"Sec-Fetch-Site", "same-site"},
		"another origin":            {"Sec-Fetch-Site", "", "Origin", "https://evil.example"}} {
		if r := v.post("/do/ban-add", good, headers...); r.code != http.StatusForbidden {
			t.Errorf("%s: %d", what, r.code)
		}
		if r := v.post("/logout", good, headers...); r.code != http.StatusForbidden {
			t.Errorf("%s, a log-out: %d", what, r.code)
		}
	}
	for what, token := range map[string]string{"none": "", "a wrong one": "x", "that of another session": other.token("/"),
		"that of a log-in": h.visitor().token("/login")} {
		bad := url.Values{"who": {"192.0.2.9"}, "form": {token}}
		if r := v.post("/do/ban-add", bad); r.code != http.StatusForbidden {
			t.Errorf("%s: %d", what, r.code)
		}
	}
	// The API with the cookie alone: a script of ours sends the token in a header, which no other site can.
	body := `{"who":"192.0.2.9"}`
	for what, headers := range map[string][]string{"no header": nil, "a wrong one": {formHeader, "x"},
		"cross-site": {formHeader, good.Get("form"), "Sec-Fetch-Site", "cross-site"},
		"a form":     {formHeader, good.Get("form"), "Content-Type", "text/plain"}} {
		if r := v.send("POST", Prefix+"/bans", strings.NewReader(body), headers...); r.code != http.StatusForbidden &&
			r.code != http.StatusUnsupportedMediaType {
			t.Errorf("API, %s: %d %s", what, r.code, r.body)
		}
	}
	if h.bans.order.Who != "" || len(h.noted) > 0 {
		t.Errorf("something was done: %+v %+v", h.bans.order, h.noted)
	}
	if r := v.send("POST", Prefix+"/bans", strings.NewReader(body), formHeader, good.Get("form"), "Content-Type",
		"application/json"); r.code != 200 || h.bans.by != "ann" {
		t.Errorf("our own script: %d %s", r.code, r.body)
	}
}

// TestRoles: every call is refused to those whose role is not enough, and to those who are not known.
func TestRolesOfCalls(t *testing.T) {
	h := newHall(t, Options{})
	tokens := map[access.Role][]string{}
	for _, role := range operators {
		tokens[role] = h.bearer(role)
	}
	nobody := h.visitor()
	for _, c := range Calls() {
		if r := nobody.send(c.Method, Prefix+c.Path, nil); r.code != http.StatusUnauthorized ||
			r.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: nobody: %d %s", c.Name(), r.code, r.body)
		}
		for role, headers := range tokens {
			r := nobody.send(c.Method, Prefix+c.Path, nil, headers...)
			refused := r.code == http.StatusForbidden && (c.Local || strings.Contains(r.body, "needs the role"))
			if enough := role.May(c.Role) && !c.Local; refused == enough {
				t.Errorf("%s (%s): %s: %d %s", c.Name(), c.Role, role, r.code, r.body)
			}
		}
	}
	viewer := h.as("vera")
	if r := viewer.post("/do/ban-add", url.Values{"form": {viewer.token("/")}, "who": {"192.0.2.9"}}); r.code !=
		http.StatusForbidden || h.bans.order.Who != "" {
		t.Errorf("a form of a viewer: %d", r.code)
	}
}

// TestTokensOverHTTP: bad tokens are refused at once, even with a session beside them.
func TestTokensOverHTTP(t *testing.T) {
	h := newHall(t, Options{})
	v := h.as("root")
	for _, bad := range []string{"", "Bearer", "Bearer ", "Bearer x", "Bearer weir_x", "Basic cm9vdDp4", "weir_x"} {
		if r := v.get(Prefix+"/status", "Authorization", bad); r.code != http.StatusUnauthorized {
			t.Errorf("%q: %d", bad, r.code)
		}
	}
	good := h.bearer(access.View)
	lower := "bearer" + strings.TrimPrefix(good[1], "Bearer")
	if r := h.visitor().get(Prefix+"/status", "Authorization", lower); r.code != 200 {
		t.Errorf("in lower case: %d", r.code)
	}
	var s Status
	if r := h.visitor().get(Prefix+"/status", good...); r.code != 200 || json.Unmarshal([]byte(r.body), &s) != nil ||
		s.Version != "test" {
		t.Errorf("%d %s", r.code, r.body)
	}
	// A token is no key to pages, and no cookie.
	if r := h.visitor().get("/", "Cookie", sessionCookie+"="+strings.TrimPrefix(good[1], "Bearer ")); r.code !=
		http.StatusSeeOther {
		t.Errorf("a token as a cookie: %d", r.code)
	}
}

// TestGuessing: wrong passwords are limited over HTTP, and a browser that is known gets in all the same.
func TestGuessing(t *testing.T) {
	h := newHall(t, Options{})
	known := h.as("ann")
	stranger := h.visitor()
	codes := map[int]int{}
	for range 15 {
		codes[stranger.logIn("ann", "a guess").code]++
	}
	if codes[http.StatusForbidden] != 10 || codes[http.StatusTooManyRequests] != 5 {
		t.Errorf("%v", codes)
	}
	if r := stranger.logIn("vera", testPassword); r.code != http.StatusTooManyRequests ||
		r.header.Get("Retry-After") == "" {
		t.Errorf("the right one of somebody who was not here before: %d", r.code)
	}
	if r := known.logIn("ann", testPassword); r.code != http.StatusSeeOther {
		t.Errorf("a browser that is known: %d %s", r.code, r.body)
	}
}

// TestNothingSecretIsLogged: passwords, sessions and tokens are in no log, nor is a name that was typed.
func TestNothingSecretIsLogged(t *testing.T) {
	h := newHall(t, Options{})
	v := h.visitor()
	v.logIn("hunter2-in-the-wrong-field", "a wrong guess")
	v.logIn("ann", testPassword)
	at, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{"hunter2", "a wrong guess", testPassword, h.bearer(access.Admin)[1]}
	for _, c := range v.Jar.Cookies(at) {
		secrets = append(secrets, c.Value)
	}
	v.get(Prefix+"/status", "Authorization", secrets[3])
	for _, s := range secrets {
		if strings.Contains(h.log.String(), s) {
			t.Errorf("%q is in the log: %s", s, h.log)
		}
	}
	if !strings.Contains(h.log.String(), "a login to the console was refused") ||
		!strings.Contains(h.log.String(), "source=127.0.0.1") {
		t.Errorf("a refused log-in is not in the log: %s", h.log)
	}
}

// TestRebinding: a page that makes its own name resolve to this machine gets nothing, and can do nothing.
func TestRebinding(t *testing.T) {
	h := newHall(t, Options{Hosts: []string{"weir.example.com"}})
	known := h.as("root")
	token := known.token("/")
	at, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	var cookies []string
	for _, c := range known.Jar.Cookies(at) {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	v := h.visitor()
	cookie := strings.Join(cookies, "; ") // even if the browser sent them
	for _, path := range []string{"/", "/login", "/metrics", Prefix + "/status", Prefix + "/openapi.json", "/style.css"} {
		if r := v.get(path, "Host", "evil.example", "Cookie", cookie); r.code != http.StatusForbidden {
			t.Errorf("%s: %d", path, r.code)
		}
	}
	for _, path := range []string{"/login", "/logout", "/do/ban-add"} {
		if r := v.post(path, url.Values{"form": {token}, "who": {"192.0.2.9"}}, "Host", "evil.example",
			"Cookie", cookie); r.code != http.StatusForbidden || h.bans.order.Who != "" {
			t.Errorf("%s: %d", path, r.code)
		}
	}
	if r := v.get("/", "Host", "weir.example.com", "Cookie", cookie); r.code != 200 {
		t.Errorf("our own name: %d", r.code)
	}
}

// TestProxyHeader: the header counts from the proxy alone, and forms need their token there, too.
func TestProxyHeader(t *testing.T) {
	self := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	h := newHall(t, Options{Proxy: Proxy{From: self, Header: "X-Forwarded-User", Role: access.Act}})
	v := h.visitor()
	eve := []string{"X-Forwarded-User", "eve@example.org", "X-Forwarded-For", "10.0.0.1, 198.51.100.7"}
	page := v.get("/", eve...)
	if page.code != 200 || !strings.Contains(page.body, "eve@example.org <small>act</small>") ||
		strings.Contains(page.body, "Log out") {
		t.Fatalf("%d %s", page.code, page.body)
	}
	if r := v.get("/", "X-Forwarded-User", "root"); !strings.Contains(r.body, "root</a> <small>admin</small>") {
		t.Errorf("an operator has their own role: %s", r.body)
	}
	if r := v.send("POST", Prefix+"/bans", strings.NewReader(`{"who":"192.0.2.9"}`), eve...); r.code !=
		http.StatusForbidden {
		t.Errorf("a forged call: %d", r.code)
	}
	probe := v.send("POST", Prefix+"/bans", strings.NewReader(`{"who":"192.0.2.9"}`),
		append([]string{formHeader, h.operators.Form(access.Proxied("eve@example.org", access.Act))}, eve...)...)
	if probe.code != 200 || h.bans.by != "eve@example.org" || h.noted[0].From != "198.51.100.7" {
		t.Errorf("%d %s by %s: %+v", probe.code, probe.body, h.bans.by, h.noted)
	}
	for what, headers := range map[string][]string{"no name": {"X-Forwarded-User", ""},
		"a long one": {"X-Forwarded-User", strings.Repeat("x", 65)}} {
		if r := v.get("/", headers...); r.code != http.StatusSeeOther {
			t.Errorf("%s: %d", what, r.code)
		}
	}
	req, err := http.NewRequest("GET", h.url+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header["X-Forwarded-User"] = []string{"vera", "root"}
	resp, err := v.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther {
		t.Errorf("two names: %d", resp.StatusCode)
	}

	away := newHall(t, Options{Proxy: Proxy{From: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Header: "X-Forwarded-User", Role: access.Admin}})
	if r := away.visitor().get("/", "X-Forwarded-User", "root"); r.code != http.StatusSeeOther {
		t.Errorf("somebody else claims to be the proxy: %d", r.code)
	}
	if r := away.visitor().get(Prefix+"/status", "X-Forwarded-User", "root"); r.code != http.StatusUnauthorized {
		t.Errorf("somebody else claims to be the proxy: %d", r.code)
	}
	if r := away.visitor().logIn("ann", testPassword, "X-Forwarded-For", "198.51.100.7"); r.code !=
		http.StatusSeeOther {
		t.Fatal(r.code)
	}
}

// TestOpenToEverybody: health and metrics need no log-in; without_login lets everybody look, and nothing else.
func TestOpenToEverybody(t *testing.T) {
	h := newHall(t, Options{})
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/style.css", "/live.js", "/plot.js",
		Prefix + "/openapi.json"} {
		if r := h.visitor().get(path); r.code != 200 {
			t.Errorf("%s: %d", path, r.code)
		}
	}
	open := newHall(t, Options{WithoutLogin: access.View})
	v := open.visitor()
	if r := v.get("/"); r.code != 200 || !strings.Contains(r.body, "anybody") {
		t.Errorf("%d", r.code)
	}
	if r := v.get(Prefix + "/bans"); r.code != 200 {
		t.Errorf("%d", r.code)
	}
	if r := v.send("POST", Prefix+"/why", strings.NewReader(`{"method":"GET","path":"/"}`)); r.code != 200 {
		t.Errorf("%d", r.code)
	}
	if r := v.send("POST", Prefix+"/operators/password",
		strings.NewReader(`{"name":"root","password":"correct horse"}`)); r.code != http.StatusForbidden {
		t.Errorf("%d", r.code)
	}
	if r := v.get(Prefix + "/operators"); r.code != http.StatusForbidden {
		t.Errorf("%d", r.code)
	}
	if r := v.send("POST", Prefix+"/bans", strings.NewReader(`{"who":"192.0.2.9"}`)); r.code != http.StatusForbidden {
		t.Errorf("%d", r.code)
	}
	if r := v.post("/do/ban-add", url.Values{"form": {""}, "who": {"192.0.2.9"}}); r.code != http.StatusForbidden {
		t.Errorf("%d", r.code)
	}
}

// TestWhileTheStoreIsClosed: nobody is let in while weir starts or stops.
func TestWhileTheStoreIsClosed(t *testing.T) {
	h := newHall(t, Options{WithoutLogin: access.View})
	h.operators = nil
	v := h.visitor()
	for _, path := range []string{"/", "/login", Prefix + "/status"} {
		if r := v.get(path); r.code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, r.code)
		}
	}
	for _, path := range []string{"/login", "/logout", "/do/ban-add"} {
		if r := v.post(path, url.Values{}); r.code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, r.code)
		}
	}
	if r := v.get("/healthz"); r.code != 200 {
		t.Errorf("health: %d", r.code)
	}
}

// TestLongForms: a form is read up to a bound.
func TestLongForms(t *testing.T) {
	h := newHall(t, Options{})
	v := h.as("ann")
	long := url.Values{"form": {v.token("/")}, "who": {strings.Repeat("x", maxForm)}}
	for _, path := range []string{"/login", "/do/ban-add", "/logout"} {
		if r := v.post(path, long); r.code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d", path, r.code)
		}
	}
}

// TestViewersDoNotReadMail: the text of a message is for those who may act.
func TestViewersDoNotReadMail(t *testing.T) {
	b := newBusy()
	for role, want := range map[access.Role]bool{access.View: false, access.Act: true, access.Admin: true} {
		q := &Request{Context: t.Context(), Who: access.Identity{Name: "x", Role: role}, backend: b}
		v, err := QueueShowCall.on(q, MailName{7})
		if err != nil || v.Header == "" || (v.Text != "") != want {
			t.Errorf("%s: %+v, %v", role, v, err)
		}
	}
}
