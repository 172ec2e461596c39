package console

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// ErrNotRunning is returned when no weir answers on the control socket.
var ErrNotRunning = errors.New("no weir is running")

// maxAnswer bounds what a client reads.
const maxAnswer = 16 << 20

// onSocket is the base of URLs where the socket says which weir is meant.
const onSocket = "http://weir"

// A Client talks to a running weir, over its control socket or over the network. It is safe for concurrent use.
type Client struct {
	path  string // of the socket, or the URL
	base  string // what paths are appended to
	token string // empty over the socket
	http  *http.Client
}

// Path is the socket, or the URL.
func (c *Client) Path() string { return c.path }

// Remote reports whether the weir may be on another machine.
func (c *Client) Remote() bool { return c.base != onSocket }

// NewClient returns a client for the socket at path. Nothing is opened before the first call.
func NewClient(path string) *Client {
	var d net.Dialer
	return &Client{path, onSocket, "", &http.Client{
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

// A Remote is a weir on another machine.
type Remote struct {
	URL   string // of the console: https://weir.example.com:9000
	Token string
	Roots *x509.CertPool // sign its certificate; nil: those that the system trusts
}

// Errors of NewRemote.
var (
	ErrURL   = errors.New("the URL of a console is written as https://weir.example.com:9000")
	ErrPlain = errors.New("a token is not sent to another machine without TLS: write https://")
)

// NewRemote returns a client for a console. The token is sent with every call, and never to another host: redirects
// are not followed. Without TLS it is sent to this machine only.
func NewRemote(r Remote) (*Client, error) {
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && u.Scheme != "http" {
		return nil, ErrURL
	}
	if ip, err := netip.ParseAddr(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" &&
		(err != nil || !ip.IsLoopback()) {
		return nil, ErrPlain
	}
	return &Client{r.URL, strings.TrimSuffix(u.String(), "/"), r.Token, &http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{RootCAs: r.Roots, MinVersion: tls.VersionTLS12}},
	}}, nil
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
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
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
	case c.Remote() && errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w at %s; is it the console.listen of its configuration?", ErrNotRunning, c.path)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w at %s (start it, or name the configuration it was started with: -c FILE)", ErrNotRunning, c.path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s may only be opened by the user that weir runs as (use sudo)", c.path)
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err // the URL in it is made up
	}
	return fmt.Errorf("%s: %w", c.path, err)
}
