package rlsgate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

// TestEnvoyFile: Envoy's own types take the file for Envoy, with either of its filters, and notice mistakes. Envoy
// itself is not run: Debian does not have it.
func TestEnvoyFile(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	check := needs.Module(t, "../../internal/checks/envoy")
	raw, err := os.ReadFile("../../examples/envoy-edge.yml")
	if err != nil {
		t.Fatal(err)
	}
	limits := string(raw)
	// With ext_authz instead, as the file says: without the #.
	before, rest, _ := strings.Cut(limits, "          - name: envoy.filters.http.ratelimit\n")
	_, rest, found := strings.Cut(rest, "          # ext_authz")
	if !found {
		t.Fatal("the file has changed")
	}
	authz := before
	for line := range strings.Lines("# ext_authz" + rest) {
		if bare := strings.TrimLeft(line, " "); strings.HasPrefix(bare, "#-") || strings.HasPrefix(bare, "#  ") {
			line = strings.Replace(line, "#", "", 1)
		}
		authz += line
	}
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	for _, c := range []struct{ text, right, wrong, want string }{
		{limits, "", "", "envoy.filters.http.ratelimit weir\n"},
		{authz, "", "", "envoy.filters.http.ext_authz weir\n"},
		{limits, "failure_mode_deny", "failure_mode_denied", `unknown field "failure_mode_denied"`},
		{authz, "status_on_error", "status_on_errors", `unknown field "status_on_errors"`},
		{limits, "stat_prefix: edge", `stat_prefix: ""`, "StatPrefix"},
		{limits, "{cluster: app}", "{cluster: apps}", `a route leads to "apps", which is not a cluster`},
		{limits, "{cluster_name: weir}", "{cluster_name: wier}", `asks "wier", which is not a cluster`},
	} {
		text := strings.Replace(c.text, c.right, c.wrong, 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(check, file).CombinedOutput()
		if wrong := c.wrong != ""; (err != nil) != wrong || !wrong && string(out) != c.want ||
			!strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v: %s", c.wrong, err, out)
		}
	}
}
