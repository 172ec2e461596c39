package simulate

import "time"

// Bounds on mails that wait to be put in order.
const (
	sortWithin = 10 * time.Minute
	sortMails  = 10_000
)

// A sorter puts mails in order that are nearly so: it holds them until one comes that is sortWithin later, or it has
// too many. It is a heap by time; mails of one time stay as they came.
type sorter struct {
	heap   []sorting
	count  int       // mails so far
	held   int       // recipients
	most   int       // recipients that may be held
	newest time.Time // of all mails so far
	given  time.Time // the latest that was given
}

type sorting struct {
	Entry
	line, number int
}

func (a *sorting) before(b *sorting) bool {
	if a.At.Equal(b.At) {
		return a.number < b.number
	}
	return a.At.Before(b.At)
}

// add takes a mail. It is refused where later ones were given already.
func (s *sorter) add(e Entry, line int) bool {
	if e.At.Before(s.given) && !s.given.IsZero() {
		return false
	}
	if e.At.After(s.newest) {
		s.newest = e.At
	}
	s.count++
	s.held += len(e.To)
	s.heap = append(s.heap, sorting{e, line, s.count})
	h := s.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	return true
}

// next gives the earliest mail, once nothing earlier is to be expected, or at once.
func (s *sorter) next(atOnce bool) (e Entry, line int, ok bool) {
	h := s.heap
	if len(h) == 0 || !atOnce && len(h) <= sortMails && s.held <= s.most && s.newest.Sub(h[0].At) < sortWithin {
		return Entry{}, 0, false
	}
	first, n := h[0], len(h)-1
	h[0] = h[n]
	h[n] = sorting{}
	h = h[:n]
	for i := 0; ; {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && h[down+1].before(&h[down]) {
			down++
		}
		if !h[down].before(&h[i]) {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	s.heap = h
	s.held -= len(first.To)
	s.given = first.At
	return first.Entry, first.line, true
}
