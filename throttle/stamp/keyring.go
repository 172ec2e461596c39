package stamp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/hmackey"
)

// A Keyring knows the keys under which challenges are issued. Keys follow from a secret and the time, in periods
// aligned to the epoch, so the nodes of a farm with the same secret agree on them. The keys of the period before and,
// for a clock that is ahead, of the next one are honoured. Goroutines may share it; make it with NewKeyring.
type Keyring struct {
	rotate  time.Duration
	secrets []secret // the first one issues
	current atomic.Pointer[keys]
	mu      sync.Mutex
}

type secret struct {
	id    uint32
	value [sha256.Size]byte
}

// keys are those of one period and its neighbours.
type keys struct {
	period int64
	all    []*key // of the first secret: this period, the one before, the next; then of the second secret
}

// A key tags challenges and draws secret exponents.
type key struct {
	id   uint64
	tags *hmackey.Key
	draw [sha256.Size]byte
}

// NewKeyring makes a keyring whose keys change every so often. Challenges must not live longer than that. The first
// secret issues; the others are only honoured. Without any, the secret is random and challenges end with the process.
func NewKeyring(rotate time.Duration, secrets ...[]byte) *Keyring {
	r := &Keyring{rotate: max(rotate, time.Second)}
	if len(secrets) == 0 {
		secrets = [][]byte{make([]byte, sha256.Size)}
		_, _ = rand.Read(secrets[0]) // never fails
	}
	for _, s := range secrets {
		r.secrets = append(r.secrets, newSecret(s))
	}
	return r
}

// maxSecrets is how many secrets are honoured. When reloads bring more, the oldest are forgotten.
const maxSecrets = 4

func newSecret(from []byte) secret {
	v := derive(from, "weir stamp secret", 0)
	id := derive(v[:], "weir stamp secret id", 0)
	return secret{binary.BigEndian.Uint32(id[:]), v}
}

// honour adds the secrets of another keyring with periods of the same length, except for those that were given up. The
// keyring must not be in use yet.
func (r *Keyring) honour(old *Keyring, givenUp func(secret) bool) {
	if r.rotate != old.rotate {
		return
	}
	for _, s := range old.secrets {
		if len(r.secrets) < maxSecrets && !slices.Contains(r.secrets, s) && !givenUp(s) {
			r.secrets = append(r.secrets, s)
		}
	}
}

func derive(from []byte, purpose string, n int64) (to [sha256.Size]byte) {
	h := hmac.New(sha256.New, from)
	h.Write([]byte(purpose))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
	h.Sum(to[:0])
	return to
}

func (r *Keyring) at(now time.Time) *keys {
	ms, rotate := now.UnixMilli(), r.rotate.Milliseconds()
	if ks := r.current.Load(); ks != nil {
		if since := ms - ks.period*rotate; 0 <= since && since < rotate { // nearly always, and without a division
			return ks
		}
	}
	period := floorDiv(ms, rotate)
	r.mu.Lock()
	defer r.mu.Unlock()
	if ks := r.current.Load(); ks != nil && ks.period == period {
		return ks
	}
	ks := &keys{period: period}
	for _, s := range r.secrets {
		for _, n := range [...]int64{period, period - 1, period + 1} {
			tag := derive(s.value[:], "weir stamp tag", n)
			ks.all = append(ks.all, &key{id: uint64(s.id)<<32 | uint64(uint32(n)), tags: hmackey.New(tag[:]),
				draw: derive(s.value[:], "weir stamp draw", n)})
		}
	}
	r.current.Store(ks)
	return ks
}

func (ks *keys) find(id uint64) *key {
	for _, k := range ks.all {
		if k.id == id {
			return k
		}
	}
	return nil
}

// tag is what a challenge ends with, whose other bytes are b.
func (k *key) tag(b []byte) [tagBytes]byte {
	sum := k.tags.Sum(b)
	return [tagBytes]byte(sum[:])
}

// floorDiv divides by what is positive and rounds down, below zero too. It divides once: that is dear.
func floorDiv(a, b int64) int64 {
	q := a / b
	if q*b > a {
		q--
	}
	return q
}

// seedOf is the public seed of an hour, for mail stamps.
func (r *Keyring) seedOf(s secret, hour int64) [mailSeedBytes]byte {
	full := derive(s.value[:], "weir mail seed", hour)
	return [mailSeedBytes]byte(full[:mailSeedBytes])
}
