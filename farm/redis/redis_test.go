package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/farm"
	"weir/internal/testkit/needs"
)

// day is a limit that no test outlasts.
func day(need int64) farm.Want {
	return farm.Want{Rule: "day", Way: farm.Fixed, Limit: 1000, Period: 3650 * 24 * time.Hour, Need: need}
}

// client is one run that asks for one key.
type client struct {
	t    testing.TB
	pot  *Pot
	run  string
	live []string
	seq  uint64
	last farm.Grant
}

func (c *client) try(used, need int64) (farm.Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.seq++
	w := day(need)
	w.Mark, w.Used = c.last.Mark, used
	r, err := c.pot.Take(ctx, farm.Ask{Key: "key", Run: c.run, Seq: c.seq, Nodes: c.live, Wants: []farm.Want{w}})
	if err == nil {
		c.last = r.Grants[0]
	}
	return r, err
}

func (c *client) take(used, need int64) farm.Reply {
	c.t.Helper()
	r, err := c.try(used, need)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// reconnected asks until the engine that was restarted is reached.
func (c *client) reconnected(used, need int64) (r farm.Reply) {
	c.t.Helper()
	needs.Wait(c.t, "the engine is reached again", func() bool {
		var err error
		r, err = c.try(used, need)
		if err != nil && !errors.Is(err, ErrUnreachable) {
			c.t.Fatal(err)
		}
		return err == nil
	})
	return r
}

// TestOwnClock: without a test's clock the engine has its own, and its own identity.
func TestOwnClock(t *testing.T) {
	t.Parallel()
	s := start(t, redisServer(t))
	c := &client{t: t, pot: s.open("own"), run: "a"}
	before := time.Now()
	r := c.take(0, 3)
	if !r.Granted || len(r.Engine) != 40 ||
		r.Now.Before(before.Add(-time.Second)) || r.Now.After(time.Now().Add(time.Second)) {
		t.Errorf("%+v", r)
	}
	for _, name := range strings.Fields(strings.Trim(s.do("KEYS *"), "[]")) {
		if ttl := s.do("PTTL " + name); ttl == "-1" || !strings.HasPrefix(name, "own:{own") && name != "own:engine" || strings.Contains(name, "key") {
			t.Errorf("%s expires after %s ms", name, ttl)
		}
	}
}

// TestSocket: an engine on the same machine is reached by its socket.
func TestSocket(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "redis") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket := filepath.Join(folder, "s")
	start(t, redisServer(t), "--unixsocket", socket)
	p, err := Open("redis+unix://"+socket+"?db=3", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := (&client{t: t, pot: p, run: "a"}).take(0, 3); !r.Granted {
		t.Errorf("%+v", r)
	}
}

// TestRestart: an engine that was killed has lost all, and is told.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := start(t, redisServer(t))
	p := s.open("weir")
	live := []string{"a", "b"}
	a, b := &client{t: t, pot: p, run: "a", live: live}, &client{t: t, pot: p, run: "b", live: live}
	a.take(0, 0)
	b.take(0, 0)
	a.take(0, 400)
	if r := b.take(0, 100); !r.Granted || b.last.Others != 400 {
		t.Fatalf("%+v", r)
	}
	s.kill()
	if _, err := a.try(400, 1); !errors.Is(err, ErrUnreachable) {
		t.Errorf("the engine is gone: %v", err)
	}
	s.start()
	if r := a.reconnected(400, 600); r.Granted || len(r.Waiting) != 1 || r.Waiting[0] != "b" {
		t.Fatalf("b has not told yet: %+v", r)
	}
	if r := b.take(100, 501); r.Granted || r.Failed != 0 {
		t.Fatalf("500 are left: %+v", r)
	}
	if r := b.take(100, 500); !r.Granted || b.last.Total != 600 {
		t.Fatalf("500 are left: %+v", r)
	}
	// Who throws everything away makes another engine of it, for our purpose.
	s.do("FLUSHALL")
	if r := a.take(400, 1); r.Granted || len(r.Waiting) != 1 {
		t.Fatalf("it has been emptied: %+v", r)
	}
}

// TestPromotion: a replica takes no calls. When it is promoted, it has another identity and is told.
func TestPromotion(t *testing.T) {
	t.Parallel()
	primary := start(t, redisServer(t), "--repl-diskless-sync-delay", "0")
	replica := start(t, redisServer(t))
	host, port, _ := net.SplitHostPort(primary.address)
	replica.do("REPLICAOF " + host + " " + port)
	needs.Wait(t, "the replica is in step", func() bool {
		return strings.Contains(replica.do("INFO replication"), "master_link_status:up")
	})
	a := &client{t: t, pot: primary.open("weir"), run: "a", live: []string{"a", "b"}}
	b := &client{t: t, pot: primary.open("weir"), run: "b", live: []string{"a", "b"}}
	a.take(0, 0)
	b.take(0, 0)
	before := a.take(0, 300).Engine
	needs.Wait(t, "the replica has what the primary has", func() bool {
		return primary.do("DBSIZE") == replica.do("DBSIZE") && primary.do("DBSIZE") == "2"
	})
	primary.kill()
	a.pot, b.pot = replica.open("weir"), replica.open("weir")
	_, err := a.try(300, 1)
	if !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "sentinel") {
		t.Fatalf("a replica: %v", err)
	}
	replica.do("REPLICAOF NO ONE")
	if r := b.take(0, 701); r.Granted || len(r.Waiting) != 1 || r.Engine == before {
		t.Fatalf("promoted: %+v", r)
	}
	if r := a.take(300, 700); !r.Granted || a.last.Others != 0 {
		t.Fatalf("all have told: %+v", r)
	}
}

// TestErrors: what is wrong is said, with what to do.
func TestErrors(t *testing.T) {
	t.Parallel()
	s := start(t, redisServer(t))
	s.do("ACL SETUSER weir on >secret "+Permissions, "ACL SETUSER limited on >secret ~other:* +@all", "ACL SETUSER guest on >secret ~weir:* +ping +hello +client +auth")
	locked := start(t, redisServer(t), "--requirepass", "right")
	cluster, _ := startCluster(t)
	full := start(t, redisServer(t), "--maxmemory", "1")
	evicts := start(t, redisServer(t), "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	alone := start(t, redisServer(t), "--min-replicas-to-write", "1")
	for _, x := range []struct {
		name, url string
		want      error
		says      string
	}{
		{"nobody there", needs.FreeAddress(), ErrUnreachable, "does it run"},
		{"no password", locked.address, ErrPassword, "it wants a password"},
		{"wrong password", ":wrong@" + locked.address, ErrPassword, "correct them"},
		{"wrong user", "who:right@" + locked.address, ErrPassword, "correct them"},
		{"the right password", "default:right@" + locked.address, nil, ""},
		{"a password for nothing", ":some@" + s.address, nil, ""},
		{"just what is needed", "weir:secret@" + s.address, nil, ""},
		{"other keys", "limited:secret@" + s.address, ErrPermission, "allow it"},
		{"other commands", "guest:secret@" + s.address, ErrPermission, "allow it"},
		{"a cluster that is not ready", cluster.address, ErrUnready, "incomplete"},
		{"full", full.address, ErrFull, "maxmemory"},
		{"too few replicas", alone.address, ErrUnready, "min-replicas-to-write"},
		{"a database that is not there", s.address + "/99", ErrScript, "DB index"},
		{"another database", s.address + "/3", nil, ""},
	} {
		p, err := Open("redis://"+x.url, Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&client{t: t, pot: p, run: "a"}).try(0, 1)
		if !errors.Is(err, x.want) || err != nil && !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", x.name, err)
		}
		if err != nil && strings.Contains(err.Error(), "wrong@") {
			t.Errorf("%s: it tells the password: %v", x.name, err)
		}
		p.Close()
		if _, err = (&client{t: t, pot: p, run: "a"}).try(0, 1); !errors.Is(err, ErrClosed) {
			t.Errorf("%s, closed: %v", x.name, err)
		}
	}
	if err := evicts.open("weir").Check(t.Context()); !errors.Is(err, ErrEvicts) {
		t.Errorf("an engine that evicts: %v", err)
	}
	for _, good := range []*server{s, full} {
		if err := good.open("weir").Check(t.Context()); err != nil {
			t.Errorf("it can be used: %v", err)
		}
	}
	broken := s.open("broken")
	broken.lua = luaScript("return redis.call('NONSENSE')")
	if _, err := (&client{t: t, pot: broken, run: "a"}).try(0, 1); !errors.Is(err, ErrScript) {
		t.Errorf("a script that fails: %v", err)
	}
	ok := "struct.pack('<c1dBBddB', 'o', 1, 1, 0, -1, 0, 0)"
	for _, answer := range []string{"", "1, 1", "1", "{1}", "''", "'what'", "'o'", ok, ok + " .. 'short'",
		"struct.pack('<c1dBBddBBc0', 'o', 1, 1, 0, -1, 0, 5, 1, 'a')",
		ok + " .. struct.pack('<dddddBd', 1, 1, 1, 1, 1, 2, 1)",
		ok + " .. struct.pack('<dddddB', 1, 1, 1, 1, 1, 0) .. 'more'",
		ok + " .. struct.pack('<dddddB', 1 / 0, 1, 1, 1, 1, 0)"} {
		broken.lua = luaScript("return {" + answer + "}")
		if _, err := (&client{t: t, pot: broken, run: "a"}).try(0, 1); !errors.Is(err, ErrScript) {
			t.Errorf("the answer %s: %v", answer, err)
		}
	}
}

// TestCluster: the names of one call are on one node.
func TestCluster(t *testing.T) {
	t.Parallel()
	one, _ := startCluster(t)
	two, bus := startCluster(t)
	one.do("CLUSTER ADDSLOTSRANGE 0 8191")
	two.do("CLUSTER ADDSLOTSRANGE 8192 16383", "CLUSTER SET-CONFIG-EPOCH 2")
	host, port, _ := net.SplitHostPort(two.address)
	one.do("CLUSTER MEET " + host + " " + port + " " + bus)
	for _, s := range []*server{one, two} {
		needs.Wait(t, "the cluster is complete", func() bool {
			return strings.Contains(s.do("CLUSTER INFO"), "cluster_state:ok") &&
				strings.Contains(s.do("CLUSTER INFO"), "cluster_size:2")
		})
	}
	for _, url := range []string{"redis://" + one.address + "," + two.address, "redis://" + one.address + "?cluster=true"} {
		p, err := Open(url, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := p.Check(t.Context()); err != nil {
			t.Errorf("it can be used: %v", err)
		}
		engines := map[string]bool{}
		for i := range 20 {
			w := day(1)
			r, err := p.Take(t.Context(), farm.Ask{Key: fmt.Sprint(url, i), Run: "a", Seq: 1, Wants: []farm.Want{w}})
			if err != nil || !r.Granted {
				t.Fatalf("%+v, %v", r, err)
			}
			engines[r.Engine] = true
		}
		if len(engines) != 2 {
			t.Errorf("%d engines were asked, want 2", len(engines))
		}
	}
	p, err := Open("redis://"+one.address, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range 20 {
		_, err = p.Take(t.Context(), farm.Ask{Key: fmt.Sprint(i), Run: "a", Seq: 1, Wants: []farm.Want{day(1)}})
		if err != nil {
			break
		}
	}
	if !errors.Is(err, ErrCluster) || !strings.Contains(err.Error(), "?cluster=true") {
		t.Errorf("a cluster asked as if it were none: %v", err)
	}
}

// TestSentinel: the sentinels say where the engine is.
func TestSentinel(t *testing.T) {
	t.Parallel()
	primary := start(t, redisServer(t))
	host, port, _ := net.SplitHostPort(primary.address)
	sentinel := &server{t: t, program: redisServer(t), address: needs.FreeAddress()}
	sentinel.sentinel(host, port)
	p, err := Open("redis+sentinel://"+sentinel.address+"/mymaster", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c := &client{t: t, pot: p, run: "a"}
	if r := c.take(0, 1); !r.Granted {
		t.Errorf("%+v", r)
	}
	p, err = Open("redis+sentinel://"+sentinel.address+"/another", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Check(t.Context()); err == nil {
		t.Error("the sentinels do not know that one")
	}
}

// TestConcurrent: six runs, each with many at once; no one too many, and none is left.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	s := start(t, redisServer(t))
	p := s.open("weir")
	var mu sync.Mutex
	var granted int64
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			c := &client{t: t, pot: p, run: fmt.Sprint(i)}
			for used := int64(0); ; used = c.last.Total {
				r, err := c.try(used, 7)
				if err != nil {
					t.Error(err)
				}
				if err != nil || !r.Granted {
					mu.Lock()
					granted += used
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	if granted > 1000 || granted <= 1000-7 {
		t.Errorf("%d of 1000 were granted", granted)
	}
}
