package quota

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"weir/farm"
)

// An engine that is another one than before has forgotten something, and grants nothing of what it does not know until
// all nodes have told what they know. So each node tells it of all its accounts, little by little: a survey. When that
// is done, it says so to the others, and nobody waits for it any more, whatever becomes of it.

const (
	// pollEvery is how often an engine that nobody asks is asked whether it is still the same one, and when a survey
	// begins again that has failed.
	pollEvery = int64(time.Second)
	// surveyCalls are how many accounts an engine is told of at once, each surveyPause.
	surveyCalls = 200
	surveyPause = int64(20 * time.Millisecond)
	// maxEngines are how many engines of a node are known: a cluster has several.
	maxEngines = 64
	// maxTold are of how many nodes it is known which engines they have told.
	maxTold = 4 * farm.MaxNodes
	// toldVersion begins a message that says which nodes have told which engines.
	toldVersion = 2
)

// A survey is how far a node has told the engine of its accounts. A lender's mu protects it.
type survey struct {
	shard   int                             // the next one; shards when all calls are made, and more when all is done
	engines map[string]time.Time            // that have answered, and their time then
	told    map[string]map[string]time.Time // by node and engine: as of when the engine was told all, by its clock
	pending atomic.Int64                    // calls under way
	failed  atomic.Bool                     // one of them
}

// hearOf takes in which engine has answered.
func (l *Lender) hearOf(reply *farm.Reply, now int64) {
	l.answered.Store(now)
	if len(reply.Waiting) > 0 {
		l.waiting.Store(&waiting{reply.Waiting, now})
	}
	if last := l.engine.Load(); last != nil && *last == reply.Engine {
		return
	}
	engine := reply.Engine
	l.engine.Store(&engine)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.engines[engine]; known {
		return
	}
	if len(l.engines) >= maxEngines || l.engines == nil {
		l.engines = map[string]time.Time{}
	}
	l.engines[engine], l.shard = reply.Now, 0
	l.wake(now)
}

// waiting are nodes that have to tell the engine what they know.
type waiting struct {
	nodes []string
	at    int64
}

// goOn tells the engine of some more accounts. It returns when to go on.
func (l *Lender) goOn(now int64) (next int64) {
	if l.lost.Load() || l.closed.Load() {
		return never
	}
	l.mu.Lock()
	at := l.shard
	if at == shards && l.pending.Load() == 0 {
		if l.failed.Swap(false) {
			l.shard = 0
			l.mu.Unlock()
			return now + pollEvery
		}
		l.finish()
		at = l.shard
	}
	l.mu.Unlock()
	switch {
	case at > shards:
		return never
	case at == shards:
		return now + surveyPause
	}
	from := at
	for calls := 0; at < shards && calls < surveyCalls; at++ {
		calls += l.tellShard(&l.quota.table.shards[at], now)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shard == from { // else it has begun anew
		l.shard = at
	}
	return now + surveyPause
}

// finish says to the others that the survey is done. mu is held.
func (l *Lender) finish() {
	l.shard = shards + 1
	self := farm.Home(l.Run)
	own := make(map[string]time.Time, len(l.engines))
	for engine, since := range l.engines {
		own[engine] = since
	}
	l.told[self] = own
	if msg, err := json.Marshal(map[string]map[string]time.Time{self: own}); err == nil {
		go func() { _ = l.Call(append([]byte{toldVersion}, msg...)) }() // a snapshot makes up for one that is lost
	}
}

// tellShard calls the engine for the accounts of a shard of which something is known, and returns for how many.
func (l *Lender) tellShard(sh *shard, now int64) (calls int) {
	if sh.size.Load() == 0 {
		return 0
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	rs := l.quota.rules.Load()
	for _, a := range sh.ring {
		p := a.borrower(rs)
		if p == nil || p.lender != l || p.telling || !p.calling && !p.knows(rs) {
			continue
		}
		p.telling = true
		l.pending.Add(1)
		calls++
		if p.call(now); !p.calling { // too many are under way
			p.telling = false
			l.hasTold(false)
		}
	}
	return calls
}

// knows reports whether there is anything to tell of an account. The shard is locked.
func (p *borrower) knows(rs *rules) bool {
	for _, r := range rs.list {
		if r.lender != p.lender || !p.account.counts(r) {
			continue
		}
		if st := p.account.state(r); st.used > 0 || st.loan() != nil && st.loan().mark != "" {
			return true
		}
	}
	return false
}

// hasTold notes that a call of the survey has ended.
func (l *Lender) hasTold(ok bool) {
	if !ok {
		l.failed.Store(true)
	}
	l.pending.Add(-1)
}

// poll asks an engine that has not been heard of for a while who it is: it may be another one. It does so at the start
// as well, and where nobody has an account: others may wait for what this node knows. It returns when to poll again.
func (l *Lender) poll(now int64) (next int64) {
	if l.closed.Load() {
		return never
	}
	if last := max(l.answered.Load(), l.polled.Load()); now-last < pollEvery && last <= now {
		return last + pollEvery
	}
	l.polled.Store(now)
	l.standing() // has the disk say who belongs to the farm
	go func() {
		l.stats.calls.Add(1)
		nobody := farm.Ask{Key: l.named(""), Run: l.Run, Seq: l.seq.Add(1), Drop: true}
		if reply, err := l.Pot.Take(context.Background(), nobody); err == nil {
			l.hearOf(&reply, nanos(l.Now()))
		} else {
			l.stats.failed.Add(1)
		}
	}()
	return now + pollEvery
}

// excuse returns the nodes as farm.Ask takes them: those that have told the engine all that they know stand there so.
func (l *Lender) excuse(nodes []string) []string {
	engine := l.engine.Load()
	if engine == nil {
		return nodes
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]string, len(nodes))
	for i, node := range nodes {
		all[i] = node
		if at, told := l.told[node][*engine]; told {
			all[i] = farm.Excused(node, *engine, at)
		}
	}
	return all
}

// hearTold takes in which nodes have told which engines.
func (l *Lender) hearTold(msg []byte) error {
	var told map[string]map[string]time.Time
	if err := json.Unmarshal(msg, &told); err != nil {
		l.stats.malformed.Add(1)
		return fmt.Errorf("%w: %w", ErrCalled, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for node, engines := range told {
		if l.told[node] == nil {
			if len(l.told) >= maxTold { // most have left long ago
				clear(l.told)
			}
			l.told[node] = map[string]time.Time{}
		}
		known := l.told[node]
		for engine, at := range engines {
			if len(known) >= maxEngines {
				clear(known)
			}
			if at.After(known[engine]) {
				known[engine] = at
			}
		}
	}
	return nil
}

// Snapshot gives what a node that joins has to know: which nodes have told which engines.
func (l *Lender) Snapshot(give func(msg []byte) bool) {
	l.mu.Lock()
	msg, err := json.Marshal(l.told)
	l.mu.Unlock()
	if err == nil {
		give(append([]byte{toldVersion}, msg...))
	}
}
