//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"weir"
	"weir/throttle/bloom"
)

// rotation is B6: more sources than there is memory for, which ask one after the other and begin again, each at ten
// times its limit. What is granted is compared with an exact token bucket for each source.
//
// It is a simulation in Go of all three sides, with a clock and a key that are fixed: a table of 8 MiB; a map of token
// buckets bounded to the same memory that forgets the least recently used source, as BPF_MAP_TYPE_LRU_HASH does; and
// the exact buckets. When a source comes back the map has forgotten it, and gives it a new burst. The table does not
// forget. It has too few limiters for so many attackers, so that all sources get less than their limit.
func rotation(t *trial) []figure {
	const (
		memory = 8 << 20
		k      = 5
		rate   = 10 // a second
		burst  = 5
		times  = 10 // the limit that a source asks for

		unit = k * times // laps until a limiter of the table gets a token
		laps = 2 * unit  // in the first of these units, bursts are used up
		few  = unit / 5  // laps are enough for the map, in which every lap is the same
	)
	n, lines := 2_600_000, memory/bloom.LineBytes
	if t.quick {
		n, lines = n/20, lines/20
	}
	s := try(bloom.Fit(weir.Rate{Count: rate, Per: time.Second}, burst, k, 1))
	s.Lines = lines
	table := bloom.NewTable(s, bloom.Key{1, 2})
	forgetful := newForgetful(rate, burst, lines*bloom.LineBytes/forgetfulBytes)
	exact := make([]bucket, n)
	for i := range exact {
		exact[i] = bucket{tokens: burst}
	}
	var granted struct{ table, exact [laps]int64 } // by lap
	each := make([]uint16, n)                      // granted by the table, by source
	var forgotten int64                            // granted by the map
	var tended time.Duration
	for lap := range laps {
		for i := range n {
			now := time.Duration((float64(lap) + float64(i)/float64(n)) * float64(time.Second) / (rate * times))
			if now-tended >= s.TendEvery() {
				table.Tend(now)
				tended = now
			}
			if _, ok := table.Take(attacker(i), s.Tokens(1), now); ok {
				granted.table[lap]++
				each[i]++
			}
			if exact[i].take(now, rate, burst) {
				granted.exact[lap]++
			}
			if lap < few && forgetful.allow(uint32(i), now) {
				forgotten++
			}
		}
	}
	ours, ideal := sum(granted.table[:]), sum(granted.exact[:])
	total := ours / ideal
	later := sum(granted.table[unit:]) / sum(granted.exact[unit:])
	worst := float64(slices.Max(each)) / (ideal / float64(n))
	return []figure{
		{fmt.Sprintf("granted to %d rotating sources at %d × their limit in %d KiB, against an exact bucket for each",
			n, times, lines*bloom.LineBytes>>10),
			[]value{most(1.5, total, "%.2f × with their first bursts"), most(1.5, later, "%.2f × after them")},
			fmt.Sprintf("LRU map of the same memory, %d bytes an entry: %.1f ×", forgetfulBytes,
				times*float64(forgotten)/float64(few*n))},
		{"… to the source that got the most", []value{most(1.5, worst, "%.2f ×")}, ""},
	}
}

func sum(all []int64) (n float64) {
	for _, x := range all {
		n += float64(x)
	}
	return n
}

type bucket struct {
	tokens float64
	last   time.Duration
}

func (b *bucket) take(now time.Duration, rate, burst float64) bool {
	b.tokens = min(burst, b.tokens+rate*(now-b.last).Seconds())
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// forgetfulBytes is the size of an entry of a forgetful map. Real ones are larger than this: the source, the tokens and
// the time (16), the neighbours in the order (8), a slot of the hash table (8).
const forgetfulBytes = 32

// forgetful is a map of buckets of bounded size. When it is full, the least recently used one goes.
type forgetful struct {
	rate, burst float64
	buckets     *simplelru.LRU[uint32, *bucket]
}

func newForgetful(rate, burst float64, size int) *forgetful {
	return &forgetful{rate, burst, try(simplelru.NewLRU[uint32, *bucket](size, nil))}
}

func (f *forgetful) allow(source uint32, now time.Duration) bool {
	b, known := f.buckets.Get(source)
	if !known {
		b = &bucket{tokens: f.burst, last: now}
		f.buckets.Add(source, b)
	}
	return b.take(now, f.rate, f.burst)
}

// synPacket is an Ethernet frame with a TCP SYN to port 443. Senders set its source. It has no checksums.
func synPacket() []byte {
	frame := make([]byte, 14+20+20)
	binary.BigEndian.PutUint16(frame[12:], 0x0800)
	ip, tcp := frame[14:34], frame[34:]
	ip[0], ip[8], ip[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(ip[2:], 40)
	binary.BigEndian.PutUint16(tcp[2:], 443)
	tcp[12], tcp[13] = 0x50, 0x02
	return frame
}
