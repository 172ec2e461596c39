package apigate

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir"
	"weir/gate"
)

// A call is one request with its answer. It belongs to the goroutine of the request.
type call struct {
	gate     *Gate
	setup    *setup
	w        http.ResponseWriter
	r        *http.Request
	answered bool
}

// A resource is what a path of the API leads to.
type resource struct {
	method string
	public bool // no token is needed
	serve  func(*call)
}

// resources are those of the API, by path.
var resources = map[string]resource{
	"/":             {http.MethodGet, true, (*call).index},
	"/openapi.json": {http.MethodGet, true, (*call).openAPI},
	"/v1/policies":  {http.MethodGet, false, (*call).policies},
	"/v1/decide":    {http.MethodPost, false, (*call).decide},
	"/v1/await":     {http.MethodPost, false, (*call).await},
	"/v1/settle":    {http.MethodPost, false, (*call).settle},
}

// ServeHTTP answers one request. It may be called without a listener, for tests and for embedding.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{gate: g, setup: g.Setup.Load(), w: w, r: r}
	g.UnderWay.Add(1)
	defer g.UnderWay.Add(-1)
	defer g.Recover("a panic while answering a request", c.broken)
	if r.Body != nil && r.Body != http.NoBody {
		// Also for a body that is not wanted: net/http reads it to keep the connection.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(c.setup.opts.Timeouts.Header.Std()))
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	who, most := gate.WhoAt(peer.Addr()), c.setup.opts.Bounds.Requests
	if !g.requests.Enter(who, most) {
		c.refuse(full(BoundRequests, "requests under way", most))
		return
	}
	defer g.requests.Leave(who)
	if e, ok := c.find(); ok {
		e.serve(c)
	}
}

// find returns the resource that a request is for, or answers the request and reports false.
func (c *call) find() (resource, bool) {
	e, known := resources[c.r.URL.Path]
	switch {
	case !known:
		hint := "see /openapi.json"
		if near := weir.Nearest(c.r.URL.Path, slices.Sorted(maps.Keys(resources))...); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		c.refuse(newProblem(http.StatusNotFound, problemNotFound,
			fmt.Sprintf("there is nothing under %s", quoted(c.r.URL.Path)), hint))
	case c.r.Method != e.method && (c.r.Method != http.MethodHead || e.method != http.MethodGet):
		c.w.Header().Set("Allow", e.method)
		c.refuse(newProblem(http.StatusMethodNotAllowed, problemMethod,
			fmt.Sprintf("%s wants %s", c.r.URL.Path, e.method), ""))
	case !e.public && !c.setup.knows(c.r):
		c.refuseStranger()
	default:
		return e, true
	}
	return resource{}, false
}

// refuseStranger answers a client that shows no token, or a wrong one (RFC 6750, 3).
func (c *call) refuseStranger() {
	challenge, what := `Bearer realm="weir"`, "a token is required"
	if len(c.r.Header["Authorization"]) > 0 {
		challenge, what = challenge+`, error="invalid_token"`, "the token is unknown"
	}
	c.w.Header().Set("WWW-Authenticate", challenge)
	c.refuse(newProblem(http.StatusUnauthorized, problemToken, what,
		"send Authorization: Bearer and one of the tokens"))
}

// broken ends a call that panicked. When its answer has begun, all that is left is to cut the connection.
func (c *call) broken() {
	if c.answered {
		panic(http.ErrAbortHandler)
	}
	c.refuse(failure())
}

const indexText = "This is weir's decision API. What it understands is written in /openapi.json.\n"

func (c *call) index() { c.write(http.StatusOK, "text/plain; charset=utf-8", []byte(indexText)) }

//go:embed openapi.json
var openAPI []byte

func (c *call) openAPI() { c.write(http.StatusOK, "application/json", openAPI) }

func (c *call) policies() {
	list := policyList{Policies: []policyEntry{}}
	for _, name := range c.setup.names {
		list.Policies = append(list.Policies, policyEntry{name, slices.Concat([]string{}, c.setup.opts.Policies[name])})
	}
	c.answer(http.StatusOK, list)
}

// buffers are for bodies and answers.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooled is the largest buffer that is kept, so that one large batch does not cost its memory permanently.
const maxPooled = 64 << 10

func newBuffer() *bytes.Buffer { return buffers.Get().(*bytes.Buffer) }

func dropBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxPooled {
		b.Reset()
		buffers.Put(b)
	}
}

// requests reads the body of a call, which is one request or a batch, and the flags of its query, of which the known
// ones are allowed.
func requests[T any](c *call, known ...string) (items []item[T], batch bool, flags map[string]bool, wrong *problem) {
	if flags, wrong = c.query(known); wrong != nil {
		return nil, false, nil, wrong
	}
	body := newBuffer()
	defer dropBuffer(body)
	if wrong = c.read(body); wrong == nil {
		items, batch, wrong = decode[T](body.Bytes(), c.setup.opts.Bounds.Batch)
	}
	return items, batch, flags, wrong
}

func (c *call) read(body *bytes.Buffer) *problem {
	most := c.setup.opts.Bounds.Body
	_, err := body.ReadFrom(http.MaxBytesReader(c.w, c.r.Body, int64(most)))
	if err == nil {
		// The deadline was for the body. It would also end the wait for a turn.
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge(BoundBody, "the body is too large", most)
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return timedOut("the body of the request did not arrive")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed("the body of the request is incomplete", "")
	}
	return malformed("the body of the request cannot be read", "")
}

// query reads the flags of the query, each of which is 1 or left out.
func (c *call) query(known []string) (set map[string]bool, wrong *problem) {
	if c.r.URL.RawQuery == "" {
		return nil, nil
	}
	set = map[string]bool{}
	for name, values := range c.r.URL.Query() {
		if !slices.Contains(known, name) {
			hint := "there is none here"
			if len(known) > 0 {
				hint = "known here: " + strings.Join(known, ", ")
			}
			return nil, invalid("?"+short(name), "unknown parameter of the query", hint)
		}
		if len(values) != 1 || values[0] != "1" {
			return nil, invalid("?"+name, "the parameter is 1 or left out", "write ?"+name+"=1")
		}
		set[name] = true
	}
	return set, nil
}

// refuse answers with a problem.
func (c *call) refuse(p *problem) {
	c.count(p)
	if p.Status == http.StatusServiceUnavailable {
		c.w.Header().Set("Retry-After", "1")
	}
	c.encode(p.Status, problemContentType, p)
}

// count tells the observer of a bound that was reached.
func (c *call) count(p *problem) {
	if p.bound != "" {
		c.gate.env.Observer.Bounded(p.bound)
	}
}

// answer answers with what was asked for.
func (c *call) answer(status int, v any) { c.encode(status, "application/json", v) }

func (c *call) encode(status int, contentType string, v any) {
	b := newBuffer()
	defer dropBuffer(b)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // unreachable: all of our types can be written
	}
	c.write(status, contentType, b.Bytes())
}

// writeTime is how long a client may take to read an answer.
const writeTime = 30 * time.Second

func (c *call) write(status int, contentType string, body []byte) {
	c.answered = true
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(writeTime))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // a client that has left needs no answer
}

// answerOne answers a single request.
func answerOne[T, A any](c *call, it *item[T], answer func(*T) (A, *problem)) {
	a, wrong := answerItem(it, answer)
	if wrong != nil {
		c.refuse(wrong)
		return
	}
	c.answer(http.StatusOK, a)
}

// answerAll answers every request of a batch, in order. A mistake in one does not affect the others.
func answerAll[T, A any](c *call, items []item[T], answer func(*T) (A, *problem)) []any {
	all := make([]any, len(items))
	for i := range items {
		a, wrong := answerItem(&items[i], answer)
		if all[i] = a; wrong != nil {
			c.count(wrong)
			all[i] = itemFailure{wrong}
		}
	}
	return all
}

func answerItem[T, A any](it *item[T], answer func(*T) (A, *problem)) (a A, wrong *problem) {
	if it.wrong != nil {
		return a, it.wrong
	}
	return answer(&it.value)
}
