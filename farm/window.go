package farm

import "cmp"

// windowSize is how late a message may come, in messages of its sender and topic.
const windowSize = 1024

// A window remembers which numbers have been seen. The zero value has seen none. Numbers begin at 1.
type window struct {
	high uint64 // the highest one seen
	bits [windowSize / 64]uint64
}

// see remembers a number. It reports false for one that was seen, or that is too old to tell.
func (w *window) see(n uint64) bool {
	if n == 0 || w.seen(n) {
		return false
	}
	if n > w.high {
		if n-w.high >= windowSize {
			clear(w.bits[:])
		} else {
			for i := w.high + 1; i < n; i++ {
				w.bits[i/64%uint64(len(w.bits))] &^= 1 << (i % 64)
			}
		}
		w.high = n
	}
	w.bits[n/64%uint64(len(w.bits))] |= 1 << (n % 64)
	return true
}

// seen reports whether a number was seen. Those that are too old to tell count as seen.
func (w *window) seen(n uint64) bool {
	if n > w.high {
		return false
	}
	return w.high-n >= windowSize || w.bits[n/64%uint64(len(w.bits))]&(1<<(n%64)) != 0
}

// A stream is what one node has told about one topic.
type stream struct {
	window
	floor uint64 // everything up to here is known
	above uint64 // how many numbers above floor have been seen
	solid uint64 // all numbers above it have been seen, up to the highest one
	below run    // what was seen below solid
	told  uint64 // the highest number that is known to have been sent
	since tick   // when what follows floor was first missed

	want   bool   // a snapshot is wanted, though nothing may be missing
	wantAt uint64 // what it has to include
	after  uint64 // it has to be later than this snapshot
	latest uint64 // the last snapshot that was heard of
	met    bool   // a heartbeat said what was told before this node listened
	whole  bool   // there was a snapshot before
	absent bool   // the node does not keep this topic, as far as it said

	ever  bool // a snapshot was asked for
	asked tick // when
	parts *parts
}

// A run is numbers that have been seen: all after one, up to another.
type run struct{ after, to uint64 }

// parts is a snapshot that is on its way.
type parts struct {
	id   uint64
	at   uint64 // what had been told when it was made
	have []uint64
	n    int
	left int
	last tick // when a part of it came
}

// require wants a snapshot of what was told until now.
func (s *stream) require() {
	s.want, s.wantAt, s.after, s.parts = true, s.told, s.latest, nil
	s.absent, s.ever = false, false
}

// hear takes a number. It reports whether the message is new.
func (s *stream) hear(n uint64, now tick) bool {
	before := s.high
	if !s.see(n) {
		return false
	}
	if n > s.floor {
		s.above++
	}
	if n > before+1 {
		s.below = run{s.solid, before}
		s.solid = n - 1
	}
	for s.solid > s.floor && s.high-s.solid < windowSize && s.seen(s.solid) {
		if s.solid--; s.solid == s.below.to {
			s.solid = s.below.after
		}
	}
	s.tell(n, now)
	return true
}

// tell takes the highest number that was sent.
func (s *stream) tell(n uint64, now tick) {
	complete, before := s.floor >= s.told, s.floor
	s.told = max(s.told, n)
	s.rise()
	if complete || s.floor != before {
		s.since = now
	}
}

// rise lifts the floor over what was seen.
func (s *stream) rise() {
	if s.floor < s.high && s.floor >= s.solid { // also where more was told meanwhile than a window holds
		s.floor, s.above = s.high, 0
	}
	for s.floor < s.high && s.high-s.floor <= windowSize && s.seen(s.floor+1) {
		s.floor++
		s.above--
	}
}

// lift makes everything up to at known. It returns how much of it had not been seen.
func (s *stream) lift(at uint64) (unseen uint64) {
	if at <= s.floor {
		return 0
	}
	seen := s.above
	if at < s.high && at >= s.solid {
		seen -= s.high - at
	} else {
		for n := max(at, s.high-min(s.high, windowSize)); n < s.high; n++ {
			if s.seen(n + 1) {
				seen--
			}
		}
	}
	unseen = at - s.floor - min(at-s.floor, seen)
	s.above -= min(s.above, seen)
	s.floor, s.told = at, max(s.told, at)
	s.rise()
	return unseen
}

// restore takes a complete snapshot, made when at had been told. It returns how many messages it makes up for.
func (s *stream) restore(at uint64, now tick) (missed uint64) {
	if unseen := s.lift(at); s.whole {
		missed = unseen
	}
	s.want, s.whole = false, true
	s.parts, s.since = nil, now
	return missed
}

// meet takes what a heartbeat says was told. The first time, a snapshot is under way that says all of it.
func (s *stream) meet(n uint64, now tick) {
	if !s.met && !s.whole {
		s.lift(n)
		s.wantAt = max(s.wantAt, n)
	}
	s.met = true
	s.tell(n, now)
}

// helps reports whether a snapshot is of use, which was made when at had been told.
func (s *stream) helps(id, at uint64) bool {
	if s.want {
		return at >= s.wantAt && id > s.after
	}
	return at > s.floor
}

// lacks reports whether a snapshot is to be asked for.
func (s *stream) lacks(now tick) bool {
	return !s.absent && (s.want || s.floor < s.told && now-s.since >= s.grace())
}

// grace is how long what follows floor may still come. Where later messages are here it is probably lost. Where only a
// heartbeat spoke of it, it may be under way: heartbeats overtake other messages at a busy node.
func (s *stream) grace() tick {
	if s.above > 0 {
		return reorderGrace
	}
	return tailGrace
}

// mayAsk reports whether it is time to ask, also again.
func (s *stream) mayAsk(now tick) bool {
	return !s.ever || now-s.asked >= askAgainAfter && (s.parts == nil || now-s.parts.last >= askAgainAfter)
}

// askedAt is when a snapshot was asked for, 0 if it was not.
func (s *stream) askedAt() tick {
	if !s.ever {
		return 0
	}
	return s.asked
}

// expects is how many parts are to come, as far as anybody knows.
func (s *stream) expects(t *topic) int {
	if s.parts != nil {
		return s.parts.left
	}
	return cmp.Or(t.size, guessedParts)
}

// take notes a part of a snapshot. It reports whether the part is new to this node and of use.
func (s *stream) take(h *partHead, now tick) bool {
	if !s.helps(h.ID, h.At) {
		return false // it was made too early
	}
	if s.parts == nil || h.ID > s.parts.id {
		s.parts = &parts{id: h.ID, at: h.At, n: h.N, left: h.N, have: make([]uint64, (h.N+63)/64)}
	}
	p := s.parts
	if h.ID != p.id || h.N != p.n || h.At != p.at || p.have[h.K/64]&(1<<(h.K%64)) != 0 {
		return false
	}
	p.have[h.K/64] |= 1 << (h.K % 64)
	p.left--
	p.last = now
	return true
}

// missing returns the first parts that have not come.
func (p *parts) missing() (list []int) {
	for k := 0; k < p.n && len(list) < maxMissing; k++ {
		if p.have[k/64]&(1<<(k%64)) == 0 {
			list = append(list, k)
		}
	}
	return list
}
