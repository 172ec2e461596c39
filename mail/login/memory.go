package login

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
	"time"
)

// A key stands for a name, its stored hash and a password. Without the secret of the process it says nothing about
// them. A changed password has another key, so that nothing has to be forgotten.
type key [sha256.Size]byte

type keyer struct {
	pool sync.Pool // of *scratch: keys are made without garbage
}

type scratch struct {
	mac  hash.Hash
	text []byte
	key  key
}

func newKeyer() *keyer {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return &keyer{sync.Pool{New: func() any { return &scratch{mac: hmac.New(sha256.New, secret)} }}}
}

func (k *keyer) key(name, stored, password string) key {
	s := k.pool.Get().(*scratch)
	s.text = s.text[:0]
	for _, part := range [...]string{name, stored, password} {
		// no two triples are written alike
		s.text = append(binary.BigEndian.AppendUint32(s.text, uint32(len(part))), part...)
	}
	s.mac.Reset()
	s.mac.Write(s.text)
	clear(s.text) // the password must not stay in memory
	s.mac.Sum(s.key[:0])
	made := s.key
	k.pool.Put(s)
	return made
}

// A memory keeps the keys of right logins, up to a number and for a time. The oldest goes first.
type memory struct {
	keep time.Duration

	mu   sync.Mutex
	at   map[key]int // where in the ring
	ring []kept
	most int
	next int
}

type kept struct {
	key  key
	made time.Time
}

func newMemory(keep time.Duration, most int) *memory {
	return &memory{keep: keep, at: map[key]int{}, most: most}
}

func (m *memory) knows(k key, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, ok := m.at[k]
	if !ok {
		return false
	}
	if now.Sub(m.ring[i].made).Abs() < m.keep { // a caller may have read the clock just before it was made
		return true
	}
	delete(m.at, k) // also where the clock was set back
	return false
}

func (m *memory) add(k key, now time.Time) {
	if m.keep <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i, ok := m.at[k]; ok {
		delete(m.at, m.ring[i].key) // its slot is overwritten later
	}
	if len(m.ring) < m.most {
		m.at[k] = len(m.ring)
		m.ring = append(m.ring, kept{k, now})
		return
	}
	if old := m.ring[m.next].key; m.at[old] == m.next {
		delete(m.at, old)
	}
	m.ring[m.next] = kept{k, now}
	m.at[k] = m.next
	m.next = (m.next + 1) % m.most
}

func (m *memory) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.at)
}
