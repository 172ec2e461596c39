package sqlite

import (
	"cmp"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
)

// A pageReader reads a database file that SQLite may refuse, page by page (https://www.sqlite.org/fileformat2.html).
// Pages that the write-ahead log has committed replace those of the file. Nothing is written.
type pageReader struct {
	file, log *os.File // nil where there is none
	pages     uint32
	inLog     map[uint32]int64 // where a page is in the log
	seen      []bool           // pages that were read
	told      func(pages uint32)
	read      uint32
}

const (
	innerIndex = 0x02
	innerTable = 0x05
	leafIndex  = 0x0a
	leafTable  = 0x0d
)

const (
	headerSize = 100 // of the file, on its first page
	maxDepth   = 24  // of a tree; a whole one has fewer than 10 levels
	maxValues  = 64  // of a record
	maxRecord  = 8 << 20
	logHeader  = 32
	logFrame   = 24
)

// openPages opens a file and its log. Either may be missing.
func openPages(path string) (w *pageReader, err error) {
	w = &pageReader{told: func(uint32) {}}
	open := func(path string) (file *os.File, size int64) {
		opened, openErr := os.Open(path)
		if errors.Is(openErr, fs.ErrNotExist) {
			return nil, 0
		}
		info, statErr := opened.Stat() // ErrInvalid for a file that is not open
		if err = cmp.Or(err, openErr, statErr); err != nil {
			return opened, 0
		}
		return opened, info.Size()
	}
	var size, logSize int64
	w.file, size = open(path)
	w.log, logSize = open(path + "-wal")
	if err != nil {
		w.close()
		return nil, err
	}
	w.pages = uint32(min((size+pageSize-1)/pageSize, math.MaxUint32-1))
	w.readLog(logSize)
	w.seen = make([]bool, w.pages+1)
	return w, nil
}

func (w *pageReader) close() {
	for _, f := range []*os.File{w.file, w.log} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// readLog finds the pages that the log has committed: frames with the right salt and checksum, up to the last commit.
func (w *pageReader) readLog(size int64) {
	var head [logHeader]byte
	if w.log == nil || size < logHeader {
		return
	}
	if _, err := w.log.ReadAt(head[:], 0); err != nil {
		return
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch binary.BigEndian.Uint32(head[:]) {
	case 0x377f0683:
		order = binary.BigEndian
	case 0x377f0682:
	default:
		return
	}
	var s [2]uint32
	add := func(b []byte) {
		for ; len(b) >= 8; b = b[8:] {
			s[0] += order.Uint32(b) + s[1]
			s[1] += order.Uint32(b[4:]) + s[0]
		}
	}
	same := func(b []byte) bool {
		return binary.BigEndian.Uint32(b) == s[0] && binary.BigEndian.Uint32(b[4:]) == s[1]
	}
	if add(head[:24]); !same(head[24:]) {
		return
	}
	w.inLog = map[uint32]int64{}
	since := map[uint32]int64{} // the last commit
	frame := make([]byte, logFrame+pageSize)
	for at := int64(logHeader); at+int64(len(frame)) <= size; at += int64(len(frame)) {
		if _, err := w.log.ReadAt(frame, at); err != nil || string(frame[8:16]) != string(head[16:24]) {
			return
		}
		add(frame[:8])
		if add(frame[logFrame:]); !same(frame[16:]) {
			return
		}
		since[binary.BigEndian.Uint32(frame)] = at + logFrame
		if pages := binary.BigEndian.Uint32(frame[4:]); pages > 0 {
			for n, at := range since {
				w.inLog[n] = at
			}
			clear(since)
			w.pages = pages
		}
	}
}

// page reads a page. If the file ends early, the rest is zeroes.
func (w *pageReader) page(n uint32) []byte {
	if n == 0 || n > w.pages {
		return nil
	}
	b := make([]byte, pageSize)
	if at, ok := w.inLog[n]; ok {
		_, _ = w.log.ReadAt(b, at)
	} else if w.file != nil {
		if k, err := w.file.ReadAt(b, int64(n-1)*pageSize); err != nil && err != io.EOF && k == 0 {
			return nil // the disk cannot read it
		}
	}
	return b
}

type record struct {
	id     int64 // of a row that is found by number
	values []driver.Value
}

func (w *pageReader) walk(root uint32, each func(record)) { w.descend(root, 0, each) }

func (w *pageReader) descend(n uint32, depth int, each func(record)) {
	if n == 0 || n > w.pages || w.seen[n] || depth > maxDepth {
		return
	}
	b := w.page(n)
	kind, ok := kindOf(n, b)
	if !ok {
		return
	}
	w.see(n)
	inner := kind == innerTable || kind == innerIndex
	for _, cell := range cellsOf(n, b) {
		if inner {
			w.descend(binary.BigEndian.Uint32(cell), depth+1, each)
		}
		if r, ok := w.record(kind, cell); ok {
			each(r)
		}
	}
	if inner {
		w.descend(binary.BigEndian.Uint32(b[start(n)+8:]), depth+1, each)
	}
}

func (w *pageReader) see(n uint32) {
	w.seen[n] = true
	w.read++
	w.told(w.read)
}

// strays calls each with every record on pages that no walk has read. They may have been deleted long ago.
func (w *pageReader) strays(each func(kind byte, r record)) {
	for n := uint32(1); n <= w.pages; n++ {
		if w.seen[n] {
			continue
		}
		w.see(n)
		b := w.page(n)
		kind, ok := kindOf(n, b)
		if !ok {
			continue
		}
		for _, cell := range cellsOf(n, b) {
			if r, ok := w.record(kind, cell); ok {
				each(kind, r)
			}
		}
	}
}

// skipFree skips the pages on the list of free ones.
func (w *pageReader) skipFree() {
	head := w.page(1)
	if head == nil || string(head[:16]) != "SQLite format 3\x00" {
		return
	}
	for n, left := binary.BigEndian.Uint32(head[32:]), w.pages; n > 0 && n <= w.pages && left > 0 &&
		!w.seen[n]; left-- {
		b := w.page(n)
		if b == nil {
			return
		}
		w.see(n)
		for i := range min(binary.BigEndian.Uint32(b[4:]), pageSize/4-2) {
			if leaf := binary.BigEndian.Uint32(b[8+4*i:]); leaf > 0 && leaf <= w.pages && !w.seen[leaf] {
				w.see(leaf)
			}
		}
		n = binary.BigEndian.Uint32(b)
	}
}

// start is the offset at which a page begins. On the first page the header of the file comes before it.
func start(n uint32) int {
	if n == 1 {
		return headerSize
	}
	return 0
}

// kindOf returns the kind of a page, and false for one of no tree.
func kindOf(n uint32, b []byte) (byte, bool) {
	if b == nil {
		return 0, false
	}
	switch kind := b[start(n)]; kind {
	case innerIndex, innerTable, leafIndex, leafTable:
		return kind, true
	}
	return 0, false
}

// cellsOf returns the cells of a page, each up to the end of the page. They have 4 bytes at least.
func cellsOf(n uint32, b []byte) (cells [][]byte) {
	at := start(n)
	count := int(binary.BigEndian.Uint16(b[at+3:]))
	list := at + 8
	if b[at] == innerIndex || b[at] == innerTable {
		list += 4
	}
	for i := range min(count, (pageSize-list)/2) {
		cell := int(binary.BigEndian.Uint16(b[list+2*i:]))
		if cell < list || cell > pageSize-4 {
			continue
		}
		cells = append(cells, b[cell:])
	}
	return cells
}

// record reads the record of a cell. Cells of inner pages begin with a page number, and those of tables have no record.
func (w *pageReader) record(kind byte, cell []byte) (r record, ok bool) {
	switch kind {
	case innerTable:
		return r, false
	case innerIndex:
		cell = cell[4:]
	}
	size, cell, ok := varint(cell)
	if !ok || size > maxRecord {
		return r, false
	}
	most := (pageSize-12)*64/255 - 23 // bytes that a cell of an index has on its page
	if kind == leafTable {
		var id uint64
		if id, cell, ok = varint(cell); !ok {
			return r, false
		}
		r.id, most = int64(id), pageSize-35
	}
	payload, ok := w.payload(cell, int(size), most)
	if !ok {
		return r, false
	}
	r.values, ok = values(payload)
	return r, ok
}

// payload collects a record that may continue on other pages.
func (w *pageReader) payload(cell []byte, size, most int) ([]byte, bool) {
	if size <= most {
		return cell[:min(size, len(cell))], size <= len(cell)
	}
	if size/(pageSize-4) > int(w.pages) { // more than there can be
		return nil, false
	}
	least := (pageSize-12)*32/255 - 23
	here := least + (size-least)%(pageSize-4)
	if here > most {
		here = least
	}
	if here+4 > len(cell) {
		return nil, false
	}
	all := append(make([]byte, 0, size), cell[:here]...)
	for next := binary.BigEndian.Uint32(cell[here:]); len(all) < size; {
		b := w.page(next)
		if b == nil {
			return nil, false
		}
		all = append(all, b[4:min(pageSize, 4+size-len(all))]...)
		next = binary.BigEndian.Uint32(b)
	}
	return all, true
}

func values(b []byte) (all []driver.Value, ok bool) {
	size, rest, ok := varint(b)
	used := len(b) - len(rest)
	if !ok || size < uint64(used) || size > uint64(len(b)) {
		return nil, false
	}
	kinds, body := b[used:size], b[size:]
	for len(kinds) > 0 {
		var kind uint64
		if kind, kinds, ok = varint(kinds); !ok || len(all) == maxValues {
			return nil, false
		}
		var v driver.Value
		if v, body, ok = value(kind, body); !ok {
			return nil, false
		}
		all = append(all, v)
	}
	return all, len(body) == 0
}

func value(kind uint64, b []byte) (v driver.Value, rest []byte, ok bool) {
	size := uint64(0)
	switch {
	case kind == 0:
		return nil, b, true
	case kind == 8 || kind == 9:
		return int64(kind - 8), b, true
	case kind < 5:
		size = kind
	case kind == 5:
		size = 6
	case kind == 6 || kind == 7:
		size = 8
	case kind >= 12:
		size = (kind - 12) / 2
	default:
		return nil, nil, false
	}
	if size > uint64(len(b)) {
		return nil, nil, false
	}
	part, rest := b[:size], b[size:]
	switch {
	case kind >= 12 && kind%2 == 0:
		return append([]byte{}, part...), rest, true
	case kind >= 12:
		return string(part), rest, true
	}
	n := int64(int8(part[0]))
	for _, c := range part[1:] {
		n = n<<8 | int64(c)
	}
	if kind == 7 {
		return math.Float64frombits(uint64(n)), rest, true
	}
	return n, rest, true
}

// varint reads a number of up to nine bytes, the most significant first.
func varint(b []byte) (n uint64, rest []byte, ok bool) {
	for i := range min(len(b), 9) {
		if i == 8 {
			return n<<8 | uint64(b[i]), b[9:], true
		}
		n = n<<7 | uint64(b[i]&0x7f)
		if b[i] < 0x80 {
			return n, b[i+1:], true
		}
	}
	return 0, nil, false
}
