package farmtest

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"weir/farm"
)

// microseconds, as engines count.
const (
	step = int64(farm.MaxLife / time.Microsecond) // how far an engine's clock is believed to be behind
	most = 1 << 50                                // the longest time that can be owed
)

// A MemPot is a farm.Pot in memory. It is the model by which other engines are checked. Its clock is given.
type MemPot struct {
	mu    sync.Mutex
	clock func() time.Time
	boots int
	state memState
}

// A memState is all that an engine keeps.
type memState struct {
	engine string // under which births is
	births int64  // when that engine was first seen
	keys   map[string]*memKey
}

// A memKey is what is kept for one key.
type memKey struct {
	now   int64
	runs  map[string]memRun
	rules map[string]*memRule
}

type memRun struct {
	seq  uint64
	seen int64
}

// A memRule is what is kept of one limit.
type memRule struct {
	engine string // under which it was opened
	ver    int64  // greater with every change, also after the rule was forgotten in between
	until  int64  // nothing that is here counts afterwards
	own    map[string]memOwn

	start, end, sum int64           // Fixed
	bucket          int64           // Sliding: the current one
	sums            map[int64]int64 // Sliding: by bucket

	at       int64   // Steady: when owed was worked out
	owed     float64 // Steady: microseconds
	limit    int64   // Steady: by which it was
	held     int64   // Steady: until when somebody may spend what they took ahead
	heldLife int64   // Steady: how long they may

	// changes are how often what some run has was changed. The changes that runs know of, by their marks, are never
	// more together. They are as many where each run knows of all of its own.
	changes int64

	closing string              // the engine under which it is closed
	told    map[string][]string // for each node that has told what it knows, the nodes that it named
	said    map[string]int64    // by run: what it had, as its mark says
}

// A memOwn is what one run has of a rule: total of a slice, used of which it had spent when it last called.
type memOwn struct {
	slice, total, used int64
	at, life           int64 // Steady: when it was granted, and for how long; Level: life is when it ends
	changes            int64 // Fixed, Sliding: of this run
}

// NewPot returns a pot whose engine has this clock.
func NewPot(clock func() time.Time) *MemPot {
	p := &MemPot{clock: clock, boots: 1}
	p.state.keys = map[string]*memKey{}
	return p
}

// Close implements farm.Pot.
func (p *MemPot) Close() {}

// Restart makes the engine start again with nothing.
func (p *MemPot) Restart() { p.replace(memState{keys: map[string]*memKey{}}) }

// Save remembers what there is. promote makes the engine another one that has just that.
func (p *MemPot) Save() (promote func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state
	s.keys = make(map[string]*memKey, len(p.state.keys))
	for name, k := range p.state.keys {
		s.keys[name] = k.clone()
	}
	return func() { p.replace(s) }
}

func (p *MemPot) replace(s memState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.boots++
	p.state = s
}

func (k *memKey) clone() *memKey {
	c := &memKey{k.now, maps.Clone(k.runs), make(map[string]*memRule, len(k.rules))}
	for id, r := range k.rules {
		rule := *r
		rule.own, rule.sums = maps.Clone(r.own), maps.Clone(r.sums)
		rule.told, rule.said = maps.Clone(r.told), maps.Clone(r.said)
		c.rules[id] = &rule
	}
	return c
}

// A mark is what a node knows of a rule.
type mark struct {
	ver, slice, own int64
	body            []int64
}

// String writes a mark as the pot in Redis does: numbers as they are in memory.
func (m *mark) String() string {
	var b []byte
	for _, n := range append([]int64{m.ver, m.slice, m.own}, m.body...) {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	return string(b)
}

func parseMark(s string) (*mark, error) {
	if s == "" {
		return &mark{slice: -1}, nil
	}
	var all []int64
	for rest := []byte(s); len(rest) > 0; rest = rest[8:] {
		if len(rest) < 8 {
			return nil, fmt.Errorf("%w: a mark is %q", farm.ErrAsk, s)
		}
		n := math.Float64frombits(binary.LittleEndian.Uint64(rest))
		if !(n >= 0 && n <= farm.MaxNumber) {
			return nil, fmt.Errorf("%w: a mark is %q", farm.ErrAsk, s)
		}
		all = append(all, int64(n))
	}
	if len(all) < 3 {
		return nil, fmt.Errorf("%w: a mark is %q", farm.ErrAsk, s)
	}
	return &mark{all[0], all[1], all[2], all[3:]}, nil
}

// Take implements farm.Pot.
func (p *MemPot) Take(ctx context.Context, ask farm.Ask) (farm.Reply, error) {
	if err := ask.Check(); err != nil {
		return farm.Reply{}, err
	}
	if err := ctx.Err(); err != nil {
		return farm.Reply{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := &memKey{runs: map[string]memRun{}, rules: map[string]*memRule{}}
	if was := p.state.keys[ask.Key]; was != nil {
		key = was.clone()
	}
	c := call{ask: &ask, key: key, time: p.clock().UnixMicro(), engine: fmt.Sprintf("memory-%d", p.boots)}
	for i := range ask.Wants {
		m, err := parseMark(ask.Wants[i].Mark)
		if err != nil {
			return farm.Reply{}, err
		}
		c.wants = append(c.wants, &wanted{Want: &ask.Wants[i], mark: m})
	}
	if ask.Engine != "" && ask.Engine != c.engine {
		return farm.Reply{Engine: c.engine, Now: time.UnixMicro(c.time), Failed: -1}, farm.ErrEngine
	}
	c.readClock()
	if p.state.engine != c.engine {
		p.state.engine, p.state.births = c.engine, c.now
	}
	c.birth = p.state.births
	reply, err := c.run()
	switch {
	case err != nil || reply.Stale:
	case !ask.Drop:
		p.state.keys[ask.Key] = key
	case reply.Granted:
		delete(p.state.keys, ask.Key)
	}
	return reply, err
}

// Keys is for how many keys something is kept.
func (p *MemPot) Keys() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.state.keys)
}

// A call is one Take.
type call struct {
	ask       *farm.Ask
	key       *memKey
	engine    string
	time, now int64 // by the engine's clock, and with what is known of later times
	birth     int64
	wants     []*wanted
}

// A wanted is a want under way.
type wanted struct {
	*farm.Want
	mark       *mark
	id         string
	rule       *memRule
	period     int64
	life       int64
	len        int64 // of a bucket
	cur        int64 // what the engine has of this run in the slice
	used, fits int64
	wait       int64
	own        memOwn // Fixed, Sliding: before the call
}

const never = int64(farm.Never)

// readClock finds out the time. It does not run back by less than step: that would open a slice again that is over.
func (c *call) readClock() {
	c.now = c.time
	later := func(at int64) {
		if at > c.now && at <= c.time+step {
			c.now = at
		}
	}
	later(c.key.now)
	for _, w := range c.wants {
		w.period, w.life = w.Period.Microseconds(), w.Life.Microseconds()
		w.id = fmt.Sprint(w.Rule, "\x00", w.Way, w.period)
		switch w.Way {
		case farm.Fixed:
			later(w.mark.slice)
		case farm.Sliding:
			w.len = (w.period + buckets - 1) / buckets
			later(w.mark.slice * w.len)
		case farm.Level:
			w.life = cmp.Or(w.life, step)
		}
	}
	c.key.now = c.now
}

// unshared reports whether no other node has used the key, and this one has not since the call was made.
func (c *call) unshared() bool {
	for name, run := range c.key.runs {
		if farm.Home(name) != farm.Home(c.ask.Run) || run.seq > c.ask.Seq {
			return false
		}
	}
	return true
}

func (c *call) run() (farm.Reply, error) {
	reply := farm.Reply{Engine: c.engine, Now: time.UnixMicro(c.now), Failed: -1}
	if c.ask.Drop {
		reply.Granted = c.unshared()
		return reply, nil
	}
	run, known := c.key.runs[c.ask.Run]
	reply.Stale = known && c.ask.Seq <= run.seq
	if !known {
		c.makeRoom()
	}
	c.key.runs[c.ask.Run] = memRun{c.ask.Seq, c.now}
	waiting := map[string]bool{}
	closed := false
	for _, w := range c.wants {
		if c.rule(w) == nil {
			return reply, fmt.Errorf("%w: more than %d rules", farm.ErrCrowded, farm.MaxRules)
		}
		r := w.rule
		if r.engine != c.engine && !reply.Stale {
			c.adopt(w)
		}
		if !c.roll(w) {
			return reply, farm.ErrOutside
		}
		if r.engine != c.engine && !reply.Stale {
			c.noteTold(w)
		}
		if r.engine != c.engine {
			closed = closed || c.windowStart(w) <= c.birth
			if r.told != nil {
				c.untold(r, waiting)
			}
		}
	}
	c.noteRest(reply.Stale)
	reply.Waiting = slices.Sorted(maps.Keys(waiting))
	all := true
	for i, w := range c.wants {
		c.settle(w, reply.Stale || closed)
		if w.Forget && !reply.Stale && !closed {
			c.forget(w)
		}
		if w.Way == farm.Level && len(w.rule.own) >= farm.MaxRuns && w.rule.own[c.ask.Run] == (memOwn{}) {
			return reply, fmt.Errorf("%w: more than %d runs", farm.ErrCrowded, farm.MaxRuns)
		}
		if closed || reply.Stale {
			// What was to be spent at once, or for a while, is not there when that is over.
			over := w.Way == farm.Steady && w.Need > 0 && c.now > w.own.at+w.own.life
			all = all && w.cur-w.used >= w.Need && !over && !closed
			continue
		}
		if w.Need > 0 && w.fits < w.Need {
			all = false
			if w.wait = c.wait(w); reply.Failed < 0 || w.wait > c.wants[reply.Failed].wait {
				reply.Failed, reply.Wait = i, time.Duration(w.wait)
				if w.wait != never {
					reply.Wait = time.Duration(w.wait) * time.Microsecond
				}
			}
		}
	}
	reply.Granted = all
	for _, w := range c.wants {
		switch {
		case closed || reply.Stale:
		case all:
			c.grant(w, w.Need+max(0, min(w.Ahead, w.fits-w.Need)))
		default:
			c.grant(w, 0)
		}
		reply.Grants = append(reply.Grants, c.answer(w, reply.Stale || closed))
	}
	return reply, nil
}

// makeRoom forgets the run that was seen least recently. What it has still counts, and its mark has how much that is.
func (c *call) makeRoom() {
	if len(c.key.runs) < farm.MaxRuns {
		return
	}
	oldest := ""
	for name, run := range c.key.runs {
		if o := c.key.runs[oldest]; oldest == "" || run.seen < o.seen || run.seen == o.seen && name < oldest {
			oldest = name
		}
	}
	delete(c.key.runs, oldest)
	for _, r := range c.key.rules {
		if r.own[oldest].life <= c.now { // a level is kept
			delete(r.own, oldest)
		}
	}
}

// rule finds the rule, or makes it. Those that are over make room.
func (c *call) rule(w *wanted) *memRule {
	if w.rule = c.key.rules[w.id]; w.rule == nil {
		maps.DeleteFunc(c.key.rules, func(_ string, r *memRule) bool { return r.until+step < c.now })
		if len(c.key.rules) >= farm.MaxRules {
			return nil
		}
		w.rule = &memRule{own: map[string]memOwn{}, sums: map[int64]int64{}, at: c.now, limit: w.Limit}
		c.key.rules[w.id] = w.rule
	}
	return w.rule
}
