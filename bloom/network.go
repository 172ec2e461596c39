package bloom

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"weir/identify"
)

// networks says which networks a source belongs to.
type networks struct {
	v4     int
	v6     []int
	ranges identify.Ranges[int] // the number of a group, or exempt
	groups []string             // the rules of the groups, by number
	ruleV4 string
	ruleV6 []string
}

// exempt stands for ranges that are not limited.
const exempt = -1

// A Range is what the operator says about a range of addresses.
type Range struct {
	Prefix netip.Prefix
	Exempt bool
	Group  uint32 // its number, unless it is exempt
}

// Ranges returns the exemptions and groups, for those who look addresses up by themselves. What is exempt stays so inside a group.
func (o Options) Ranges() []Range {
	var all []Range
	for number, name := range slices.Sorted(maps.Keys(o.Groups)) {
		for _, p := range o.Groups[name] {
			all = append(all, Range{Prefix: identify.PlainPrefix(p), Group: uint32(number)})
		}
	}
	for _, p := range o.Exempt {
		all = append(all, Range{Prefix: identify.PlainPrefix(p), Exempt: true})
	}
	return all
}

func newNetworks(o Options) networks {
	n := networks{v4: o.V4, v6: o.V6, ruleV4: fmt.Sprintf("v4/%d", o.V4)}
	for _, name := range slices.Sorted(maps.Keys(o.Groups)) {
		n.groups = append(n.groups, "group "+name)
	}
	for _, r := range o.Ranges() {
		if r.Exempt {
			n.ranges.Add(r.Prefix, exempt)
		} else {
			n.ranges.Add(r.Prefix, int(r.Group))
		}
	}
	for _, bits := range o.V6 {
		n.ruleV6 = append(n.ruleV6, fmt.Sprintf("v6/%d", bits))
	}
	return n
}

// of returns the networks of a source, from the narrowest to the widest: none when it is exempt. group is the rule of the group
// that it is in, if it is in one.
func (n *networks) of(source netip.Addr, room *[MaxLevels]Network) (nets []Network, group string) {
	if number, found := n.ranges.Find(source); found {
		if number == exempt {
			return nil, ""
		}
		room[0] = NetworkGroup(uint32(number))
		return room[:1], n.groups[number]
	}
	if source.Is4() || source.Is4In6() {
		room[0] = NetworkV4(source.As4(), n.v4)
		return room[:1], ""
	}
	for i, bits := range n.v6 {
		room[i] = NetworkV6(source.As16(), bits)
	}
	return room[:len(n.v6)], ""
}

// rule names the limit that a source without a group has on a level.
func (n *networks) rule(source netip.Addr, level int) string {
	if source.Is4() || source.Is4In6() {
		return n.ruleV4
	}
	return n.ruleV6[level]
}
