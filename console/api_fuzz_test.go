package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"weir/console/access"
	"weir/internal/clock"
)

// FuzzAPI sends anything to the API: it always answers with JSON, never with a failure of weir, and does nothing for
// those who are not known.
func FuzzAPI(f *testing.F) {
	for _, c := range Calls() {
		f.Add(c.Method, c.Path, "name=x&limit=3&who=192.0.2.1", `{"name":"x","who":"192.0.2.1","messages":["0000000000001"]}`)
		f.Add(c.Method, c.Path, "", "{}")
	}
	f.Add("POST", "/why", "", `{"to":["a","b"],"path":"/%2e%2e"}`)
	f.Add("GET", "/bans", "limit=1&limit=2&%zz", "")
	f.Add("POST", "/user/set", "", `{"name":"x","senders":null,"limits":{"a":"b"},"disabled":true}`)
	b := &mailed{backend: newBackend()}
	b.copy = func(context.Context, string, func(int64, int64)) error { return nil }
	b.admits(accessOperators(f, clock.System))
	calls := newAPI(b, quiet, f.Context())
	serve := func(who access.Identity, known bool) http.Handler {
		return calls.handler(func(w http.ResponseWriter, r *http.Request, c *Call) (*Request, bool) {
			if !known {
				writeError(w, errLogIn)
				return nil, false
			}
			if err := c.may(who); err != nil {
				writeError(w, err)
				return nil, false
			}
			return &Request{Context: r.Context(), Who: who, From: "192.0.2.1", backend: b, serving: calls}, true
		})
	}
	admin, viewer, nobody := serve(access.Local("root"), true), serve(access.Anybody(access.View), true),
		serve(access.Identity{}, false)
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		if strings.Contains(path, "backup") || strings.Contains(path, "operators") || strings.Contains(path, "tokens") {
			body = strings.ReplaceAll(body, "password", "secret") // hashing takes its time
		}
		at := &url.URL{Path: Prefix + path, RawQuery: query}
		for _, h := range []http.Handler{nobody, viewer, admin} {
			r, err := http.NewRequest(method, "http://weir/", strings.NewReader(body))
			if err != nil {
				return
			}
			r.URL.Path, r.URL.RawQuery = at.Path, at.RawQuery
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			switch {
			case w.Code == http.StatusTemporaryRedirect || w.Code == http.StatusMovedPermanently: // the path is cleaned
			case w.Code >= 500:
				t.Errorf("%s %s?%s %s: %d %s", method, path, query, body, w.Code, w.Body)
			case method != http.MethodHead:
				for line := range strings.Lines(w.Body.String()) {
					if w.Header().Get("Content-Type") != "application/json" || path == "/openapi.json" {
						break
					}
					if !json.Valid([]byte(line)) {
						t.Errorf("%s %s: not JSON: %q", method, path, line)
					}
				}
			}
			if reflect.ValueOf(h) == reflect.ValueOf(nobody) && w.Code == http.StatusOK && path != "/openapi.json" {
				t.Errorf("%s %s is answered to nobody", method, path)
			}
		}
	})
}

// FuzzFill reads forms of any kind: what is read is written again as parameters, and read as the same.
func FuzzFill(f *testing.F) {
	f.Add("who=x&for=1h&reason=", "ban-add")
	f.Add("name=x&senders=a&senders=b&limits=a%3Db&disabled=on", "user-set")
	f.Add("mails=0000000000001&all=on", "queue-release")
	f.Add("since=2026-01-01T00:00:00Z&limit=-5&before=9223372036854775808", "audit")
	f.Add("on=maybe", "shadow-on")
	calls := &api{calls: Calls()}
	f.Fuzz(func(t *testing.T, form, name string) {
		c := calls.named(name)
		values, err := url.ParseQuery(form)
		if c == nil || err != nil {
			return
		}
		in := c.newIn()
		if err := fill(in, values); err != nil || c.Method == http.MethodPost {
			return
		}
		written, err := valuesOf(in)
		if err != nil {
			t.Fatal(err)
		}
		again := c.newIn()
		if err := fill(again, written); err != nil || !reflect.DeepEqual(in, again) {
			t.Errorf("%s: %+v became %+v by way of %s: %v", name, in, again, written.Encode(), err)
		}
	})
}
