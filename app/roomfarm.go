package app

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"weir/admission"
	"weir/farm"
)

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
