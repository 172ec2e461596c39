package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"weir/internal/parcel"
	"weir/store"
)

// Bounds of what travels between nodes.
const (
	wireVersion = 1
	maxAhead    = 24 * time.Hour // how far the clock of whoever tells something may be ahead
)

// Share makes the settings those of a farm: what an operator does here is handed to send, which must not
// block. stop ends that.
func (b *Settings) Share(send func(msg []byte)) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.send = send
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.send = nil
	}
}

// Hear takes in what another node tells. It may come late, twice and in any order. Settings that make no sense are left
// out, and the error is about the first of them; the others hold. It does not call changed: Advance does.
func (b *Settings) Hear(msg []byte, now time.Time) error {
	all, err := parcel.Open(msg, wireVersion, "settings")
	if err != nil {
		return err
	}
	var first error
	wrong := 0
	b.mu.Lock()
	for _, raw := range all {
		var v store.Setting
		err := json.Unmarshal(raw, &v)
		if err == nil {
			err = b.hear(v, now)
		}
		if err != nil {
			wrong++
			first = cmp.Or(first, err)
		}
	}
	stale, alarm := b.stale, b.alarm
	b.mu.Unlock()
	if stale {
		alarm(now)
	}
	if first != nil {
		return fmt.Errorf("%d of %d settings are left out: %w", wrong, len(all), first)
	}
	return nil
}

func (b *Settings) hear(v store.Setting, now time.Time) error {
	if err := v.Validate(); err != nil {
		return err
	}
	if v.At.After(now.Add(maxAhead)) {
		return fmt.Errorf("a setting with a time that is more than %s ahead: set the clocks of both nodes", maxAhead)
	}
	if !v.Holds(now) {
		if v.Removed() {
			return nil
		}
		if v = over(v); !v.Holds(now) {
			return nil
		}
	}
	return b.take(v, now)
}

// Snapshot gives messages that together say all that this node knows, until give returns false.
func (b *Settings) Snapshot(now time.Time, give func(msg []byte) bool) {
	b.mu.Lock()
	all := make([]store.Setting, 0, len(b.by))
	for _, v := range b.by {
		if v.Holds(now) {
			all = append(all, v)
		}
	}
	b.mu.Unlock()
	p := parcel.Packer{Version: wireVersion, Give: give}
	for _, v := range all {
		p.Add(v)
	}
	p.Flush()
}

// Tell gives one message with all that is known of a kind, removals included, for a node that must know it at once. The
// kind must have few settings: what does not fit into one message is left to the snapshot.
func (b *Settings) Tell(kind string, now time.Time, give func(msg []byte)) {
	b.mu.Lock()
	var all []store.Setting
	for _, v := range b.by {
		if v.Kind == kind && v.Holds(now) {
			all = append(all, v)
		}
	}
	b.mu.Unlock()
	p := parcel.Packer{Version: wireVersion, Give: func(msg []byte) bool { give(msg); return false }}
	for _, v := range all {
		p.Add(v)
	}
	p.Flush()
}
