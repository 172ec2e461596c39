package token

import (
	"crypto/sha256"
	"sync"
)

// A sum is the hash of a token. Tokens themselves are not kept, since they are secrets.
type sum [sha256.Size]byte

// hashOf allocates nothing for tokens of the usual length.
func hashOf(text string) sum {
	var array [2 << 10]byte
	return sha256.Sum256(append(array[:0], text...))
}

// memory remembers the verified tokens seen last, in two generations. Goroutines may share it.
type memory struct {
	most int // in both
	mu   sync.RWMutex
	a, b map[sum]*Claims // a is the younger one
}

func (m *memory) find(s sum) *Claims {
	m.mu.RLock()
	c, young := m.a[s]
	if !young {
		c = m.b[s]
	}
	m.mu.RUnlock()
	if c != nil && !young {
		m.keep(s, c)
	}
	return c
}

func (m *memory) keep(s sum, c *Claims) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.a == nil || len(m.a) >= max(m.most/2, 1) {
		m.a, m.b = make(map[sum]*Claims), m.a
	}
	m.a[s] = c
}
