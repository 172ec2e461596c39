package console

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const profilesPassword = "a password: of profiles"

// askProfile asks for a profile with a password, unless that is empty.
func askProfile(t *testing.T, url, password string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if req.Close = true; password != "" {
		req.SetBasicAuth("anybody", password)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestProfilesAreOff: without a password in the configuration there are no profiles, whatever is shown.
func TestProfilesAreOff(t *testing.T) {
	url, _ := serve(t, Options{}, newBackend())
	for _, path := range []string{"heap", "profile?seconds=1", "trace", "cmdline", ""} {
		for _, password := range []string{"", "x", profilesPassword} {
			if resp := askProfile(t, url+"/debug/pprof/"+path, password); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s with %q: %s", path, password, resp.Status)
			}
		}
	}
}

// TestProfilesNeedThePassword: only the right password opens them, and the command line stays closed.
func TestProfilesNeedThePassword(t *testing.T) {
	url, _ := serve(t, Options{ProfilesPassword: profilesPassword}, newBackend())
	for _, path := range append([]string{"profile?seconds=1", "trace?seconds=1", "cmdline", ""}, profileNames...) {
		for _, password := range []string{"", "x", profilesPassword + "x", profilesPassword[1:], "anybody"} {
			resp := askProfile(t, url+"/debug/pprof/"+path, password)
			if resp.StatusCode != 401 || !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("%s with %q: %s", path, password, resp.Status)
			}
		}
	}
	for _, name := range profileNames {
		resp := askProfile(t, url+"/debug/pprof/"+name, profilesPassword)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", name, resp.Status)
			continue
		}
		packed, err := gzip.NewReader(resp.Body)
		if err != nil {
			t.Errorf("%s is no profile: %v", name, err)
			continue
		}
		if text, err := io.ReadAll(packed); err != nil || len(text) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
	for _, path := range []string{"", "cmdline", "symbol", "nothing"} {
		if resp := askProfile(t, url+"/debug/pprof/"+path, profilesPassword); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%q: %s", path, resp.Status)
		}
	}
	if code, _, _ := get(t, "GET", url+"/debug/pprof/heap", "evil.example"); code != http.StatusForbidden {
		t.Errorf("by another name: %d", code)
	}
}

// TestProfilesAreForThisMachine: whoever may connect from elsewhere gets no profile, even with the password.
func TestProfilesAreForThisMachine(t *testing.T) {
	g := &guard{allow: loopback, profiles: profilesSum(profilesPassword)}
	for peer, want := range map[string]int{
		"127.0.0.1:1": 0, "127.9.9.9:1": 0, "[::1]:1": 0, "[::ffff:127.0.0.1]:1": 0,
		"10.0.0.1:1": 403, "[::ffff:10.0.0.1]:1": 403, "[2001:db8::1]:1": 403, "": 403, "@": 403,
	} {
		r := httptest.NewRequest("GET", "/debug/pprof/heap", nil)
		r.RemoteAddr = peer
		r.Header.Set("X-Forwarded-For", "127.0.0.1")
		r.SetBasicAuth("", profilesPassword)
		if code, why := g.checkProfiles(r); code != want || (why == "") != (want == 0) {
			t.Errorf("%q: %d %s", peer, code, why)
		}
	}
}

// TestConfigureChangesTheProfilesPassword: a reload turns profiles on, changes the password and turns them off.
func TestConfigureChangesTheProfilesPassword(t *testing.T) {
	s := newServer(t, Options{}, newBackend(), NewMetrics("test"))
	code := func(password string) int {
		r := httptest.NewRequest("GET", "/debug/pprof/heap", nil)
		r.SetBasicAuth("", password)
		r.RemoteAddr = "127.0.0.1:1"
		code, _ := s.guard.Load().checkProfiles(r)
		return code
	}
	for _, step := range []struct {
		now, shown string
		want       int
	}{
		{"", "", 404}, {profilesPassword, profilesPassword, 0}, {"another password", profilesPassword, 401},
		{"another password", "another password", 0}, {"", "another password", 404},
	} {
		s.Configure(Options{ProfilesPassword: step.now})
		if got := code(step.shown); got != step.want {
			t.Errorf("%+v: %d", step, got)
		}
	}
}

// TestOneProfileAtATime: while one is made another is refused and counted, and a stop ends the one under way.
func TestOneProfileAtATime(t *testing.T) {
	m := NewMetrics("test")
	s := newServer(t, Options{Listen: "127.0.0.1:0", ProfilesPassword: profilesPassword}, newBackend(), m)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	url := "http://" + s.Addr().String()
	// A trace sends its header when it begins.
	long := askProfile(t, url+"/debug/pprof/trace?seconds=50", profilesPassword)
	if long.StatusCode != http.StatusOK {
		t.Fatal(long.Status)
	}
	trace := bufio.NewReader(long.Body)
	if _, err := trace.Peek(1); err != nil {
		t.Fatal(err)
	}
	if resp := askProfile(t, url+"/debug/pprof/heap", profilesPassword); resp.StatusCode != 503 {
		t.Errorf("a second one: %s", resp.Status)
	}
	if _, body, _ := get(t, "GET", url+"/metrics", ""); !strings.Contains(body,
		`weir_bound_reached_total{bound="console_profiles"} 1`) {
		t.Error("it was not counted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stopped := make(chan error)
	go func() { stopped <- s.Stop(ctx) }()
	text, err := io.ReadAll(trace)
	if err != nil || !bytes.HasPrefix(text, []byte("go 1.")) {
		t.Errorf("the trace under way: %d bytes, %v", len(text), err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
