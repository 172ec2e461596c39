package flood

import (
	"context"
	"net/http"
	"net/netip"
	"time"
)

// A caller is a program, as curl or the library of an API: it neither pays nor keeps cookies and tickets, nor takes
// pages.
type caller struct {
	front  string
	proxy  http.RoundTripper
	source netip.Addr
	key    string        // of the API; empty for none
	tries  int           // how often it asks at most
	pause  time.Duration // between two tries
	wait   time.Duration // for an answer
}

// call asks until it is served or has tried often enough. It returns what became of the last try.
func (c *caller) call(ctx context.Context) result {
	for n := 1; ; n++ {
		if res := c.try(ctx); res == served || n >= c.tries || !sleep(ctx, c.pause) {
			return res
		}
	}
}

func (c *caller) try(ctx context.Context) result {
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	req, err := request(ctx, c.front, acceptAny, c.source)
	if err != nil {
		return failed
	}
	if c.key != "" {
		req.Header.Set(keyHeader, c.key)
	}
	switch status, _, err := send(c.proxy, req); {
	case err != nil:
		return failed
	case status == http.StatusOK:
		return served
	}
	return refused
}
