package stamp

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"

	"golang.org/x/crypto/argon2"
)

// The figures of argon2id: one pass over 2 MiB. A basic operation is a block of 1 KiB filled. That takes a browser
// about twenty times as long as a hash, and hardware made for hashing far longer.
//
// With few parts a guess is often right unless the work is large; with many a stamp costs much to verify. Four parts
// need 126 tries for one lucky guess in a million, more than a phone does in five seconds; eight need 45.
const (
	argonParts  = 8
	argonMemory = 2048             // blocks of 1 KiB
	argonLeast  = 45 * argonMemory // a guess is right with (8/45)^8
)

// argon is eight puzzles like those of sha256k, with a hash that needs memory.
type argon struct{}

func (argon) fit(w Work) (Algorithm, Work) { return Argon2id, max(w, argonLeast) }

func (argon) sizes() (int, int) { return 0, argonParts * counterBytes }

func (argon) draw(*Challenge, *key) error { return nil }

func argonValue(seed *[seedBytes]byte, part int, n uint64) uint64 {
	var password [16]byte
	binary.BigEndian.PutUint64(password[:], uint64(part))
	binary.BigEndian.PutUint64(password[8:], n)
	return binary.BigEndian.Uint64(argon2.IDKey(password[:], seed[:], 1, argonMemory, 1, 8))
}

func (argon) target(w Work) uint64 { return target(uint64(w), argonParts*argonMemory) }

func (a argon) check(c *Challenge, _ *key, solution []byte) bool {
	seed, t := c.seed(), a.target(c.Work)
	for i := range argonParts {
		if argonValue(&seed, i, counter(solution, i)) >= t {
			return false
		}
	}
	return true
}

func (a argon) solve(ctx context.Context, c *Challenge, s *search) ([]byte, error) {
	seed, t := c.seed(), a.target(c.Work)
	return s.parts(ctx, argonParts, 1, argonMemory, func() func(int, uint64) bool {
		return func(part int, n uint64) bool { return argonValue(&seed, part, n) < t }
	})
}

// A Pool bounds how many costly verifications are under way, and how many wait for their turn. Make it with NewPool.
type Pool struct {
	running chan struct{}
	waiting atomic.Int64
	most    int64
}

// NewPool makes a pool in which so many run at once and so many more may wait.
func NewPool(running, waiting int) *Pool {
	return &Pool{running: make(chan struct{}, max(running, 1)), most: int64(waiting)}
}

// enter takes a place, or waits for one until ctx ends. ErrBusy when too many are waiting already.
func (p *Pool) enter(ctx context.Context) error {
	select {
	case p.running <- struct{}{}:
		return nil
	default:
	}
	if p.waiting.Add(1) > p.most {
		p.waiting.Add(-1)
		return ErrBusy
	}
	defer p.waiting.Add(-1)
	select {
	case p.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errors.Join(ErrBusy, ctx.Err())
	}
}

func (p *Pool) leave() { <-p.running }
