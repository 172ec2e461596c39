package app_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
	"weir/internal/testkit/recorder"
)

// weirBefore starts a weir with one gate in front of a service, and returns the gate's address.
func weirBefore(t *testing.T, url, gate, throttles string) string {
	t.Helper()
	return weirOf(t, fmt.Sprintf(`
data: %s
http:
- {listen: "127.0.0.1:0", upstream: %q, throttles: [plans], %s}
console: {listen: "off"}
throttles:
  plans: {quota: {policies: [%s]}}
`, t.TempDir(), url, gate, throttles)).Addr("http", 0).String()
}

// TestBlanksDodgeNoLimit: what some servers take for a space leads nobody around a limit, to a server of Python's that
// splits the line of a request there, or to another account or method.
func TestBlanksDodgeNoLimit(t *testing.T) {
	t.Parallel()
	python := needs.Program(t, "python3", "apt install python3")
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "login"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := needs.FreeAddress()
	cmd := exec.Command(python, "-c", fmt.Sprintf(`import http.server as s, sys
s.ThreadingHTTPServer(("127.0.0.1", int(%q.split(":")[1])), lambda *a: s.SimpleHTTPRequestHandler(*a, directory=%q)).serve_forever()`,
		addr, folder))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	needs.Wait(t, "http.server", func() bool {
		res, err := http.Get("http://" + addr + "/login")
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil
	})
	to := weirBefore(t, "http://"+addr, "", "{name: logins, limit: 1, period: 1h, match: {paths: [/login]}}")
	get := func(target string) int {
		return raw(t, "127.0.0.1", to, "GET "+target+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	}
	for i, want := range []int{200, 429} {
		if got := get("/login"); got != want {
			t.Fatalf("request %d: %d", i+1, got)
		}
	}
	for _, target := range []string{"/login\xa0", "/login\x85", "/login\u00a0", "/login\u0085", "/login\u3000", "/login\ufeff",
		"/login\xa0?x", "/login?x\xa0", "/login?x=\x85"} {
		if got := get(target); got != http.StatusBadRequest {
			t.Errorf("%q: %d", target, got)
		}
	}
	for _, target := range []string{"/login%A0", "/login%C2%A0", "/login%85", "/login%ef%bb%bf"} {
		if got := get(target); got != http.StatusTooManyRequests {
			t.Errorf("%q: %d", target, got)
		}
	}
	if got := get("/voil\u00e0"); got != http.StatusNotFound { // it goes on as it came, and the folder has no such file
		t.Errorf("voilà: %d", got)
	}
}

// TestBlanksInNamesAndValues: nor do they make a request another account's, or a look-alike of a name another method.
func TestBlanksInNamesAndValues(t *testing.T) {
	t.Parallel()
	up := recorder.Start(t)
	to := weirBefore(t, up.URL(), `account: ["cookie:session"]`,
		"{name: deletions, limit: 1, period: 1h, match: {methods: [DELETE]}}")
	ask := func(method, line string) int {
		return raw(t, "127.0.0.1", to, method+" / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n"+line+"\r\n\r\n")
	}
	for _, line := range []string{
		"Cookie: \xa0session=victim; session=x1", "Cookie: session=x1; \xa0session=victim", "Cookie: \ufeffsession=victim",
		"Cookie: session\x85=victim; session=x1", "Cookie: session=x1\xa0", "Cookie: session=\u00a0x1", "X-Other: x\xa0",
		"X-Other: \u2003x", "X-HTTP-Method-Override: DELETE\xa0", "Authorization: \u200bBearer x",
	} {
		if got := ask("POST", line); got != http.StatusBadRequest {
			t.Errorf("%q: %d", line, got)
		}
	}
	if got := up.Take(); len(got) > 0 {
		t.Errorf("the service got %q", got[0].Head)
	}
	for _, line := range []string{"X_HTTP_Method_Override: DELETE", "X-Http_method-override: DELETE", "x_method_override: DELETE",
		"X.HTTP.Method: DELETE"} {
		if got := ask("POST", "Cookie: session=a\r\n"+line); got != http.StatusOK {
			t.Errorf("%q: %d", line, got)
		}
		for _, r := range up.Take() {
			if head := strings.ToLower(string(r.Head)); strings.Contains(head, "method") {
				t.Errorf("the service got %q", head)
			}
		}
	}
	for _, line := range []string{"Cookie: a=caf\u00e9; theme=voil\u00e0\u00a0; session=a", "X-Other: voil\u00e0\r\nCookie: session=a"} {
		if got := ask("GET", line); got != http.StatusOK {
			t.Errorf("%q: %d", line, got)
		}
	}
}
