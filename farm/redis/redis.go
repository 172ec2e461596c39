package redis

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"weir/farm"
)

//go:embed pot.lua
var script string

// Errors of an engine.
var (
	ErrUnreachable = errors.New("the engine cannot be reached")
	ErrPassword    = errors.New("the engine does not accept the user or the password")
	ErrPermission  = errors.New("the engine's user may not do what weir needs")
	ErrReadOnly    = errors.New("the engine is a read-only replica")
	ErrFull        = errors.New("the engine's memory is full")
	ErrUnready     = errors.New("the engine takes no calls at the moment")
	ErrCluster     = errors.New("the engine is part of a cluster")
	ErrEvicts      = errors.New("the engine forgets keys when its memory is full")
	ErrScript      = errors.New("the engine could not run the script")
	ErrBusy        = errors.New("too many calls wait for the engine")
	ErrClosed      = errors.New("the pot is closed")
)

// Options are what a URL does not say. The zero value will do.
type Options struct {
	// TLS is used with rediss and valkeys. Without it the engine must have a certificate that the system trusts.
	TLS *tls.Config
}

// dialTime bounds an attempt to connect, which goes on when the call that began it has ended. A connection on which
// nothing has been answered for that long is closed.
const dialTime = 5 * time.Second

// maxCalls bounds the calls without an answer, those that were given up among them. The client has room for 1,024 on a
// connection, and would let the next one wait beyond its deadline.
const maxCalls = 1000

// tags is how many hash tags there are. All keys of one tag are on the same node of a cluster, with the note which
// engine that is.
const tags = 1024

// A Pot is a farm.Pot in Redis or Valkey. Open makes one; goroutines may share it.
type Pot struct {
	where  address
	option rueidis.ClientOption
	lua    *rueidis.Lua

	// For tests: the time and the identity, instead of the engine's own.
	clock    func() int64
	identity func() string

	calls atomic.Int64                 // without an answer
	seen  [tags]atomic.Pointer[string] // which engine has the keys of a tag, as was last heard
	lanes [tags]lane                   // by tag; without a cluster, the first one

	ids      sync.Map // ruleID → *idOf
	countIDs atomic.Int64
	lastID   atomic.Pointer[idOf] // that was made: most nodes have one rule
	names    [keptNames]atomic.Pointer[namesOf]
	seed     maphash.Seed
	free     sync.Pool // of calls

	mu         sync.Mutex
	client     rueidis.Client
	connecting chan struct{} // closed when an attempt has ended; nil when none is under way
	why        error         // the last attempt failed
	closed     bool
}

var _ farm.Pot = (*Pot)(nil)

// Open returns a pot in the engine at a URL: see parse for what that can be. It fails when the URL cannot be used. It
// does not connect yet: Check does, as does the first Take.
func Open(url string, o Options) (*Pot, error) {
	at, err := parse(url)
	if err != nil {
		return nil, err
	}
	p := &Pot{where: at, lua: rueidis.NewLuaScript(script), free: sync.Pool{New: newCall},
		seed: maphash.MakeSeed()}
	p.option = rueidis.ClientOption{
		InitAddress: at.addresses, Username: at.user, Password: at.password, SelectDB: at.db,
		ClientName: "weir", Dialer: net.Dialer{Timeout: dialTime},
		// A repeated call is the caller's decision, and nothing is read twice.
		DisableRetry: true, DisableCache: true,
		AlwaysPipelining: true, PipelineMultiplex: -1, ConnWriteTimeout: dialTime,
		ForceSingleClient: !at.cluster,
	}
	if at.socket {
		p.option.DialCtxFn = func(ctx context.Context, path string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}
	}
	if at.tls {
		p.option.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if o.TLS != nil {
			p.option.TLSConfig = o.TLS.Clone()
		}
		if host, _, err := net.SplitHostPort(at.addresses[0]); err == nil && p.option.TLSConfig.ServerName == "" &&
			len(at.addresses) == 1 {
			p.option.TLSConfig.ServerName = host
		}
	}
	if at.master != "" {
		p.option.Sentinel = rueidis.SentinelOption{
			MasterSet: at.master, TLSConfig: p.option.TLSConfig,
			Username: at.sentinelUser, Password: at.sentinelPassword, ClientName: "weir",
		}
	}
	return p, nil
}

// Close lets go of the engine. Calls that are under way end with an error.
func (p *Pot) Close() {
	p.mu.Lock()
	client := p.client
	p.closed, p.client = true, nil
	p.mu.Unlock()
	if client != nil {
		client.Close()
	}
}

// Where returns the URL of the engine, without user and password.
func (p *Pot) Where() string { return p.where.String() }

// Text returns what an error of the pot says to people, without passwords.
func (p *Pot) Text(err error) string { return p.where.hide(err.Error()) }

// connected returns the client. The first calls wait for the attempt to connect, each as long as it may.
func (p *Pot) connected(ctx context.Context) (rueidis.Client, error) {
	p.mu.Lock()
	if p.closed || p.client != nil {
		defer p.mu.Unlock()
		if p.closed {
			return nil, ErrClosed
		}
		return p.client, nil
	}
	if p.connecting == nil {
		p.connecting = make(chan struct{})
		go p.connect(p.connecting)
	}
	done := p.connecting
	p.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("%w in time: %w", ErrUnreachable, ctx.Err())
	case <-done:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, ErrClosed
	case p.client == nil:
		return nil, p.why
	}
	return p.client, nil
}

func (p *Pot) connect(done chan struct{}) {
	client, err := rueidis.NewClient(p.option)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(done)
	p.connecting = nil
	if p.why = named(err); err != nil {
		return
	}
	if p.closed {
		go client.Close()
		return
	}
	p.client = client
}

// Permissions are what a user of the engine needs, as ACL SETUSER takes them.
const Permissions = "~weir:* +evalsha +eval +get +set +time +info +ping +client +hello +select"

// named says in plain words what an engine's error means.
func named(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("the engine did not answer in time: %w", err)
	}
	if errors.Is(err, rueidis.ErrClosing) {
		return ErrClosed
	}
	said, ok := rueidis.IsRedisErr(err)
	if !ok {
		return fmt.Errorf("%w: %w; does it run, and is the address in farm.counters right?", ErrUnreachable, err)
	}
	text := said.Error()
	for _, known := range [...]struct {
		sign   string
		err    error
		advice string
	}{
		{"WRONGPASS", ErrPassword, "correct them in the URL of farm.counters"},
		{"NOAUTH", ErrPassword, "it wants a password: write redis://user:password@host:6379"},
		{"invalid password", ErrPassword, "correct it in the URL of farm.counters"},
		{"NOPERM", ErrPermission, "allow it " + Permissions},
		{"READONLY", ErrReadOnly, "give the address of the primary, or use redis+sentinel://"},
		{"OOM", ErrFull, "raise its maxmemory"},
		{"NOREPLICAS", ErrUnready, "too few replicas are connected (min-replicas-to-write)"},
		{"MISCONF", ErrUnready, "it cannot save to its disk"},
		{"LOADING", ErrUnready, "it reads its data"},
		{"MASTERDOWN", ErrUnready, "its primary is down"},
		{"CLUSTERDOWN", ErrUnready, "the cluster is incomplete"},
		{"BUSY", ErrUnready, "another script runs for too long"},
		{"MOVED", ErrCluster, "add ?cluster=true to the URL of farm.counters"},
		{"CROSSSLOT", ErrCluster, "add ?cluster=true to the URL of farm.counters"},
	} {
		if strings.Contains(text, known.sign) {
			return fmt.Errorf("%w: %s (%s)", known.err, known.advice, text)
		}
	}
	return fmt.Errorf("%w: %s; it must be Redis 6 or later, or Valkey", ErrScript, text)
}

// Check connects and tells whether the engine can be used.
func (p *Pot) Check(ctx context.Context) error {
	client, err := p.connected(ctx)
	if err != nil {
		return err
	}
	for address, node := range client.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			return named(err)
		}
		if policy := field(info, "maxmemory_policy"); policy != "" && policy != "noeviction" && field(info, "maxmemory") != "0" {
			return fmt.Errorf("%w: %s has the maxmemory-policy %s, so that limits would be forgotten; set noeviction",
				ErrEvicts, address, policy)
		}
	}
	return nil
}

// field finds a field of what INFO says.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// keptNames is how many keys are known by the names under which they are kept, at most: of two that have the same place
// the later one.
const keptNames = 4096

type namesOf struct {
	key   string
	names [2]string
	tag   int
}

// keys returns the names under which a key is kept. Accounts are hashed: their names are of any length, and of no
// concern to whoever reads the engine.
func (p *Pot) keys(key string) (names [2]string, tag int) {
	at := &p.names[maphash.String(p.seed, key)%keptNames]
	if known := at.Load(); known != nil && known.key == key {
		return known.names, known.tag
	}
	sum := sha256.Sum256([]byte(key))
	tag = (int(sum[0])<<8 | int(sum[1])) % tags
	b := append(append(make([]byte, 0, 128), p.where.prefix...), ":{"...)
	b = append(strconv.AppendInt(append(b, p.where.prefix...), int64(tag), 10), '}')
	prefix := len(b)
	b = hex.AppendEncode(b, sum[2:20])
	names[0] = string(b)
	names[1] = string(append(b[:prefix], "engine"...))
	if !p.where.cluster { // one engine has the keys of all tags
		names[1] = p.where.prefix + ":engine"
	}
	at.Store(&namesOf{key, names, tag})
	return names, tag
}

// maxIDs is how many rules are known by what they are called in the engine. When there are more, all are worked out
// again.
const maxIDs = 1000

type ruleID struct {
	rule   string
	way    farm.Way
	period time.Duration
}

type idOf struct {
	ruleID
	id string
}

// id returns what a rule is called in the engine. Rules that count another way are others.
func (p *Pot) id(w *farm.Want) string {
	of := ruleID{w.Rule, w.Way, w.Period}
	if last := p.lastID.Load(); last != nil && last.ruleID == of {
		return last.id
	}
	if known, ok := p.ids.Load(of); ok {
		return known.(*idOf).id
	}
	text := strconv.AppendInt(make([]byte, 0, 128), int64(w.Way), 10)
	text = append(strconv.AppendInt(append(text, ' '), int64(w.Period), 10), ' ')
	sum := sha256.Sum256(append(text, w.Rule...))
	made := &idOf{of, string(sum[:12])}
	if p.countIDs.Add(1) > maxIDs {
		p.ids.Clear()
		p.countIDs.Store(0)
	}
	p.ids.Store(of, made)
	p.lastID.Store(made)
	return made.id
}

// Take implements farm.Pot.
func (p *Pot) Take(ctx context.Context, ask farm.Ask) (farm.Reply, error) {
	if err := ask.Check(); err != nil {
		return farm.Reply{}, err
	}
	if err := ctx.Err(); err != nil {
		return farm.Reply{}, named(err)
	}
	client, err := p.connected(ctx)
	if err != nil {
		return farm.Reply{}, err
	}
	names, tag := p.keys(ask.Key)
	if !p.where.cluster { // one engine has the keys of all tags
		tag = 0
	}
	known := ask.Engine != ""
	if seen := p.seen[tag].Load(); !known && seen != nil {
		ask.Engine = *seen
	}
	for tries := 1; ; tries++ {
		c := p.free.Get().(*call)
		c.names, c.run, c.engine, c.live = names, ask.Run, ask.Engine, ask.Nodes
		if c.asked, c.usual, err = p.write(c.asked, &ask); err != nil {
			return farm.Reply{}, err
		}
		said, err := p.exec(ctx, client, tag, c)
		if err != nil {
			return farm.Reply{}, err
		}
		reply, err := read(said, &ask)
		if known || !errors.Is(err, farm.ErrEngine) || tries == 3 {
			return reply, err
		}
		// Whoever asks waits here, so that the call still says all that they know.
		ask.Engine = reply.Engine
		p.seen[tag].Store(&reply.Engine)
	}
}
