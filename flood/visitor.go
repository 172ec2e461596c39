package flood

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"weir/stamp"
)

// What everybody says who he is: nobody can be told by it.
const (
	host       = "service.example"
	agent      = "Mozilla/5.0"
	acceptPage = "text/html"
	acceptData = "application/json"
)

// challengeHeader is where a front says what it wants to be paid, stampHeader where it is paid.
const (
	challengeHeader = "Stamp-Challenge"
	stampHeader     = "Stamp"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 256 << 10

// visitors are people. They come one by one, each with an address and cookies of his own, all of them over the connections of one proxy.
type visitors struct {
	front     string
	transport http.RoundTripper
	reload    time.Duration
	tally     *tally
	solver    solver
}

// A visitor is one of them.
type visitor struct {
	*visitors
	group  group
	at     time.Duration // when he came, since the beginning
	client *http.Client
	source netip.Addr
	stamp  string
	last   result // of what was tried so far
}

// visit is a whole visit: he tries until he is served or ctx, his patience, ends.
func (v *visitors) visit(ctx context.Context, g group, n int, at time.Duration) result {
	jar, _ := cookiejar.New(nil) // no options, no error
	one := &visitor{visitors: v, group: g, at: at, source: visitorSource(g, n), last: failed,
		client: &http.Client{Transport: v.transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	for {
		again, done := one.try(ctx)
		if done {
			return served
		}
		if ctx.Err() != nil || !sleep(ctx, again) {
			return one.last
		}
	}
}

// visitorSource returns the address of a visitor. Those without scripts are from 198.18.0.0/16, the others from 198.19.0.0/16.
func visitorSource(g group, n int) netip.Addr {
	second := byte(18)
	if g == people {
		second = 19
	}
	n++
	return netip.AddrFrom4([4]byte{198, second, byte(n >> 8), byte(n)})
}

// try asks once, and pays if that is what it takes. When he was not served, it says when to try again.
func (v *visitor) try(ctx context.Context) (again time.Duration, done bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+v.front+"/", nil)
	if err != nil {
		return v.reload, false
	}
	req.Host = host
	req.Header.Set("User-Agent", agent)
	req.Header.Set("X-Forwarded-For", v.source.String())
	// A script that fetches is told in a header what to pay; a page would carry it inside.
	if v.group == people {
		req.Header.Set("Accept", acceptData)
	} else {
		req.Header.Set("Accept", acceptPage)
	}
	if v.stamp != "" {
		req.Header.Set(stampHeader, v.stamp)
	}
	resp, err := v.client.Do(req)
	if err != nil {
		v.last = failed
		return v.reload, false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		v.last = failed
		return v.reload, false
	}
	if resp.StatusCode == http.StatusOK {
		return 0, true
	}
	v.last = refused
	if challenge := resp.Header.Get(challengeHeader); v.group == people && challenge != "" {
		if err := v.pay(ctx, challenge); err == nil {
			return 0, false
		}
	}
	return pause(resp.Header, body, v.reload), false
}

// pay solves a challenge.
func (v *visitor) pay(ctx context.Context, challenge string) error {
	c, err := stamp.ParseChallenge(challenge)
	if err != nil {
		return fmt.Errorf("a challenge that cannot be read: %w", err)
	}
	paid, took, err := v.solver.solve(ctx, challenge)
	if err != nil {
		return err
	}
	v.stamp = paid
	v.tally.pay(v.at, payment{work: uint64(c.Work), took: took, phone: c.Work.Time(c.Algorithm)})
	return nil
}

// metaRefresh is how a page says that it wants to be loaded again.
var metaRefresh = regexp.MustCompile(`(?i)<meta\s+http-equiv="?refresh"?\s+content="?\s*(\d+)`)

// pause returns after what time an answer wants to be asked for again: as a browser reads it, or by Retry-After.
func pause(h http.Header, body []byte, otherwise time.Duration) time.Duration {
	refresh, _, _ := strings.Cut(h.Get("Refresh"), ";")
	var meta string
	if found := metaRefresh.FindSubmatch(body[:min(len(body), 4<<10)]); found != nil && bytes.Contains(body, []byte("<")) {
		meta = string(found[1])
	}
	for _, text := range []string{refresh, meta, h.Get("Retry-After")} {
		if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16); err == nil {
			return time.Duration(n) * time.Second
		}
	}
	return otherwise
}

// sleep waits for a while. It reports whether there was time for it.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
