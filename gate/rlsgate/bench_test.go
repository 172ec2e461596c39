package rlsgate

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"weir/internal/clock"
	"weir/throttle/quota"
)

// BenchmarkDecide is a decision without gRPC: what the gate itself costs.
func BenchmarkDecide(b *testing.B) {
	for name, o := range map[string]Options{"imported": {Config: write(b, oneRule(1_000_000_000))},
		"own": edge("user")} {
		b.Run(name, func(b *testing.B) {
			r := startRig(b, o, map[string]quota.Options{"plans": perMinute(1 << 40)}, clock.System, nil)
			reqs := requests(1000)
			var reply reply
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := r.rateLimit(b.Context(), reqs[i%len(reqs)], &reply); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCall is a decision over gRPC on loopback, by several callers on connections of their own.
func BenchmarkCall(b *testing.B) {
	r := startRig(b, Options{Config: write(b, oneRule(1_000_000_000))}, nil, clock.System, nil)
	reqs := requests(1000)
	b.SetParallelism(8)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		client := rls.NewRateLimitServiceClient(r.dial())
		for i := 0; pb.Next(); i++ {
			if _, err := client.ShouldRateLimit(b.Context(), reqs[i%len(reqs)]); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func requests(n int) []*rls.RateLimitRequest {
	var all []*rls.RateLimitRequest
	for i := range n {
		all = append(all, &rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=" + strconv.Itoa(i))})
	}
	return all
}

// BenchmarkRead reads a file with many descriptors.
func BenchmarkRead(b *testing.B) {
	var text strings.Builder
	text.WriteString("domain: edge\ndescriptors:\n")
	for i := range 5000 {
		fmt.Fprintf(&text,
			"- key: user\n  value: user-%d\n  rate_limit:\n    unit: minute\n    requests_per_unit: %d\n", i, i)
	}
	path := write(b, text.String())
	for b.Loop() {
		if _, err := Read(path, false); err != nil {
			b.Fatal(err)
		}
	}
}
