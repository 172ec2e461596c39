package redis

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"weir/internal/testkit/needs"
)

const patience = time.Minute

// A server is a Redis of its own.
type server struct {
	t       testing.TB
	program string
	address string
	args    []string
	cmd     *exec.Cmd
}

// start starts a server, which ends with the test.
func start(t testing.TB, program string, args ...string) *server {
	t.Helper()
	s := &server{t: t, program: program, address: needs.FreeAddress(), args: args}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) start() {
	s.t.Helper()
	host, port, _ := net.SplitHostPort(s.address)
	s.cmd = exec.Command(s.program, append([]string{"--bind", host, "--port", port, "--save", "", "--appendonly", "no",
		"--dir", s.t.TempDir()}, s.args...)...)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.listens()
}

// listens waits until the server listens.
func (s *server) listens() {
	s.t.Helper()
	needs.Wait(s.t, s.program+" listens", func() bool {
		c, err := net.Dial("tcp", s.address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// do runs commands on the server, each of words.
func (s *server) do(commands ...string) (last string) {
	s.t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.address}, ForceSingleClient: true,
		DisableCache: true})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, command := range commands {
		m, err := c.Do(ctx, c.B().Arbitrary(strings.Fields(command)...).Build()).ToAny()
		if err != nil && !rueidis.IsRedisNil(err) {
			s.t.Fatalf("%s: %v", command, err)
		}
		last = fmt.Sprint(m)
	}
	return last
}

func redisServer(t testing.TB) string {
	return needs.Program(t, "redis-server", "apt-get install redis-server")
}

// open opens a pot there.
func (s *server) open(prefix string) *Pot {
	s.t.Helper()
	p, err := Open("redis://"+s.address+"?prefix="+prefix, Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(p.Close)
	return p
}

// openPatient opens a pot that does not give up a connection on which the engine says nothing, for tests that make the
// engine stand still.
func (s *server) openPatient(prefix string) *Pot {
	s.t.Helper()
	p := s.open(prefix)
	p.option.ConnWriteTimeout = patience
	return p
}

// startCluster starts a server of a cluster. Its port for the other nodes is a free one, too: the usual one is 10,000
// above its own, where the kernel takes ports for connections from.
func startCluster(t testing.TB) (s *server, bus string) {
	t.Helper()
	_, bus, _ = net.SplitHostPort(needs.FreeAddress())
	return start(t, redisServer(t), "--cluster-enabled", "yes", "--cluster-port", bus), bus
}

// rig makes a rig of a server: time and identity are told.
func (s *server) rig(prefix string) *potRig {
	p := s.open(prefix)
	var now, boots atomic.Int64
	p.clock = now.Load
	p.identity = func() string { return fmt.Sprint("engine-", boots.Load()) }
	ctx := context.Background()
	all := func() map[string]string {
		c, err := p.connected(ctx)
		if err != nil {
			s.t.Fatal(err)
		}
		names, err := c.Do(ctx, c.B().Keys().Pattern(prefix+":*").Build()).AsStrSlice()
		if err != nil {
			s.t.Fatal(err)
		}
		kept := map[string]string{}
		for _, name := range names {
			if kept[name], err = c.Do(ctx, c.B().Get().Key(name).Build()).ToString(); err != nil {
				s.t.Fatal(err)
			}
		}
		return kept
	}
	set := func(to map[string]string) {
		c, _ := p.connected(ctx)
		boots.Add(1)
		for name := range all() {
			if err := c.Do(ctx, c.B().Del().Key(name).Build()).Error(); err != nil {
				s.t.Fatal(err)
			}
		}
		for name, value := range to {
			if err := c.Do(ctx, c.B().Set().Key(name).Value(value).Build()).Error(); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return &potRig{
		Pot:     p,
		SetTime: func(t time.Time) { now.Store(t.UnixMicro()) },
		Restart: func() { set(nil) },
		Save: func() func() {
			saved := all()
			return func() { set(saved) }
		},
	}
}

// TestConformance: Redis is a pot, and so is Valkey where it is installed.
func TestConformance(t *testing.T) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		t.Run(name, func(t *testing.T) {
			program := ""
			if name == "redis-server" {
				program = redisServer(t)
			} else if path, err := exec.LookPath(name); err == nil {
				program = path
			} else {
				t.Skip("valkey-server is not installed; Debian 12 has it in bookworm-backports")
			}
			s := start(t, program)
			n := 0
			testPot(t, func(t *testing.T) *potRig {
				n++
				return s.rig(fmt.Sprint("t", n))
			})
		})
	}
}

func luaScript(body string) *rueidis.Lua { return rueidis.NewLuaScript(body) }

// sentinel starts the server as a sentinel of a primary.
func (s *server) sentinel(host, port string) {
	s.t.Helper()
	at, own, _ := net.SplitHostPort(s.address)
	conf := s.t.TempDir() + "/sentinel.conf"
	text := fmt.Sprintf("bind %s\nport %s\nsentinel monitor mymaster %s %s 1\n", at, own, host, port)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(s.program, conf, "--sentinel")
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.kill)
	s.listens()
}
