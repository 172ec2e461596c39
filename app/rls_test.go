package app_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"weir/console"
)

// Envoy asks: by weir's own throttles, and by a file of envoyproxy/ratelimit that is taken over as it is.
func TestEnvoyAsks(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "limits.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("domain: legacy\ndescriptors:\n- key: path\n  rate_limit: {unit: hour, requests_per_unit: 3}\n")
	p := newPost(t, lenient, "", `  plans: {quota: {policies: [{name: few, limit: 2, period: 1h}]}}
rls: [{listen: "127.0.0.1:0", config: `+file+`, domains: {shop: {throttles: [plans], account: [user]}}}]`)
	conn, err := grpc.NewClient(p.app.Addr("rls", 0).String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func(domain, key, value string) rls.RateLimitResponse_Code {
		t.Helper()
		r, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(context.Background(),
			&rls.RateLimitRequest{Domain: domain,
				Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: key,
					Value: value}}}}})
		if err != nil {
			t.Fatal(err)
		}
		return r.OverallCode
	}
	const ok, over = rls.RateLimitResponse_OK, rls.RateLimitResponse_OVER_LIMIT
	for i, want := range []rls.RateLimitResponse_Code{ok, ok, over} {
		if got := ask("shop", "user", "acme"); got != want {
			t.Errorf("own throttles, request %d: %s, want %s", i+1, got, want)
		}
	}
	for i, want := range []rls.RateLimitResponse_Code{ok, ok, ok, over} {
		if got := ask("legacy", "path", "/a"); got != want {
			t.Errorf("imported rules, request %d: %s, want %s", i+1, got, want)
		}
	}
	if got := ask("legacy", "path", "/b"); got != ok {
		t.Errorf("another value: %s", got)
	}
	// A reload reads the file again; the counters stay.
	write("domain: legacy\ndescriptors:\n- key: path\n  rate_limit: {unit: hour, requests_per_unit: 6}\n")
	if err := p.app.Reload(p.config(lenient, "")); err != nil {
		t.Fatal(err)
	}
	for i, want := range []rls.RateLimitResponse_Code{ok, ok, over} { // four were asked for before
		if got := ask("legacy", "path", "/a"); got != want {
			t.Errorf("after the reload, request %d: %s, want %s", i+1, got, want)
		}
	}
	write("domain: legacy\ndescriptors: 7\n")
	if err := p.app.Reload(p.config(lenient, "")); err == nil {
		t.Error("a file with a mistake was taken")
	}
	if got := ask("legacy", "path", "/b"); got != ok {
		t.Errorf("after a reload that failed: %s", got)
	}
	// The emergency switch includes imported rules.
	for on, want := range map[bool]rls.RateLimitResponse_Code{true: ok, false: over} {
		if _, err := console.ShadowCall.Ask(t.Context(), p.control, console.Shadow{All: true, On: on}); err != nil {
			t.Fatal(err)
		}
		if got := ask("legacy", "path", "/a"); got != want {
			t.Errorf("the emergency switch is on: %t: %s, want %s", on, got, want)
		}
	}
}
