package spool

import (
	"fmt"
	"sync"
	"time"

	"weir/store"
)

// lookEvery is how often a store is asked how much space it has.
const lookEvery = time.Second

// spacious is a store that knows how many bytes new mail may take, so that there is always space for what becomes of
// the mail it has: of the disk, and of what it has free inside, where texts go that are not in files.
type spacious interface {
	Space() (disk, inside int64)
}

// space is how much new mail the store may take.
type space struct {
	mu           sync.Mutex
	at           time.Time // when the store was asked
	disk, inside int64
}

// take takes space for new mail, or says that there is none: store.ErrFull.
func (q *queue) take(bytes int, filed bool) error {
	kept, ok := q.store.(spacious)
	if !ok {
		return nil
	}
	r, now := &q.space, q.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() || now.Sub(r.at) >= lookEvery || now.Before(r.at) {
		r.at = now
		r.disk, r.inside = kept.Space()
	}
	from := &r.disk
	if !filed && r.inside >= int64(bytes) && r.inside > 0 {
		from = &r.inside
	}
	if *from -= int64(bytes); *from < 0 {
		return fmt.Errorf("the room that is left is for what becomes of the mail that is there: %w", store.ErrFull)
	}
	return nil
}

// Full returns store.ErrFull where there is no space for new mail, however short.
func (q *queue) Full() error { return q.take(0, false) }

// incomingText is the text of a new mail. Those that weir writes itself always find space, as long as there is any.
type incomingText struct {
	store.Staged
	queue *queue
}

func (t incomingText) Write(b []byte) (int, error) {
	bytes, filed := len(b), t.Size()+int64(len(b)) > store.MaxInline
	if filed && t.Size() <= store.MaxInline { // all of it goes into the file
		bytes += int(t.Size())
	}
	if err := t.queue.take(bytes, filed); err != nil {
		return 0, err
	}
	return t.Staged.Write(b)
}
