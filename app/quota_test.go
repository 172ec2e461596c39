package app_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/console"
)

// Limit 5 a second, twelve requests at once: 5, 5 and 2 in three periods, in order as the upstream saw them, ahead of
// newcomers.
func TestDelayedRequestsGoFirstAndInOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t, one("{name: per-second, limit: 5, period: 1s, over: delay, delay: {max: 20, max_wait: 5s}}"))
	const gap = 10 * time.Millisecond // between those that are called
	var calls []*call
	for i := range 12 {
		path := fmt.Sprintf("/%d", i)
		calls = append(calls, s.get("acme", path))
		if i < 5 {
			s.arrives(path)
		} else {
			s.waiting(i - 4)
		}
	}
	s.get("other", "/other").want(http.StatusOK) // another account is untouched
	s.arrives("/other")

	s.clock.Advance(999 * time.Millisecond)
	s.quiet()
	s.clock.Advance(time.Millisecond) // the second period begins
	for i := 5; i < 10; i++ {
		s.arrivesNext(gap, 11-i, fmt.Sprintf("/%d", i))
	}
	newcomer := s.get("acme", "/newcomer")
	s.waiting(3)
	s.clock.Advance(noon.Add(2*time.Second - 1).Sub(s.clock.Now()))
	s.quiet()
	s.clock.Advance(1) // the third period begins
	for i, path := range []string{"/10", "/11", "/newcomer"} {
		s.arrivesNext(gap, 2-i, path)
	}
	for _, c := range append(calls, newcomer) {
		c.want(http.StatusOK)
	}
	s.get("acme", "/a").want(http.StatusOK) // two of the third period are left
	s.get("acme", "/b").want(http.StatusOK)
	s.get("acme", "/c")
	s.waiting(1)
}

func TestRefusedRequestsAreToldWhy(t *testing.T) {
	t.Parallel()
	s := newSite(t, one("{name: per-second, limit: 5, period: 1s}"))
	s.clock.Advance(200 * time.Millisecond)
	refused := 0
	for i := range 12 {
		c := s.get("acme", fmt.Sprintf("/%d", i))
		if c.status() == http.StatusOK {
			s.arrives(fmt.Sprintf("/%d", i))
			if got, want := c.resp.Header.Get("RateLimit"), fmt.Sprintf(`"per-second";r=%d;t=1`, 4-i); got != want {
				t.Errorf("RateLimit %s, want %s", got, want)
			}
			continue
		}
		refused++
		c.want(http.StatusTooManyRequests)
		for name, want := range map[string]string{
			"RateLimit-Policy": `"per-second";q=5;w=1`,
			"RateLimit":        `"per-second";r=0;t=1`,
			"Retry-After":      "1",
		} {
			if got := c.resp.Header.Get(name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		p := c.problem()
		if p["policy"] != "per-second" || p["throttle"] != "plans" || p["status"] != 429.0 || p["limit"] != 5.0 ||
			p["request_id"] != c.resp.Header.Get("X-Request-Id") || p["request_id"] == "" {
			t.Errorf("problem: %v", p)
		}
	}
	if refused != 7 {
		t.Errorf("%d refused, want 7", refused)
	}
	s.quiet()
	s.get("other", "/").want(http.StatusOK)
}

func TestWindowsOverHTTP(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy string
		admits int           // at once
		again  time.Duration // when the next one is
	}{
		"fixed":   {"{name: p, limit: 3, period: 1s}", 3, 100 * time.Millisecond}, // it is 0.9 s past the border
		"sliding": {"{name: p, limit: 3, period: 1s, window: sliding}", 3, 1037500 * time.Microsecond},
		"gcra":    {"{name: p, limit: 10, period: 1s, window: gcra, burst: 2}", 2, 100 * time.Millisecond},
		"idle":    {"{name: p, kind: idle, gap: 50ms}", 1, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, one(c.policy))
			s.clock.Advance(900 * time.Millisecond)
			for range c.admits {
				s.get("acme", "/").want(http.StatusOK)
			}
			s.get("acme", "/").want(http.StatusTooManyRequests)
			s.clock.Advance(c.again - 1)
			s.get("acme", "/").want(http.StatusTooManyRequests)
			s.clock.Advance(1)
			s.get("acme", "/").want(http.StatusOK)
			if c.admits < 3 { // a steady rate lets one through at a time
				s.get("acme", "/").want(http.StatusTooManyRequests)
			}
		})
	}
}

func TestDelayToTheEarliestTimeOverHTTP(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy string
		admits int           // at once
		first  time.Duration // when the first in line goes
		gap    time.Duration // and the others after it
	}{
		"sliding": {"{name: p, limit: 2, period: 1s, window: sliding, over: delay}", 2, 1062500 * time.Microsecond,
			10 * time.Millisecond},
		"gcra": {"{name: p, limit: 10, period: 1s, window: gcra, burst: 2, over: delay}", 2, 100 * time.Millisecond,
			100 * time.Millisecond},
		"idle": {"{name: p, kind: idle, gap: 50ms, over: delay}", 1, 50 * time.Millisecond, 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, one(c.policy))
			for range c.admits {
				s.get("acme", "/now").want(http.StatusOK)
				s.arrives("/now")
			}
			one := s.get("acme", "/1")
			s.waiting(1)
			two := s.get("acme", "/2")
			s.waiting(2)
			s.clock.Advance(c.first - 1)
			s.quiet()
			s.clock.Advance(1)
			s.arrives("/1")
			s.arrivesNext(c.gap, 0, "/2")
			one.want(http.StatusOK)
			two.want(http.StatusOK)
		})
	}
}

func TestDelayHasBoundsOverHTTP(t *testing.T) {
	t.Parallel()
	s := newSite(t, one("{name: per-second, limit: 1, period: 1s, over: delay, delay: {max: 2, max_wait: 10s}}"))
	s.get("acme", "/").want(http.StatusOK)
	s.get("acme", "/1")
	s.waiting(1)
	s.get("acme", "/2")
	s.waiting(2)
	if p := s.get("acme", "/3").want(http.StatusTooManyRequests).problem(); p["reason"] != "line-full" {
		t.Errorf("problem: %v", p)
	}

	s = newSite(t, one("{name: per-second, limit: 1, period: 1s, over: delay, delay: {max: 20, max_wait: 1s}}"))
	s.get("acme", "/").want(http.StatusOK)
	s.get("acme", "/1")
	s.waiting(1)
	if p := s.get("acme", "/2").want(http.StatusTooManyRequests).problem(); p["reason"] != "wait-too-long" {
		t.Errorf("problem: %v", p)
	}
}

func TestConcurrentOverHTTP(t *testing.T) {
	t.Parallel()
	s := newSite(t, one("{name: at-once, kind: concurrent, limit: 2}"))
	release := s.holding()
	first, second := s.get("acme", "/1"), s.get("acme", "/2")
	<-s.arrived
	<-s.arrived
	p := s.get("acme", "/3").want(http.StatusTooManyRequests).problem()
	if p["policy"] != "at-once" {
		t.Errorf("problem: %v", p)
	}
	s.get("other", "/other")
	s.arrives("/other")
	release()
	first.want(http.StatusOK)
	second.want(http.StatusOK)
	s.until("a place to be free", func() bool { return s.get("acme", "/4").status() == http.StatusOK })
}

func TestPlaceGoesToTheNextInLineOverHTTP(t *testing.T) {
	t.Parallel()
	s := newSite(t, one("{name: at-once, kind: concurrent, limit: 1, over: delay, delay: {max: 5, max_wait: 30s}}"))
	release := s.holding()
	s.get("acme", "/1")
	s.arrives("/1")
	two := s.get("acme", "/2")
	s.waiting(1)
	s.get("acme", "/3")
	s.waiting(2)
	two.leave() // gives its place in line to the next
	s.waiting(1)
	release()
	s.arrives("/3")

	release = s.holding()
	defer release()
	s.until("the place to be taken again", func() bool {
		c := s.get("acme", "/4")
		select {
		case <-s.arrived:
			return true
		case <-c.done:
			t.Fatal("the upstream answers nobody")
			return false
		}
	})
	s.get("acme", "/5")
	s.waiting(1)
	s.clock.Advance(30 * time.Second) // the longest wait is over
	s.waiting(0)
}

func TestVolumeOverHTTP(t *testing.T) {
	t.Parallel()
	s := newSite(t, one("{name: traffic, kind: volume, limit: 10KB, period: 1m}"))
	s.does(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, strings.Repeat("x", 25_000)) })
	s.get("acme", "/").want(http.StatusOK)
	s.until("the bytes to be charged", func() bool {
		a, err := console.AccountGetCall.Ask(context.Background(), s.control, console.Name{Name: "acme"})
		return err == nil && a.Throttles[0].Rules[0].Remaining == 0
	})
	c := s.get("acme", "/").want(http.StatusTooManyRequests)
	if got := c.resp.Header.Get("Retry-After"); got != "120" { // 25 KB are two periods and a half
		t.Errorf("Retry-After %s, want 120", got)
	}
	s.clock.Advance(2*time.Minute - 1)
	s.get("acme", "/").want(http.StatusTooManyRequests)
	s.clock.Advance(1)
	s.get("acme", "/").want(http.StatusOK)
}

func TestVolumePacesAStream(t *testing.T) {
	t.Parallel()
	s := newSite(t, one("{name: traffic, kind: volume, limit: 10KB, period: 1s, over: delay, delay: {max_wait: 10s}}"))
	s.does(func(w http.ResponseWriter, r *http.Request) {
		for range 4 {
			fmt.Fprint(w, strings.Repeat("x", 10_000))
			http.NewResponseController(w).Flush()
		}
	})
	c := s.get("acme", "/")
	s.arrives("/")
	for range 200 { // each second pays for ten kilobytes; how they are cut into pieces is not ours to say
		select {
		case <-c.done:
		default:
			s.until("the stream to pause or end", func() bool {
				select {
				case <-c.done:
					return true
				default:
					return s.clock.Pending() > 1 // one is of the history
				}
			})
			s.clock.Advance(time.Second)
			continue
		}
		break
	}
	c.want(http.StatusOK)
	if len(c.body) != 40_000 {
		t.Errorf("%d bytes", len(c.body))
	}
	// The last piece is paid for after it has gone, and two pieces may have become one.
	if passed := s.clock.Now().Sub(noon); passed < 2*time.Second {
		t.Errorf("40 KB at 10 KB/s took %s", passed)
	}
}

func TestLeavingClientsGiveTheirPlaceBack(t *testing.T) {
	t.Parallel()
	head := " /leaves HTTP/1.1\r\nHost: a\r\nX-Api-Key: acme\r\n"
	for name, request := range map[string]string{
		"GET":                  "GET" + head + "\r\n",
		"POST, body sent":      "POST" + head + "Content-Length: 10\r\n\r\n0123456789",
		"POST, body half sent": "POST" + head + "Content-Length: 10\r\n\r\n01234",
		"POST, body not sent":  "POST" + head + "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n",
		"POST, chunked":        "POST" + head + "Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n",
	} {
		t.Run(name, func(t *testing.T) { testLeaving(t, request) })
	}
}

func testLeaving(t *testing.T, request string) {
	s := newSite(t, one("{name: per-second, limit: 1, period: 1s, over: delay, delay: {max: 20, max_wait: 5s}}"))
	s.get("acme", "/0").want(http.StatusOK)
	s.arrives("/0")
	leaves := s.send(request)
	s.waiting(1)
	stays := s.get("acme", "/stays")
	s.waiting(2)
	leaves.leave()
	s.waiting(1)
	s.clock.Advance(time.Second) // the one who stays has moved up
	s.arrives("/stays")
	stays.want(http.StatusOK)
	s.quiet()
}

func TestOverridesShadowAndReload(t *testing.T) {
	t.Parallel()
	throttles := `
  plans:
    quota:
      policies:
      - {name: per-minute, limit: %d, period: 1m}
      overrides: {acme: {per-minute: {limit: %d}}}
`
	s := newSite(t, fmt.Sprintf(throttles, 1, 3))
	for range 3 {
		s.get("acme", "/").want(http.StatusOK)
	}
	s.get("acme", "/").want(http.StatusTooManyRequests)
	s.get("other", "/").want(http.StatusOK)
	s.get("other", "/").want(http.StatusTooManyRequests)

	// Reload: the limit changes, what was used stays, and a request under way does not notice.
	release := s.holding()
	for range 4 {
		<-s.arrived
	}
	under := s.get("third", "/under-way")
	s.arrives("/under-way")
	if err := s.app.Reload(s.config(fmt.Sprintf(throttles, 2, 4))); err != nil {
		t.Fatal(err)
	}
	release()
	under.want(http.StatusOK)
	s.get("acme", "/").want(http.StatusOK)
	s.get("acme", "/").want(http.StatusTooManyRequests)
	s.get("other", "/").want(http.StatusOK)
	s.get("other", "/").want(http.StatusTooManyRequests)

	bad := s.config(fmt.Sprintf(throttles, 9, 9))
	bad.HTTP[0].Upstream.Servers = []string{"gopher://nowhere"}
	if err := s.app.Reload(bad); err == nil {
		t.Error("a bad configuration was taken")
	}
	s.get("acme", "/").want(http.StatusTooManyRequests)

	if _, err := console.ShadowCall.Ask(context.Background(), s.control, console.Shadow{All: true,
		On: true}); err != nil {
		t.Fatal(err)
	}
	c := s.get("acme", "/").want(http.StatusOK)
	if h := c.resp.Header.Get("RateLimit"); h != "" {
		t.Errorf("a shadow shows itself: RateLimit %s", h)
	}
	status, err := console.StatusCall.Ask(context.Background(), s.control, console.None{})
	if err != nil {
		t.Fatal(err)
	}
	if th := status.Throttles[0]; !th.Shadow || th.Shadowed["refuse"] == 0 {
		t.Errorf("the shadow counts nothing: %+v", th)
	}
	if _, err := console.ShadowCall.Ask(context.Background(), s.control, console.Shadow{All: true}); err != nil {
		t.Fatal(err)
	}
	s.get("acme", "/").want(http.StatusTooManyRequests)
}

func TestFailingUpstreamGivesBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, one("{name: per-minute, limit: 2, period: 1m}"))
	s.get("acme", "/").want(http.StatusOK)
	s.does(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	s.get("acme", "/").want(http.StatusBadGateway) // it reached the upstream: charged
	s.get("acme", "/").want(http.StatusTooManyRequests)
	s.server.Close()
	for range 3 {
		s.get("other", "/").want(http.StatusBadGateway) // it never did: given back
	}
	a, err := console.AccountGetCall.Ask(context.Background(), s.control, console.Name{Name: "other"})
	if err != nil || a.Throttles[0].Rules[0].Remaining != 2 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestInventedAccountsOverHTTP(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
  plans:
    quota:
      policies: [{name: per-minute, limit: 2, period: 1m}]
      max_accounts: 10
`)
	s.get("real", "/").want(http.StatusOK)
	s.get("real", "/").want(http.StatusOK)
	for i := range 50 {
		s.get(fmt.Sprint("invented-", i), "/").status()
	}
	s.get("real", "/").want(http.StatusTooManyRequests)
	status, err := console.StatusCall.Ask(context.Background(), s.control, console.None{})
	if err != nil || status.Throttles[0].Table.Accounts > 10 || status.Throttles[0].Table.Strangers == 0 {
		t.Errorf("%+v, %v", status.Throttles[0].Table, err)
	}
}

// weir why speaks of the account that the gate would charge.
func TestWhyFindsTheSourceAccount(t *testing.T) {
	t.Parallel()
	s := newSite(t, one("{name: per-minute, limit: 1, period: 1m}"))
	cfg := s.config(one("{name: per-minute, limit: 1, period: 1m}"))
	cfg.HTTP[0].Account = append(cfg.HTTP[0].Account, "source")
	if err := s.app.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	s.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").want(http.StatusOK)
	for source, want := range map[string]weir.Verdict{"127.0.0.1": weir.Refuse, "192.0.2.1": weir.Admit} {
		e, err := console.WhyAskCall.Ask(context.Background(), s.control, console.Question{Source: source,
			Method: "GET", Path: "/"})
		if err != nil || e.Verdict != want {
			t.Errorf("%s: %s, %v, want %s", source, e.Text, err, want)
		}
	}
}
