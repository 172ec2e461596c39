package classic

import (
	"context"
	"encoding/binary"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
)

// A group is where logarithms are taken.
type group[E comparable] interface {
	mul(x, y E) E
	one() E
	low(x E) uint64 // of an element, for tables
}

const (
	maxWidthBits = 60      // of the interval
	maxBaby      = 1 << 22 // entries of the table, 16 bytes each
)

// power is base to the power of a big-endian exponent. It adds the multiplications to ops.
func power[E comparable](g group[E], base E, exponent []byte, ops *uint64) E {
	r, n, started := g.one(), uint64(0), false
	for _, b := range exponent {
		for i := 7; i >= 0; i-- {
			if started {
				r, n = g.mul(r, r), n+1
			}
			if b>>i&1 == 1 {
				if !started {
					r, started = base, true
				} else {
					r, n = g.mul(r, base), n+1
				}
			}
		}
	}
	if ops != nil {
		*ops += n
	}
	return r
}

func power64[E comparable](g group[E], base E, n uint64, ops *uint64) E {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	return power(g, base, b[:], ops)
}

// logarithm finds x below the width with a^x = b: by baby and giant steps while the table fits, else by kangaroos.
func logarithm[E comparable](ctx context.Context, g group[E], a, b E, width uint64, team Workers) (uint64, error) {
	root := math.Sqrt(float64(width))
	m := min(root/math.Sqrt2, maxBaby)
	if m+float64(width)/(2*m) > 2*root {
		return kangaroo(ctx, g, a, b, width, team)
	}
	return babyGiant(ctx, g, a, b, width, maxBaby, team)
}

// babyGiant meets in the middle: x = i·m − j, so a^(i·m) = b·a^j. All j from 1 to m go into the table, then the giant
// steps are tried. With m the root of half the width that takes 1.41 times the root of the width on average; no inverse
// is needed. The table holds at most so many entries; with fewer than it would like, it takes longer.
func babyGiant[E comparable](ctx context.Context, g group[E], a, b E, width, entries uint64,
	team Workers) (uint64, error) {
	m := min(uint64(math.Ceil(math.Sqrt(float64(width)/2))), entries, 1<<24-2)
	giants := width/m + 1
	table := newTable(m)
	const rest = 256 // operations between looks at what other workers have found

	share := (m + uint64(team.Count()) - 1) / uint64(team.Count())
	team.Each(func(w int) {
		from, to := uint64(w)*share, min(uint64(w+1)*share, m)
		if from >= to {
			return
		}
		ops := uint64(1)
		e := g.mul(b, power64(g, a, from+1, &ops))
		for j := from; ; {
			table.put(g.low(e), uint32(j))
			if j++; j == to {
				break
			}
			e = g.mul(e, a)
			if ops++; ops >= rest {
				if team.Add(ops); ctx.Err() != nil {
					return
				}
				ops = 0
			}
		}
		team.Add(ops)
	})

	var found atomic.Uint64 // x + 1
	var once uint64
	step := power64(g, a, m, &once)
	team.Add(once)
	team.Each(func(w int) {
		ops := uint64(0)
		defer func() { team.Add(ops) }()
		stride := power64(g, step, uint64(team.Count()), &ops)
		e := power64(g, step, uint64(w)+1, &ops)
		for i := uint64(w) + 1; i <= giants; i += uint64(team.Count()) {
			for j := range table.get(g.low(e)) {
				x := i*m - uint64(j) - 1
				if x < width && power64(g, a, x, &ops) == b {
					found.Store(x + 1)
					return
				}
			}
			if ops >= rest {
				team.Add(ops)
				ops = 0
				if found.Load() != 0 || ctx.Err() != nil {
					return
				}
			}
			e = g.mul(e, stride)
			ops++
		}
	})
	if x := found.Load(); x != 0 {
		return x - 1, nil
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return 0, ErrNoSolution
}

// A stepTable finds the number of a baby step by 64 bits of the element. Several workers fill it at once without locks.
// A slot holds 40 bits of the element and 24 of the number; the caller checks the rest.
type stepTable struct {
	slots []atomic.Uint64
	shift int
}

func newTable(n uint64) *stepTable {
	size := bits.Len64(2*n - 1)
	return &stepTable{make([]atomic.Uint64, 1<<size), 64 - size}
}

func (t *stepTable) slot(low uint64) (at, print uint64) {
	h := low * 0x9e3779b97f4a7c15
	return h >> t.shift, h << 24
}

func (t *stepTable) put(low uint64, j uint32) {
	at, print := t.slot(low)
	for ; ; at = (at + 1) % uint64(len(t.slots)) {
		if t.slots[at].CompareAndSwap(0, print|uint64(j+1)) {
			return
		}
	}
}

// get yields the numbers that may be meant.
func (t *stepTable) get(low uint64) func(func(uint32) bool) {
	return func(yield func(uint32) bool) {
		at, print := t.slot(low)
		for ; ; at = (at + 1) % uint64(len(t.slots)) {
			v := t.slots[at].Load()
			if v == 0 || v&^(1<<24-1) == print && !yield(uint32(v&(1<<24-1))-1) {
				return
			}
		}
	}
}

// kangaroo lets tame and wild kangaroos jump by steps that depend on where they are, until a wild one lands on the
// trail of a tame one. It takes about twice the root of the width, and little memory: few points are noted.
func kangaroo[E comparable](ctx context.Context, g group[E], a, b E, width uint64, team Workers) (uint64, error) {
	root := math.Sqrt(float64(width))
	// Jumps are powers of two. Their mean is nearest to half the root, for each pair.
	goal, k := root*float64(team.Count())/2, 1
	for ; k < 60 && (math.Exp2(float64(k+1))-1)/float64(k+1) < goal*1.2; k++ {
	}
	jumps := make([]E, k)
	jumps[0] = a
	for i := 1; i < k; i++ {
		jumps[i] = g.mul(jumps[i-1], jumps[i-1])
	}
	team.Add(uint64(k - 1))
	marked := uint64(1)<<max(0, bits.Len64(uint64(root))/2-2-bits.Len(uint(team.Count()))) - 1

	type trail struct {
		at   uint64
		wild bool
	}
	var mu sync.Mutex
	trails := map[uint64]trail{}
	var found atomic.Uint64
	team.Each(func(w int) {
		ops := uint64(0)
		defer func() { team.Add(ops) }()
		// Starts are spread, so that no two of a herd walk the same trail.
		spread := uint64(w) * (uint64(goal)/uint64(team.Count()) + 1)
		at := [2]uint64{width/2 + spread, spread}
		point := [2]E{power64(g, a, at[0], &ops), g.mul(b, power64(g, a, at[1], &ops))}
		for steps := 0; ; steps++ {
			for kind := range 2 {
				low := g.low(point[kind])
				mixed := low * 0x9e3779b97f4a7c15
				if mixed>>32&marked == 0 {
					mu.Lock()
					other, known := trails[low]
					if !known {
						trails[low] = trail{at[kind], kind == 1}
					}
					mu.Unlock()
					switch {
					case known && other.wild != (kind == 1):
						x := at[0] - other.at
						if kind == 1 {
							x = other.at - at[1]
						}
						if x < width && power64(g, a, x, &ops) == b {
							found.Store(x + 1)
							return
						}
						fallthrough
					case known:
						// It is on the trail of another one of its kind, and must leave it.
						aside := mixed%uint64(goal+2) + 1
						point[kind] = g.mul(point[kind], power64(g, a, aside, &ops))
						at[kind] += aside
						ops++
						continue
					}
				}
				j := mixed >> 8 % uint64(k)
				point[kind] = g.mul(point[kind], jumps[j])
				at[kind] += 1 << j
				ops++
			}
			if steps&63 == 0 {
				team.Add(ops)
				ops = 0
				if found.Load() != 0 || ctx.Err() != nil {
					return
				}
			}
		}
	})
	if x := found.Load(); x != 0 {
		return x - 1, nil
	}
	return 0, ctx.Err()
}
