package flood

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"weir/lab/machine"
)

// A caller is a program such as curl or the client library of an API. It neither pays nor keeps cookies and tickets, and
// asks for no pages.
type caller struct {
	front  string
	proxy  http.RoundTripper
	source netip.Addr
	key    string        // of the API; empty for none
	tries  int           // how often it asks at most
	pause  time.Duration // between two tries
	wait   time.Duration // for an answer
}

// call asks until it is served or has tried often enough. It returns the result of the last try.
func (c *caller) call(ctx context.Context) result {
	for n := 1; ; n++ {
		if res := c.try(ctx); res == served || n >= c.tries || !machine.Sleep(ctx, c.pause) {
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
	status, _, _, err := machine.Ask(c.proxy.RoundTrip, req)
	return resultOf(status, err)
}
