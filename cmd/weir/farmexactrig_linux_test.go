package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/internal/testkit/netlab"
)

// engineProgram returns the program of an engine. Valkey is tried where it is installed.
func engineProgram(t testing.TB, name string) string {
	t.Helper()
	if name == "valkey-server" {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip("valkey-server is not installed; Debian 12 has it in bookworm-backports")
		}
		return path
	}
	return needs.Program(t, name, "apt-get install "+name)
}

// An engine is a Redis, or a Valkey, of its own in a network namespace.
type engine struct {
	t       testing.TB
	inside  netlab.Namespace
	program string
	host    string
	port    string
	args    []string
	cmd     *exec.Cmd
}

func (e *engine) address() string { return net.JoinHostPort(e.host, e.port) }

// start starts it, empty, and waits until it listens.
func (e *engine) start() {
	e.t.Helper()
	e.run(append([]string{"--bind", e.host, "--port", e.port, "--protected-mode", "no", "--save", "",
		"--appendonly", "no", "--dir", e.t.TempDir()}, e.args...)...)
}

// watch starts it as a sentinel of a primary.
func (e *engine) watch(primary *engine) {
	e.t.Helper()
	file := filepath.Join(e.t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("bind %s\nport %s\nprotected-mode no\nsentinel monitor mymaster %s %s 1\n"+
		"sentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 5000\n",
		e.host, e.port, primary.host, primary.port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		e.t.Fatal(err)
	}
	e.run(file, "--sentinel")
}

func (e *engine) run(args ...string) {
	e.t.Helper()
	e.cmd = exec.Command(e.program, args...)
	if err := e.inside.Do(e.cmd.Start); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(e.kill)
	e.eventually("it listens", func() bool { return e.ask("PING") != "" })
}

// kill ends it by SIGKILL.
func (e *engine) kill() {
	if e.cmd != nil {
		_ = e.cmd.Process.Kill()
		_ = e.cmd.Wait()
		e.cmd = nil
	}
}

func (e *engine) signal(s syscall.Signal) {
	e.t.Helper()
	if err := e.cmd.Process.Signal(s); err != nil {
		e.t.Fatal(err)
	}
}

// ask runs one command, and returns the first line of the answer, or the lines of a string; "" where there is none.
func (e *engine) ask(command string) (said string) {
	var c net.Conn
	if err := e.inside.Do(func() (err error) {
		c, err = net.Dial("tcp", e.address())
		return err
	}); err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprintf(c, "%s\r\n", command)
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if size, isText := strings.CutPrefix(line, "$"); err == nil && isText {
		n, _ := strconv.Atoi(strings.TrimSpace(size))
		text := make([]byte, max(0, n))
		_, _ = io.ReadFull(r, text)
		return string(text)
	}
	return strings.TrimSpace(line)
}

func (e *engine) eventually(what string, so func() bool) {
	e.t.Helper()
	needs.Wait(e.t, e.program+": "+what, so)
}

// An exactFarm is a farm that counts in an engine, which runs beside the clients.
type exactFarm struct {
	*crop
	redis *engine
}

// growExact starts nodes with a gate for each list of policies, on ports from 8080.
func growExact(t testing.TB, nodes int, program string, policies ...string) *exactFarm {
	t.Helper()
	f := newExact(t, nodes, program, policies...)
	f.redis.start()
	f.engine = "redis://" + f.redis.address()
	f.grow()
	return f
}

// newExact is growExact, where nothing is started yet. Without policies there are no gates.
func newExact(t testing.TB, nodes int, program string, policies ...string) *exactFarm {
	t.Helper()
	program = engineProgram(t, program)
	f := &exactFarm{crop: &crop{grange: newGrange(t, nodes)}}
	f.redis = f.beside(program, "6379")
	if len(policies) == 0 {
		return f
	}
	gates, throttles := "http:\n", "throttles:\n"
	for i, list := range policies {
		gates += fmt.Sprintf("- {listen: \":%d\", upstream: \"http://127.0.0.1:3000\", account: [\"header:X-Api-Key\"], "+
			"throttles: [plans%d]}\n", 8080+i, i)
		throttles += fmt.Sprintf("  plans%d: {quota: {policies: [%s]}}\n", i, list)
	}
	f.serves = gates + throttles
	return f
}

// beside is an engine beside the clients.
func (f *exactFarm) beside(program, port string) *engine {
	at := f.clients()
	return &engine{t: f.t, inside: f.Ends[at], program: program, host: f.Address(at), port: port}
}

func (f *exactFarm) grow() {
	f.t.Helper()
	f.crop.grow()
	for _, way := range f.ways {
		way.(*http.Transport).MaxConnsPerHost, way.(*http.Transport).MaxIdleConnsPerHost = 100, 100
	}
}

// send sends one request to a gate of a node. A status of 0 is no answer.
func (f *exactFarm) send(ctx context.Context, node, gate int, account string) (status int, header http.Header) {
	page := fmt.Sprintf("http://%s:%d/", f.Address(node), 8080+gate)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		f.t.Error(err)
		return 0, nil
	}
	req.Header.Set("X-Api-Key", account)
	req.Header.Set(sentHeader, strconv.FormatInt(time.Now().UnixNano(), 10))
	resp, err := f.ways[node].RoundTrip(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header
}

// insist sends a request until it is decided about by the limit: one that the engine is lost for comes again.
func (f *exactFarm) insist(node, gate int, account string) (status int) {
	needs.Wait(f.t, "the engine is there", func() bool {
		status, _ = f.send(context.Background(), node, gate, account)
		return status != 0 && status != http.StatusServiceUnavailable
	})
	return status
}

// rush sends many requests at once, to nodes as node says, and waits until all are decided about.
func (f *exactFarm) rush(requests, gate int, account string, node func() int) {
	f.t.Helper()
	var all sync.WaitGroup
	var other atomic.Int64
	for range requests {
		to := node()
		all.Go(func() {
			if status := f.insist(to, gate, account); status != http.StatusOK && status != http.StatusTooManyRequests {
				other.Store(int64(status))
			}
		})
	}
	all.Wait()
	if status := other.Load(); status != 0 {
		f.t.Errorf("%s: a request was answered with %d", account, status)
	}
}

// A crowd is clients that ask all nodes, over and over, until it is ended.
type crowd struct {
	end     func()
	refused atomic.Int64 // by the limit
	closed  atomic.Int64 // as the engine is lost
}

// pace is how often one of a crowd that were refused asks again.
const pace = time.Millisecond

// press has clients ask a gate of all nodes on behalf of an account.
func (f *exactFarm) press(clients, gate int, account string) *crowd {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	again := time.NewTicker(pace)
	l := &crowd{end: func() { stop(); all.Wait(); again.Stop() }}
	for k := range clients {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(20, uint64(k)))
			for ctx.Err() == nil {
				switch status, _ := f.send(ctx, rnd.IntN(len(f.nodes)), gate, account); status {
				case http.StatusOK:
				case http.StatusTooManyRequests:
					l.refused.Add(1)
					<-again.C
				default:
					l.closed.Add(1)
					<-again.C
				}
			}
		})
	}
	f.t.Cleanup(l.end)
	return l
}

// An audit is what the upstreams saw of an account, held against its limit. Nothing else decides about over and used.
type audit struct {
	over    int           // more than the limit, in all periods together
	seen    int           // in all
	periods map[int64]int // by the number of the period: those that were certainly granted in it
}

// audit reads what the upstreams saw. A length of 0 is a period that has not ended. Otherwise a request counts in a
// period if it was both sent and seen in it: it was granted in between.
func (f *exactFarm) audit(account string, limit int, length time.Duration) (a audit) {
	a.periods = map[int64]int{}
	for _, one := range f.of(account) {
		a.seen++
		if length == 0 {
			a.periods[0]++
		} else if n := one.at.UnixNano() / int64(length); n == one.sent.UnixNano()/int64(length) {
			a.periods[n]++
		}
	}
	for _, n := range a.periods {
		a.over += max(0, n-limit)
	}
	return a
}

// mustUse checks that an account had its limit, and not one more.
func (f *exactFarm) mustUse(account string, limit int) {
	f.t.Helper()
	f.mustUseOf(account, limit, limit*99/100)
}

// mustUseOf checks that an account had so many at least, and not one more than its limit.
func (f *exactFarm) mustUseOf(account string, limit, least int) {
	f.t.Helper()
	a := f.audit(account, limit, 0)
	f.t.Logf("%s: %d of %d, %d over", account, a.seen, limit, a.over)
	if a.over > 0 || a.seen < least {
		f.t.Errorf("%s: the upstreams saw %d of %d, %d over", account, a.seen, limit, a.over)
	}
}
