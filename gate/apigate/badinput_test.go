package apigate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"weir"
)

// Whatever is wrong with a request, its answer says what, where, and what to write instead.
func TestBadInput(t *testing.T) {
	r, q := startQuota(t, Options{}, perMinute(1000))
	r.decide(`{"account":"acme"}`, weir.Admit)
	held := r.decide(`{"account":"acme","hold":true}`, weir.Admit)
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct{ path, body, want string }{
		{"decide", ``, "malformed: the body is empty (send a JSON object)"},
		{"decide", " \n", "malformed: the body is empty (send a JSON object)"},
		{"decide", `null`, "malformed: the body is not a JSON object (send {…})"},
		{"decide", `"x"`, "malformed: the body is not a JSON object (send {…})"},
		{"decide", `12`, "malformed: the body is not a JSON object (send {…})"},
		{"decide", `{`, "malformed: the JSON is incomplete (a bracket or a quotation mark is never closed)"},
		{"decide", `{"account`, "malformed: the JSON is incomplete (a bracket or a quotation mark is never closed)"},
		{"decide", `{"account":"acme"`,
			"malformed: the JSON is incomplete (a bracket or a quotation mark is never closed)"},
		{"decide", `{"account":`, "malformed: the JSON is incomplete (a bracket or a quotation mark is never closed)"},
		{"decide", `[{"account":"acme"}`,
			"malformed: the JSON is incomplete (a bracket or a quotation mark is never closed)"},
		{"decide", `{"account" "acme"}`,
			`malformed: the JSON breaks at byte 12: invalid character '"' after object key (send JSON as in RFC 8259)`},
		{"decide", `{account:1}`, `malformed: the JSON breaks at byte 2: invalid character 'a'`},
		{"decide", `{"account":"acme",}`,
			`malformed: the JSON breaks at byte 19: invalid character '}' looking for beginning of object key string`},
		{"decide", `account=acme`,
			`malformed: the JSON breaks at byte 1: invalid character 'a' looking for beginning of value`},
		{"decide", "{\"account\":\"a\nb\"}",
			`malformed: the JSON breaks at byte 14: invalid character '\n' in string literal`},
		{"decide", `{"account":"acme"}{}`,
			"malformed: there is more after the end of the JSON, at byte 19 (send one object, or one list of them)"},
		{"decide", `{"account":"acme"} x`, "malformed: there is more after the end of the JSON, at byte 20"},
		{"decide", `[] []`, "malformed: there is more after the end of the JSON"},
		{"decide", "{\"account\":\"\xff\"}", "malformed: the body is not UTF-8 (send JSON)"},
		{"decide", `[{},1]`, "malformed: [1] is not a JSON object (a batch is a list of objects)"},
		{"decide", `[[{}]]`, "malformed: [0] is not a JSON object"},
		{"decide", deep(5_000), "malformed: [0] is not a JSON object"},
		{"decide", "  " + deep(50_000),
			"malformed: the JSON breaks at byte 10003: invalid character '[' exceeded max depth"},
		{"decide", `{"account":` + deep(50_000) + `}`,
			"malformed: the JSON breaks at byte 10011: invalid character '[' exceeded max depth"},
		{"decide", `{"x":` + strings.Repeat(`{"x":`, 20_000) + `1` + strings.Repeat(`}`, 20_000) + `}`,
			"exceeded max depth"},
		{"decide", `{"account":` + deep(50) + `}`,
			`invalid: account: expected text, got a list (write "…") @account`},

		{"decide", `{"acount":"acme"}`, `invalid: acount: unknown field (did you mean "account"?) @acount`},
		{"decide", `{"Account":"acme"}`, `invalid: Account: unknown field (did you mean "account"?) @Account`},
		{"decide", `{"zebra":{"a":[1,2]},"account":"acme"}`,
			`invalid: zebra: unknown field (fields here: policy, source, account`},
		{"decide", `{"":1}`, `invalid: unknown field (fields here`},
		{"decide", `{"` + strings.Repeat("x", 10_000) + `":1}`,
			`invalid: ` + strings.Repeat("x", 64) + "…: unknown field"},
		{"decide", `{"account":"acme","account":"globex"}`,
			`invalid: account: the field comes twice (leave one out) @account`},
		{"decide", `{"account":7}`, `invalid: account: expected text, got a number (write "…") @account`},
		{"decide", `{"account":{}}`, `invalid: account: expected text, got an object (write "…") @account`},
		{"decide", `{"cost":"1"}`, `invalid: cost: expected a whole number, got text (write 1) @cost`},
		{"decide", `{"cost":1.5}`,
			`invalid: cost: expected a whole number, got the number 1.5 (write 1) @cost`},
		{"decide", `{"cost":1e99}`,
			`invalid: cost: expected a whole number, got the number 1e99 (write 1) @cost`},
		{"decide", `{"cost":-1}`, `invalid: cost: -1 is out of bounds (between 0 and 9007199254740992) @cost`},
		{"decide", `{"bytes":9007199254740993}`,
			`invalid: bytes: 9007199254740993 is out of bounds (between 0 and 9007199254740992) @bytes`},
		{"decide", `{"hold":"yes"}`, `invalid: hold: expected true or false, got text (write true) @hold`},
		{"decide", `{"recipients":"bob"}`,
			`invalid: recipients: expected a list, got text (write ["…"]) @recipients`},
		{"decide", `{"recipients":[1]}`,
			`invalid: recipients: expected text, got a number (write "…") @recipients`},
		{"decide", `{"recipients":["a",""]}`,
			`invalid: recipients[1]: the recipient is empty (leave it out) @recipients[1]`},
		{"decide", `{"recipients":["a\u0000"]}`,
			`invalid: recipients[0]: control characters (leave them out) @recipients[0]`},
		{"decide", `{"route":7}`, `invalid: route: neither an object nor text (write`},
		{"decide", `{"route":["GET"]}`, `invalid: route: neither an object nor text (write`},
		{"decide", `{"route":{"metod":"GET"}}`,
			`invalid: route.metod: unknown field (did you mean "route.method"?) @route.metod`},
		{"decide", `{"route":{"path":1}}`,
			`invalid: route.path: expected text, got a number (write "…") @route.path`},
		{"decide", `{"route":{"path":"/","path":"/"}}`,
			`invalid: route.path: the field comes twice (leave one out) @route.path`},
		{"decide", `{"route":"` + strings.Repeat("x", 33) + ` /"}`,
			`invalid: route.method: 33 bytes are too long (at most 32) @route.method`},
		{"decide", `{"source":"192.0.2.1:80"}`,
			`invalid: source: "192.0.2.1:80" is not an IP address (write 192.0.2.1 or 2001:db8::1) @source`},
		{"decide", `{"account":"source:192.0.2.1"}`,
			`invalid: account: an account does not begin with "source:" (name the address as source) @account`},
		{"decide", `{"account":"acme\u00a0"}`,
			`invalid: account: white space around the id (leave it out: some services trim it, and it would be another account here) @account`},
		{"decide", `{"account":"a\nb"}`, `invalid: account: control characters (leave them out) @account`},
		{"decide", `{"kind":"two words"}`,
			`invalid: kind: "two words" is not a word (letters, digits, '-', '_' and '.') @kind`},
		{"decide", `{"policy":"wed"}`, `invalid: policy: there is no policy "wed" (did you mean "web"?) @policy`},
		{"decide", `{"policy":"zebra"}`, `invalid: policy: there is no policy "zebra" (there are: web) @policy`},
		{"decide?htp=1", `{}`, `invalid: ?htp: unknown parameter of the query (known here: http) @?htp`},
		{"decide?http=1", `{"cost":-1}`, `invalid: cost: -1 is out of bounds`},
		{"decide?http=yes", `{}`, `invalid: ?http: the parameter is 1 or left out (write ?http=1) @?http`},

		{"settle", `{}`, `invalid: hold: the hold is missing (send what decide answered) @hold`},
		{"settle", `{"hold":"` + held.Hold + `","bytes":-1}`, `invalid: bytes: -1 is out of bounds`},
		{"settle", `{"hold":"` + held.Hold + `","done":"yes"}`,
			`invalid: done: expected true or false, got text (write true) @done`},
		{"settle", `{"hold":"` + held.Hold + `","dome":true}`,
			`invalid: dome: unknown field (did you mean "done"?) @dome`},
		{"settle?x", `{}`, `invalid: ?x: unknown parameter of the query (there is none here) @?x`},
		{"await", `{}`, `invalid: hold: the hold is missing (send what decide answered) @hold`},
		{"await", `{"hold":"` + held.Hold + `","for":5}`,
			`invalid: for: expected text, got a number (write "…") @for`},
		{"await", `{"hold":"` + held.Hold + `","for":"soon"}`,
			`invalid: for: "soon" is not a duration (write 500ms, 5s or 1m) @for`},
		{"await", `{"hold":"` + held.Hold + `","for":"-5s"}`,
			`invalid: for: "-5s" is not a duration (write 500ms, 5s or 1m) @for`},
		{"await", `[{"hold":"` + held.Hold + `"}]`,
			`malformed: one hold is awaited at a time (send one object; several requests may wait at the same time)`},
		{"await?http=1", `{}`, `invalid: ?http: unknown parameter of the query (there is none here) @?http`},
	} {
		a := r.post("/v1/"+c.path, c.body)
		got := fmt.Sprintf("%s: %s", strings.TrimPrefix(a.Type, "urn:weir:"), a.Detail)
		if a.Hint != "" {
			got += " (" + a.Hint + ")"
		}
		if a.Field != "" {
			got += " @" + a.Field
		}
		if a.status != 400 || a.Status != 400 || a.Title != "Bad Request" || !strings.Contains(got, c.want) ||
			a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %.100s\n got %d %s\nwant %s", c.path, c.body, a.status, got, c.want)
		}
	}
	if n := r.left(q, "acme"); n != 998 {
		t.Errorf("%d left: something was judged", n)
	}
	r.settle(held.Hold, ``, 200)
}

// The longest that a field may be, and one more.
func TestFieldBounds(t *testing.T) {
	r, _ := startQuota(t, Options{}, perMinute(100_000))
	for field, most := range map[string]int{
		"account": 256, "plan": 64, "user": 320, "kind": 32, "name": 256, "phone": 64, "stamp": 8192, "id": 128,
		"route.method": 32, "route.host": 255, "route.path": 8192, "recipients[0]": 320,
	} {
		body := func(n int) string {
			value := `"` + strings.Repeat("x", n) + `"`
			if name, ok := strings.CutPrefix(field, "route."); ok {
				return `{"route":{"` + name + `":` + value + `}}`
			}
			if field == "recipients[0]" {
				return `{"recipients":[` + value + `]}`
			}
			return `{"` + field + `":` + value + `}`
		}
		if a := r.post("/v1/decide", body(most)); a.status != 200 {
			t.Error(field, a.status, a.body)
		}
		if a := r.post("/v1/decide", body(most+1)); a.status != 400 || a.Field != field ||
			a.Hint != fmt.Sprintf("at most %d", most) {
			t.Error(field, a.status, a.body)
		}
	}
}

func TestPathsAndMethods(t *testing.T) {
	r, _ := startQuota(t, Options{}, perMinute(1))
	for _, c := range []struct {
		method, path string
		status       int
		allow, hint  string
	}{
		{"GET", "/v1/decide", 405, "POST", ""},
		{"PUT", "/v1/settle", 405, "POST", ""},
		{"HEAD", "/v1/await", 405, "POST", ""},
		{"POST", "/v1/policies", 405, "GET", ""},
		{"OPTIONS", "/openapi.json", 405, "GET", ""},
		{"POST", "/", 405, "GET", ""},
		{"POST", "/v1/decides", 404, "", "did you mean /v1/decide?"},
		{"POST", "/v1/decide/", 404, "", "did you mean /v1/decide?"},
		{"GET", "/favicon.ico", 404, "", "see /openapi.json"},
	} {
		req := r.request(context.Background(), c.method, c.path, "")
		a, err := r.try(req)
		if err != nil || a.status != c.status || a.header.Get("Allow") != c.allow || a.Hint != c.hint &&
			c.method != "HEAD" {
			t.Errorf("%s %s: %d %v %s %v", c.method, c.path, a.status, a.header, a.body, err)
		}
	}
}

// What is no HTTP, or ends in the middle, is answered or hung up on, and the next one is served.
func TestBrokenConnections(t *testing.T) {
	r, _ := startQuota(t, Options{}, perMinute(100))
	head := "POST /v1/decide HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token + "\r\n"
	for name, c := range map[string]struct {
		text   string
		status int
	}{
		"garbage":          {"\x16\x03\x01 hello\r\n\r\n", 400},
		"no host":          {"GET / HTTP/1.1\r\n\r\n", 400},
		"long header":      {"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431},
		"body cut off":     {head + "Content-Length: 100\r\n\r\n{", 400},
		"chunk cut off":    {head + "Transfer-Encoding: chunked\r\n\r\n5\r\n{", 400},
		"malformed chunk":  {head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
		"head cut off":     {head, 400},
		"nothing":          {"", 0},
		"expects continue": {head + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", 100},
	} {
		t.Run(name, func(t *testing.T) {
			conn := r.dial()
			_, _ = io.WriteString(conn, c.text)
			_ = conn.(interface{ CloseWrite() error }).CloseWrite()
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if status := 0; err == nil && res.StatusCode != c.status || err != nil && c.status != status {
				t.Errorf("%v %v, want %d", res, err, c.status)
			}
		})
	}
	r.decide(`{"account":"acme"}`, weir.Admit)
}
