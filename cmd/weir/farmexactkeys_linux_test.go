package main

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"weir/internal/testkit/needs"
)

// TestFarmExactKeys: a key of several parts is counted exactly over all nodes, in a real engine. Each combination has
// the whole limit, and not one more, wherever its requests come to.
func TestFarmExactKeys(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	const limit = 20
	f := newExact(t, 2, redisServer)
	f.serves = fmt.Sprintf(`
http:
- {listen: ":8080", upstream: "http://127.0.0.1:3000", account: ["header:X-Api-Key"], throttles: [shares]}
throttles:
  shares:
    quota:
      key: [account, "header:X-Tenant", "path:1"]
      overrides: {"acme,big,orders": {p: {limit: %d}}}
      policies: [{name: p, limit: %d, period: year, farm: exact}]
`, 2*limit, limit)
	f.redis.start()
	f.engine = "redis://" + f.redis.address()
	f.grow()

	send := func(node int, account, tenant, path string) (status int) {
		needs.Wait(t, "the engine is there", func() bool {
			req, err := http.NewRequest(http.MethodGet, "http://"+f.Address(node)+":8080"+path, nil)
			if err != nil {
				t.Error(err)
				return true
			}
			req.Header.Set("X-Api-Key", account)
			if tenant != "" {
				req.Header.Set("X-Tenant", tenant)
			}
			resp, err := f.ways[node].RoundTrip(req)
			if err != nil {
				return false
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			status = resp.StatusCode
			return status != http.StatusServiceUnavailable // the engine was lost for a moment
		})
		return status
	}
	keys := []struct {
		account, tenant, path string
		limit                 int64
	}{
		{"acme", "one", "/orders/1", limit},
		{"acme", "two", "/orders/1", limit},
		{"acme", "one", "/bills", limit},
		{"acme", "", "/orders", limit},     // a part that is missing is a value of its own
		{"acme", "-", "/orders", limit},    // and not what is written like it
		{"globex", "one", "/bills", limit}, // another account
		{"acme", "big", "/orders/2", 2 * limit},
		{"acme", `one\`, "/x", limit},   // escaped in the key
		{"acme", "one", "/ORDERS/3", 0}, // the same key as the first one
	}
	admitted := make([]atomic.Int64, len(keys))
	var all sync.WaitGroup
	rush := func(i int) {
		k := keys[i]
		for n := range 3 * limit {
			all.Go(func() {
				switch status := send(n%2, k.account, k.tenant, k.path); status {
				case http.StatusOK:
					admitted[i].Add(1)
				case http.StatusTooManyRequests:
				default:
					t.Errorf("%+v: %d", k, status)
				}
			})
		}
	}
	for i := range keys[:len(keys)-1] {
		rush(i)
	}
	all.Wait()
	// What a node has taken ahead and not used goes back after a while: then it is granted, too.
	for i, k := range keys[:len(keys)-1] {
		f.eventually("the whole limit is granted", func() bool {
			for node := range 2 {
				if admitted[i].Load() < k.limit && send(node, k.account, k.tenant, k.path) == http.StatusOK {
					admitted[i].Add(1)
				}
			}
			return admitted[i].Load() >= k.limit
		})
		rush(i)
	}
	rush(len(keys) - 1)
	all.Wait()
	for i, k := range keys {
		if got := admitted[i].Load(); got != k.limit {
			t.Errorf("%q %q %q: %d of %d were admitted", k.account, k.tenant, k.path, got, k.limit)
		}
	}
	if size := f.redis.ask("DBSIZE"); size == ":0" || size == "" {
		t.Errorf("the engine knows %q keys: it did not count", size)
	}
}
