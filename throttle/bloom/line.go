package bloom

import (
	"slices"
	"sync"
	"time"
)

// MaxLine is how many flows of a network wait in line for bytes. A network whose line is full gets no more flows. Of
// the flows that it has beyond that, the first to ask is next.
const MaxLine = 64

// goneAfter is how long a flow that does not come back to ask stays in line.
const goneAfter = 2 * time.Second

// lines are those in which flows wait for bytes, one for each network. The zero value is ready. Each line has a flow of
// an admitted event and ends with it, so that the number of lines is bounded by that of admitted events.
type lines struct {
	mu sync.Mutex
	of map[Network][]standing
}

// A standing is a flow in line.
type standing struct {
	flow *flow
	due  time.Time // when it asks again
}

// before returns how many flows stand before this one, or would if it joined.
func (ls *lines) before(n Network, f *flow, now time.Time) int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	line, known := ls.of[n]
	if !known {
		return 0
	}
	line = slices.DeleteFunc(line, func(s standing) bool {
		gone := s.flow != f && now.Sub(s.due) > goneAfter
		if gone {
			s.flow.line.Store(nil)
		}
		return gone
	})
	ls.keep(n, line)
	if i := find(line, f); i >= 0 {
		return i
	}
	return len(line)
}

// join notes that a flow waits, and returns when it should ask again: as given for the first, else within a second.
func (ls *lines) join(n Network, f *flow, again, now time.Time) time.Time {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if at := f.line.Load(); at != nil && *at != n {
		ls.remove(f) // new options have moved it to another network
	}
	line := ls.of[n]
	i := find(line, f)
	if latest := now.Add(maxTurn); i != 0 && len(line) > 0 && again.After(latest) {
		again = latest
	}
	switch {
	case i >= 0:
		line[i].due = again
	case len(line) < MaxLine:
		if ls.of == nil {
			ls.of = map[Network][]standing{}
		}
		ls.of[n] = append(line, standing{f, again})
		f.line.Store(&n)
	}
	return again
}

func (ls *lines) leave(f *flow) {
	if f.line.Load() == nil {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.remove(f)
}

// remove is leave; ls.mu is held.
func (ls *lines) remove(f *flow) {
	n := f.line.Swap(nil)
	if n == nil {
		return
	}
	line := ls.of[*n]
	if i := find(line, f); i >= 0 {
		ls.keep(*n, slices.Delete(line, i, i+1))
	}
}

// keep stores a line, or deletes one that is empty.
func (ls *lines) keep(n Network, line []standing) {
	if len(line) == 0 {
		delete(ls.of, n)
	} else {
		ls.of[n] = line
	}
}

func (ls *lines) full(n Network) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.of[n]) >= MaxLine
}

func find(line []standing, f *flow) int {
	return slices.IndexFunc(line, func(s standing) bool { return s.flow == f })
}
