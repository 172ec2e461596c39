package app

import (
	"fmt"
	"time"

	"weir/farm"
	"weir/throttle/quota"
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
