package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/farm"
	"weir/internal/testkit/needs"
)

const enginePassword = "hunter2-open-sesame"

// A redisEngine is a Redis of its own.
type redisEngine struct {
	t       *testing.T
	address string
	args    []string
	cmd     *exec.Cmd
}

func newRedisEngine(t *testing.T, args ...string) *redisEngine {
	r := &redisEngine{t: t, address: needs.FreeAddress(), args: args}
	t.Cleanup(func() { r.kill() })
	return r
}

// start starts it, and waits until it listens.
func (r *redisEngine) start() {
	r.t.Helper()
	program := needs.Program(r.t, "redis-server", "apt-get install redis-server")
	_, port, _ := net.SplitHostPort(r.address)
	r.cmd = exec.Command(program, append([]string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no",
		"--requirepass", enginePassword, "--dir", r.t.TempDir()}, r.args...)...)
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	needs.Wait(r.t, "Redis listens", func() bool {
		c, err := net.Dial("tcp", r.address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func (r *redisEngine) kill() {
	if r.cmd != nil {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		r.cmd = nil
	}
}

// do runs one command.
func (r *redisEngine) do(command string) {
	r.t.Helper()
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "AUTH %s\r\n%s\r\n", enginePassword, command)
	answer := make([]byte, len("+OK\r\n+OK\r\n"))
	if n, err := c.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "+OK") {
		r.t.Fatalf("%s: %q, %v", command, answer[:n], err)
	}
}

// logText is a log that a test reads while it is written.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// exactNode starts a node that counts exactly. more stands in its farm besides.
func exactNode(t *testing.T, counters, more string) (*App, *logText, string) {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "weir.yaml")
	text := fmt.Sprintf(`
data: %s
console: {listen: "off"}
http: [{listen: "127.0.0.1:0", upstream: "http://127.0.0.1:9", throttles: [plans]}]
throttles: {plans: {quota: {policies: [{name: per-day, limit: 30000, period: 1d, farm: exact, on_loss: share}]}}}
farm: {node: a, listen: %q, peers: [%q], secret: the same for all three, counters: %q%s}
`, folder, "127.0.0.1:0", needs.FreeAddress(), counters, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	log := &logText{}
	a, err := New(cfg, Options{HashMemory: 8, Version: "test", Log: slog.New(slog.NewTextHandler(log, nil)),
		Load: func() (*config.Config, error) { return config.Load(file) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Stop(context.Background()) })
	return a, log, file
}

func counterStatus(a *App) *console.CounterStatus { return (backend{a}).Status().Farm.Counters }

// TestEngineLostAndBack: a node starts without its engine, finds it, loses it and finds it again. It says so, and never
// what the password is.
func TestEngineLostAndBack(t *testing.T) {
	t.Parallel()
	redis := newRedisEngine(t)
	a, log, file := exactNode(t, "redis://:"+enginePassword+"@"+redis.address, "")
	said := func(what string) {
		t.Helper()
		needs.Wait(t, what, func() bool { return strings.Contains(log.String(), what) })
	}
	said("cannot be used")
	if s := counterStatus(a); s == nil || s.State != "unknown" || s.Address != "redis://"+redis.address {
		t.Fatalf("%+v", s)
	}
	e := a.member.Load().engine
	seq := uint64(0)
	take := func() error {
		seq++
		_, err := e.Take(t.Context(), farm.Ask{Key: "k", Run: "a", Seq: seq,
			Wants: []farm.Want{{Rule: "r", Limit: 1 << 40, Period: time.Hour, Need: 1}}})
		return err
	}
	needs.Wait(t, "it is lost", func() bool { return errors.Is(take(), farm.ErrLost) })
	said("is lost: policies")
	if s := counterStatus(a); s.State != "stalled" || s.Refused == 0 || s.Failures < farm.MaxFailed ||
		!strings.Contains(s.Error, "cannot be reached") {
		t.Errorf("%+v", s)
	}

	redis.start()
	needs.Wait(t, "calls are answered", func() bool { return take() == nil })
	said("is back")
	said("can be used\"")
	needs.Wait(t, "it is up", func() bool { return counterStatus(a).State == "up" })
	if s := counterStatus(a); s.State != "up" || s.Engine == "" || s.Latency.P99 <= 0 || s.Sum <= 0 ||
		len(s.Calltimes) != len(farm.CallTimes)+1 {
		t.Errorf("%+v", s)
	}
	redis.kill()
	needs.Wait(t, "it is lost again", func() bool { return errors.Is(take(), farm.ErrLost) })
	redis.start()
	needs.Wait(t, "it is back again", func() bool { return take() == nil })

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(string(text), "@"+redis.address, "@"+redis.address+"/1", 1)
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if all := weir.FieldErrors(a.Reread()); len(all) != 1 || all[0].Path != "farm.counters" {
		t.Errorf("a reload changes the engine: %v", all)
	}
	if err := (farmOps{a.member.Load()}).Leave(t.Context(), "test"); err != nil {
		t.Error(err)
	}
	if s := counterStatus(a); s != nil {
		t.Errorf("a node that has left has an engine: %+v", s)
	}
	if err := a.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), enginePassword) {
		t.Errorf("the log has the password:\n%s", log)
	}
}

// TestEngineEvicts: an engine that forgets keys when its memory is full is not used until that is changed.
func TestEngineEvicts(t *testing.T) {
	t.Parallel()
	redis := newRedisEngine(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	redis.start()
	a, log, _ := exactNode(t, "redis://:"+enginePassword+"@"+redis.address, "")
	barred := func() bool { // on a slow machine it may be stalled for another reason before
		s := counterStatus(a)
		return s.State == "stalled" && strings.Contains(s.Error, "noeviction")
	}
	needs.Wait(t, "it is barred", barred)
	needs.Wait(t, "it is said", func() bool { return strings.Contains(log.String(), "set noeviction") })
	redis.do("CONFIG SET maxmemory-policy noeviction")
	needs.Wait(t, "it is used", func() bool { return counterStatus(a).State != "stalled" })
	redis.do("CONFIG SET maxmemory-policy allkeys-lru") // while it is in use
	needs.Wait(t, "it is barred again", barred)
}

// TestEngineWrongPassword: it is said, and the password is not.
func TestEngineWrongPassword(t *testing.T) {
	t.Parallel()
	redis := newRedisEngine(t)
	redis.start()
	_, log, _ := exactNode(t, "redis://:another-"+enginePassword+"@"+redis.address, "")
	needs.Wait(t, "it is said", func() bool { return strings.Contains(log.String(), "does not accept the user or the password") })
	if strings.Contains(log.String(), enginePassword) {
		t.Errorf("the log has the password:\n%s", log)
	}
}

// TestEngineTLS: certificates that cannot be read are told with the key of the configuration.
func TestEngineTLS(t *testing.T) {
	t.Parallel()
	if c, err := engineTLS(farm.TLS{}); c != nil || err != nil {
		t.Errorf("%v, %v", c, err)
	}
	folder := t.TempDir()
	empty := filepath.Join(folder, "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, files := range map[string]farm.TLS{
		"farm.counters_tls.ca":   {CA: filepath.Join(folder, "none.pem")},
		"farm.counters_tls.cert": {Cert: empty, Key: empty},
	} {
		a := &App{}
		_, err := a.openEngine(&farm.Options{Counters: "rediss://h", CountersTLS: files}, nil, nil)
		if all := weir.FieldErrors(err); len(all) != 1 || all[0].Path != path {
			t.Errorf("%+v: %v", files, err)
		}
	}
	if _, err := engineTLS(farm.TLS{CA: empty}); err == nil || !strings.Contains(err.Error(), "has no certificates") {
		t.Error(err)
	}
}

// TestEngineInFingerprint: nodes that count in another engine have another configuration. Users may differ.
func TestEngineInFingerprint(t *testing.T) {
	t.Parallel()
	with := func(counters string) string {
		return fingerprint(config.Config{Farm: &farm.Options{Secret: farm.Secrets{"x"}, Counters: counters}})
	}
	if with("redis://u:p@h") != with("redis://other:q@h:6379") {
		t.Error("users are in the fingerprint")
	}
	if with("redis://h") == with("redis://h/1") || with("") == with("redis://h") {
		t.Error("the engine is not in the fingerprint")
	}
}
