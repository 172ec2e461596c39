//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/throttle/bloom"
)

// The bits of the control word, as the program has them.
const (
	controlHalf   = 1 << iota // which half decides
	controlCharge             // the other half is charged too
	controlShadow
	controlAllow // the allow list has entries
	controlBan
)

// memory is shared by weir and the program: the lines of the tables, and the state.
type memory struct {
	mapped [][]byte
	words  []uint64 // eight to a line
	state  *objectShared
}

func mapMemory(k *objects) (*memory, error) {
	m := &memory{}
	lines, err := m.mmap(k.lines)
	if err != nil {
		return nil, err
	}
	state, err := m.mmap(k.state)
	if err != nil {
		m.Close()
		return nil, err
	}
	m.words = unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(lines))), len(lines)/8)
	m.state = (*objectShared)(unsafe.Pointer(unsafe.SliceData(state)))
	return m, nil
}

func (m *memory) mmap(of *ebpf.Map) ([]byte, error) {
	size := int(of.ValueSize()) * int(of.MaxEntries())
	// The kernel maps whole pages.
	page := unix.Getpagesize()
	b, err := unix.Mmap(of.FD(), 0, (size+page-1)/page*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("cannot map the memory of %s: %w", of, err)
	}
	m.mapped = append(m.mapped, b)
	return b[:size], nil
}

func (m *memory) Close() {
	for _, b := range m.mapped {
		_ = unix.Munmap(b)
	}
	m.mapped, m.words, m.state = nil, nil, nil
}

func (m *memory) control() uint64 { return atomic.LoadUint64(&m.state.Control) }

// flag sets or clears bits of the control word. The gate's lock is held.
func (m *memory) flag(bits uint64, on bool) {
	control := m.control() &^ bits
	if on {
		control |= bits
	}
	m.set(control)
}

func (m *memory) set(control uint64) { atomic.StoreUint64(&m.state.Control, control) }

// half returns the words of a table. All tables are in a row.
func (m *memory) half(p *plan, level, half int) []uint64 {
	const words = bloom.LineBytes / 8
	base := int(p.settings.Level[level].Base[half]) * words
	return m.words[base:][:p.shapes[level].Lines*words]
}

// renew makes a table of full limiters under a new key, whose time begins now. The half must not be in use.
func (m *memory) renew(p *plan, level, half int, now time.Duration) *bloom.Table {
	words := m.half(p, level, half)
	clear(words)
	key := bloom.NewKey()
	h := &m.state.Half[level][half]
	h.Key, h.Origin = key, uint64(now)
	return bloom.Overlay(p.shapes[level], key, words)
}

// resume returns a table that is in use.
func (m *memory) resume(p *plan, level, half int, now time.Duration) *bloom.Table {
	h := &m.state.Half[level][half]
	t := bloom.Overlay(p.shapes[level], bloom.Key(h.Key), m.half(p, level, half))
	t.Resume(now - time.Duration(h.Origin))
	t.Touch()
	return t
}

// kernelTime is what the clock of the program shows.
func kernelTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &ts) // fails on no Linux that runs the program
	return time.Duration(ts.Nano())
}

// readCounters sums the counters of all CPUs.
func readCounters(m *ebpf.Map) (c Counters, err error) {
	var all []objectTally
	if err := m.Lookup(uint32(0), &all); err != nil {
		return c, fmt.Errorf("cannot read the counters: %w", err)
	}
	for i, sum := range c.figures() {
		for _, cpu := range all {
			*sum += cpu.Count[i]
		}
	}
	return c, nil
}
