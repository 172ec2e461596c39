package rlsgate

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	"weir/internal/clock"
	"weir/internal/testkit/needs"
)

// startPeer runs envoyproxy/ratelimit with a Redis of its own on the files of a folder, and returns a client of it.
func startPeer(t *testing.T, files map[string]string) rls.RateLimitServiceClient {
	t.Helper()
	redis := needs.Program(t, "redis-server", "apt-get install redis-server")
	ratelimit := needs.Program(t, "service_cmd", "go install github.com/envoyproxy/ratelimit/src/service_cmd@latest")
	root := t.TempDir()
	folder := filepath.Join(root, "ratelimit", "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port := func() string { return strings.TrimPrefix(needs.FreeAddress(), "127.0.0.1:") }
	redisPort, grpcPort := port(), port()
	run(t, nil, redis, "--port", redisPort, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", root)
	needs.Wait(t, "Redis listens", func() bool { // the service ends without it
		c, err := net.Dial("tcp", "127.0.0.1:"+redisPort)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	run(t, []string{"USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error", "BACKEND_TYPE=redis",
		"REDIS_SOCKET_TYPE=tcp",
		"REDIS_URL=127.0.0.1:" + redisPort, "RUNTIME_ROOT=" + root, "RUNTIME_SUBDIRECTORY=ratelimit",
		"RUNTIME_WATCH_ROOT=false",
		"HOST=127.0.0.1", "PORT=" + port(), "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + grpcPort, "DEBUG_HOST=127.0.0.1",
		"DEBUG_PORT=" + port(),
		"LIMIT_RESPONSE_HEADERS_ENABLED=true"}, ratelimit)
	conn := dial(t, "127.0.0.1:"+grpcPort)
	ready := grpc_health_v1.NewHealthClient(conn)
	for ctx := within(t); ; {
		if _, err := ready.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true)); err == nil {
			return rls.NewRateLimitServiceClient(conn)
		} else if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// run runs a program until the test ends.
func run(t *testing.T, env []string, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// longer gives a file units that do not end within a test.
var longer = strings.NewReplacer("unit: second", "unit: day", "unit: minute", "unit: week", "unit: hour", "unit: month")

var longerLimits = strings.NewReplacer("/second", "/day", "/minute", "/week", "/hour", "/month")

// TestPeer asks weir and the original the same, request by request: the documented examples, and a random stream on
// descriptors that match in every way there is.
func TestPeer(t *testing.T) {
	files := map[string]string{"random.yaml": randomFile}
	for i, e := range examples {
		files[fmt.Sprintf("example%d.yaml", i)] = longer.Replace(e.file)
	}
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for {
		began := time.Now().Unix() / 86400
		theirs := startPeer(t, files)
		ours := startRig(t, Options{Config: folder, Headers: Headers{Send: true}}, nil, clock.System, nil)
		differ := comparePeer(t, ours.rls, theirs)
		if time.Now().Unix()/86400 == began {
			for _, d := range differ {
				t.Error(d)
			}
			return
		}
		t.Log("a day ended in between: once more")
	}
}

// comparePeer returns the requests that were answered differently.
func comparePeer(t *testing.T, ours, theirs rls.RateLimitServiceClient) (differ []string) {
	asked := 0
	both := func(req *rls.RateLimitRequest, what string) string {
		asked++
		a, errA := ours.ShouldRateLimit(within(t), req)
		b, errB := theirs.ShouldRateLimit(within(t), req)
		if (errA == nil) != (errB == nil) {
			differ = append(differ, fmt.Sprintf("%s: weir %v, the original %v", what, errA, errB))
		} else if errA == nil {
			if x, y := whole(a), whole(b); x != y && len(differ) < 20 {
				differ = append(differ, fmt.Sprintf("%s:\n weir         %s\n the original %s", what, x, y))
			}
			return brief(b)
		}
		return ""
	}
	for _, e := range examples {
		for _, s := range e.steps {
			s := step{longerLimits.Replace(s.ask), longerLimits.Replace(s.want)}
			if got := both(s.request(domainOf(e.file)), e.name+": "+s.ask); got != s.want {
				differ = append(differ, fmt.Sprintf("%s: %s: the original says %q, and the table %q", e.name, s.ask,
					got, s.want))
			}
		}
	}
	both(&rls.RateLimitRequest{Domain: "nowhere", Descriptors: descriptors("key=value")}, "an unknown domain")
	both(&rls.RateLimitRequest{Domain: "random"}, "no descriptors")
	both(&rls.RateLimitRequest{Descriptors: descriptors("key=value")}, "no domain")
	rnd := rand.New(rand.NewPCG(7, 0))
	for range 3000 {
		req := randomRequest(rnd)
		both(req, req.String())
	}
	t.Logf("%d requests", asked)
	return differ
}

// whole is an answer with everything that both say, but for Retry-After, which the original does not know, and the
// seconds that pass.
func whole(r *rls.RateLimitResponse) string {
	s := brief(r)
	for _, st := range r.Statuses {
		s += fmt.Sprintf(" reset %v", st.DurationUntilReset != nil)
	}
	for _, h := range r.ResponseHeadersToAdd {
		switch {
		case strings.HasSuffix(h.Key, "-Reset"):
			seconds, _ := strconv.Atoi(h.Value)
			s += fmt.Sprintf("; %s %v", h.Key, seconds > 0 && seconds <= 366*86400)
		case h.Key != "Retry-After":
			s += fmt.Sprintf("; %s: %s", h.Key, h.Value)
		}
	}
	return s
}

// randomFile has descriptors that match in every way.
const randomFile = `
domain: random
descriptors:
  - key: a
    rate_limit: {unit: day, requests_per_unit: 40, name: a-any}
  - key: a
    value: x
    rate_limit: {unit: WEEK, requests_per_unit: 25, name: a-x, replaces: [{name: b-any}]}
    descriptors:
      - key: b
        rate_limit: {unit: year, requests_per_unit: 7, name: ab}
      - key: b
        value: "y*"
        share_threshold: true
        rate_limit: {unit: month, requests_per_unit: 30, replaces: [{name: a-any}, {name: ab}]}
      - key: c
        value: "*"
        shadow_mode: true
        rate_limit: {unit: day, requests_per_unit: 12}
  - key: a
    value: "y*"
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 90}
    descriptors:
      - key: b
        descriptors:
          - key: c
            value: z
            quota_mode: true
            rate_limit: {unit: day, requests_per_unit: 9}
          - key: c
            rate_limit: {unit: day, requests_per_unit: 60}
  - key: b
    rate_limit: {unit: day, requests_per_unit: 33, name: b-any}
  - key: b
    value: x
    rate_limit: {unlimited: true, name: b-x, replaces: [{name: c-any}]}
  - key: c
    rate_limit: {unit: day, requests_per_unit: 50, name: c-any}
  - key: c
    value: z
  - key: c_x
    rate_limit: {unit: day, requests_per_unit: 3}
  - key: "d*"
    value: ""
    rate_limit: {unit: day, requests_per_unit: 70}
`

func randomRequest(rnd *rand.Rand) *rls.RateLimitRequest {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	req := &rls.RateLimitRequest{Domain: "random"}
	if rnd.IntN(4) == 0 {
		req.HitsAddend = uint32(rnd.IntN(5))
	}
	var list []string
	for range 1 + rnd.IntN(3) {
		var entries []string
		for i := range 1 + rnd.IntN(3) {
			key := pick("a", "b", "c", "d", "c_x", "dd")
			if i > 0 {
				key = pick("b", "c")
			}
			entries = append(entries, key+"="+
				pick("x", "y", "y1", "y2", "z", "z1", "", "w_y", strconv.Itoa(rnd.IntN(5))))
		}
		text := strings.Join(entries, ",")
		if rnd.IntN(10) == 0 {
			text = fmt.Sprintf("own=%d limit=20/day", rnd.IntN(3))
		}
		if rnd.IntN(5) == 0 {
			text += " +" + strconv.Itoa(rnd.IntN(8))
		}
		list = append(list, text)
	}
	req.Descriptors = descriptors(list...)
	return req
}
