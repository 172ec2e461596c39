package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"weir/store"
)

// Bounds of what travels between nodes.
const (
	wireVersion = 1
	maxMessage  = 60 << 10       // bytes; a farm takes a little more
	maxAhead    = 24 * time.Hour // how far the clock of whoever tells something may be ahead
)

// message is what nodes send each other.
type message struct {
	Version  int             `json:"v"`
	Settings []store.Setting `json:"s"`
}

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
	if len(msg) > maxMessage {
		return fmt.Errorf("a message of %d bytes about settings, at most %d", len(msg), maxMessage)
	}
	var m message
	if err := json.Unmarshal(msg, &m); err != nil {
		return fmt.Errorf("a message about settings cannot be read: %w", err)
	}
	if m.Version != wireVersion {
		return fmt.Errorf("a message about settings has version %d, this weir knows %d: update the older node",
			m.Version, wireVersion)
	}
	var first error
	wrong := 0
	b.mu.Lock()
	for _, v := range m.Settings {
		if err := b.hear(v, now); err != nil {
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
		return fmt.Errorf("%d of %d settings are left out: %w", wrong, len(m.Settings), first)
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
	p := packer{give: give}
	for _, v := range all {
		p.add(v)
	}
	p.flush()
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
	p := packer{give: func(msg []byte) bool { give(msg); return false }}
	for _, v := range all {
		p.add(v)
	}
	p.flush()
}

// A packer puts settings into messages that are not too large, and gives them away until that fails.
type packer struct {
	give  func(msg []byte) bool
	buf   []byte
	ended bool
}

func (p *packer) add(v store.Setting) {
	text, err := json.Marshal(v)
	if err != nil || p.ended { // a setting has nothing in it that cannot be written
		return
	}
	if len(p.buf)+len(text)+len("],}") > maxMessage {
		p.flush()
	}
	if len(p.buf) == 0 {
		p.buf = fmt.Appendf(make([]byte, 0, 4<<10), `{"v":%d,"s":[`, wireVersion)
	} else {
		p.buf = append(p.buf, ',')
	}
	p.buf = append(p.buf, text...)
}

func (p *packer) flush() {
	if len(p.buf) == 0 || p.ended {
		return
	}
	p.ended = !p.give(append(p.buf, "]}"...))
	p.buf = nil
}
