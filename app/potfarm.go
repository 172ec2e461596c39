package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"weir/farm"
	"weir/store"
	"weir/throttle/quota"
)

// A lentQuota is a quota with policies that are counted in the engine.
type lentQuota struct {
	*quota.Lender
	app   *App
	quota *quota.Quota
	gate  bool   // of a gate, which lets go of it itself
	stop  func() // to hear of other nodes
}

var _ farm.Shared = (*lentQuota)(nil)

// Hear takes what another node called.
func (l *lentQuota) Hear(_ farm.Node, msg []byte, _ time.Time) error {
	return l.Lender.Hear(msg, l.app.clock.Now())
}

// Snapshot gives which nodes have told the engine all that they know. What counts is in the engine.
func (l *lentQuota) Snapshot(_ time.Time, give func([]byte) bool) { l.Lender.Snapshot(give) }

// leave returns what this node has to the engine.
func (l *lentQuota) leave() {
	l.stop()
	l.Close()
}

// lenders are the quotas that are counted in the engine.
type lenders struct {
	mu     sync.Mutex // held while a lender is told that the engine is lost; never while the engine is asked
	byName map[string]*lentQuota
	lost   bool // the engine
}

// tell tells all that the engine is lost, or back.
func (l *lenders) tell(lost bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = lost
	for _, q := range l.byName {
		q.Lost(lost, now)
	}
}

// add adds one that has not heard of the engine yet.
func (l *lenders) add(name string, q *lentQuota, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName == nil {
		l.byName = map[string]*lentQuota{}
	}
	l.byName[name] = q
	if l.lost {
		q.Lost(true, now)
	}
}

// remove removes those that are not to stay, and has them return what they have, side by side: the engine may be slow.
func (l *lenders) remove(stays func(name string, q *lentQuota) bool) {
	l.mu.Lock()
	var gone []*lentQuota
	for name, q := range l.byName {
		if !stays(name, q) {
			gone = append(gone, q)
			delete(l.byName, name)
		}
	}
	l.mu.Unlock()
	var all sync.WaitGroup
	for _, q := range gone {
		all.Go(q.leave)
	}
	all.Wait()
}

// waiting are the nodes that the engine waits for.
func (l *lenders) waiting() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]bool{}
	for _, q := range l.byName {
		for _, node := range q.Stats().Waiting {
			all[node] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// forget has no quota wait for a node any more. It reports whether one did.
func (l *lenders) forget(node string) (waited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.byName {
		waited = q.Forget(node) || waited
	}
	return waited
}

func (l *lenders) has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byName[name] != nil
}

// exact reports whether a quota of a generation has policies that are counted in the engine.
func (g *generation) exact(name string) bool {
	o := g.cfg.Throttles[name].Quota
	return o != nil && slices.ContainsFunc(o.Policies, func(p quota.Policy) bool { return p.Farm == quota.FarmExact })
}

// lendQuotas has the quotas of a generation counted in the engine where they say so.
func (m *member) lendQuotas(g *generation) error {
	if !m.lends() {
		return nil
	}
	m.lenders.remove(func(name string, q *lentQuota) bool {
		if q.gate {
			return true
		}
		t := g.throttle(name)
		return t != nil && t.accounts() == q.quota && g.exact(name)
	})
	for _, t := range g.throttles {
		if q := t.accounts(); q != nil && g.exact(t.name) && !m.lenders.has(t.name) {
			if err := m.lend(t.name, q, false); err != nil {
				return fmt.Errorf("throttles.%s: %w", t.name, err)
			}
		}
	}
	for _, gt := range g.gates {
		if l, ok := gt.state.(*envoyLimits); ok {
			l.mu.Lock()
			err := l.lend(m)
			l.mu.Unlock()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// lends reports whether there is an engine to count in. There may be no farm.
func (m *member) lends() bool {
	if m == nil || m.engine == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.left
}

// lend ties a quota of a throttle, or of a gate, to the engine.
func (m *member) lend(name string, q *quota.Quota, gate bool) (err error) {
	topic := topicOf("lend", name)
	l := &lentQuota{app: m.app, quota: q, gate: gate}
	started := time.Now()
	l.Lender = q.Lend(quota.Lending{
		Pot: m.engine, Name: name, Run: runOf(m.Self()), Farm: func() []string { return m.Keeping(topic) },
		Nodes: func() int { return m.Standing().Of },
		Call:  func(msg []byte) error { return m.Send(topic, msg) },
		Now:   m.app.clock.Now,
		Since: func() time.Duration { return time.Since(started) },
		Disk:  m.app.ceilings(),
	})
	if err := m.restore(l.Lender, name); err != nil {
		l.Close()
		return fmt.Errorf("what this node may have granted cannot be loaded: %w", err)
	}
	if l.stop, err = m.Keep(topic, l); err != nil {
		l.Close()
		return err
	}
	m.lenders.add(name, l, m.app.clock.Now())
	m.app.pace.Start(l)
	return nil
}

// runOf is what a run of a node is called in the engine.
func runOf(n farm.Node) string { return n.Name + "+" + strconv.FormatUint(n.Boot, 10) }

// ceilings is where this node keeps what it may have granted; nil where there is no data folder.
func (a *App) ceilings() store.Ceilings {
	if k := a.kept.Load(); k != nil {
		return k.store.Ceilings()
	}
	return nil
}

// restore takes in what earlier runs of this node may have granted.
func (m *member) restore(l *quota.Lender, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	restored, noRoom, err := l.Restore(ctx)
	switch log := m.app.opts.Log.With("throttle", name); {
	case err != nil:
	case noRoom > 0:
		log.Warn("there is no room for all accounts of which this node may have granted something: an engine that is "+
			"lost now stays closed until their periods are over", "no_room", noRoom, "restored", restored)
	case restored > 0:
		log.Info("what this node may have granted was restored", "accounts", restored)
	}
	return err
}

// engineChanged tells the quotas that the engine is lost, or back.
func (m *member) engineChanged(up bool) { m.lenders.tell(!up, m.app.clock.Now()) }
