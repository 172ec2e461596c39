package stamp

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// SolveOptions say how to solve. The zero value uses all cores.
type SolveOptions struct {
	Workers int // 0: as many as there are cores
	// MaxWork is the most work that is done; a harder challenge is ErrTooHard. 0: no bound.
	MaxWork Work
	// Progress is told now and then how many operations all workers have done and how many are expected. It may take
	// more. It is called by one worker at a time.
	Progress func(done, expected Work)
}

// Solve pays a challenge and returns the stamp. It ends early, with the context's error, when ctx ends.
func Solve(ctx context.Context, challenge string, o SolveOptions) (string, error) {
	c, err := ParseChallenge(challenge)
	if err != nil {
		return "", err
	}
	solution, err := o.solve(ctx, &c)
	if err != nil {
		return "", err
	}
	return challenge + "." + encoding.EncodeToString(solution), nil
}

func (o SolveOptions) solve(ctx context.Context, c *Challenge) ([]byte, error) {
	if o.MaxWork > 0 && c.Work > o.MaxWork {
		return nil, ErrTooHard
	}
	s := &search{workers: o.Workers, progress: o.Progress, expected: c.Work}
	if s.workers < 1 {
		s.workers = runtime.GOMAXPROCS(0)
	}
	return puzzles[c.Algorithm].solve(ctx, c, s)
}

// A search is work that several workers share.
type search struct {
	workers  int
	expected Work
	progress func(done, expected Work)
	done     atomic.Uint64
	telling  sync.Mutex
}

// Count, Each and Add make it what the solvers of package classic share.
func (s *search) Count() int { return s.workers }

func (s *search) Add(n uint64) {
	done := s.done.Add(n)
	if s.progress != nil && s.telling.TryLock() {
		s.progress(Work(done), s.expected)
		s.telling.Unlock()
	}
}

func (s *search) Each(f func(worker int)) {
	var all sync.WaitGroup
	for w := range s.workers {
		all.Go(func() { f(w) })
	}
	all.Wait()
}

// parts solves a puzzle of independent parts. Workers take chunks of counters, begin with different parts, and help
// each other at the end. Each worker has its own try function, and one try is one operation.
func (s *search) parts(ctx context.Context, n int, chunk uint64,
	worker func() func(part int, n uint64) bool) ([]byte, error) {
	type part struct {
		next  atomic.Uint64
		found atomic.Uint64 // the counter + 1
		_     [48]byte
	}
	all := make([]part, n)
	s.Each(func(w int) {
		try := worker()
		for i := range n {
			i = (i + w*n/s.workers) % n
			p := &all[i]
			for p.found.Load() == 0 && ctx.Err() == nil {
				from := p.next.Add(chunk) - chunk
				if from > maxCounter-chunk {
					return
				}
				tries := uint64(0)
				for c := from; c < from+chunk; c++ {
					tries++
					if try(i, c) {
						p.found.CompareAndSwap(0, c+1)
						break
					}
				}
				s.Add(tries)
			}
		}
	})
	solution := make([]byte, n*counterBytes)
	for i := range all {
		found := all[i].found.Load()
		if found == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return nil, ErrTooHard
		}
		putCounter(solution, i, found-1)
	}
	return solution, nil
}
