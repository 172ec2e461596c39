package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"weir"
)

// socketPath returns a path short enough for a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "data", "weir.sock")
}

func control(t *testing.T, path string, b Backend) *Control {
	t.Helper()
	c := NewControl(path, b, NewMetrics("test"), quiet)
	if err := c.Listen(); err != nil {
		t.Fatal(err)
	}
	c.Start()
	t.Cleanup(func() { c.Stop(context.Background()) })
	return c
}

func TestControl(t *testing.T) {
	b := newBackend()
	path := socketPath(t)
	server := control(t, path, b)
	ctx, c := t.Context(), NewClient(path)

	status, err := StatusCall.Ask(ctx, c, None{})
	if err != nil || status.Version != "test" || status.Throttles[0].Verdicts["refuse"] != 3 ||
		status.Throttles[0].Accounts != 7 {
		t.Errorf("status: %+v %v", status, err)
	}
	for _, name := range []string{"acme", "../..", "a b&c=d/é", ""} {
		b.accounts = map[string]Account{name: {Account: name,
			Throttles: []AccountThrottle{{Throttle: "plans", Waiting: 2}}}}
		if a, err := AccountGetCall.Ask(ctx, c,
			Name{Name: name}); err != nil || a.Account != name || a.Throttles[0].Waiting != 2 {
			t.Errorf("account %q: %+v %v", name, a, err)
		}
		if _, err := AccountResetCall.Ask(ctx, c, Name{Name: name}); err != nil || len(b.accounts) != 0 {
			t.Errorf("reset %q: %v", name, err)
		}
		var e *Error
		if _, err := AccountGetCall.Ask(ctx, c, Name{Name: name}); !errors.As(err, &e) || e.Code != 404 || e.Msg != "nothing is known of it" {
			t.Errorf("unknown account: %v", err)
		}
	}
	q := Question{Gate: ":8080", Method: "GET", Path: "/v1", Account: "acme"}
	e, err := WhyAskCall.Ask(ctx, c, q)
	if err != nil || !reflect.DeepEqual(b.asked, q) || e.Verdict != weir.Refuse || e.Steps[0].Reason != weir.OverLimit {
		t.Errorf("why: %+v %v", e, err)
	}
	states, err := ShadowCall.Ask(ctx, c, Shadow{Throttles: []string{"plans"}, On: true})
	if err != nil || len(states.Throttles) != 1 || !states.Throttles[0].Shadow || !b.shadow.On {
		t.Errorf("shadow: %v %v", states, err)
	}
	if _, err := ReloadCall.Ask(ctx, c, None{}); err != nil {
		t.Error(err)
	}
	b.reload = Rejected("line 3: no")
	if _, err := ReloadCall.Ask(ctx, c, None{}); err == nil || err.Error() != "line 3: no" {
		t.Errorf("failing reload: %v", err)
	}
	b.reload = errors.New("broken")
	var ce *Error
	if _, err := ReloadCall.Ask(ctx, c, None{}); !errors.As(err, &ce) || ce.Code != 500 {
		t.Errorf("broken reload: %v", err)
	}

	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v %v", info.Mode(), err)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v %v", info.Mode(), err)
	}
	if err := server.Stop(ctx); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := StatusCall.Ask(ctx, c, None{}); !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(),
		path) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestControlBadInput(t *testing.T) {
	path := socketPath(t)
	control(t, path, newBackend())
	c := NewClient(path)
	for _, test := range []struct {
		method, path, body string
		code               int
	}{
		{"POST", "/api/v1/why", "{", 400},
		{"POST", "/api/v1/why", `{"unknown":1}`, 400},
		{"POST", "/api/v1/why", `"` + strings.Repeat("x", maxBody) + `"`, 413},
		{"POST", "/api/v1/shadow", `[]`, 400},
		{"GET", "/api/v1/reload", "", 405},
		{"GET", "/api/v2/status", "", 404},
	} {
		req, err := http.NewRequest(test.method, "http://weir"+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.http.Do(req)
		if err != nil {
			t.Errorf("%s %s: %v", test.method, test.path, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != test.code {
			t.Errorf("%s %s %.20s: %d, want %d", test.method, test.path, test.body, resp.StatusCode, test.code)
		}
	}
}

func TestControlSocketOfAnother(t *testing.T) {
	path := socketPath(t)
	control(t, path, newBackend())
	second := NewControl(path, newBackend(), NewMetrics("test"), quiet)
	if err := second.Listen(); !errors.Is(err, ErrRunning) {
		t.Fatalf("a second weir: %v", err)
	}
	if err := second.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := StatusCall.Ask(t.Context(), NewClient(path), None{}); err != nil {
		t.Errorf("the first weir: %v", err)
	}
}

func TestControlSocketOfADeadWeir(t *testing.T) {
	path := socketPath(t)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	control(t, path, newBackend())
	if _, err := StatusCall.Ask(t.Context(), NewClient(path), None{}); err != nil {
		t.Error(err)
	}
}

func TestControlSocketThatCannotBe(t *testing.T) {
	path := socketPath(t)
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	long := "/" + strings.Repeat("x", maxSocketPath)
	for path, want := range map[string]string{path: "is not a socket", long: "at most 103"} {
		c := NewControl(path, newBackend(), NewMetrics("test"), quiet)
		if err := c.Listen(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
