package login

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"hash"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/turns"
)

// A Verifier verifies passwords. It is safe for concurrent use. New makes one.
type Verifier struct {
	o      Options
	keys   *keyer
	memory *memory
	turns  *turns.Turns // of verifying
	nobody *secret      // verified where there is no such user, so that it takes as long

	derive func(password []byte, s *secret, length int) []byte // tests count the calls

	verified, remembered, wrong, busy atomic.Uint64
}

// New returns a Verifier.
func New(o Options) *Verifier {
	o = o.withDefaults()
	return &Verifier{
		o:      o,
		keys:   newKeyer(),
		memory: newMemory(o.Remember, o.Remembered),
		turns:  turns.New(o.Workers, o.Waiting),
		nobody: &secret{memory: uint32(o.HashMemory), passes: hashPasses, lanes: hashLanes,
			salt: make([]byte, saltBytes), hash: make([]byte, hashBytes)},
		derive: derive,
	}
}

// Verify returns nil if a password is right for what is stored. If stored is empty, there is no such user: it takes as
// long as usual, and fails. A right password is remembered for a while, and costs next to nothing the next time. Of
// those who wait for a worker the rank says who goes first.
//
// Its errors are ErrWrong, ErrBusy, ErrStored, and that of a context that ends during the wait.
func (d *Verifier) Verify(ctx context.Context, rank turns.Rank, name, stored, password string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(password) > MaxPassword || len(name) > MaxName {
		d.wrong.Add(1)
		return ErrWrong
	}
	s, known := d.nobody, stored != ""
	var k key
	if known {
		if len(stored) > maxStored {
			_, err := readStored(stored)
			return err
		}
		k = d.keys.key(name, stored, password)
		if d.knows(k) {
			return nil
		}
		var err error
		if s, err = readStored(stored); err != nil {
			return err
		}
	}
	switch err := d.turns.Take(ctx, rank); {
	case errors.Is(err, turns.ErrBusy):
		d.busy.Add(1)
		return ErrBusy
	case err != nil:
		return err
	}
	defer d.turns.Done()
	if known && d.knows(k) { // another login of the same user was verified during the wait
		return nil
	}
	text := []byte(password)
	right := subtle.ConstantTimeCompare(d.derive(text, s, len(s.hash)), s.hash) == 1
	clear(text)
	if !right || !known {
		d.wrong.Add(1)
		return ErrWrong
	}
	d.verified.Add(1)
	d.memory.add(k, d.o.Clock.Now())
	return nil
}

// Remembered reports whether a password was right a short while ago, at next to no cost.
func (d *Verifier) Remembered(name, stored, password string) bool {
	return keepable(name, stored, password) && d.memory.knows(d.keys.key(name, stored, password), d.o.Clock.Now())
}

// Remember notes a password that another server has found right. stored is what the caller has instead of a hash.
func (d *Verifier) Remember(name, stored, password string) {
	if keepable(name, stored, password) && !d.Remembered(name, stored, password) { // one slot for each
		d.memory.add(d.keys.key(name, stored, password), d.o.Clock.Now())
	}
}

func keepable(name, stored, password string) bool {
	return stored != "" && len(stored) <= maxStored && len(password) <= MaxPassword && len(name) <= MaxName
}

func (d *Verifier) knows(k key) bool {
	if !d.memory.knows(k, d.o.Clock.Now()) {
		return false
	}
	d.remembered.Add(1)
	return true
}

// Stats are what a Verifier has done so far.
type Stats struct {
	Verified   uint64 // right, and hashed to find out
	Remembered uint64 // right, and remembered
	Wrong      uint64
	Busy       uint64 // ErrBusy
	Inside     int    // wait or are being verified now
	Kept       int    // logins remembered now
}

// Stats returns the counters.
func (d *Verifier) Stats() Stats {
	return Stats{Verified: d.verified.Load(), Remembered: d.remembered.Load(), Wrong: d.wrong.Load(),
		Busy: d.busy.Load(), Inside: d.turns.Inside(), Kept: d.memory.len()}
}

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
