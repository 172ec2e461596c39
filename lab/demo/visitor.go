package demo

import (
	"context"
	"io"
	"net/http"
	"time"
)

// patience is how long an actor waits for an answer.
const patience = 10 * time.Second

// maxAnswer bounds what an actor reads of an answer.
const maxAnswer = 64 << 10

// visit returns how an account enters: as an HTTP client of the first gate that keeps its connections, one for each
// worker.
func visit(account string, workers int) func(*Stage) (func(context.Context) Result, func()) {
	return func(s *Stage) (func(context.Context) Result, func()) {
		// and no proxy: it is loopback
		transport := &http.Transport{MaxIdleConnsPerHost: workers, DisableCompression: true}
		client := &http.Client{Transport: transport, Timeout: patience}
		url := s.GateURL(0)
		return func(ctx context.Context) Result { return get(ctx, client, url, account) },
			transport.CloseIdleConnections
	}
}

func get(ctx context.Context, client *http.Client, url, account string) Result {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Failed
	}
	req.Header.Set(accountHeader, account)
	resp, err := client.Do(req)
	if err != nil {
		return Failed
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return Failed
	}
	return answered(resp.StatusCode)
}

// answered says what the status of an answer means.
func answered(status int) Result {
	switch status {
	case http.StatusOK:
		return Served
	case http.StatusTooManyRequests:
		return Refused
	}
	return Failed
}
