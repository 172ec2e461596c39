package spool

import (
	"encoding/binary"
	"fmt"
	"time"

	"weir/store"
	"weir/throttle/outbreak"
)

// A memory is what is stored of a user of a mail throttle: its state, and the fields that the spool needs.
type memory struct {
	state     outbreak.State
	told      time.Time // when the user was last told of waiting messages; to the second
	shadow    bool      // messages were counted in shadow, and passed
	wouldStop bool      // the user was stopped in shadow, and is not
	suspended bool      // stopped because of being disabled, until enabled
}

// The layout: the version, flags, when the user was told (seconds, as a varint), and the state of the throttle.
const memoryVersion = 1

const (
	flagShadow = 1 << iota
	flagWouldStop
	flagSuspended
	flagsKnown = flagShadow | flagWouldStop | flagSuspended
)

func (m *memory) append(b []byte) ([]byte, error) {
	var flags byte
	for i, is := range [...]bool{m.shadow, m.wouldStop, m.suspended} {
		if is {
			flags |= 1 << i
		}
	}
	return m.state.AppendBinary(appendTold(append(b, memoryVersion, flags), m.told))
}

// appendTold writes when a user was told: seconds, or 0 for never.
func appendTold(b []byte, told time.Time) []byte {
	if told.IsZero() {
		return binary.AppendUvarint(b, 0)
	}
	return binary.AppendUvarint(b, uint64(max(told.Unix(), 0)))
}

func toldAt(seconds uint64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

func (m *memory) read(b []byte) error {
	if len(b) < 2 {
		return fmt.Errorf("what a mail throttle remembers: %d bytes: %w", len(b), store.ErrCorrupt)
	}
	if b[0] != memoryVersion {
		return fmt.Errorf("what a mail throttle remembers, version %d: %w", b[0], store.ErrNewer)
	}
	if b[1]&^flagsKnown != 0 {
		return fmt.Errorf("what a mail throttle remembers: unknown flags %#x: %w", b[1], store.ErrCorrupt)
	}
	told, n := binary.Uvarint(b[2:])
	if n <= 0 || told > maxTold {
		return fmt.Errorf("what a mail throttle remembers: no time: %w", store.ErrCorrupt)
	}
	next := memory{told: toldAt(told), shadow: b[1]&flagShadow != 0, wouldStop: b[1]&flagWouldStop != 0,
		suspended: b[1]&flagSuspended != 0}
	if err := next.state.UnmarshalBinary(b[2+n:]); err != nil {
		return fmt.Errorf("what a mail throttle remembers: %w: %w", err, store.ErrCorrupt)
	}
	*m = next
	return nil
}

// maxTold is in the year 2262.
const maxTold = 9_214_646_400

// stopped reports whether the user is stopped, and not only in shadow.
func (m *memory) stopped() bool {
	_, stopped := m.state.Stopped()
	return stopped && !m.wouldStop
}
