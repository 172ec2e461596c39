package spool

import (
	"fmt"
	"sync"
	"time"

	"weir/store"
)

// lookEvery is how often a store is asked how much room it has.
const lookEvery = time.Second

// spacious is a store that knows how many bytes new mail may take, so that there is always room for what becomes of the mail it has.
type spacious interface{ Room() int64 }

// room is how much new mail the store may take.
type room struct {
	mu   sync.Mutex
	at   time.Time // when the store was asked
	left int64
}

// take takes room for new mail, or says that there is none: store.ErrFull.
func (s *Spool) take(bytes int) error {
	kept, ok := s.store.(spacious)
	if !ok {
		return nil
	}
	r, now := &s.room, s.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || now.Sub(r.at) >= lookEvery || now.Before(r.at) {
		r.at, r.left = now, kept.Room()
	}
	if r.left -= int64(bytes); r.left < 0 {
		return fmt.Errorf("the room that is left is for what becomes of the mail that is there: %w", store.ErrFull)
	}
	return nil
}

// incomingText is the text of a new mail. Those that weir writes itself always find room, as long as there is any.
type incomingText struct {
	store.Staged
	s *Spool
}

func (t incomingText) Write(b []byte) (int, error) {
	if err := t.s.take(len(b)); err != nil {
		return 0, err
	}
	return t.Staged.Write(b)
}
