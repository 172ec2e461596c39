package bloom

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"

	"weir"
	"weir/identify"
)

// networks says which networks a source belongs to.
type networks struct {
	v4     int
	v6     []int
	ranges identify.Ranges[said]
	ruleV4 string
	ruleV6 []string
}

// said is what the options say about a range: its group, or that it is exempt.
type said struct {
	exempt bool
	group  uint32
	rule   string // of the group
}

// groupNumber is the number by which a group is hashed. It follows from the name, so that a group keeps its limiters on
// a reload.
func groupNumber(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32() &^ (1 << 31) // the upper half has a mark of the kernel's program
}

// A Range is what the operator says about a range of addresses.
type Range struct {
	Prefix netip.Prefix
	Exempt bool
	Group  uint32 // its number, unless it is exempt
}

// Ranges returns the exemptions and groups, for those who look addresses up themselves. Exempt wins inside a group.
func (o Options) Ranges() []Range {
	var all []Range
	for _, name := range slices.Sorted(maps.Keys(o.Groups)) {
		for _, p := range o.Groups[name] {
			all = append(all, Range{Prefix: identify.PlainPrefix(p), Group: groupNumber(name)})
		}
	}
	for _, p := range o.Exempt {
		all = append(all, Range{Prefix: identify.PlainPrefix(p), Exempt: true})
	}
	return all
}

func newNetworks(o Options) networks {
	n := networks{v4: o.V4, v6: o.V6, ruleV4: fmt.Sprintf("v4/%d", o.V4)}
	names := map[uint32]string{}
	for name := range o.Groups {
		names[groupNumber(name)] = name
	}
	for _, r := range o.Ranges() {
		n.ranges.Add(r.Prefix, said{r.Exempt, r.Group, groupRule(names[r.Group])})
	}
	for _, bits := range o.V6 {
		n.ruleV6 = append(n.ruleV6, fmt.Sprintf("v6/%d", bits))
	}
	return n
}

func groupRule(name string) string { return "group " + name }

// of returns the networks of an event's source, from the narrowest to the widest: none when it is exempt. group is the
// rule of the group that it is in, if it is in one. An exemption needs a source that is known.
func (n *networks) of(ev *weir.Event, array *[MaxLevels]Network) (nets []Network, group string) {
	source := ev.Source
	if s, found := n.ranges.Find(source); found {
		switch {
		case !s.exempt:
			array[0] = NetworkGroup(s.group)
			return array[:1], s.rule
		case ev.Freed(n.exempts):
			return nil, ""
		}
	}
	if source.Is4() || source.Is4In6() {
		array[0] = NetworkV4(source.As4(), n.v4)
		return array[:1], ""
	}
	for i, bits := range n.v6 {
		array[i] = NetworkV6(source.As16(), bits)
	}
	return array[:len(n.v6)], ""
}

// held returns the networks of which a hold has the narrowest.
func (n *networks) held(h *weir.Hold, array *[MaxLevels]Network) []Network {
	array[0] = Network{h.A, h.B, h.C}
	if h.C>>56 != lengthV6 {
		return array[:1]
	}
	for i, bits := range n.v6[1:] {
		array[i+1] = array[0].wider(bits)
	}
	return array[:len(n.v6)]
}

func (n *networks) exempts(addr netip.Addr) bool {
	s, found := n.ranges.Find(addr)
	return found && s.exempt
}

// rule names the limit that a source without a group has on a level.
func (n *networks) rule(source netip.Addr, level int) string {
	if source.Is4() || source.Is4In6() {
		return n.ruleV4
	}
	return n.ruleV6[level]
}
