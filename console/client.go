package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

// ErrNotRunning is returned when no weir answers on the control socket.
var ErrNotRunning = errors.New("no weir is running")

// maxAnswer bounds what a client reads.
const maxAnswer = 16 << 20

// A Client talks to a running weir over its control socket. It is safe for concurrent use.
type Client struct {
	path string
	http *http.Client
}

// Path is the socket.
func (c *Client) Path() string { return c.path }

// NewClient returns a client for the socket at path. Nothing is opened before the first call.
func NewClient(path string) *Client {
	var d net.Dialer
	return &Client{path, &http.Client{
		Timeout: time.Minute,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn,
				error) {
				return d.DialContext(ctx, "unix", path)
			},
			DisableKeepAlives: true, // a command asks once; an idle connection would only keep weir from stopping
		},
	}}
}

func (c *Client) Status(ctx context.Context) (Status, error) {
	return fetch[Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Reload makes weir read its configuration again.
func (c *Client) Reload(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/v1/reload", nil, nil)
}

// Account returns what the throttles know of an account.
func (c *Client) Account(ctx context.Context, name string) (Account, error) {
	return fetch[Account](ctx, c, http.MethodGet, "/v1/account?name="+url.QueryEscape(name), nil)
}

// ResetAccount forgets what an account has used, and returns its new state.
func (c *Client) ResetAccount(ctx context.Context, name string) (Account, error) {
	return fetch[Account](ctx, c, http.MethodDelete, "/v1/account?name="+url.QueryEscape(name), nil)
}

// Why explains what would happen to a request now.
func (c *Client) Why(ctx context.Context, q Question) (Explanation, error) {
	return fetch[Explanation](ctx, c, http.MethodPost, "/v1/why", q)
}

// SetShadow takes throttles into shadow or out of it, and returns the state of all of them.
func (c *Client) SetShadow(ctx context.Context, s Shadow) ([]ShadowState, error) {
	var r ShadowResult
	err := c.call(ctx, http.MethodPost, "/v1/shadow", s, &r)
	return r.Throttles, err
}

// fetch is call with a typed answer.
func fetch[T any](ctx context.Context, c *Client, method, path string, in any) (out T, err error) {
	err = c.call(ctx, method, path, in, &out)
	return out, err
}

// withQuery adds parameters, given as names and values, to a path. Empty ones are left out.
func withQuery(path string, pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return path + "?" + v.Encode()
}

// ifSet is a parameter that is empty for 0.
func ifSet[T int | int64](n T) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

// call sends in as JSON and reads the answer into out. An error that weir answers with is an *Error.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	return c.exchange(ctx, c.http, method, path, in, func(d *json.Decoder) error {
		if out == nil {
			return nil
		}
		return d.Decode(out)
	})
}

// exchange sends in as JSON and hands the answer to read.
func (c *Client) exchange(ctx context.Context, via *http.Client, method, path string, in any,
	read func(*json.Decoder) error) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://weir"+path, body)
	if err != nil {
		return err
	}
	resp, err := via.Do(req)
	if err != nil {
		return c.explain(err)
	}
	defer resp.Body.Close()
	d := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode != http.StatusOK {
		e := &Error{Code: resp.StatusCode}
		if d.Decode(e) != nil || e.Msg == "" {
			e.Msg = "weir answered " + resp.Status
		}
		return e
	}
	if err := read(d); err != nil {
		if e, own := errors.AsType[*Error](err); own {
			return e
		}
		return fmt.Errorf("%s: what answers there is not weir: %w", c.path, err)
	}
	return nil
}

// explain turns a failed connection into an error for the user of a command.
func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w at %s; is it the control: of the same configuration?", ErrNotRunning, c.path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may only be opened by the user that weir runs as", c.path)
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err // the URL in it is made up
	}
	return fmt.Errorf("%s: %w", c.path, err)
}
