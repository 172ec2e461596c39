package simulate

import (
	"bytes"
	"hash/maphash"
	"strings"
	"unicode"
	"unicode/utf8"
)

// nameSlots is how many names are remembered at most, so that the same ones are not allocated again and again.
const (
	nameSlots    = 1 << 16
	fewNameSlots = 1 << 10
)

// names makes names of users and recipients, in lower case as gates count them. Use newNames.
type names struct {
	seed   maphash.Seed
	slots  []string
	fresh  int // names that were in no slot
	buffer []byte
	lists  []string // from which lists of recipients are cut
}

func newNames() names { return names{seed: maphash.MakeSeed(), slots: make([]string, fewNameSlots)} }

// name returns the name that a text is, without spaces around it. ok is false for one that is too long or cannot be
// printed.
func (n *names) name(text []byte) (name string, ok bool) {
	text = bytes.TrimSpace(text)
	if len(text) > MaxLogName {
		return "", false
	}
	n.buffer = append(n.buffer[:0], text...)
	for i, c := range n.buffer {
		switch {
		case c >= 'A' && c <= 'Z':
			n.buffer[i] = c | 0x20
		case c >= utf8.RuneSelf:
			return foreign(text)
		case c < ' ' || c == 0x7f:
			return "", false
		}
	}
	slot := &n.slots[maphash.Bytes(n.seed, n.buffer)%uint64(len(n.slots))]
	if *slot == string(n.buffer) {
		return *slot, true
	}
	*slot = string(n.buffer)
	name = *slot
	if n.fresh++; n.fresh > len(n.slots) && len(n.slots) < nameSlots {
		n.fresh, n.slots = 0, make([]string, 8*len(n.slots))
	}
	return name, true
}

func foreign(text []byte) (string, bool) {
	name := strings.ToLower(strings.ToValidUTF8(string(text), "\ufffd"))
	return name, len(name) <= 4*MaxLogName && !strings.ContainsFunc(name, unicode.IsControl)
}

// separates reports whether a character stands between recipients.
func separates(r rune) bool { return r == ';' || r == ',' || r == ' ' || r == '\t' }

// listed reads recipients that are separated by semicolons, commas or spaces. ok is false where one is no name. It
// reads at most one more than most.
func (n *names) listed(text []byte, most int) (to []string, ok bool) {
	between := 0
	for _, c := range text {
		if separates(rune(c)) {
			between++
		}
	}
	to = n.list(min(between, most) + 1)
	for one := range bytes.FieldsFuncSeq(text, separates) {
		name, ok := n.name(one)
		if !ok {
			return nil, false
		}
		if name == "" {
			continue
		}
		if to = append(to, name); len(to) > most {
			break
		}
	}
	return to, true
}

// list returns an empty list with room for so many.
func (n *names) list(size int) []string {
	const block = 1024
	if size > block/8 {
		return make([]string, 0, size)
	}
	if len(n.lists) < size {
		n.lists = make([]string, block)
	}
	list := n.lists[:0:size]
	n.lists = n.lists[size:]
	return list
}
