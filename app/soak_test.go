package app_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"weir/app"
	"weir/config"
	"weir/console"
	"weir/internal/testkit/needs"
)

// Clients of every kind at once, on the machine's own clock: those who wait, those who leave, those who send half a
// body, while the configuration is reloaded. When all is over, nothing is held: nobody waits, nothing is under way,
// every place is free.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(upstream.Close)
	folder := t.TempDir()
	parse := func(limit int) *config.Config {
		cfg, err := config.Parse("weir.yaml", []byte(fmt.Sprintf(`
data: %s
http:
- listen: 127.0.0.1:0
  upstream: %s
  account: ["header:X-Api-Key"]
  throttles: [rates, places]
throttles:
  rates:
    quota:
      policies:
      - {name: steady, limit: %d, period: 1s, window: gcra, burst: 5, over: delay, delay: {max: 10, max_wait: 200ms}}
      - {name: fixed, limit: 100, period: 100ms, over: delay, delay: {max: 5, max_wait: 1s}}
  places:
    quota:
      policies:
      - {name: at-once, kind: concurrent, limit: 3, over: delay, delay: {max: 5, max_wait: 300ms}}
      - {name: traffic, kind: volume, limit: 1MB, period: 100ms, over: delay}
console: {listen: "off"}
log: {access: "off"}
`, folder, upstream.URL, limit)))
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	a, err := app.New(parse(500), app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	address := a.Addr("http", 0).String()
	accounts := []string{"a", "b", "c"}
	var clients sync.WaitGroup
	for i := range 24 {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		clients.Go(func() {
			for range 40 {
				visit(t, address, accounts[random.IntN(len(accounts))], random)
			}
		})
	}
	for i := range 10 {
		if err := a.Reload(parse(400 + i)); err != nil {
			t.Error(err)
		}
	}
	clients.Wait()
	control := console.NewClient(a.ControlPath())
	// Requests of clients that left may still be on their way into the gate.
	left := ""
	defer func() {
		if t.Failed() && left != "" {
			t.Log(left)
		}
	}()
	needs.Wait(t, "nothing is left behind", func() bool {
		left = leftBehind(t, control, accounts)
		return left == ""
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := a.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// leftBehind says what of requests is still there; nothing when all of them are over.
func leftBehind(t *testing.T, control *console.Client, accounts []string) string {
	status, err := console.StatusCall.Ask(context.Background(), control, console.None{})
	if err != nil {
		t.Fatal(err)
	}
	left := status.Gates[0].InFlight
	for _, th := range status.Throttles {
		if th.Table != nil {
			left += int64(th.Table.Waiting)
		}
	}
	if left != 0 {
		return fmt.Sprintf("something is left behind: %+v", status)
	}
	for _, name := range accounts {
		state, err := console.AccountGetCall.Ask(context.Background(), control, console.Name{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		for _, th := range state.Throttles {
			for _, rule := range th.Rules {
				if rule.Rule == "at-once" && rule.Remaining != rule.Limit {
					return fmt.Sprintf("%s: %d of %d places are free", name, rule.Remaining, rule.Limit)
				}
			}
		}
	}
	return ""
}

// visit makes one request, or part of one.
func visit(t *testing.T, address, account string, random *rand.Rand) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	head := fmt.Sprintf("/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Api-Key: %s\r\n", account)
	leave := random.IntN(3) == 0
	switch random.IntN(4) {
	case 0:
		fmt.Fprintf(c, "GET %s\r\n", head)
	case 1:
		fmt.Fprintf(c, "POST %sContent-Length: 5\r\n\r\n01234", head)
	case 2:
		fmt.Fprintf(c, "POST %sTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n0\r\n\r\n", head)
	case 3:
		fmt.Fprintf(c, "POST %sContent-Length: 50\r\n\r\n01234", head)
		leave = true // the rest never comes
	}
	if !leave {
		if answer, err := io.ReadAll(c); err != nil || len(answer) == 0 {
			t.Errorf("%d bytes, %v", len(answer), err)
		}
	}
}
