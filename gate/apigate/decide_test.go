package apigate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/throttle/quota"
)

func TestDecide(t *testing.T) {
	r, _ := startQuota(t, Options{}, perMinute(2))
	a := r.decide(`{"policy":"web","account":"acme","source":"192.0.2.1"}`, weir.Admit)
	if want := `{"verdict":"admit","by":"plans","rule":"per-minute","unit":"requests","limit":2,"remaining":1,"window":60}` + "\n"; a.body != want {
		t.Errorf("\n got %s\nwant %s", a.body, want)
	}
	if a.header.Get("Content-Type") != "application/json" || a.header.Get("Cache-Control") != "no-store" {
		t.Error(a.header)
	}
	r.decide(`{"account":"acme"}`, weir.Admit)
	r.clock.Advance(15500e6)
	a = r.decide(`{"account":"acme"}`, weir.Refuse)
	if want := `{"verdict":"refuse","by":"plans","rule":"per-minute","reason":"over-limit","unit":"requests","limit":2,"remaining":0,"window":60,"retry_after":44.5}` + "\n"; a.body != want {
		t.Errorf("\n got %s\nwant %s", a.body, want)
	}
	r.decide(`{"account":"globex"}`, weir.Admit)
	if a = r.decide(`{"account":"globex","cost":3}`, weir.Refuse); a.Reason != weir.TooCostly || a.RetryAfter != 0 {
		t.Error(a.body)
	}
	if got, want := r.seen.decided, map[string]int{"web admit": 3, "web refuse": 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("observed %v, want %v", got, want)
	}
	if r.seen.most != 0 {
		t.Error("what nobody asked to hold was held")
	}
}

// The event is what the question says.
func TestEvent(t *testing.T) {
	full := weir.Event{
		Time: noon, Source: netip.MustParseAddr("192.0.2.1"), Account: "acme", Plan: "gold", Kind: "mail", ID: "q1",
		Route: weir.Route{Method: "GET", Host: "example.com", Path: "/a/b", Odd: true, Also: []string{"/a//b"}},
		Cost:  3, Bytes: 70,
		Message: &weir.Message{User: "ann", Recipients: []string{"bob@example.net"}, Name: "Bob", Phone: "+49",
			Stamp: "1:20:x"},
	}
	for name, c := range map[string]struct {
		body string
		want weir.Event
	}{
		"everything": {`{"source":"::ffff:192.0.2.1","account":"acme","plan":"gold","user":"ann","kind":"mail","recipients":["bob@example.net"],
			"name":"Bob","phone":"+49","route":{"method":"GET","host":"Example.com.:443","path":"/a//b/?x=1"},"cost":3,"bytes":70,"stamp":"1:20:x","id":"q1","hold":false}`, full},
		"nothing": {`{}`, weir.Event{Time: noon, Kind: "api"}},
		"nulls": {`{"account":null,"route":null,"recipients":null,"cost":null,"hold":null}`,
			weir.Event{Time: noon, Kind: "api"}},
		"only a user":   {`{"user":"ann"}`, weir.Event{Time: noon, Kind: "api", Message: &weir.Message{User: "ann"}}},
		"no recipients": {`{"recipients":[]}`, weir.Event{Time: noon, Kind: "api"}},
		"IPv6": {`{"source":"2001:db8::1%eth0"}`,
			weir.Event{Time: noon, Kind: "api", Source: netip.MustParseAddr("2001:db8::1")}},
		"route as text": {`{"route":"GET example.com/a"}`,
			weir.Event{Time: noon, Kind: "api", Route: weir.Route{Method: "GET", Host: "example.com", Path: "/a"}}},
		"without method": {`{"route":" example.com:80/a/../b "}`,
			weir.Event{Time: noon, Kind: "api",
				Route: weir.Route{Host: "example.com", Path: "/b", Odd: true, Also: []string{"/a/../b"}}}},
		"without host": {`{"route":"POST  /a"}`,
			weir.Event{Time: noon, Kind: "api", Route: weir.Route{Method: "POST", Path: "/a"}}},
		"without path": {`{"route":"example.com"}`,
			weir.Event{Time: noon, Kind: "api", Route: weir.Route{Host: "example.com"}}},
		"empty route": {`{"route":{}}`, weir.Event{Time: noon, Kind: "api"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got weir.Event
			p := newProbe(func(ev *weir.Event, _ *weir.Answer) {
				got = *ev
				if ev.Message != nil {
					message := *ev.Message
					got.Message = &message
				}
			})
			r := start(t, Options{}, newClock(), policies{"web": chainOf(t, p)})
			r.decide(c.body, weir.Admit)
			if !receive(t, p.settled).Done {
				t.Error("settled as undone")
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("\n got %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestPolicyIsNamedWhereThereAreSeveral(t *testing.T) {
	c := newClock()
	web, mail := newQuota(t, c, perMinute(1)), newQuota(t, c, perMinute(1))
	r := start(t, Options{}, c, policies{"web": chainOf(t, web), "mail": chainOf(t, mail)})
	a := r.post("/v1/decide", `{"account":"acme"}`)
	if a.status != 400 || a.Field != "policy" || a.Hint != "there are: mail, web" {
		t.Error(a.body)
	}
	r.decide(`{"account":"acme","policy":"web"}`, weir.Admit)
	r.decide(`{"account":"acme","policy":"web"}`, weir.Refuse)
	r.decide(`{"account":"acme","policy":"mail"}`, weir.Admit)
	req := r.request(context.Background(), http.MethodGet, "/v1/policies", "")
	if a := r.do(req); a.status != 200 ||
		a.body != `{"policies":[{"name":"mail","throttles":["plans"]},{"name":"web","throttles":["plans"]}]}`+"\n" {
		t.Error(a.status, a.body)
	}
}

// The status tells the verdict to whoever wants that, and does not stand in line for them.
func TestVerdictByStatus(t *testing.T) {
	r, _ := startQuota(t, Options{}, perMinute(1))
	if a := r.post("/v1/decide?http=1", `{"account":"acme"}`); a.status != 200 || a.Verdict != weir.Admit {
		t.Error(a.status, a.body)
	}
	r.clock.Advance(100e6)
	if a := r.post("/v1/decide?http=1", `{"account":"acme"}`); a.status != 429 || a.header.Get("Retry-After") != "60" ||
		a.RetryAfter != 59.9 {
		t.Error(a.status, a.header, a.body)
	}
	if a := r.post("/v1/decide?http=1", `{"account":"acme","cost":2}`); a.status != 429 ||
		a.header.Get("Retry-After") != "" {
		t.Error(a.status, a.header, a.body)
	}
	waits, q := startQuota(t, Options{}, delayed(perMinute(1)))
	waits.decide(`{"account":"acme"}`, weir.Admit)
	if a := waits.post("/v1/decide?http=1", `{"account":"acme"}`); a.status != 429 || a.Verdict != weir.Wait ||
		a.Hold != "" || a.header.Get("Retry-After") != "60" {
		t.Error(a.status, a.header, a.body)
	}
	waits.clock.Advance(60e9)
	if n := waits.left(q, "acme"); n != 1 {
		t.Errorf("%d left: a wait that nobody waits for stayed in line", n)
	}
}

func TestBatch(t *testing.T) {
	r, _ := startQuota(t, Options{}, perMinute(2))
	a := r.post("/v1/decide",
		`[{"account":"acme"},{"acount":"acme"},{"account":"acme"},{"policy":"wob"},{"account":"acme"},{"account":"acme","cost":"1","x":[[{}]]}]`)
	if a.status != 200 {
		t.Fatal(a.status, a.body)
	}
	var items []struct {
		Verdict *weir.Verdict
		Error   *problem
	}
	if err := json.Unmarshal([]byte(a.body), &items); err != nil {
		t.Fatal(err, a.body)
	}
	var got []string
	for _, it := range items {
		if it.Error != nil {
			got = append(got, fmt.Sprintf("%d %s (%s)", it.Error.Status, it.Error.Detail, it.Error.Hint))
		} else {
			got = append(got, it.Verdict.String())
		}
	}
	want := []string{"admit", `400 acount: unknown field (did you mean "account"?)`, "admit",
		`400 policy: there is no policy "wob" (did you mean "web"?)`,
		"refuse", `400 cost: expected a whole number, got text (write 1)`}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
	if a := r.post("/v1/decide", `[]`); a.status != 200 || a.body != "[]\n" {
		t.Error("an empty batch:", a.status, a.body)
	}
	if a := r.post("/v1/decide?http=1", `[{}]`); a.status != 400 || a.Field != "?http" {
		t.Error(a.status, a.body)
	}
}

// Bytes of an admission that nobody holds are charged with it.
func TestBytesAreCharged(t *testing.T) {
	r, q := startQuota(t, Options{}, quota.Policy{Name: "traffic", Kind: quota.Volume, Limit: quota.Bytes(1000),
		Period: weir.Period{Length: 60e9}})
	r.decide(`{"account":"acme","bytes":600}`, weir.Admit)
	if n := r.left(q, "acme"); n != 400 {
		t.Errorf("%d left", n)
	}
	r.decide(`{"account":"acme","bytes":600}`, weir.Admit)
	a := r.decide(`{"account":"acme","bytes":1}`, weir.Refuse)
	if a.Unit != "bytes" || *a.Limit != 1000 {
		t.Error(a.body)
	}
	held := r.decide(`{"account":"globex","bytes":600,"hold":true}`, weir.Admit)
	if n := r.left(q, "globex"); n != 1000 {
		t.Errorf("%d left before it is settled", n)
	}
	r.settle(held.Hold, `,"bytes":250`, 200)
	if n := r.left(q, "globex"); n != 750 {
		t.Errorf("%d left", n)
	}
}

func TestTokens(t *testing.T) {
	other := strings.Repeat("z", 16)
	r, _ := startQuota(t, Options{Tokens: []string{token, other}}, perMinute(100))
	for name, c := range map[string]struct {
		header []string
		status int
	}{
		"none":         {nil, 401},
		"right":        {[]string{"Bearer " + token}, 200},
		"the other":    {[]string{"bearer  " + other + " "}, 200},
		"wrong":        {[]string{"Bearer " + token[:15]}, 401},
		"longer":       {[]string{"Bearer " + token + "x"}, 401},
		"empty":        {[]string{"Bearer "}, 401},
		"no scheme":    {[]string{token}, 401},
		"other scheme": {[]string{"Basic " + token}, 401},
		"two":          {[]string{"Bearer " + token, "Bearer " + token}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			for path, method := range map[string]string{"/v1/decide": "POST", "/v1/policies": "GET"} {
				req := r.request(context.Background(), method, path, `{}`)
				req.Header["Authorization"] = c.header
				a := r.do(req)
				if a.status != c.status {
					t.Errorf("%s: %d %s", path, a.status, a.body)
				}
				challenge := a.header.Get("WWW-Authenticate")
				if (c.status == 401) != strings.HasPrefix(challenge, `Bearer realm="weir"`) || len(c.header) > 0 &&
					c.status == 401 && !strings.Contains(challenge, "invalid_token") {
					t.Errorf("%s: challenge %q", path, challenge)
				}
			}
		})
	}
	if strings.Contains(r.log.String(), token) {
		t.Error("a token is in the log")
	}
}

func TestPublicPages(t *testing.T) {
	r, _ := startQuota(t, Options{}, perMinute(1))
	for _, method := range []string{"GET", "HEAD"} {
		for path, want := range map[string]string{"/": indexText, "/openapi.json": string(openAPI)} {
			req := r.request(context.Background(), method, path, "")
			req.Header.Del("Authorization")
			if method == "HEAD" {
				want = ""
			}
			if a, err := r.try(req); a.status != 200 || a.body != want {
				t.Error(method, path, a.status, a.body, err)
			}
		}
	}
}

// A throttle that panics costs its own question, what was taken for it is given back, and the others go on.
func TestPanic(t *testing.T) {
	c := newClock()
	q := newQuota(t, c, perMinute(2))
	faulty := newProbe(func(ev *weir.Event, _ *weir.Answer) {
		if ev.ID == "bad" {
			panic("out of order")
		}
	})
	r := start(t, Options{}, c, policies{"web": chainOf(t, q, faulty)})
	a := r.post("/v1/decide", `[{"account":"acme"},{"account":"acme","id":"bad"},{"account":"acme"}]`)
	if a.status != 200 || strings.Count(a.body, `"admit"`) != 2 || strings.Count(a.body, "urn:weir:failure") != 1 {
		t.Error(a.status, a.body)
	}
	if a := r.post("/v1/decide", `{"account":"globex","id":"bad"}`); a.status != 500 || a.Type != "urn:weir:failure" ||
		strings.Contains(a.body, "out of order") {
		t.Error(a.status, a.body)
	}
	if n := r.left(q, "globex"); n != 2 {
		t.Errorf("%d left", n)
	}
	if !strings.Contains(r.log.String(), "out of order") {
		t.Error("nothing in the log")
	}
	r.decide(`{"account":"globex"}`, weir.Admit)
}

// The same goes for a panic anywhere else. When the answer has begun, only the connection is left to say it with.
func TestPanicInTheHandler(t *testing.T) {
	r, _ := startQuota(t, Options{}, perMinute(1))
	req := r.request(context.Background(), http.MethodPost, "/v1/decide", "")
	req.Body = io.NopCloser(panicking{})
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	if w.Code != 500 || !strings.Contains(w.Body.String(), "urn:weir:failure") {
		t.Error(w.Code, w.Body)
	}
	defer func() {
		if failure := recover(); failure != http.ErrAbortHandler {
			t.Error(failure)
		}
		if n := r.UnderWay.Load(); n != 0 {
			t.Errorf("%d requests under way", n)
		}
	}()
	r.ServeHTTP(&brokenWriter{w}, r.request(context.Background(), http.MethodGet, "/", ""))
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("out of order") }

type brokenWriter struct{ http.ResponseWriter }

func (brokenWriter) Write([]byte) (int, error) { panic("out of order") }

func TestRetryAfter(t *testing.T) {
	soon, later := noon.Add(1500*time.Microsecond), noon.Add(time.Minute)
	limit := weir.Figure{Rule: "r", Limit: 1}
	for name, c := range map[string]struct {
		answer weir.Answer
		want   float64
	}{
		"admitted":       {weir.Answer{Until: later}, 0},
		"a turn":         {weir.Answer{Verdict: weir.Wait, Until: soon}, 0.002},
		"a turn overdue": {weir.Answer{Verdict: weir.Wait, Until: noon.Add(-1)}, 0},
		"a place":        {weir.Answer{Verdict: weir.Wait}, 0},
		"until":          {weir.Answer{Verdict: weir.Refuse, Reason: weir.OverLimit, Figure: limit, Until: later}, 60},
		"reset": {weir.Answer{Verdict: weir.Refuse, Reason: weir.LineFull,
			Figure: weir.Figure{Rule: "r", Limit: 1, Reset: later}, Until: soon}, 60},
		"now": {weir.Answer{Verdict: weir.Refuse, Reason: weir.OverLimit, Figure: limit, Until: noon},
			0.001},
		"nobody can tell": {weir.Answer{Verdict: weir.Refuse, Reason: weir.OverLimit, Figure: limit}, 1},
		"overload":        {weir.Answer{Verdict: weir.Refuse, Reason: weir.Overload}, 1},
		"a challenge":     {weir.Answer{Verdict: weir.Challenge}, 1},
		"closed for good": {weir.Answer{Verdict: weir.Refuse, Reason: weir.OverLimit, Figure: weir.Figure{Rule: "r"},
			Until: later}, 0},
		"too costly": {weir.Answer{Verdict: weir.Refuse, Reason: weir.TooCostly, Until: later}, 0},
		"no account": {weir.Answer{Verdict: weir.Refuse, Reason: weir.NoAccount}, 0},
	} {
		if got := newDecision(&c.answer, noon).RetryAfter; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// An admission tells of the rule that it came closest to.
func TestClosest(t *testing.T) {
	a := weir.Answer{Figures: []weir.Figure{{By: "a", Rule: "x", Limit: 10, Remaining: 5},
		{By: "b", Rule: "y", Limit: 1000, Remaining: 100}, {By: "c", Rule: "z", Limit: 2, Remaining: 2}}}
	if d := newDecision(&a, noon); d.By != "b" || d.Rule != "y" || *d.Limit != 1000 || *d.Remaining != 100 {
		t.Errorf("%+v", d)
	}
	if d := newDecision(&weir.Answer{}, noon); d.Limit != nil || d.By != "" {
		t.Errorf("%+v", d)
	}
}
