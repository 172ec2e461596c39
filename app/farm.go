package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/farm"
	"weir/farm/nats"
	"weir/internal/pacer"
	"weir/throttle/ban"
	"weir/throttle/stamp"
)

// The topics of a farm.
const (
	topicBans   = "bans"
	topicOrders = "orders"
)

// tellAfter is how long offences are gathered before the other nodes are told.
const tellAfter = 10 * time.Millisecond

// How long a node that starts waits, so that it knows what the others know before it serves. It waits for nobody who
// has just started, too.
const (
	hearPatience = time.Second      // to hear others at all
	joinPatience = 10 * time.Second // to be told what they know
)

// A member is this weir as a node of a farm.
type member struct {
	*farm.Farm
	app     *App
	bus     *nats.Bus
	nodes   *nodesFile
	pace    *pacer.Pace // by the machine's clock: the farm's time follows from it
	engine  *engine     // nil where nothing is counted exactly
	lenders lenders
	bans    *ban.Shared
	unshare func()        // ends that settings are shared
	dropped atomic.Uint64 // words about bans, so far
	moved   atomic.Bool   // nodes came or went, and the rooms have not been told

	mu     sync.Mutex
	takers map[string]taker        // by the throttle's name
	quotas map[string]commonQuota  // by the throttle's name
	rooms  map[string]*sharedLanes // by topic
	seats  [2]int                  // as they were told: among how many, and which
	stands farm.Standing
	knew   bool // what was used before it started
	left   bool

	began    time.Time     // by the farm's time
	met      chan struct{} // closed when there is nothing to wait for any more
	meets    sync.Once
	listened atomic.Bool // others had time to be heard

	news    sync.Mutex    // taken under the farm's lock
	changes []farm.Member // nodes that came or went, of which the quotas are to be told
}

// A stamp taker is a throttle that takes stamps for the whole farm.
type taker struct {
	*stamp.Throttle
	leave func()
}

// offset is what the farm's time is ahead of the machine's.
func (a *App) offset() time.Duration {
	if m := a.member.Load(); m != nil {
		return m.Offset()
	}
	return 0
}

// joinFarm makes this weir a node of its farm, and waits a moment for the others.
func (a *App) joinFarm(g *generation) (err error) {
	o := g.cfg.Farm
	if o == nil {
		return nil
	}
	now := a.opts.Clock.Now()
	node := farm.Node{Name: o.Node, Boot: uint64(now.UnixMicro())}
	log := a.opts.Log.With("farm", o.Node)
	m := &member{app: a, pace: &pacer.Pace{Clock: a.opts.Clock}, takers: map[string]taker{},
		quotas: map[string]commonQuota{}, rooms: map[string]*sharedLanes{}, met: make(chan struct{}),
		began: now}
	if m.engine, err = a.openEngine(o, log, m.engineChanged); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			m.engine.close()
		}
	}()
	if m.bus, err = nats.Open(nats.Options{Node: node, Options: *o, Log: log}); err != nil {
		return err
	}
	m.nodes = &nodesFile{path: filepath.Join(g.cfg.Data, nodesName), log: log}
	m.Farm, err = farm.Join(farm.Joining{Bus: m.bus, Node: node, Secrets: secretsOf(o), Version: a.opts.Version,
		Config: func() string { return a.current.Load().print }, Log: log, Expected: expected(m.bus, o),
		Kept: m.nodes.read(), Keep: m.nodes.keep}, now)
	if err != nil {
		return fmt.Errorf("farm: %w", err)
	}
	m.Watch(func(who farm.Member) {
		m.moved.Store(true)
		m.news.Lock()
		m.changes = append(m.changes, who)
		m.news.Unlock()
	})
	m.bans = a.bans.list.Share(func(msg []byte) error {
		_ = m.Send(topicBans, msg) // what is not taken now is made up for by a snapshot
		return nil
	})
	m.bans.Spare(func(p netip.Prefix) bool { return a.current.Load().proxies.overlap(p) })
	m.bans.Wake(func() { a.opts.Clock.AfterFunc(tellAfter, m.tellBans) })
	a.member.Store(m)
	if _, err = m.Keep(topicBans, sharedBans{m}); err == nil {
		err = m.shareSettings()
	}
	if err == nil {
		_, err = m.Answer(topicOrders, m.obey)
	}
	if err == nil {
		err = errors.Join(m.shareRooms(g), m.shareQuotas(g), m.lendQuotas(g))
	}
	if err != nil {
		return fmt.Errorf("farm: %w", err)
	}
	m.meetRooms()
	m.pace.Start(m)
	m.divide()
	if o.NATS != "" || len(o.Peers) > 0 {
		m.await()
		m.SetClock()
	}
	// By the farm's time, which may be behind the clock that the throttles were made by.
	if err := m.takeStamps(g); err != nil {
		m.pace.Stop()
		return fmt.Errorf("farm: %w", err)
	}
	return nil
}

// await waits for what the others know.
func (m *member) await() {
	heard := time.AfterFunc(hearPatience, func() { m.listened.Store(true) }) // with the next heartbeat it looks again
	defer heard.Stop()
	over := time.NewTimer(joinPatience)
	defer over.Stop()
	select {
	case <-m.met:
	case <-over.C:
		m.app.opts.Log.Warn("this node serves although it does not know what the other nodes know: policies do what " +
			"on_loss says")
	}
}

// leaveFarm says goodbye to the others, if there are any.
func (a *App) leaveFarm(ctx context.Context) error {
	m := a.member.Load()
	if m == nil {
		return nil
	}
	return m.leave(ctx)
}

func (m *member) leave(ctx context.Context) error {
	m.mu.Lock()
	if m.left {
		m.mu.Unlock()
		return nil
	}
	m.left = true
	for name, t := range m.takers {
		t.leave()
		delete(m.takers, name)
	}
	for _, q := range m.quotas {
		q.leave()
	}
	m.leaveRooms()
	m.mu.Unlock()
	m.lenders.remove(func(string, *lentQuota) bool { return false })
	m.engine.close()
	m.pace.Stop()
	m.bans.Close()
	m.unshare()
	err := m.Leave(ctx)
	m.nodes.close()
	m.divide() // it has no part of the limits any more
	return err
}

// Advance does what is due in the farm, and tells the quotas which nodes came or went.
func (m *member) Advance(now time.Time) time.Time {
	due := m.Farm.Advance(now)
	stands := m.divide()
	m.meetRooms()
	if l := m.Learn(); l.Knows || l.Told && (stands.Whole() && stands.Agreed || m.listened.Load()) {
		m.meets.Do(func() { close(m.met) })
	}
	return due
}

// takeStamps makes the throttles of a generation take stamps for the whole farm.
func (m *member) takeStamps(g *generation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return nil
	}
	for name, old := range m.takers {
		if t := g.throttle(name); t == nil || t.stamps() != old.Throttle {
			old.leave()
			delete(m.takers, name)
		}
	}
	for _, t := range g.throttles {
		s := t.stamps()
		if s == nil || m.takers[t.name].Throttle != nil {
			continue
		}
		leave, err := m.app.joinStamps(m.Farm, m.Self().Tag(), t.name, s)
		if err != nil {
			return err
		}
		m.takers[t.name] = taker{s, leave}
	}
	return nil
}

// sharedBans is the block list as the farm sees it.
type sharedBans struct{ *member }

func (s sharedBans) Hear(_ farm.Node, msg []byte, _ time.Time) error {
	return s.bans.Hear(msg, s.app.clock.Now())
}

func (s sharedBans) Snapshot(_ time.Time, give func([]byte) bool) {
	s.bans.Snapshot(s.app.clock.Now(), give)
}

// tellBans tells the others what has become of the list. Where that was too much, they are made to ask for all of it.
func (m *member) tellBans() {
	_ = m.bans.Flush() // it cannot fail: nothing that is sent does
	if dropped := m.bans.Dropped(); m.dropped.Swap(dropped) != dropped {
		m.Skip(topicBans)
	}
}

// prepareFarm applies what a reload may change: peers, secrets and certificates. The rest needs a restart.
func (c *change) prepareFarm() error {
	m, next := c.app.member.Load(), c.next.cfg.Farm
	if c.old.cfg == nil {
		return nil
	}
	old := c.old.cfg.Farm
	for _, fixed := range []struct {
		path    string
		changed bool
	}{
		{"farm", (old == nil) != (next == nil)},
		{"farm.node", old != nil && next != nil && old.Node != next.Node},
		{"farm.listen", old != nil && next != nil && old.Listen != next.Listen},
		{"farm.nats", old != nil && next != nil && old.NATS != next.NATS},
		// While some nodes counted here and some there, more than a limit would be granted.
		{"farm.counters", old != nil && next != nil && old.Counters != next.Counters},
		{"farm.counters_tls", old != nil && next != nil && old.CountersTLS != next.CountersTLS},
	} {
		if fixed.changed {
			return &weir.FieldError{Path: fixed.path, Msg: "a running weir cannot change it", Hint: "restart weir"}
		}
	}
	if m == nil {
		return nil
	}
	if err := errors.Join(m.bus.Reconfigure(*next), m.Renew(secretsOf(next))); err != nil {
		return weir.Under("farm", err)
	}
	c.undo.add(func() {
		if err := errors.Join(m.bus.Reconfigure(*old), m.Renew(secretsOf(old))); err != nil { // they were in use
			c.app.opts.Log.Error("the farm cannot go back to its old options", "err", err)
		}
	})
	c.commit = append(c.commit, func() {
		m.Expect(expected(m.bus, next))
		if err := m.takeStamps(c.next); err != nil {
			c.app.opts.Log.Error("stamps are taken for this node alone", "err", err)
		}
		if err := m.shareQuotas(c.next); err != nil {
			c.app.opts.Log.Error("quotas are counted on this node alone", "err", err)
		}
		if err := m.lendQuotas(c.next); err != nil {
			c.app.opts.Log.Error("quotas are not counted exactly", "err", err)
		}
	})
	return nil
}

func secretsOf(o *farm.Options) (all [][]byte) {
	for _, s := range o.Secret {
		all = append(all, []byte(s))
	}
	return all
}

// expected is how many nodes the options name by their addresses, this one included, whether it is among them or not; 0
// where a name may stand for any number.
func expected(bus *nats.Bus, o *farm.Options) int {
	others := map[netip.AddrPort]bool{}
	for _, p := range o.Peers {
		at, err := netip.ParseAddrPort(p)
		if err != nil {
			return 0
		}
		if at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port()); !bus.Own(at) {
			others[at] = true
		}
	}
	if o.NATS != "" {
		return 0
	}
	return len(others) + 1
}

// fingerprint tells configurations apart, and nothing about what is in them. What differs between nodes is left out.
// It is empty where weir is alone.
func fingerprint(cfg config.Config) string {
	if cfg.Farm == nil {
		return ""
	}
	key, engine := cfg.Farm.Secret[len(cfg.Farm.Secret)-1], engineOf(cfg.Farm)
	cfg.Data, cfg.Control, cfg.Warnings, cfg.Farm = "", "", nil, nil
	text, err := withoutOwn(cfg)
	if err != nil {
		return ""
	}
	h := hmac.New(sha256.New, []byte(key))
	h.Write(append(text, engine...))
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// withoutOwn is a configuration without what each node has of its own: where it listens, and what it is called there.
func withoutOwn(cfg config.Config) ([]byte, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	own := func(part any) {
		if fields, ok := part.(map[string]any); ok {
			for _, name := range []string{"Listen", "Hostname", "Interface", "Pin"} {
				delete(fields, name)
			}
		}
	}
	for name, part := range all { // each is one, or a list
		if name == "Throttles" {
			continue // they are under names that operators gave them
		}
		own(part)
		if list, ok := part.([]any); ok {
			for _, one := range list {
				own(one)
			}
		}
	}
	return json.Marshal(all)
}

// An order is what an operator of one node asks of all.
type order struct {
	Do     string          `json:"do"` // shadow, reload or forget
	Shadow *console.Shadow `json:"shadow,omitempty"`
	Node   string          `json:"node,omitempty"`
	By     string          `json:"by"`
	// Settings are what the order has set for the whole farm, as settings.Settings.Tell writes it. A node that does not
	// know them does what the rest of the order says.
	Settings json.RawMessage `json:"settings,omitempty"`
}

// obey does what an operator of another node asks for.
func (m *member) obey(from farm.Node, msg []byte) ([]byte, error) {
	var o order
	if err := json.Unmarshal(msg, &o); err != nil {
		return nil, fmt.Errorf("an order that cannot be read: %w", err)
	}
	m.app.opts.Log.Info("an operator of another node gave an order", "node", from.Name, "do", o.Do, "by", o.By)
	return nil, m.do(&o)
}

// do does what an order says, here.
func (m *member) do(o *order) error {
	b := backend{m.app}
	switch o.Do {
	case "shadow":
		if o.Shadow == nil {
			return console.Invalid("which throttles?")
		}
		if o.Settings != nil {
			err := m.app.settings.Hear(o.Settings, m.app.clock.Now())
			m.app.applySettings()
			return err
		}
		_, err := b.SetShadow(context.Background(), *o.Shadow, o.By)
		return err
	case "reload":
		return b.Reload(context.Background())
	case "forget":
		waited := m.lenders.forget(o.Node)
		if err := m.Forget(o.Node); !waited {
			return err
		}
		return nil
	}
	return fmt.Errorf("this version of weir knows no order %q", o.Do)
}

// farmOrderPatience is how long a node may take to do what it is told; a reload may wait for names and disks.
const farmOrderPatience = 30 * time.Second

// tellAll has an order done here and then by all others, side by side. Where it fails here, nobody else is told.
func (m *member) tellAll(ctx context.Context, o order) ([]console.NodeResult, error) {
	if err := m.do(&o); err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	members := m.Members(m.app.opts.Clock.Now())
	results := make([]console.NodeResult, len(members))
	var all sync.WaitGroup
	for i, who := range members {
		results[i].Node = who.Name
		switch who.State {
		case farm.Here:
		case farm.Up:
			all.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, farmOrderPatience)
				defer cancel()
				if _, err := m.Ask(ctx, who.Node, topicOrders, text); err != nil {
					results[i].Error = err.Error()
				}
			})
		default:
			results[i].Error = "it is " + string(who.State)
		}
	}
	all.Wait()
	return results, nil
}

// farmOps is the farm as the console sees it.
type farmOps struct{ *member }

// Farm returns the farm, or nil where weir is alone.
func (b backend) Farm() console.Farm {
	if m := b.member.Load(); m != nil {
		return farmOps{m}
	}
	return nil
}

func (f farmOps) Shadow(ctx context.Context, s console.Shadow, by string) ([]console.NodeResult, error) {
	o := order{Do: "shadow", Shadow: &s, By: by}
	if s.All && len(s.Throttles) == 0 {
		var err error
		if o.Settings, err = f.app.setShadowAll(ctx, s, by, true); err != nil {
			return nil, err
		}
	}
	return f.tellAll(ctx, o)
}

func (f farmOps) Reload(ctx context.Context, by string) ([]console.NodeResult, error) {
	return f.tellAll(ctx, order{Do: "reload", By: by})
}

func (f farmOps) Forget(ctx context.Context, node, by string) ([]console.NodeResult, error) {
	if node == "" {
		return nil, console.Invalid("which node?")
	}
	all, err := f.tellAll(ctx, order{Do: "forget", Node: node, By: by})
	if err != nil {
		return nil, console.NotFound(fmt.Sprintf("no lost node is called %q", node))
	}
	return all, nil
}

func (f farmOps) Leave(ctx context.Context, by string) error {
	f.app.opts.Log.Warn("this node leaves the farm and serves alone", "by", by)
	return f.leave(ctx)
}

// Status is the farm as this node sees it.
func (f farmOps) Status() console.FarmStatus {
	stats, self := f.Stats(), f.Self()
	of, _ := f.Share()
	s := console.FarmStatus{Node: self.Name, Nodes: []console.NodeStatus{}, Offset: inMS(f.Offset()), Share: of,
		Parts: bits.OnesCount64(f.Standing().Parts),
		Sent:  stats.Sent, Received: stats.Received, Dropped: stats.Dropped + f.bans.Dropped(), Missed: stats.Missed,
		Repairs: stats.Snapshots, Strange: stats.Strangers}
	f.mu.Lock()
	s.Left, s.Knows = f.left, f.knew
	f.mu.Unlock()
	if !s.Left {
		if s.Counters = f.engine.status(); s.Counters != nil {
			s.Counters.Waiting = f.lenders.waiting()
		}
	}
	own := f.app.current.Load().print
	for _, who := range f.Members(f.app.opts.Clock.Now()) {
		s.Nodes = append(s.Nodes, console.NodeStatus{Name: who.Name, State: string(who.State), Version: who.Version,
			OffsetMS: inMS(who.Offset), LagMS: inMS(who.Lag), Config: who.Config,
			Differs: who.State == farm.Up && who.Config != "" && who.Config != own, Why: who.Why})
	}
	if of, known := expected(f.bus, f.app.current.Load().cfg.Farm), len(f.Members(time.Time{})); known < of && !s.Left {
		away := f.bus.Away()
		for _, address := range slices.Sorted(maps.Keys(away)) {
			s.Nodes = append(s.Nodes, console.NodeStatus{Name: address, State: "unheard", Why: "it does not answer: " +
				away[address]})
		}
	}
	for _, address := range slices.Sorted(maps.Keys(stats.Refused)) {
		s.Others = append(s.Others, console.Stranger{Address: address, Why: stats.Refused[address]})
	}
	return s
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
