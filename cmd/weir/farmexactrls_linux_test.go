package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
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

// failures is how many calls to the engine have failed at a node, and whether it is lost.
func (f *exactFarm) failures(node int) (failed uint64, lost bool) {
	f.t.Helper()
	c := f.status(node).Counters
	return c.Failures, c.State == "stalled"
}

// askEnvoy asks as Envoy does. What was refused as the engine did not answer in time is asked again: a busy machine
// does that to it.
func (f *exactFarm) askEnvoy(c rls.RateLimitServiceClient, node int, req *rls.RateLimitRequest) *rls.RateLimitResponse {
	f.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		before, _ := f.failures(node)
		r, err := c.ShouldRateLimit(context.Background(), req)
		if err != nil {
			f.t.Fatal(err)
		}
		after, lost := f.failures(node)
		if r.OverallCode == rls.RateLimitResponse_OK || after == before && !lost || time.Now().After(end) {
			return r
		}
	}
}

// TestFarmExactEnvoy: three nodes answer Envoy as one does that counts alone, request by request.
func TestFarmExactEnvoy(t *testing.T) {
	t.Parallel()
	f := newExact(t, 3, redisServer)
	f.serves = `
rls:
- {listen: ":8081", domains: {shop: {throttles: [exact], account: [user]}}}
- {listen: ":8082", domains: {shop: {throttles: [alone], account: [user]}}}
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
	codes := map[rls.RateLimitResponse_Code]int{}
	for k := range 120 {
		node, user := rnd.IntN(3), fmt.Sprint("user-", rnd.IntN(2))
		req := &rls.RateLimitRequest{Domain: "shop", HitsAddend: uint32(1 + rnd.IntN(3)),
			Descriptors: []*common.RateLimitDescriptor{{
				Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: user}}}}}
		got := f.askEnvoy(clients[node], node, req)
		want, err := alone.ShouldRateLimit(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		codes[got.OverallCode]++
		g, w := got.Statuses[0], want.Statuses[0]
		if got.OverallCode != want.OverallCode || g.Code != w.Code ||
			g.CurrentLimit.String() != w.CurrentLimit.String() ||
			g.Code == rls.RateLimitResponse_OK && g.LimitRemaining != w.LimitRemaining {
			t.Fatalf("request %d, %s, %d hits at %c: %v, one node says %v", k, user, req.HitsAddend, 'a'+node, got, want)
		}
	}
	if codes[rls.RateLimitResponse_OK] < 30 || codes[rls.RateLimitResponse_OVER_LIMIT] < 30 {
		t.Errorf("the answers were %v", codes)
	}
}
