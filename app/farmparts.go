package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weir/admission"
	"weir/farm"
	"weir/internal/readfile"
	"weir/throttle/quota"
	"weir/throttle/stamp"
)

// A commonQuota is a quota that all nodes of the farm count together.
type commonQuota struct {
	quota  *quota.Quota
	shared *quota.Shared
	leave  func()
}

// shareQuotas makes the quotas of a generation those of the whole farm.
func (m *member) shareQuotas(g *generation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, old := range m.quotas {
		if t := g.throttle(name); t == nil || t.accounts() != old.quota {
			if !m.left {
				old.leave()
			}
			delete(m.quotas, name)
		}
	}
	for _, t := range g.throttles {
		q := t.accounts()
		if q == nil {
			continue
		}
		if _, known := m.quotas[t.name]; !known && m.left {
			m.quotas[t.name] = commonQuota{quota: q}
		} else if !known {
			common, err := m.share(t.name, q)
			if err != nil {
				return fmt.Errorf("throttles.%s: %w", t.name, err)
			}
			m.quotas[t.name] = common
		}
		q.Divide(m.stands)
		m.inform(q, m.app.clock.Now())
	}
	return nil
}

// share makes a quota one that the farm shares.
func (m *member) share(name string, q *quota.Quota) (commonQuota, error) {
	topic := topicOf("quota", name)
	self := m.Self()
	s := q.Share(self.Name, self.Boot, func(msg []byte) error { return m.Send(topic, msg) })
	stop, err := m.Keep(topic, heardQuota{s, m.app})
	if err != nil {
		s.Close()
		return commonQuota{}, err
	}
	m.app.pace.Start(s)
	return commonQuota{q, s, func() { stop(); s.Close() }}, nil
}

var _ farm.Lasting = heardQuota{}

// heardQuota is a quota as the farm sees it.
type heardQuota struct {
	*quota.Shared
	app *App
}

func (h heardQuota) Hear(from farm.Node, msg []byte, _ time.Time) error {
	return h.Shared.Hear(from.Name, from.Boot, msg, h.app.clock.Now())
}

func (h heardQuota) Snapshot(_ time.Time, give func([]byte) bool) {
	h.Shared.Snapshot(h.app.clock.Now(), give)
}

// divide tells the quotas which nodes came or went, and divides them anew.
func (m *member) divide() farm.Standing {
	stands, knows := m.Standing(), m.Learn().Knows
	m.news.Lock()
	changes := m.changes
	m.changes = nil
	m.news.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.app.clock.Now()
	if !m.knew {
		m.knew = knows
		for _, q := range m.quotas {
			m.inform(q.quota, now)
		}
	}
	if stands == m.stands && changes == nil {
		return stands
	}
	for _, who := range changes {
		for _, q := range m.quotas {
			if q.shared == nil {
				continue
			}
			if who.State == farm.Up {
				q.shared.Find(who.Name, now)
			} else {
				q.shared.Lose(who.Name, now)
			}
		}
	}
	m.stands = stands
	for _, q := range m.quotas {
		q.quota.Divide(stands)
	}
	return stands
}

// inform tells a quota whether this node knows what was used before it started. The member is locked.
func (m *member) inform(q *quota.Quota, now time.Time) {
	since := m.began
	if m.knew {
		since = time.Time{}
	}
	q.Unaware(since, now)
}

// sharedLanes are what the nodes of a farm share of the lanes in front of one upstream.
type sharedLanes struct {
	*admission.Shared
	app   *App
	lanes *admission.Lanes
	stop  func()
}

var _ farm.Shared = (*sharedLanes)(nil)

// Hear takes what another node tells.
func (r *sharedLanes) Hear(from farm.Node, msg []byte, _ time.Time) error {
	return r.Shared.Hear(from, msg, r.app.clock.Now())
}

// Snapshot gives all that this node knows.
func (r *sharedLanes) Snapshot(_ time.Time, give func([]byte) bool) {
	r.Shared.Snapshot(r.app.clock.Now(), give)
}

func (r *sharedLanes) leave() {
	r.stop()
	r.Shared.Leave(r.app.clock.Now())
}

// roomTopic is where nodes tell each other about the capacity of an upstream. It is known by what it is, as the gates
// in front of it may listen to other addresses at each node. Of several gates in front of one, each has a capacity.
func roomTopic(upstream string, nth int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s#%d", upstream, nth))
	return "room." + hex.EncodeToString(sum[:16])
}

// shareRooms makes the lanes of a generation those of the farm.
func (m *member) shareRooms(g *generation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left {
		return nil
	}
	wanted, nth := map[string]*admission.Lanes{}, map[string]int{}
	for _, gt := range g.gates {
		for _, at := range gt.bottlenecks() {
			if !at.Local() {
				wanted[roomTopic(at.upstream, nth[at.upstream])] = at.Lanes
				nth[at.upstream]++
			}
		}
	}
	for topic, r := range m.rooms {
		if wanted[topic] != r.lanes {
			r.leave()
			delete(m.rooms, topic)
		}
	}
	var errs []error
	for topic, l := range wanted {
		if m.rooms[topic] != nil {
			continue
		}
		r := &sharedLanes{app: m.app, lanes: l}
		r.Shared = l.Join(admission.Joining{Self: m.Self(), Send: func(msg []byte) error { return m.Send(topic, msg) },
			Skip: func() { m.Skip(topic) }}, m.app.clock.Now())
		var err error
		if r.stop, err = m.Keep(topic, r); err != nil {
			r.Shared.Leave(m.app.clock.Now())
			errs = append(errs, err)
			continue
		}
		m.rooms[topic] = r
	}
	m.moved.Store(true)
	return errors.Join(errs...)
}

// prepareRooms shares what a reload made, once its lanes have their options.
func (c *change) prepareRooms() error {
	m := c.app.member.Load()
	if m == nil {
		return nil
	}
	c.commit = append(c.commit, func() {
		if err := m.shareRooms(c.next); err != nil {
			c.app.opts.Log.Error("the capacity is this node's alone", "err", err)
		}
		m.meetRooms()
	})
	return nil
}

// meetRooms tells the lanes which nodes are there, when that has changed.
func (m *member) meetRooms() {
	of, rank := m.Share()
	m.mu.Lock()
	defer m.mu.Unlock()
	if seats := [2]int{of, rank}; !m.moved.Swap(false) && seats == m.seats || m.left {
		return
	}
	m.seats = [2]int{of, rank}
	var up []farm.Node
	for _, who := range m.Members(m.app.opts.Clock.Now()) {
		if who.State == farm.Up {
			up = append(up, who.Node)
		}
	}
	for _, r := range m.rooms {
		r.Shared.Nodes(up, of, rank, m.app.clock.Now())
	}
}

// leaveRooms ends that anything is shared. It is called with the lock held.
func (m *member) leaveRooms() {
	for topic, r := range m.rooms {
		r.leave()
		delete(m.rooms, topic)
	}
}

// A stampBus is what stamps need of a farm.
type stampBus interface {
	Tagged(tag [stamp.TagBytes]byte) (farm.Node, bool)
	Ask(ctx context.Context, to farm.Node, topic string, msg []byte) ([]byte, error)
	Answer(topic string, answer func(from farm.Node, msg []byte) ([]byte, error)) (stop func(), err error)
}

// maxRefunds is how many refunds are on their way to other nodes at once. What is above it is lost, and with it one use
// of a stamp.
const maxRefunds = 64

// stampNodes are the other nodes of the farm, to the stamps of one throttle.
type stampNodes struct {
	bus   stampBus
	self  [stamp.TagBytes]byte
	topic string
	ctx   context.Context // ends when the throttle leaves the farm
	tells chan struct{}

	mu   sync.Mutex
	left bool
	told sync.WaitGroup
}

var _ stamp.Nodes = (*stampNodes)(nil)

// joinStamps makes the stamps of a throttle those of a farm, in which this run has a tag. leave ends that, and waits
// for what is under way. Join before the throttle serves; in a reload, before it gets the farm's secret: until it has
// joined it would accept what others issued without asking them.
func (a *App) joinStamps(bus stampBus, self [stamp.TagBytes]byte, name string, t *stamp.Throttle) (leave func(),
	err error) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &stampNodes{bus: bus, self: self, topic: topicOf("stamps", name), ctx: ctx, tells: make(chan struct{}, maxRefunds)}
	stop, err := bus.Answer(c.topic, func(_ farm.Node, question []byte) ([]byte, error) {
		if answer := t.Answer(a.clock.Now(), question); answer != nil {
			return answer, nil
		}
		return nil, errNoQuestion
	})
	if err != nil {
		cancel()
		return nil, err
	}
	t.Join(c, a.clock.Now())
	return func() {
		t.Join(nil, a.clock.Now())
		stop()
		c.mu.Lock()
		c.left = true
		c.mu.Unlock()
		cancel()
		c.told.Wait()
	}, nil
}

var errNoQuestion = errors.New("the node does not understand this question about stamps: bring all nodes to one version")

// topicOf is where nodes speak about one thing of a throttle. Names may be longer than topics.
func topicOf(what, name string) string {
	prefix := what + "."
	if len(prefix)+len(name) <= farm.MaxTopic {
		return prefix + name
	}
	sum := sha256.Sum256([]byte(name))
	return prefix + hex.EncodeToString(sum[:])
}

func (c *stampNodes) Self() [stamp.TagBytes]byte { return c.self }

func (c *stampNodes) Ask(ctx context.Context, issuer [stamp.TagBytes]byte, question []byte) ([]byte, error) {
	node, ok := c.bus.Tagged(issuer)
	if !ok {
		return nil, farm.ErrGone
	}
	return c.bus.Ask(ctx, node, c.topic, question)
}

func (c *stampNodes) Tell(issuer [stamp.TagBytes]byte, question []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left {
		return
	}
	select {
	case c.tells <- struct{}{}:
	default:
		return
	}
	c.told.Go(func() {
		defer func() { <-c.tells }()
		ctx, cancel := context.WithTimeout(c.ctx, stamp.AskTimeout)
		defer cancel()
		_, _ = c.Ask(ctx, issuer, question) // if it is lost, so is one use
	})
}

// nodesName is the file in the data folder that says which nodes belong to the farm. It is no part of a backup: an old
// one would give a node a part of the limits that others have taken over since.
const nodesName = "nodes"

// A nodesFile keeps who belongs to the farm over a restart.
type nodesFile struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex // one write at a time
	asked   uint64     // under asking
	written uint64
	failing bool // and that was said
	asking  sync.Mutex
	writes  sync.WaitGroup
}

// read returns what the file has, nil where there is none. Without it a node waits until it has heard of the others.
func (n *nodesFile) read() []byte {
	text, err := readfile.Read(n.path, farm.MaxRoll)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.log.Error("who belongs to the farm cannot be read: this node has to hear of it anew", "err", err)
	}
	return text
}

// keep writes what belongs into the file, without waiting for the disk. The latest call counts.
func (n *nodesFile) keep(text []byte, done func(error)) {
	n.asking.Lock()
	n.asked++
	nth := n.asked
	n.asking.Unlock()
	n.writes.Go(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		var err error
		if nth > n.written {
			if err = writeWhole(n.path, text); err == nil {
				n.written = nth
			} else if !n.failing { // it is tried again each second
				n.log.Error("who belongs to the farm cannot be kept: this node gets no part of the limits", "err", err)
			}
			n.failing = err != nil
		}
		done(err)
	})
}

// close waits until all is written, unless the disk does not answer.
func (n *nodesFile) close() {
	written := make(chan struct{})
	go func() { n.writes.Wait(); close(written) }()
	select {
	case <-written:
	case <-time.After(closePatience):
	}
}

// writeWhole writes a file for the owner only, completely or not at all, and returns when it is on the disk.
func writeWhole(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	if folder, err := os.Open(filepath.Dir(path)); err == nil {
		_ = folder.Sync() // or its name is lost with the power; not every file system can, and then it need not
		_ = folder.Close()
	}
	return nil
}
