package rlsgate

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	types "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"weir"
	"weir/gate"
	"weir/gate/gatetest"
	"weir/internal/clock"
	"weir/policy"
	"weir/throttle/quota"
)

// What the tests of all gates share.
var (
	noon     = gatetest.Noon
	newChain = gatetest.ChainOf
)

const patience = gatetest.Patience

// An observer counts what it is told.
type observer struct {
	mu   sync.Mutex
	seen map[string]int
}

func (o *observer) Answered(service, code string) { o.add(service + " " + code) }
func (o *observer) Bounded(bound string)          { o.add("bound " + bound) }

func (o *observer) add(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen[what]++
}

func (o *observer) count(what string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[what]
}

// limits counts rules as app does: one quota for each unit, with a plan for each limit.
type limits struct {
	now func() time.Time

	mu    sync.Mutex
	plans map[Unit]map[string]map[string]quota.Override
	links map[Unit]*policy.Link
	asked int
}

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, plans: map[Unit]map[string]map[string]quota.Override{}, links: map[Unit]*policy.Link{}}
}

func (l *limits) limit(r Rule) (*policy.Link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.plans[r.Unit] == nil {
		l.plans[r.Unit] = map[string]map[string]quota.Override{}
	}
	l.plans[r.Unit][r.Plan()] = map[string]quota.Override{r.Unit.String(): {Limit: quota.Amount{N: r.Room(),
		Set: true}}}
	o := quota.Options{Plans: l.plans[r.Unit], MaxAccounts: 1_000_000, Policies: []quota.Policy{{Name: r.Unit.String(),
		Limit: quota.Amount{N: 1, Set: true}, Period: weir.Period{Length: r.Unit.Period()}}}}
	if link := l.links[r.Unit]; link != nil {
		return link, link.Throttle.(*quota.Quota).Configure(o, l.now())
	}
	q, err := quota.New(o)
	if err != nil {
		return nil, err
	}
	l.links[r.Unit] = policy.NewLink("rls/"+r.Unit.String(), q, policy.Closed)
	return l.links[r.Unit], nil
}

// A rig is a gate on a real socket, with its clock in the test's hand.
type rig struct {
	*Gate
	t      testing.TB
	clock  *clock.Fake
	seen   *observer
	log    *gatetest.Log
	limits *limits
	conn   *grpc.ClientConn
	rls    rls.RateLimitServiceClient
	auth   auth.AuthorizationClient
}

// newRig starts a gate. Chains are made of quotas by name.
func newRig(t testing.TB, o Options, quotas map[string]quota.Options) *rig {
	t.Helper()
	c := clock.NewFake(noon)
	return startRig(t, o, quotas, c, c)
}

func startRig(t testing.TB, o Options, quotas map[string]quota.Options, clk clock.Clock, fake *clock.Fake) *rig {
	t.Helper()
	r := &rig{t: t, clock: fake, seen: &observer{seen: map[string]int{}}, log: new(gatetest.Log),
		limits: newLimits(clk.Now)}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	var err error
	r.Gate, err = New(o, r.parts(o, quotas),
		Env{Env: gate.Env{Clock: clk, Log: r.log.Text(slog.LevelInfo)}, Observer: r.seen})
	if err != nil {
		t.Fatal(err)
	}
	gatetest.Run(t, r)
	t.Cleanup(func() { gatetest.Stop(t, r) })
	r.conn = r.dial()
	r.rls, r.auth = rls.NewRateLimitServiceClient(r.conn), auth.NewAuthorizationClient(r.conn)
	return r
}

// parts makes the chains of the options.
func (r *rig) parts(o Options, quotas map[string]quota.Options) Parts {
	r.t.Helper()
	links := map[string]*policy.Link{}
	for name, q := range quotas {
		made, err := quota.New(q)
		if err != nil {
			r.t.Fatal(err)
		}
		links[name] = policy.NewLink(name, made, policy.Closed)
	}
	chain := func(names []string) *policy.Chain {
		var list []*policy.Link
		for _, name := range names {
			if links[name] == nil {
				r.t.Fatalf("there is no quota %q", name)
			}
			list = append(list, links[name])
		}
		return newChain(r.t, list...)
	}
	p := Parts{Limit: r.limits.limit, Domains: map[string]*policy.Chain{}}
	for name, d := range o.Domains {
		p.Domains[name] = chain(d.Throttles)
	}
	if o.Authz != nil {
		p.Authz = chain(o.Authz.Throttles)
	}
	return p
}

// dial returns a client of the gate.
func (r *rig) dial(opts ...grpc.DialOption) *grpc.ClientConn {
	r.t.Helper()
	target := r.Addr().String()
	if r.Addr().Network() == "unix" {
		target = "unix:" + target
	}
	return dial(r.t, target, opts...)
}

func dial(t testing.TB, target string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// ask asks about descriptors, written as in descriptors.
func (r *rig) ask(domain string, list ...string) *rls.RateLimitResponse {
	r.t.Helper()
	return r.send(&rls.RateLimitRequest{Domain: domain, Descriptors: descriptors(list...)})
}

func (r *rig) send(req *rls.RateLimitRequest) *rls.RateLimitResponse {
	r.t.Helper()
	resp, err := r.rls.ShouldRateLimit(within(r.t), req)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

// descriptors reads "key=value,key=value +5 limit=10/minute": +5 are hits of its own.
func descriptors(list ...string) []*common.RateLimitDescriptor {
	var all []*common.RateLimitDescriptor
	for _, text := range list {
		d := &common.RateLimitDescriptor{}
		words := strings.Fields(text)
		for _, word := range words {
			switch {
			case word[0] == '+':
				var n uint64
				fmt.Sscan(word[1:], &n)
				d.HitsAddend = wrapperspb.UInt64(n)
			case strings.HasPrefix(word, "limit="):
				limit, unit, _ := strings.Cut(word[len("limit="):], "/")
				o := &common.RateLimitDescriptor_RateLimitOverride{}
				fmt.Sscan(limit, &o.RequestsPerUnit)
				u, _ := parseUnit(unit)
				o.Unit = types.RateLimitUnit(u)
				d.Limit = o
			default:
				for pair := range strings.SplitSeq(word, ",") {
					key, value, _ := strings.Cut(pair, "=")
					d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
				}
			}
		}
		all = append(all, d)
	}
	return all
}

// brief is an answer in a line: the code of each descriptor with what remains, as in "ok 4/minute 3, over".
func brief(resp *rls.RateLimitResponse) string {
	var parts []string
	for _, st := range resp.Statuses {
		s := "ok"
		if st.Code == rls.RateLimitResponse_OVER_LIMIT {
			s = "over"
		}
		if l := st.CurrentLimit; l != nil {
			s += fmt.Sprintf(" %d/%s %d", l.RequestsPerUnit, strings.ToLower(l.Unit.String()), st.LimitRemaining)
			if l.Name != "" {
				s += " " + l.Name
			}
		} else if st.LimitRemaining != 0 {
			s += fmt.Sprintf(" unlimited %d", st.LimitRemaining)
		}
		parts = append(parts, s)
	}
	overall := ""
	if (resp.OverallCode == rls.RateLimitResponse_OVER_LIMIT) != strings.Contains(strings.Join(parts, " "), "over") {
		overall = "; " + resp.OverallCode.String()
	}
	return strings.Join(parts, ", ") + overall
}

// want compares an answer.
func want(t testing.TB, resp *rls.RateLimitResponse, line string) {
	t.Helper()
	if got := brief(resp); got != line {
		t.Errorf("answer %q, want %q", got, line)
	}
}

// write puts a file of the original's format into a folder of its own and returns its path.
func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// perMinute is a quota of one policy.
func perMinute(limit int64) quota.Options {
	return quota.Options{Policies: []quota.Policy{{Name: "per-minute", Limit: quota.Amount{N: limit, Set: true},
		Period: weir.Period{Length: time.Minute}}}}
}
