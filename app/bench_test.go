package app

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/config"
	"weir/console"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
)

// noon is when tests begin: in the middle of no period.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A bench is a weir in front of an upstream of its own, with the clock in the test's hand.
type bench struct {
	*App
	t        testing.TB
	clock    *clock.Fake
	dir      string
	upstream string
	client   *console.Client
}

// folder returns a folder whose name is short enough for sockets.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// start runs a configuration. DATA and UPSTREAM are replaced.
func start(t testing.TB, text string) *bench {
	t.Helper()
	return startBefore(t, text, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
}

func startBefore(t testing.TB, text string, upstream http.HandlerFunc) *bench {
	t.Helper()
	behind := httptest.NewServer(upstream)
	t.Cleanup(behind.Close)
	b := &bench{t: t, clock: clock.NewFake(noon), dir: filepath.Join(folder(t), "data"), upstream: behind.URL}
	var err error
	b.App, err = New(b.config(text), Options{Clock: b.clock, Version: "test", HashMemory: 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Stop(ended()) })
	b.client = console.NewClient(b.ControlPath())
	return b
}

// closed waits until nobody listens at an address. A program that another test starts has copies of all sockets until
// it is loaded.
func closed(t testing.TB, addr string) {
	t.Helper()
	needs.Wait(t, "nobody listens at "+addr, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

func (b *bench) config(text string) *config.Config {
	b.t.Helper()
	text = strings.NewReplacer("DATA", b.dir, "UPSTREAM", b.upstream).Replace(text)
	cfg, err := config.Parse("test.yaml", []byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	return cfg
}

// get asks the i-th gate as an account, and returns the status.
func (b *bench) get(i int, account string) int {
	b.t.Helper()
	code, err := ask(b.Addr("http", i).String(), account)
	if err != nil {
		b.t.Fatal(err)
	}
	return code
}

func ask(addr, account string) (int, error) {
	req, err := http.NewRequest("GET", "http://"+addr+"/v1/things", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Account", account)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// page gets a page of the console.
func (b *bench) page(path string) (int, string) {
	b.t.Helper()
	resp, err := http.Get("http://" + b.ConsoleAddr().String() + path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func (b *bench) wants(what string, got, want any) {
	b.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

const twoPerHour = `
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, account: ["header:X-Account"], throttles: [plans]}
throttles:
  plans: {quota: {policies: [{name: per-hour, limit: 2, period: 1h}]}}
console: {listen: "127.0.0.1:0"}
`
