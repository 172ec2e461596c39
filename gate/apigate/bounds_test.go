package apigate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"weir"
	"weir/gate/gatetest"
	"weir/throttle/quota"
)

func TestConnectionsBound(t *testing.T) {
	r, _ := startQuota(t, Options{Bounds: Bounds{Connections: 2}}, perMinute(1))
	for range 2 {
		c := r.dial()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
	}
	third := r.dial()
	if _, err := third.Read(make([]byte, 1)); err == nil {
		t.Error("one connection too many is served")
	}
	if n := r.seen.bounds(BoundConnections); n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// serves reports whether a connection gets an answer.
func serves(c net.Conn) bool {
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	return err == nil && res.StatusCode == 200
}

// TestNoSourceKeepsOthersOut: an address with all connections loses as many as another one opens.
func TestNoSourceKeepsOthersOut(t *testing.T) {
	r, _ := startQuota(t, Options{Bounds: Bounds{Connections: 4}}, perMinute(1))
	var greedy []net.Conn
	for range 4 {
		greedy = append(greedy, gatetest.DialFrom(t, 2, r.Addr()))
		if !serves(greedy[len(greedy)-1]) {
			t.Fatal("not served")
		}
	}
	if !serves(gatetest.DialFrom(t, 3, r.Addr())) || serves(greedy[3]) || !serves(greedy[2]) {
		t.Error("another address is kept out, or the newest connection of the first one is not closed")
	}
	if n := r.seen.bounds(BoundConnections); n != 1 {
		t.Errorf("counted %d times", n)
	}
}

func TestRequestsBound(t *testing.T) {
	turns := make(chan *weir.Turn, 10)
	r := start(t, Options{Bounds: Bounds{Requests: 2}}, newClock(), policies{"web": chainOf(t, lineOf(turns))})
	one, two := r.decide(`{}`, weir.Wait), r.decide(`{}`, weir.Wait)
	first, second := r.awaiting(context.Background(), one.Hold, time.Second),
		r.awaiting(context.Background(), two.Hold, 2*time.Second)
	a := r.post("/v1/decide", `{}`)
	if a.status != 503 || a.Type != "urn:weir:full-requests" || a.header.Get("Retry-After") != "1" ||
		r.seen.bounds(BoundRequests) != 1 {
		t.Error(a.status, a.body)
	}
	for range 2 {
		receive(t, turns).Grant()
	}
	receive(t, first)
	receive(t, second)
}

// TestRequestsOfOneAddress: a service that awaits turns with all the requests that it can have leaves some to others.
func TestRequestsOfOneAddress(t *testing.T) {
	const most, part = 20, 18
	turns := make(chan *weir.Turn, most)
	r := start(t, Options{Bounds: Bounds{Requests: most}}, newClock(), policies{"web": chainOf(t, lineOf(turns))})
	var awaited []<-chan answer
	for i := range part {
		awaited = append(awaited, r.awaiting(t.Context(), r.decide(`{}`, weir.Wait).Hold, time.Duration(i+1)*time.Second))
	}
	if a := r.post("/v1/decide", `{}`); a.status != 503 || r.seen.bounds(BoundRequests) != 1 {
		t.Error(a.status, a.body)
	}
	c := gatetest.DialFrom(t, 2, r.Addr())
	for range 2 {
		if !serves(c) {
			t.Error("another address is kept out")
		}
	}
	for _, a := range awaited {
		receive(t, turns).Grant()
		receive(t, a)
	}
	r.decide(`{}`, weir.Wait)
}

func TestBodyBound(t *testing.T) {
	r, _ := startQuota(t, Options{Bounds: Bounds{Body: 1 << 10}}, perMinute(100))
	body := func(n int) string {
		const head, tail = `{"account":"acme"`, `}`
		return head + strings.Repeat(" ", n-len(head)-len(tail)) + tail
	}
	for _, chunked := range []bool{false, true} {
		for n, want := range map[int]int{1 << 10: 200, 1<<10 + 1: 413, 1 << 20: 413} {
			req := r.request(context.Background(), http.MethodPost, "/v1/decide", body(n))
			if chunked {
				req.ContentLength = -1
			}
			if a := r.do(req); a.status != want || want == 413 &&
				(a.Type != "urn:weir:too-large-body" || !strings.Contains(a.Detail, "1KiB")) {
				t.Error(chunked, n, a.status, a.body)
			}
		}
	}
	if n := r.seen.bounds(BoundBody); n != 4 {
		t.Errorf("counted %d times", n)
	}
}

func TestBatchBound(t *testing.T) {
	r, q := startQuota(t, Options{Bounds: Bounds{Batch: 3}}, perMinute(100))
	batch := func(n int) string { return "[" + strings.Repeat(`{"account":"acme"},`, n-1) + `{"account":"acme"}]` }
	if a := r.post("/v1/decide", batch(3)); a.status != 200 {
		t.Error(a.status, a.body)
	}
	if a := r.post("/v1/decide", batch(4)); a.status != 413 || a.Type != "urn:weir:too-large-batch" {
		t.Error(a.status, a.body)
	}
	if a := r.post("/v1/settle", `[{},{},{},{}]`); a.status != 413 {
		t.Error(a.status, a.body)
	}
	if n := r.left(q, "acme"); n != 97 || r.seen.bounds(BoundBatch) != 2 {
		t.Errorf("%d left, counted %d times", n, r.seen.bounds(BoundBatch))
	}
}

func TestRecipientsBound(t *testing.T) {
	r, _ := startQuota(t, Options{Bounds: Bounds{Recipients: 2}}, perMinute(100))
	r.decide(`{"account":"acme","recipients":["a","b"]}`, weir.Admit)
	if a := r.post("/v1/decide", `{"account":"acme","recipients":["a","b","c"]}`); a.status != 400 ||
		a.Field != "recipients" || !strings.Contains(a.Hint, "at most 2") {
		t.Error(a.status, a.body)
	}
	if n := r.seen.bounds(BoundRecipients); n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// What finds no room to be held is given back.
func TestHoldsBound(t *testing.T) {
	r, q := startQuota(t, Options{Holds: Holds{Max: 2}}, perMinute(5))
	first := r.decide(`{"account":"acme","hold":true}`, weir.Admit)
	r.decide(`{"account":"acme","hold":true}`, weir.Admit)
	for range 2 {
		if a := r.post("/v1/decide", `{"account":"acme","hold":true}`); a.status != 503 ||
			a.Type != "urn:weir:full-holds" || a.header.Get("Retry-After") == "" {
			t.Error(a.status, a.body)
		}
	}
	if a := r.post("/v1/decide", `[{"account":"acme","hold":true},{"account":"acme"}]`); a.status != 200 ||
		!strings.Contains(a.body, "urn:weir:full-holds") || !strings.Contains(a.body, `"admit"`) {
		t.Error(a.status, a.body)
	}
	if n := r.left(q, "acme"); n != 2 || r.seen.bounds(BoundHolds) != 3 || r.seen.most != 2 {
		t.Errorf("%d left, counted %d times, %d held", n, r.seen.bounds(BoundHolds), r.seen.most)
	}
	r.settle(first.Hold, ``, 200)
	r.decide(`{"account":"acme","hold":true}`, weir.Admit)
	if n := r.seen.decided["web admit"]; n != 4 {
		t.Errorf("%d admissions were told", n)
	}
}

// TestHoldsAreShared: an account, a user or a source that never settles leaves a tenth of the holds to others, up to
// the bound, and has it all again when its own have expired.
func TestHoldsAreShared(t *testing.T) {
	for _, who := range []string{`"account":"acme"`, `"user":"ann@example.org"`, `"source":"2001:db8::%x"`} {
		r := start(t, Options{Holds: Holds{Max: 40}}, newClock(), policies{"web": chainOf(t, gatetest.NewThrottle(nil))})
		ask := func(who string, i, status int) {
			t.Helper()
			if strings.Contains(who, "%") {
				who = fmt.Sprintf(who, i+1)
			}
			if a := r.post("/v1/decide", "{"+who+`,"hold":true}`); a.status != status {
				t.Errorf("%s %d: %d %s", who, i, a.status, a.body)
			}
		}
		for range 2 {
			for i := range 36 {
				ask(who, i, 200)
			}
			ask(who, 36, 503)
			for _, other := range []string{`"account":"a"`, `"user":"b"`, `"source":"192.0.2.1"`, `"account":"c"`} {
				ask(other, 0, 200)
			}
			ask(`"account":"d"`, 0, 503)
			r.clock.Advance(2 * time.Minute)
			if r.seen.open() != 0 {
				t.Error("some have not expired")
			}
		}
	}
}

// A wait that finds no room leaves the line.
func TestHoldsBoundOfWaits(t *testing.T) {
	r, q := startQuota(t, Options{Holds: Holds{Max: 1}}, delayed(perMinute(1)))
	r.decide(`{"account":"acme"}`, weir.Admit)
	r.decide(`{"account":"acme"}`, weir.Wait)
	if a := r.post("/v1/decide", `{"account":"acme"}`); a.status != 503 {
		t.Error(a.status, a.body)
	}
	if n := r.account(q, "acme").Waiting; n != 1 {
		t.Errorf("%d in line", n)
	}
}

// TestHoldsOfOneAccount: an account has no more holds than a limit on requests at once, and leaves room to others.
func TestHoldsOfOneAccount(t *testing.T) {
	r, _ := startQuota(t, Options{Holds: Holds{Max: 2}},
		quota.Policy{Name: "at-once", Kind: quota.Concurrent, Limit: quota.Count(1)})
	r.decide(`{"account":"acme","hold":true}`, weir.Admit)
	r.decide(`{"account":"acme","hold":true}`, weir.Refuse)
	r.decide(`{"account":"other","hold":true}`, weir.Admit)
}

// A client that never sends its body is not waited for for ever. The deadline is the system's, so that the test plays
// the system.
func TestSlowBody(t *testing.T) {
	r, _ := startQuota(t, Options{}, perMinute(1))
	for _, path := range []string{"/v1/decide", "/"} { // also a body that nobody wants
		w := &deadlines{ResponseWriter: httptest.NewRecorder()}
		r.ServeHTTP(w, r.request(context.Background(), http.MethodPost, path, "{}"))
		if len(w.read) == 0 || w.read[0].IsZero() {
			t.Errorf("%s: no deadline for the body: %v", path, w.read)
		}
	}
	req := r.request(context.Background(), http.MethodPost, "/v1/decide", "")
	req.Body = io.NopCloser(iotest.ErrReader(os.ErrDeadlineExceeded))
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	if w.Code != http.StatusRequestTimeout || !strings.Contains(w.Body.String(), "urn:weir:timeout") {
		t.Error(w.Code, w.Body)
	}
}

// The deadline for the body is not one for what comes after it: net/http would take a client that awaits a turn for
// gone.
func TestAwaitHasNoDeadline(t *testing.T) {
	turns := make(chan *weir.Turn, 1)
	r := start(t, Options{}, newClock(), policies{"web": chainOf(t, lineOf(turns))})
	wait := r.decide(`{}`, weir.Wait)
	receive(t, turns).Grant()
	recorder := httptest.NewRecorder()
	w := &deadlines{ResponseWriter: recorder}
	r.ServeHTTP(w, r.request(context.Background(), http.MethodPost, "/v1/await", `{"hold":"`+wait.Hold+`"}`))
	if len(w.read) != 2 || !w.read[1].IsZero() || !strings.Contains(recorder.Body.String(), "admit") {
		t.Error(w.read, recorder.Body)
	}
}

// deadlines notes the deadlines that are set.
type deadlines struct {
	http.ResponseWriter
	read []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error { d.read = append(d.read, t); return nil }
func (d *deadlines) SetWriteDeadline(time.Time) error  { return nil }
