// Package mmdb writes small files in the MaxMind format (MMDB), for tests.
package mmdb

import (
	"bytes"
	"encoding/binary"
	"net/netip"
)

// Write returns a file that knows the countries of networks, as GeoLite2-Country does. Of two networks that overlap the
// later one counts where it is smaller. A country of "" is a record that says nothing.
func Write(countries map[netip.Prefix]string) []byte {
	var b tree
	b.nodes = append(b.nodes, [2]int{})
	data := map[string]int{} // by country, the offset in the data section
	var section bytes.Buffer
	for bits := range 129 { // larger networks first
		for p, country := range countries {
			if depthOf(p) != bits {
				continue
			}
			at, known := data[country]
			if !known {
				at = section.Len()
				data[country] = at
				if country == "" {
					writeMap(&section, 0)
				} else {
					writeMap(&section, 1)
					writeText(&section, "country")
					writeMap(&section, 1)
					writeText(&section, "iso_code")
					writeText(&section, country)
				}
			}
			b.insert(p, -1-at)
		}
	}
	var out bytes.Buffer
	for _, n := range b.nodes {
		for _, child := range n {
			value := uint32(len(b.nodes)) // nothing is known
			switch {
			case child > 0:
				value = uint32(child)
			case child < 0:
				value = uint32(len(b.nodes) + 16 - 1 - child)
			}
			out.Write([]byte{byte(value >> 16), byte(value >> 8), byte(value)})
		}
	}
	out.Write(make([]byte, 16))
	out.Write(section.Bytes())
	out.WriteString("\xab\xcd\xefMaxMind.com")
	b.metadata(&out)
	return out.Bytes()
}

// A tree has nodes with two children each: another node above 0, nothing at 0, or data below 0.
type tree struct{ nodes [][2]int }

// depthOf is how deep a network stands in the tree: IPv4 is the ::/96 of IPv6.
func depthOf(p netip.Prefix) int {
	if p.Addr().Is4() {
		return p.Bits() + 96
	}
	return p.Bits()
}

func (b *tree) insert(p netip.Prefix, leaf int) {
	address := p.Addr().As16()
	if p.Addr().Is4() {
		four := p.Addr().As4()
		address = [16]byte{}
		copy(address[12:], four[:])
	}
	at, depth := 0, depthOf(p)
	for i := range depth {
		bit := address[i/8] >> (7 - i%8) & 1
		if i == depth-1 {
			b.nodes[at][bit] = leaf
			return
		}
		next := b.nodes[at][bit]
		if next <= 0 { // what was known of the whole stays true of both halves
			b.nodes = append(b.nodes, [2]int{next, next})
			next = len(b.nodes) - 1
			b.nodes[at][bit] = next
		}
		at = next
	}
}

func (b *tree) metadata(out *bytes.Buffer) {
	writeMap(out, 9)
	number := func(name string, kind byte, n uint64) {
		writeText(out, name)
		digits := binary.BigEndian.AppendUint64(nil, n)
		digits = bytes.TrimLeft(digits, "\x00")
		if kind > 7 {
			out.Write([]byte{byte(len(digits)), kind - 7})
		} else {
			out.WriteByte(kind<<5 | byte(len(digits)))
		}
		out.Write(digits)
	}
	const uint16Kind, uint32Kind, uint64Kind = 5, 6, 9
	number("binary_format_major_version", uint16Kind, 2)
	number("binary_format_minor_version", uint16Kind, 0)
	number("build_epoch", uint64Kind, 1_700_000_000)
	number("ip_version", uint16Kind, 6)
	number("node_count", uint32Kind, uint64(len(b.nodes)))
	number("record_size", uint16Kind, 24)
	writeText(out, "database_type")
	writeText(out, "Test-Country")
	writeText(out, "languages")
	out.Write([]byte{0, 11 - 7}) // an empty list
	writeText(out, "description")
	writeMap(out, 0)
}

func writeMap(out *bytes.Buffer, n int) { out.WriteByte(7<<5 | byte(n)) }

// writeText writes a text of up to 28 bytes.
func writeText(out *bytes.Buffer, s string) {
	out.WriteByte(2<<5 | byte(len(s)))
	out.WriteString(s)
}
