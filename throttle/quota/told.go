package quota

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"time"
)

// What travels between nodes. A message is a version, what it is (told, snapshot or the end of a snapshot), the time,
// its number, since when the node wants to be told everything, for a snapshot which part of it this is, and records
// until the end:
//
//	flags, account or source, [node, boot, time: of another node than the sender], rule, length of the rest,
//	who waits, when it was reset, cells until the end of the rest
//
// Rules are known by their identity, so that nodes with different options understand each other where they count the
// same. A rule that a node does not know is skipped.
const (
	wireVersion = 1
	maxName     = 1 << 10  // of an account, in bytes
	maxTelling  = 60 << 10 // of a message; a farm takes a little more
	maxCells    = buckets + 1
	maxFigure   = MaxLimit * 64
	maxParts    = 1 << 10 // of a snapshot; a farm takes half of it
)

// A purpose is why a message is sent.
type purpose byte

const (
	told     purpose = iota // something changed
	snapshot                // all there is
	end                     // the last part of that
)

// Flags of a record.
const (
	bySource = 1 << iota // of a source without an account
	relayed              // about another node than the sender
)

// ErrTelling is returned for a message of another node that makes no sense.
var ErrTelling = errors.New("a message about quotas makes no sense")

// idOf is how nodes know a rule, by its text.
func idOf(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // it cannot fail
	return h.Sum64()
}

func (r *rule) id(a *account) uint64 {
	switch {
	case a.name != "":
		return r.ids[0]
	case a.source().Is4():
		return r.ids[1]
	}
	return r.ids[2]
}

// A writer puts records into messages.
type writer struct {
	shared *Shared
	why    purpose
	at     int64
	buf    []byte
	empty  int    // the length of a message without records
	parts  uint64 // of a snapshot
	full   bool
	wants  bool
	ready  [][]byte // to be sent when no lock is held
	send   func([]byte) error
	cells  []cell
}

// write begins messages.
func (s *Shared) write(now time.Time, why purpose) *writer {
	s.at = max(s.at+1, nanos(now))
	w := &writer{shared: s, why: why, at: s.at, send: s.send}
	w.begin()
	return w
}

func (w *writer) begin() {
	seq := w.shared.seq
	if w.why == told {
		seq++
	}
	w.buf = append(make([]byte, 0, 1024), wireVersion, byte(w.why))
	w.buf = binary.AppendUvarint(w.buf, uint64(w.at))
	w.buf = binary.AppendUvarint(w.buf, seq)
	w.buf = binary.AppendUvarint(w.buf, uint64(w.shared.want.Load()))
	if w.why == snapshot {
		w.buf = binary.AppendUvarint(w.buf, w.parts)
		w.parts++
	}
	w.empty = len(w.buf)
}

// end ends a message. A snapshot has a last one even if that is empty, as has one that wants something.
func (w *writer) end(last bool) {
	switch {
	case last && w.wants:
	case last && w.why == snapshot:
		w.buf[1] = byte(end)
	case len(w.buf) == w.empty:
		return
	}
	if w.why == told {
		w.shared.seq++
	}
	w.ready = append(w.ready, w.buf)
	w.begin()
}

// flush sends the messages that have ended.
func (w *writer) flush() {
	for i, msg := range w.ready {
		if w.ready[i] = nil; w.full {
			break
		}
		w.shared.stats.sent.Add(1)
		w.full = errors.Is(w.send(msg), errFull) // other errors are made up for by a snapshot
	}
	w.ready = w.ready[:0]
}

// account writes what is to be told of an account. Its shard is locked.
func (w *writer) account(rs *rules, a *account, now int64) {
	if len(a.name) > maxName {
		w.shared.stats.long.Add(1)
		return
	}
	if a.version != rs.version {
		a.update(rs)
	}
	for _, r := range rs.list {
		if r.shared == nil || !a.counts(r) || w.full {
			continue
		}
		t, st := a.terms(rs, r), a.state(r)
		if r.roll(st, t, now); w.why == snapshot && r.idle(st, t, now) && st.waiting == 0 {
			continue
		}
		w.cells = r.cells(w.cells[:0], st, now, w.why == snapshot)
		waiting := int64(0)
		if st.waiting > 0 {
			waiting = max(st.ahead, int64(st.waiting))
			st.meet().told = waiting
		} else if p := st.peers(); p != nil {
			p.told = 0 // who waits next is told of anew
		}
		w.record(a, r, nil, waiting, st.resetAt())
		if p := st.peers(); w.why == snapshot && p != nil {
			for i := range p.list {
				w.relay(a, r, st, &p.list[i])
			}
		}
	}
}

// relay writes what is known of a node that cannot say it itself: it is gone, or that was an earlier run.
func (w *writer) relay(a *account, r *rule, st *state, e *peer) {
	over := e.node.gone.Load() || e.node.silent.Load() || e.boot < e.node.run.Load()
	about := peer{node: e.node, boot: e.boot, at: e.at}
	switch {
	case r.way == inStretches && e.parts != nil:
		e.parts.roll(st.start)
		for b := max(0, st.start-buckets); b <= st.start; b++ {
			at := ringSlot(b)
			if c := (cell{b, e.parts.before.at(at), e.parts.total.at(at)}); c.before > 0 || over && c.total > 0 {
				about.at = e.parts.at[at] // others may know one part better, and another one worse
				w.cells = append(w.cells[:0], c)
				w.record(a, r, &about, 0, st.resetAt())
			}
		}
	case r.way == inPeriods && e.slice == st.start && (over || !r.bytes && e.before > 0):
		w.cells = append(w.cells[:0], e.cell)
		w.record(a, r, &about, 0, st.resetAt())
	}
}

// record appends one record, in another message if this one is full.
func (w *writer) record(a *account, r *rule, about *peer, waiting, reset int64) {
	before := len(w.buf)
	var flags byte
	source := a.source()
	if a.name == "" {
		flags |= bySource
	}
	if about != nil {
		flags |= relayed
	}
	b := append(w.buf, flags)
	if a.name != "" {
		b = appendText(b, a.name)
	} else {
		b = appendText(b, string(source.AsSlice()))
	}
	if about != nil {
		b = appendText(b, about.node.name)
		b = binary.AppendUvarint(b, about.boot)
		b = binary.AppendUvarint(b, uint64(about.at))
	}
	b = binary.BigEndian.AppendUint64(b, r.id(a))
	var rest [(3*maxCells + 2) * binary.MaxVarintLen64]byte
	part := binary.AppendUvarint(rest[:0], uint64(waiting))
	part = binary.AppendUvarint(part, uint64(reset))
	for _, c := range w.cells {
		part = binary.AppendVarint(part, c.slice)
		part = binary.AppendVarint(part, c.before)
		part = binary.AppendVarint(part, c.total)
	}
	b = binary.AppendUvarint(b, uint64(len(part)))
	b = append(b, part...)
	if w.why == told {
		w.shared.stats.told.Add(1)
	}
	if len(b) <= maxTelling || before == w.empty {
		w.buf = b
		return
	}
	last := append([]byte(nil), b[before:]...)
	w.buf = b[:before]
	w.end(false)
	w.buf = append(w.buf, last...)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// cells appends what this node has used, all of it or what has changed. The state has been rolled to now.
func (r *rule) cells(cells []cell, st *state, now int64, all bool) []cell {
	p := st.peers()
	switch {
	case r.way == level:
		return append(cells, cell{total: st.used})
	case r.way == steady:
		return append(cells, cell{st.used, st.start, st.others})
	case r.way == inStretches:
		if st.ring == nil {
			return cells
		}
		for i := max(0, st.start-buckets); i <= st.start; i++ {
			at := ringSlot(i)
			if !all && st.ring.untold&(1<<at) == 0 {
				continue
			}
			c := cell{slice: i, total: st.ring.own(at)}
			if p != nil && p.earlier != nil {
				c.before = min(c.total, p.earlier.at(at))
				c.total -= c.before
			}
			if all && c.before+c.total == 0 {
				continue
			}
			cells = append(cells, c)
		}
		if !all {
			st.ring.untold = 0
		}
		return cells
	case r.bytes:
		if p == nil {
			if !all || st.used == 0 {
				return cells
			}
			p = st.meet() // it was restored
		}
		p.own.enter(st.start)
		p.flown = p.own.total
		if cells = append(cells, p.own); all {
			cells = append(cells, cell{slice: st.start, total: min(st.used, maxFigure)})
		}
		return cells
	}
	c := cell{slice: st.start, total: st.used}
	if p != nil && p.own.slice == st.start {
		c.before = min(p.own.before, c.total)
		c.total -= c.before
	}
	return append(cells, c)
}

// head is what every message begins with.
type head struct {
	why  purpose
	at   int64
	seq  uint64
	want int64
	part int64 // of a snapshot
}

// A record is what was told about one account under one rule.
type record struct {
	account        string
	source         netip.Addr
	node           string // where another one than the sender is spoken of
	boot           uint64
	at             int64
	rule           uint64
	waiting, reset int64
	cells          []cell
}

// A reader takes messages apart.
type reader struct {
	msg   []byte
	cells [maxCells]cell
}

func (d *reader) head() (h head, err error) {
	if len(d.msg) < 2 || d.msg[0] != wireVersion || d.msg[1] > byte(end) {
		return h, fmt.Errorf("%w: it is of another version", ErrTelling)
	}
	h.why, d.msg = purpose(d.msg[1]), d.msg[2:]
	h.at = d.count(&err)
	h.seq = uint64(d.count(&err))
	h.want = d.count(&err)
	if h.why != told {
		h.part = d.count(&err)
	}
	if err == nil && h.part >= maxParts {
		err = fmt.Errorf("%w: a snapshot has at most %d parts", ErrTelling, maxParts)
	}
	return h, err
}

// record takes one record apart. Its cells are good until the next one.
func (d *reader) record() (r record, err error) {
	if len(d.msg) == 0 || d.msg[0] >= relayed<<1 {
		return r, fmt.Errorf("%w: a record begins with what is unknown", ErrTelling)
	}
	flags := d.msg[0]
	d.msg = d.msg[1:]
	who := d.text(maxName, &err)
	if flags&bySource == 0 {
		r.account = string(who)
	} else if addr, ok := netip.AddrFromSlice(who); ok {
		r.source = addr
	} else if err == nil {
		err = fmt.Errorf("%w: a source of %d bytes", ErrTelling, len(who))
	}
	if err == nil && r.account == "" && !r.source.IsValid() {
		err = fmt.Errorf("%w: a record of nobody", ErrTelling)
	}
	if flags&relayed != 0 {
		r.node = string(d.text(maxName, &err))
		r.boot = uint64(d.count(&err))
		r.at = d.count(&err)
		if err == nil && r.node == "" {
			err = fmt.Errorf("%w: it speaks of a node without a name", ErrTelling)
		}
	}
	if err == nil && len(d.msg) < 8 {
		err = fmt.Errorf("%w: it ends in a record", ErrTelling)
	}
	if err != nil {
		return r, err
	}
	r.rule = binary.BigEndian.Uint64(d.msg)
	d.msg = d.msg[8:]
	rest := reader{msg: d.text(maxTelling, &err)}
	r.waiting, r.reset = min(rest.count(&err), MaxLimit), rest.count(&err)
	n := 0
	for ; len(rest.msg) > 0 && err == nil; n++ {
		if n == maxCells {
			return r, fmt.Errorf("%w: it has more than %d cells of one account", ErrTelling, maxCells)
		}
		c := cell{rest.number(&err), rest.number(&err), rest.number(&err)}
		if err == nil && (c.slice < 0 || c.before < 0 || c.before == never || c.total > maxFigure ||
			c.total < -maxFigure) {
			err = fmt.Errorf("%w: a figure that cannot be", ErrTelling)
		}
		d.cells[n] = c
	}
	r.cells = d.cells[:n]
	return r, err
}

// count reads a number that is not below zero.
func (d *reader) count(err *error) int64 {
	n, size := binary.Uvarint(d.msg)
	if size <= 0 || n > never {
		d.fail(err)
		return 0
	}
	d.msg = d.msg[size:]
	return int64(n)
}

// number reads a number.
func (d *reader) number(err *error) int64 {
	n, size := binary.Varint(d.msg)
	if size <= 0 {
		d.fail(err)
		return 0
	}
	d.msg = d.msg[size:]
	return n
}

// text reads so many bytes as it says.
func (d *reader) text(most int64, err *error) []byte {
	n := d.count(err)
	if n > most || n > int64(len(d.msg)) {
		d.fail(err)
		return nil
	}
	text := d.msg[:n]
	d.msg = d.msg[n:]
	return text
}

func (d *reader) fail(err *error) {
	d.msg = nil
	if *err == nil {
		*err = fmt.Errorf("%w: it ends too early, or a number is too large", ErrTelling)
	}
}
