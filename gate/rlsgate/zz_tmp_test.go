package rlsgate

import (
	"sort"
	"sync"
	"testing"
	"time"
	"os/exec"
	"os"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

func load(t *testing.T, target string, d time.Duration) (float64, time.Duration) {
	reqs := requests(1000)
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	began := time.Now()
	for w := range 16 {
		c := rls.NewRateLimitServiceClient(dial(t, target))
		wg.Go(func() {
			var mine []time.Duration
			for i := w * 61; time.Since(began) < d; i++ {
				at := time.Now()
				if _, err := c.ShouldRateLimit(t.Context(), reqs[i%1000]); err != nil {
					t.Error(err)
					return
				}
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	took := time.Since(began)
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	return float64(len(all)) / took.Seconds(), all[len(all)*99/100]
}

func TestZZServe(t *testing.T) {
	if os.Getenv("ZZ_SERVE") == "" { t.Skip() }
	r := startRig(t, Options{Config: write(t, oneRule(1_000_000_000)), Listen: os.Getenv("ZZ_SERVE")}, nil, sysClock, nil)
	_ = r
	time.Sleep(9 * time.Second)
}

func TestZZ(t *testing.T) {
	if os.Getenv("ZZ") == "" { t.Skip() }
	port := "127.0.0.1:39991"
	cmd := exec.Command(os.Args[0], "-test.run", "TestZZServe", "-test.cpuprofile", "/tmp/rls-x/srv.prof")
	cmd.Env = append(os.Environ(), "ZZ_SERVE="+port)
	cmd.Start()
	time.Sleep(time.Second)
	n := 0.0
	for range 3 {
		a, _ := load(t, port, 2*time.Second)
		n += a * 2
	}
	cmd.Wait()
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("%.0f requests, server cpu %v each (user %v sys %v)", n, cpu/time.Duration(n), cmd.ProcessState.UserTime(), cmd.ProcessState.SystemTime())
	_ = strings.Join
}
