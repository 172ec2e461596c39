package console

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
)

// A Control is the socket for commands that act on a running weir. Every process that can open it may do everything;
// only weir's own user can. NewControl, Listen, Start and Stop are called in this order, by one goroutine.
type Control struct {
	path     string
	backend  Backend
	copying  atomic.Bool     // a backup is being made
	stopping context.Context // ends when Stop is called
	reached  func()
	lifecycle
}

// NewControl returns a control that has bound nothing yet.
func NewControl(path string, b Backend, m *Metrics, log *slog.Logger) *Control {
	c := &Control{path: path, backend: b, reached: func() { m.BoundReached(boundControl) }}
	c.http = newHTTPServer(c.handler(), log)
	c.http.ConnContext = withConn
	stopping, stop := context.WithCancel(context.Background())
	c.stopping = stopping
	c.http.RegisterOnShutdown(stop)
	return c
}

func (c *Control) Path() string { return c.path }

// Listen makes the socket. It fails with ErrRunning when another weir has it.
func (c *Control) Listen() error {
	l, err := listenSocket(c.path)
	if err != nil {
		return err
	}
	c.bind(l, maxControlConnections, nil, c.reached)
	return nil
}

func (c *Control) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status",
		answer(func(_ *http.Request, _ *none) (any, error) { return c.backend.Status(), nil }))
	mux.HandleFunc("POST /v1/reload", answer(func(r *http.Request, _ *none) (any, error) {
		// A client that leaves must not interrupt a reload.
		if err := c.backend.Reload(context.WithoutCancel(r.Context())); err != nil {
			return nil, err
		}
		return map[string]bool{"reloaded": true}, nil
	}))
	// The account is a parameter and no part of the path: it may be any text, "../.." too.
	mux.HandleFunc("GET /v1/account", answer(func(r *http.Request, _ *none) (any, error) {
		return c.backend.Account(r.URL.Query().Get("name"))
	}))
	mux.HandleFunc("DELETE /v1/account", answer(func(r *http.Request, _ *none) (any, error) {
		return c.backend.ResetAccount(r.URL.Query().Get("name"))
	}))
	mux.HandleFunc("POST /v1/why", answer(func(_ *http.Request, q *Question) (any, error) { return c.backend.Why(*q) }))
	mux.HandleFunc("POST /v1/shadow", answer(func(_ *http.Request, s *Shadow) (any, error) {
		states, err := c.backend.SetShadow(*s)
		return ShadowResult{states}, err
	}))
	c.overviewHandlers(mux)
	c.banHandlers(mux)
	c.mailHandlers(mux)
	c.reachHandlers(mux)
	c.farmHandlers(mux)
	return mux
}

// ShadowResult is the answer to Shadow.
type ShadowResult struct {
	Throttles []ShadowState `json:"throttles"`
}

// none is the body of a request that has none.
type none struct{}

// answer makes a handler of a function that takes the request and its decoded body.
func answer[T any](f func(*http.Request, *T) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := readBody[T](w, r)
		if err != nil {
			writeError(w, err)
			return
		}
		v, err := f(r, body)
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, v)
	}
}

func readBody[T any](w http.ResponseWriter, r *http.Request) (*T, error) {
	body := new(T)
	if _, empty := any(body).(*none); empty {
		return body, nil
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(body); err != nil {
		code := http.StatusBadRequest
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			code = http.StatusRequestEntityTooLarge
		}
		return nil, &Error{code, "body: " + err.Error()}
	}
	return body, nil
}

// writeError answers with an error. One that is not an *Error is a failure of weir.
func writeError(w http.ResponseWriter, err error) {
	e, known := errors.AsType[*Error](err)
	if !known {
		e = &Error{http.StatusInternalServerError, err.Error()}
	}
	writeJSON(w, e.Code, e)
}
