package rlsgate

import (
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir/throttle/quota"
)

// byTenant is one request a minute for each account and tenant.
func byTenant() quota.Options {
	o := perMinute(1)
	o.Key = []string{"account", "header:X-Tenant"}
	return o
}

func TestPartsOfDescriptors(t *testing.T) {
	r := newRig(t, Options{Domains: map[string]Domain{"shop": {Throttles: []string{"plans"}, Account: []string{"user"}}}},
		map[string]quota.Options{"plans": byTenant()})
	const ok, over = rls.RateLimitResponse_OK, rls.RateLimitResponse_OVER_LIMIT
	for _, c := range []struct {
		entries string
		want    rls.RateLimitResponse_Code
	}{
		{"user=ann header:X-Tenant=one", ok},
		{"header:x-tenant=one user=ann", over},
		{"user=ann header:X-Tenant=other", ok},
		{"user=ann", ok},
		{"user=ann x-tenant=one", over}, // not the name of the part: it is missing
		{"user=bob header:X-Tenant=one header:X-Tenant=one", ok},
		{"user=bob header:X-Tenant=one header:X-Tenant=two", over},
		{"user=bob header:X-Tenant=three,four", over},
		{"user=bob header:X-Tenant=" + strings.Repeat("x", 300), over},
	} {
		var d common.RateLimitDescriptor
		for e := range strings.FieldsSeq(c.entries) {
			key, value, _ := strings.Cut(e, "=")
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		resp, err := r.rls.ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "shop",
			Descriptors: []*common.RateLimitDescriptor{&d}})
		if err != nil || resp.OverallCode != c.want {
			t.Errorf("%s: %v, %v", c.entries, resp, err)
		}
	}
	if got := r.seen.count("bound " + BoundAccount); got != 2 {
		t.Errorf("%d doubtful descriptors were counted", got)
	}
}

func TestPartsByAuthz(t *testing.T) {
	r := newRig(t, guarded("header:X-Api-Key"), map[string]quota.Options{"plans": byTenant()})
	for i, c := range []struct {
		headers []string
		want    uint32
	}{
		{[]string{"x-api-key: ann", "x-tenant: one"}, 0},
		{[]string{"x-api-key: ann", "x-tenant: one"}, 429},
		{[]string{"x-api-key: ann", "x-tenant: other"}, 0},
		{[]string{"x-api-key: ann", "x-tenant: three,four"}, 400},
		{[]string{"x-api-key: ann", "x-tenant: five", "x_tenant: six"}, 400},
	} {
		got := r.check(check("GET", "example.com", "/", "192.0.2.1", c.headers...)).GetDeniedResponse().GetStatus().GetCode()
		if uint32(got) != c.want {
			t.Errorf("request %d: %d, want %d", i, got, c.want)
		}
	}
}
