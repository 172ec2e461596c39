package demo

import (
	"context"
	"io"
	"net/http"
	"time"

	"weir/lab/machine"
)

// patience is how long an actor waits for an answer.
const patience = 10 * time.Second

// visit returns how an account enters: as an HTTP client of the first gate that keeps its connections, one for each
// worker.
func visit(account string, workers int) func(*Stage) (func(context.Context) Result, func()) {
	return func(s *Stage) (func(context.Context) Result, func()) {
		// and no proxy: it is loopback
		transport := &http.Transport{MaxIdleConnsPerHost: workers, DisableCompression: true}
		client := &http.Client{Transport: transport, Timeout: patience}
		return func(ctx context.Context) Result {
			status, _, err := get(ctx, client, s.GateURL(0), http.Header{accountHeader: {account}})
			return answered(status, err)
		}, transport.CloseIdleConnections
	}
}

// get asks for a page.
func get(ctx context.Context, client *http.Client, url string, h http.Header) (int, http.Header, error) {
	status, h, _, err := ask(ctx, client, http.MethodGet, url, h, nil)
	return status, h, err
}

func ask(ctx context.Context, client *http.Client, method, url string, h http.Header, body io.Reader) (int, http.Header,
	[]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header = h
	return machine.Ask(client.Do, req)
}

// answered says what the status of an answer means.
func answered(status int, err error) Result {
	switch {
	case err == nil && status == http.StatusOK:
		return Served
	case err == nil && status == http.StatusTooManyRequests:
		return Refused
	}
	return Failed
}
