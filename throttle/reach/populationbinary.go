package reach

import (
	"encoding/binary"
	"math"
)

// populationVersion is the first byte of a population. Then come its beginning, and of each cohort the sum, and the
// buckets that are not empty, each with how many empty ones are before it.
const populationVersion = 1

// AppendBinary appends the population; UnmarshalBinary reads it. It is versioned. There is no error.
func (p *Population) AppendBinary(b []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b = append(b, populationVersion)
	b = binary.AppendUvarint(b, uint64(p.since))
	for w := range p.cohorts {
		for c := range p.cohorts[w] {
			b = p.cohorts[w][c].append(b)
		}
	}
	return b, nil
}

func (h *histogram) append(b []byte) []byte {
	full := 0
	for _, n := range h.counts {
		if n > 0 {
			full++
		}
	}
	b = binary.AppendUvarint(b, uint64(full))
	if full == 0 {
		return b
	}
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(h.sum))
	empty := 0
	for _, n := range h.counts {
		if n == 0 {
			empty++
			continue
		}
		b = binary.AppendUvarint(b, uint64(empty))
		b = binary.AppendUvarint(b, uint64(n))
		empty = 0
	}
	return b
}

// UnmarshalBinary reads what AppendBinary wrote: ErrNewer or ErrCorrupt, and the population is as before.
func (p *Population) UnmarshalBinary(b []byte) error {
	r, err := newReader("population", b, populationVersion)
	if err != nil {
		return err
	}
	since := int64(r.count(maxTime))
	var read [len(Windows)][cohorts]histogram
	for w := range read {
		for c := range read[w] {
			read[w][c].read(r)
		}
	}
	if err := r.end(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since, p.cohorts = since, read
	p.usual.Store(nil)
	return nil
}

func (h *histogram) read(r *reader) {
	full := int(r.count(buckets))
	if full == 0 {
		return
	}
	h.sum = math.Float64frombits(r.uint64())
	if !(h.sum >= 0 && h.sum <= 2*maxSamples*upper(buckets-1)) {
		r.fail()
	}
	for at := 0; full > 0 && r.err == nil; full-- {
		at += int(r.count(buckets))
		n := uint32(r.count((maxSamples + 1) * perSample))
		if at >= buckets || n == 0 {
			r.fail()
			return
		}
		h.counts[at] = n
		h.samples += n
		at++
	}
	if h.samples > (maxSamples+1)*perSample {
		r.fail()
	}
}
