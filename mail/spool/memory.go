package spool

import (
	"encoding/binary"
	"fmt"
	"time"

	"weir/store"
	"weir/throttle/outbreak"
)

// A memory is what is stored of a user of a throttle: its state, and what the spool itself has to know.
type memory struct {
	state     outbreak.State
	told      time.Time // when the user was last told of waiting mail; to the second
	shadow    bool      // mails were counted that passed all the same, in shadow
	wouldStop bool      // the user would be stopped: it happened in shadow
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
	if m.shadow {
		flags |= flagShadow
	}
	if m.wouldStop {
		flags |= flagWouldStop
	}
	if m.suspended {
		flags |= flagSuspended
	}
	b = append(b, memoryVersion, flags)
	var told uint64
	if !m.told.IsZero() {
		told = uint64(max(m.told.Unix(), 0))
	}
	return m.state.AppendBinary(binary.AppendUvarint(b, told))
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
	next := memory{shadow: b[1]&flagShadow != 0, wouldStop: b[1]&flagWouldStop != 0, suspended: b[1]&flagSuspended != 0}
	if told > 0 {
		next.told = time.Unix(int64(told), 0)
	}
	if err := next.state.UnmarshalBinary(b[2+n:]); err != nil {
		return fmt.Errorf("what a mail throttle remembers: %w: %w", err, store.ErrCorrupt)
	}
	*m = next
	return nil
}

// maxTold is in the year 2262.
const maxTold = 9_214_646_400

// stopped reports whether the user is stopped in earnest.
func (m *memory) stopped() bool {
	_, stopped := m.state.Stopped()
	return stopped && !m.wouldStop
}
