package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"weir"
	"weir/app"
	"weir/config"
	"weir/console"
	"weir/internal/clock"
	"weir/internal/testkit/mmdb"
	"weir/internal/testkit/needs"
)

// A junction is a running weir with gates for HTTP, Envoy, services that ask and proxies that ask, and one quota that
// all of them list.
type junction struct {
	t        *testing.T
	clock    *clock.Fake
	app      *app.App
	control  *console.Client
	upstream *httptest.Server
	seen     chan *http.Request // what the upstream was sent
	answer   func(http.ResponseWriter, *http.Request)
	folder   string
	envoy    rls.RateLimitServiceClient
}

// left is how much an account has left of its first rule.
func (c *junction) left(t *testing.T, account string) int64 {
	t.Helper()
	a, err := console.AccountGetCall.Ask(context.Background(), c.control, console.Name{Name: account})
	if err != nil {
		t.Fatal(err)
	}
	return a.Throttles[0].Rules[0].Remaining
}

const askingToken = "0123456789abcdef0123"

// junctionConfig is the configuration of a junction, around its throttles. The folder stands for [1], the upstream for
// [2].
const junctionConfig = `
data: %[1]s
console: {listen: "127.0.0.1:0", without_login: view}
http:
- listen: 127.0.0.1:0
  upstream: %[2]s
  account: ["header:X-Api-Key"]
  jwt: {key: %[1]s/token.key, algorithms: [HS256], plan: plan}
  headers: {response: {remove: [X-Cost]}}
  throttles: [plans]
auth:
- {listen: "127.0.0.1:0", account: ["header:X-Api-Key"], throttles: [plans]}
rls:
- {listen: "127.0.0.1:0", domains: {shop: {throttles: [plans], account: [user]}}}
api: {listen: "127.0.0.1:0", tokens: [` + askingToken + `], policies: {web: [plans]}}
`

func newJunction(t *testing.T, rest string) *junction {
	t.Helper()
	c := &junction{t: t, clock: clock.NewFake(noon), folder: t.TempDir(), seen: make(chan *http.Request, 1000)}
	c.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.seen <- r
		if c.answer != nil {
			c.answer(w, r)
		}
	}))
	t.Cleanup(c.upstream.Close)
	c.write("token.key", []byte(strings.Repeat("k", 32)))
	c.write("countries.mmdb", countries("127.0.0.0/8", "DE"))
	a, err := app.New(c.config(rest), app.Options{Clock: c.clock, HashMemory: 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	c.app, c.control = a, console.NewClient(a.ControlPath())
	conn, err := grpc.NewClient(a.Addr("rls", 0).String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c.envoy = rls.NewRateLimitServiceClient(conn)
	return c
}

func (c *junction) write(name string, data []byte) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.folder, name), data, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *junction) config(rest string) *config.Config {
	c.t.Helper()
	cfg, err := config.Parse("weir.yaml",
		[]byte(fmt.Sprintf(junctionConfig, c.folder, c.upstream.URL)+strings.ReplaceAll(rest, "FOLDER", c.folder)))
	if err != nil {
		c.t.Fatal(err)
	}
	return cfg
}

// do sends a request to a gate; headers are name: value.
func (c *junction) do(gate, method, path, body string, headers ...string) (status int, text string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+c.app.Addr(gate, 0).String()+path,
		strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body == "" {
		r.Body, r.ContentLength = nil, 0
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header[name] = append(r.Header[name], value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.Header.Get("X-Cost") != "" {
		c.t.Error("the client sees what the request cost")
	}
	return resp.StatusCode, string(all)
}

// Each of these asks one gate about a request, and reports whether it is let through.

func (c *junction) byHTTP(method, path string, headers ...string) bool {
	c.t.Helper()
	status, text := c.do("http", method, path, "", headers...)
	if status != 200 && status != 429 {
		c.t.Fatalf("%d: %s", status, text)
	}
	return status == 200
}

func (c *junction) byProxy(method, path string, headers ...string) bool {
	c.t.Helper()
	headers = append(headers, "X-Forwarded-Method: "+method, "X-Forwarded-Uri: "+path, "X-Forwarded-Host: shop.example",
		"X-Forwarded-For: 127.0.0.9")
	status, text := c.do("auth", "GET", "/", "", headers...)
	if status != 200 && status != 429 {
		c.t.Fatalf("%d: %s", status, text)
	}
	return status == 200
}

func (c *junction) byEnvoy(entries ...string) bool {
	c.t.Helper()
	var d common.RateLimitDescriptor
	for _, e := range entries {
		key, value, _ := strings.Cut(e, "=")
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	r, err := c.envoy.ShouldRateLimit(c.t.Context(), &rls.RateLimitRequest{Domain: "shop",
		Descriptors: []*common.RateLimitDescriptor{&d}})
	if err != nil {
		c.t.Fatal(err)
	}
	return r.OverallCode == rls.RateLimitResponse_OK
}

func (c *junction) byService(question string) bool {
	c.t.Helper()
	status, text := c.do("api", "POST", "/v1/decide", question, "Authorization: Bearer "+askingToken,
		"Content-Type: application/json")
	var d struct{ Verdict weir.Verdict }
	if err := json.Unmarshal([]byte(text), &d); err != nil || status != 200 {
		c.t.Fatalf("%d: %s", status, text)
	}
	return d.Verdict == weir.Admit
}

// One quota has one counter, whichever gate a request comes through.
func TestOneQuotaAtSeveralGates(t *testing.T) {
	t.Parallel()
	c := newJunction(t, `throttles: {plans: {quota: {policies: [{name: few, limit: 5, period: 1h}]}}}`)
	http := func(account string) bool { return c.byHTTP("GET", "/", "X-Api-Key: "+account) }
	envoy := func(account string) bool { return c.byEnvoy("user=" + account) }
	service := func(account string) bool { return c.byService(`{"policy":"web","account":"` + account + `"}`) }
	proxy := func(account string) bool { return c.byProxy("GET", "/", "X-Api-Key: "+account) }
	for i, gate := range []func(string) bool{http, envoy, http, service, http} {
		if !gate("acme") {
			t.Errorf("request %d of 5 was refused", i+1)
		}
	}
	for name, gate := range map[string]func(string) bool{"HTTP": http, "Envoy": envoy, "API": service, "auth": proxy} {
		if gate("acme") {
			t.Errorf("%s lets a sixth request through", name)
		}
		if !gate("globex") {
			t.Errorf("%s refuses another account", name)
		}
	}
	// A request that passes two gates counts twice: a proxy asks, and then it comes through the HTTP gate.
	passed := 0
	for proxy("twice") && http("twice") {
		passed++
	}
	if passed != 2 {
		t.Errorf("%d requests passed both gates, want 2 of a limit of 5", passed)
	}
}

const keyedThrottles = `
countries: FOLDER/countries.mmdb
throttles:
  plans:
    quota:
      key: [account, method, "path:1", country, "header:X-Tenant"]
      plans: {gold: {few: {limit: 4}}}
      members: {globex: gold}
      policies: [{name: few, limit: 2, period: 1h}]
`

func countries(pairs ...string) []byte {
	all := map[netip.Prefix]string{}
	for i := 0; i < len(pairs); i += 2 {
		all[netip.MustParsePrefix(pairs[i])] = pairs[i+1]
	}
	return mmdb.Write(all)
}

func signedFor(t *testing.T, org string) string {
	t.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"org": org, "plan": "none",
		"exp": noon.Add(time.Hour).Unix()}).SignedString([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	return "Authorization: Bearer " + token
}

// A key has several parts, and the gates find the same ones: what comes through one of them is counted with the others.
func TestKeyOfSeveralPartsAtSeveralGates(t *testing.T) {
	t.Parallel()
	c := newJunction(t, keyedThrottles)
	for i, through := range []bool{
		c.byHTTP("GET", "/orders/1", "X-Api-Key: acme", "X-Tenant: t1"),
		c.byEnvoy("user=acme", "method=GET", "path=/orders/2", "remote_address=127.0.0.1", "header:x-tenant=t1"),
	} {
		if !through {
			t.Errorf("request %d was refused", i+1)
		}
	}
	for name, through := range map[string]bool{
		"HTTP":  c.byHTTP("GET", "/orders/1", "X-Api-Key: acme", "X-Tenant: t1"),
		"Envoy": c.byEnvoy("user=acme", "method=GET", "path=/orders", "remote_address=127.0.0.1", "header:X-Tenant=t1"),
		"API": c.byService(`{"policy":"web","account":"acme","source":"127.0.0.1","route":"GET shop.example/Orders",` +
			`"parts":{"header:x-tenant":"t1"}}`),
		"auth": c.byProxy("GET", "/orders?x=1", "X-Api-Key: acme", "X-Tenant: t1"),
	} {
		if through {
			t.Errorf("%s lets a third request through", name)
		}
	}
	for name, through := range map[string]bool{
		"another tenant":    c.byHTTP("GET", "/orders", "X-Api-Key: acme", "X-Tenant: t2"),
		"no tenant":         c.byHTTP("GET", "/orders", "X-Api-Key: acme"),
		"another method":    c.byHTTP("POST", "/orders", "X-Api-Key: acme", "X-Tenant: t1"),
		"another path":      c.byHTTP("GET", "/bills", "X-Api-Key: acme", "X-Tenant: t1"),
		"no account":        c.byHTTP("GET", "/orders", "X-Tenant: t1"),
		"another country":   c.byEnvoy("user=acme", "method=GET", "path=/orders", "remote_address=192.0.2.1", "header:X-Tenant=t1"),
		"an imitated key":   c.byService(`{"policy":"web","account":"acme,GET,orders,DE,t1"}`),
		"an imitated part":  c.byService(`{"policy":"web","account":"acme","route":"GET /orders","parts":{"header:X-Tenant":"t1,-"}}`),
		"an unknown method": c.byHTTP("BREW", "/orders", "X-Api-Key: acme", "X-Tenant: t1"),
	} {
		if !through {
			t.Errorf("%s: refused", name)
		}
	}
	for i, want := range []bool{true, true, true, true, false} { // a member of a plan
		if got := c.byHTTP("GET", "/orders", "X-Api-Key: globex"); got != want {
			t.Errorf("request %d of a member of a plan: %v", i+1, got)
		}
	}
}

// What servers read in different ways has no key, and is refused; what goes on is what was read.
func TestDoubtfulPartsOverHTTP(t *testing.T) {
	t.Parallel()
	c := newJunction(t, keyedThrottles)
	for name, headers := range map[string][]string{
		"two tenants":         {"X-Tenant: t1", "X-Tenant: t2"},
		"a list of tenants":   {"X-Tenant: t1, t2"},
		"a hop":               {"X-Tenant: t1", "Connection: X-Tenant"},
		"another method":      {"X-Http-Method-Override: DELETE"},
		"a long tenant":       {"X-Tenant: " + strings.Repeat("x", 257)},
		"a key that is long":  {"X-Tenant: " + strings.Repeat("x", 250)},
		"another path, too":   {"X-Original-Url: /bills"},
		"what is not printed": {"X-Tenant: t\u00801\xff"},
	} {
		status, text := c.do("http", "GET", "/orders", "", append(headers, "X-Api-Key: acme")...)
		if status != 400 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	for _, path := range []string{"/orders;x/1", "/a/../orders", "/%6frders%2f..%2fbills"} {
		if status, text := c.do("http", "GET", path, "", "X-Api-Key: acme"); status != 400 ||
			!strings.Contains(text, "bad-key") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if len(c.seen) > 0 {
		t.Errorf("the upstream was sent %s", (<-c.seen).URL)
	}
	if !c.byHTTP("GET", "/orders", "X-Api-Key: acme", "X-Tenant: t1", "X_Tenant: t2", "X.Tenant: t3") {
		t.Fatal("refused")
	}
	r := <-c.seen
	for name, values := range r.Header {
		if strings.Contains(strings.ToLower(name), "tenant") && (name != "X-Tenant" || values[0] != "t1") {
			t.Errorf("the upstream is sent %s: %s", name, values)
		}
	}
}

// A claim of a verified token may be a part. A token that is not good says nothing.
func TestKeyWithAClaim(t *testing.T) {
	t.Parallel()
	c := newJunction(t, `throttles: {plans: {quota: {policies: [{name: few, limit: 2, period: 1h}]}}}`)
	alone, _, _ := strings.Cut(junctionConfig, "auth:") // the other gates verify no tokens
	cfg, err := config.Parse("weir.yaml", []byte(fmt.Sprintf(alone, c.folder, c.upstream.URL)+`throttles:
  plans: {quota: {key: ["header:X-Tenant", "jwt:org"], policies: [{name: few, limit: 2, period: 1h}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.app.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	one, other := signedFor(t, "one"), signedFor(t, "other")
	for i, want := range []bool{true, true, false} {
		if got := c.byHTTP("GET", "/", one); got != want {
			t.Errorf("request %d of one organization: %v", i+1, got)
		}
	}
	if !c.byHTTP("GET", "/", other) {
		t.Error("another organization is refused")
	}
	for i, want := range []bool{true, true, false} { // all of them are one
		if got := c.byHTTP("GET", "/", []string{one + "x", "Authorization: Bearer a.b.c", "Accept: x"}[i]); got != want {
			t.Errorf("request %d without a good token: %v", i+1, got)
		}
	}
}

// Operators see keys, ask about them, reset them and give them limits of their own.
func TestKeysAreOperated(t *testing.T) {
	t.Parallel()
	c := newJunction(t, keyedThrottles)
	ctx := context.Background()
	for _, path := range []string{"/orders", "/orders", "/bills"} {
		c.byHTTP("GET", path, "X-Api-Key: acme", "X-Tenant: t1")
	}
	a, err := console.AccountGetCall.Ask(ctx, c.control, console.Name{Name: "acme"})
	if err != nil || len(a.Throttles) != 2 || a.Throttles[1].Key != "acme,GET,orders,DE,t1" ||
		a.Throttles[1].Rules[0].Remaining != 0 || a.Throttles[0].Key != "acme,GET,bills,DE,t1" {
		t.Fatalf("%+v, %v", a, err)
	}
	key, err := console.AccountGetCall.Ask(ctx, c.control, console.Name{Name: "acme,GET,orders,DE,t1"})
	if err != nil || len(key.Throttles) != 1 || key.Logged != a.Logged || key.Throttles[0].Rules[0].Remaining != 0 {
		t.Fatalf("%+v, %v", key, err)
	}
	question := console.Question{Gate: c.app.Addr("http", 0).String(), Method: "GET", Path: "/orders/7", Account: "acme",
		Source: "127.0.0.1", Parts: map[string]string{"header:X-Tenant": "t1"}}
	why, err := console.WhyAskCall.Ask(ctx, c.control, question)
	if err != nil || why.Verdict != weir.Refuse || why.Steps[len(why.Steps)-1].Key != "acme,GET,orders,DE,t1" {
		t.Errorf("%+v, %v", why, err)
	}
	question.Parts = map[string]string{"header:X-Tenent": "t1"}
	if _, err := console.WhyAskCall.Ask(ctx, c.control, question); err == nil || !strings.Contains(err.Error(), "header:X-Tenant") {
		t.Errorf("a part that nobody counts by: %v", err)
	}
	if _, err := console.LimitSetCall.Ask(ctx, c.control, console.LimitOrder{Account: "acme,GET,orders,DE,t1", Limit: "3"}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false} {
		if got := c.byHTTP("GET", "/orders", "X-Api-Key: acme", "X-Tenant: t1"); got != want {
			t.Errorf("request %d after its limit was raised: %v", i+1, got)
		}
	}
	if _, err := console.AccountResetCall.Ask(ctx, c.control, console.Name{Name: "acme,GET,bills,DE,t1"}); err != nil {
		t.Fatal(err)
	}
	if a, err = console.AccountGetCall.Ask(ctx, c.control,
		console.Name{Name: "acme"}); err != nil || a.Throttles[0].Rules[0].Remaining != 2 ||
		a.Throttles[1].Rules[0].Remaining != 0 {
		t.Errorf("one key was reset: %+v, %v", a, err)
	}
	if _, err := console.AccountResetCall.Ask(ctx, c.control, console.Name{Name: "acme"}); err != nil {
		t.Fatal(err)
	}
	if !c.byHTTP("GET", "/orders", "X-Api-Key: acme", "X-Tenant: t1") {
		t.Error("all keys of the account were reset, and it is refused")
	}
}

// The file of countries is read again on reload. A broken one changes nothing.
func TestCountriesAreReloaded(t *testing.T) {
	t.Parallel()
	c := newJunction(t, keyedThrottles)
	key := func() string {
		t.Helper()
		why, err := console.WhyAskCall.Ask(context.Background(), c.control, console.Question{Gate: c.app.Addr("http",
			0).String(), Method: "GET",
			Path: "/", Account: "acme", Source: "127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		return why.Steps[len(why.Steps)-1].Key
	}
	if got := key(); got != "acme,GET,-,DE,-" {
		t.Errorf("at first: %s", got)
	}
	c.write("countries.mmdb", countries("127.0.0.0/8", "FR"))
	cfg := c.config(keyedThrottles)
	if err := c.app.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if got := key(); got != "acme,GET,-,FR,-" {
		t.Errorf("after a reload: %s", got)
	}
	c.write("countries.mmdb", []byte("no countries here"))
	if err := c.app.Reload(cfg); err == nil || !strings.Contains(err.Error(), "MaxMind") {
		t.Errorf("a broken file: %v", err)
	}
	if got := key(); got != "acme,GET,-,FR,-" {
		t.Errorf("after a reload that failed: %s", got)
	}
}

const costs = `throttles:
  plans:
    quota:
      cost:
        header: X-Cost
        max: 50
        unanswered: 7
        rules: [{cost: 3, match: {paths: [/search/**]}}]
      policies: [{name: budget, limit: 100, period: 1h, window: gcra}]
`

// Requests cost what rules say, and then what their answers say.
func TestCostsOverHTTP(t *testing.T) {
	t.Parallel()
	c := newJunction(t, costs)
	c.answer = func(w http.ResponseWriter, r *http.Request) {
		if cost, told := r.URL.Query()["cost"]; told {
			w.Header()["X-Cost"] = cost
		}
		if r.URL.Query().Has("fail") {
			panic(http.ErrAbortHandler)
		}
	}
	for i, one := range []struct {
		path   string
		status int
		want   int64
	}{
		{"/", 200, 99},
		{"/search/x", 200, 97},
		{"/search/x?cost=1", 200, 99},
		{"/?cost=0", 200, 100},
		{"/?cost=50", 200, 50},
		{"/?cost=51", 200, 50},
		{"/?cost=999999999999999", 200, 50},
		{"/?cost=9999999999999999", 200, 99}, // these are no prices
		{"/?cost=-5", 200, 99},
		{"/?cost=5&cost=6", 200, 99},
		{"/?cost=five", 200, 99},
		{"/?cost=", 200, 99},
		{"/?fail=1", 502, 93}, // no answer came
		{"/search/y?fail=1", 502, 93},
	} {
		account := fmt.Sprint("account", i)
		if status, text := c.do("http", "POST", one.path, "x", "X-Api-Key: "+account); status != one.status {
			t.Errorf("%s: %d %s", one.path, status, text)
		}
		if got := c.left(t, account); got != one.want {
			t.Errorf("%s: %d left, want %d", one.path, got, one.want)
		}
	}
	metrics := scraped(t, c.app)
	for _, want := range []string{`weir_quota_capped_costs_total{throttle="plans"} 2`,
		`weir_bound_reached_total{bound="http_cost"} 5`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s:\n%s", want, matching(metrics, "http_cost|capped"))
		}
	}
	// What is over the limit is a debt: the next one is refused until it is paid off.
	for range 3 {
		c.do("http", "GET", "/?cost=50", "", "X-Api-Key: debtor")
	}
	if c.byHTTP("GET", "/", "X-Api-Key: debtor") {
		t.Error("somebody in debt goes on")
	}
	c.clock.Advance(30 * time.Minute) // 50 are paid off, and 100 were owed at most without a debt
	if !c.byHTTP("GET", "/", "X-Api-Key: debtor") {
		t.Error("somebody whose debt is paid off is refused")
	}
}

// matching are the lines of a text that have one of some words.
func matching(text, words string) string {
	var all []string
	for line := range strings.Lines(text) {
		for word := range strings.SplitSeq(words, "|") {
			if strings.Contains(line, word) {
				all = append(all, line)
			}
		}
	}
	return strings.Join(all, "")
}

// A client that leaves before the answer comes pays for it, and so does each of many that come at once.
func TestCostsOfThoseWhoLeave(t *testing.T) {
	t.Parallel()
	c := newJunction(t, costs)
	hold := make(chan struct{})
	c.answer = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Cost", "20")
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}
	leave, cancel := context.WithCancel(context.Background())
	done := make(chan error, 200)
	begin := func(account string, ctx context.Context) {
		r, err := http.NewRequestWithContext(ctx, "GET", "http://"+c.app.Addr("http", 0).String()+"/", nil)
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("X-Api-Key", account)
		go func() {
			resp, err := http.DefaultClient.Do(r)
			if err == nil {
				err = resp.Body.Close()
			}
			done <- err
		}()
	}
	for range 5 {
		begin("leaver", leave)
	}
	for range 20 {
		begin("crowd", context.Background())
	}
	for range 25 {
		<-c.seen
	}
	if got := c.left(t, "leaver"); got != 95 {
		t.Errorf("%d left while five are under way", got)
	}
	cancel()
	for range 5 {
		<-done
	}
	needs.Wait(t, "five have left, and paid seven each", func() bool { return c.left(t, "leaver") == 65 })
	close(hold)
	for range 20 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	// 400 were charged of 100: nothing is left until 300 and one more are paid off.
	c.clock.Advance(3 * time.Hour)
	if c.byHTTP("GET", "/", "X-Api-Key: crowd") {
		t.Error("a crowd in debt goes on")
	}
	c.clock.Advance(time.Minute)
	if !c.byHTTP("GET", "/", "X-Api-Key: crowd") {
		t.Error("a crowd whose debt is paid off is refused")
	}
}

// A service says in the end what a request has cost.
func TestCostsByTheAPI(t *testing.T) {
	t.Parallel()
	c := newJunction(t, costs)
	post := func(path, body string) map[string]any {
		t.Helper()
		status, text := c.do("api", "POST", path, body, "Authorization: Bearer "+askingToken,
			"Content-Type: application/json")
		var all map[string]any
		if err := json.Unmarshal([]byte(text), &all); err != nil || status != 200 {
			t.Fatalf("%d: %s", status, text)
		}
		return all
	}
	for body, want := range map[string]float64{`"cost":40`: 59, `"cost":0`: 99, `"done":true`: 98, `"done":false`: 99} {
		account := strings.NewReplacer(`"`, "", ":", "").Replace(body)
		hold := post("/v1/decide", `{"policy":"web","account":"`+account+`","hold":true}`)["hold"]
		post("/v1/settle", fmt.Sprintf(`{"hold":"%s",%s}`, hold, body))
		if got := post("/v1/decide", `{"policy":"web","account":"`+account+`"}`)["remaining"]; got != want {
			t.Errorf("settled with %s: %v left, want %v", body, got, want)
		}
	}
}
