package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"weir/internal/testkit/needs"
)

// envoyClient asks a gate for Envoy of a node.
func (f *exactFarm) envoyClient(node, port int) rls.RateLimitServiceClient {
	f.t.Helper()
	dial := f.dialer()
	conn, err := grpc.NewClient(fmt.Sprintf("passthrough:///%s:%d", f.Address(node), port),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dial(ctx, "tcp", address)
		}))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	return rls.NewRateLimitServiceClient(conn)
}

// askEnvoy asks as Envoy does. What is refused by no limit is asked again: on a busy machine the engine does not always
// answer in time.
func (f *exactFarm) askEnvoy(c rls.RateLimitServiceClient, req *rls.RateLimitRequest) (r *rls.RateLimitResponse) {
	f.t.Helper()
	needs.Wait(f.t, "a limit decides", func() bool {
		var err error
		r, err = c.ShouldRateLimit(context.Background(), req)
		if err != nil && grpcstatus.Code(err) != codes.Unavailable {
			f.t.Fatal(err)
		}
		return err == nil && r.Statuses[0].CurrentLimit != nil
	})
	return r
}

// TestFarmExactEnvoy: three nodes answer Envoy as one does that counts alone, request by request, by throttles of
// weir's own and by a file of envoyproxy/ratelimit.
func TestFarmExactEnvoy(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	f := newExact(t, 3, redisServer)
	file := filepath.Join(t.TempDir(), "limits.yaml")
	const rules = "domain: legacy\ndescriptors:\n- key: user\n  rate_limit: {unit: year, requests_per_unit: 40}\n"
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	f.serves = `
rls:
- {listen: ":8081", config: ` + file + `, farm: exact, domains: {shop: {throttles: [exact], account: [user]}}}
- {listen: ":8082", config: ` + file + `, domains: {shop: {throttles: [alone], account: [user]}}}
throttles:
  exact: {quota: {policies: [{name: p, limit: 40, period: year, farm: exact, ahead: 0}]}}
  alone: {quota: {policies: [{name: p, limit: 40, period: year, farm: local}]}}
`
	f.redis.start()
	f.engine = "redis://" + f.redis.address()
	f.grow()
	var clients []rls.RateLimitServiceClient
	for i := range f.nodes {
		clients = append(clients, f.envoyClient(i, 8081))
	}
	alone := f.envoyClient(0, 8082)
	rnd := rand.New(rand.NewPCG(20, 26))
	answers := map[string]int{}
	for k := range 240 {
		node, user, domain := rnd.IntN(3), fmt.Sprint("user-", rnd.IntN(2)), []string{"shop", "legacy"}[rnd.IntN(2)]
		req := &rls.RateLimitRequest{Domain: domain, HitsAddend: uint32(1 + rnd.IntN(3)),
			Descriptors: []*common.RateLimitDescriptor{{
				Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: user}}}}}
		got := f.askEnvoy(clients[node], req)
		want, err := alone.ShouldRateLimit(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		answers[domain+" "+got.OverallCode.String()]++
		g, w := got.Statuses[0], want.Statuses[0]
		if got.OverallCode != want.OverallCode || g.Code != w.Code ||
			g.CurrentLimit.String() != w.CurrentLimit.String() ||
			g.Code == rls.RateLimitResponse_OK && g.LimitRemaining != w.LimitRemaining {
			t.Fatalf("request %d, %s, %s, %d hits at %c: %v, one node says %v", k, domain, user, req.HitsAddend, 'a'+node,
				got, want)
		}
	}
	for _, each := range []string{"shop OK", "shop OVER_LIMIT", "legacy OK", "legacy OVER_LIMIT"} {
		if answers[each] < 20 {
			t.Errorf("the answers were %v", answers)
		}
	}
}
