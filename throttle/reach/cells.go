package reach

import (
	"math"
	"math/bits"
)

// A cell is five bits, six to a word. With an index of p bits, the rest of a hash gives 1 to 33-p: leading zeroes plus
// one. An empty cell is 0.
const (
	cellBits  = 5
	cellsWord = 6
	cellMask  = 1<<cellBits - 1
)

func wordsOf(p int) int { return (1<<p + cellsWord - 1) / cellsWord }

func cellOf(h uint32, p int) (index uint32, value uint32) {
	return h >> (32 - p), uint32(min(bits.LeadingZeros32(h<<p), 32-p)) + 1
}

func cell(words []uint32, i uint32) uint32 {
	return words[i/cellsWord] >> (i % cellsWord * cellBits) & cellMask
}

func setCell(words []uint32, i, old, v uint32) {
	words[i/cellsWord] ^= (old ^ v) << (i % cellsWord * cellBits)
}

// chancesOf is how many of the hashes would change a cell of a value: those of its index with a greater value.
func chancesOf(v uint32, p int) uint64 { return 1 << (32 - p) >> v }

func allChances(words []uint32, p int) (sum uint64) {
	for i := range uint32(1) << p {
		sum += chancesOf(cell(words, i), p)
	}
	return sum
}

func raise(words, hashes []uint32, p int) {
	for _, h := range hashes {
		i, v := cellOf(h, p)
		if old := cell(words, i); v > old {
			setCell(words, i, old, v)
		}
	}
}

func compareCells(a, b []uint32) (greater, smaller bool) {
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		for at := 0; at < cellsWord*cellBits; at += cellBits {
			x, y := a[i]>>at&cellMask, b[i]>>at&cellMask
			greater, smaller = greater || x > y, smaller || x < y
		}
	}
	return greater, smaller
}

func maxCells(words, other []uint32) {
	for i := range words {
		var w uint32
		for at := 0; at < cellsWord*cellBits; at += cellBits {
			w |= max(words[i]>>at&cellMask, other[i]>>at&cellMask) << at
		}
		words[i] = w
	}
}

// estimateCells is how many different hashes the cells have seen, by Ertl's improved raw estimator ("New cardinality
// estimation algorithms for HyperLogLog sketches", 2017), which needs no tables and no change of method.
func estimateCells(words []uint32, p int) float64 {
	var have [34]int
	for i := range uint32(1) << p {
		have[cell(words, i)]++
	}
	m, top := float64(int(1)<<p), 32-p
	z := m * tau(1-float64(have[top+1])/m)
	for v := top; v >= 1; v-- {
		z = (z + float64(have[v])) / 2
	}
	z += m * sigma(float64(have[0])/m)
	return m * m / (2 * math.Ln2 * z)
}

// sigma is x + x² + 2x⁴ + 4x⁸ + …: what the empty cells say.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	for y, z := 1.0, x; ; {
		x *= x
		before := z
		z += x * y
		y += y
		if z == before {
			return z
		}
	}
}

// tau is what the cells say that can get no greater.
func tau(x float64) float64 {
	if x <= 0 || x >= 1 {
		return 0
	}
	for y, z := 1.0, 1-x; ; {
		x = math.Sqrt(x)
		before := z
		y /= 2
		z -= (1 - x) * (1 - x) * y
		if z == before {
			return z / 3
		}
	}
}
