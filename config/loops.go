package config

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/gate"
	"weir/gate/tcpgate"
)

// An onward is a gate that passes on what it takes in.
type onward struct {
	path, listen string
	servers      []server
}

type server struct{ path, address string }

// loops finds HTTP and TCP gates whose servers lead back to them: one request would come around until there are no more
// connections.
func (f *findings) loops(c *Config) {
	var gates []onward
	for i := range c.HTTP {
		o := &c.HTTP[i]
		g := onward{path: fmt.Sprintf("http[%d]", i), listen: o.Listen}
		for _, address := range o.Upstream.Addresses() {
			g.servers = append(g.servers, server{g.path + ".upstream", address})
		}
		for j := range o.Routes {
			if own := o.Routes[j].Upstream; own != nil {
				for _, address := range own.Addresses() {
					g.servers = append(g.servers, server{fmt.Sprintf("%s.routes[%d].upstream", g.path, j), address})
				}
			}
		}
		gates = append(gates, g)
	}
	for i, o := range c.TCP {
		if path := fmt.Sprintf("tcp[%d]", i); o.Protocol != tcpgate.UDP && o.Upstream != o.Listen { // which the gate reports
			gates = append(gates, onward{path, o.Listen, []server{{path + ".upstream", o.Upstream}}})
		}
	}
	for i := range gates {
		for _, s := range gates[i].servers {
			if way := around(gates, i, s.address, make([]bool, len(gates))); way != nil {
				f.add(s.path, fmt.Sprintf("%s leads back to this gate, which listens on %s: a request would never end%s",
					s.address, gates[i].listen, via(gates, way)), "name the service that is behind the gate")
			}
		}
	}
}

// around finds a way from an address to the gate with index home: the gates on it, from home back. nil is for none.
func around(gates []onward, home int, address string, seen []bool) []int {
	for i := range gates {
		if seen[i] || !reaches(address, gates[i].listen) {
			continue
		}
		if seen[i] = true; i == home {
			return []int{home}
		}
		for _, s := range gates[i].servers {
			if way := around(gates, home, s.address, seen); way != nil {
				return append(way, i)
			}
		}
	}
	return nil
}

// via names the gates on the way.
func via(gates []onward, way []int) string {
	if len(way) == 1 {
		return ""
	}
	var names []string
	for _, i := range slices.Backward(way[1:]) {
		names = append(names, gates[i].path)
	}
	return " (by way of " + strings.Join(names, " and ") + ")"
}

// reaches reports whether a connection to an address arrives at a listener. Names are not looked up, except for those
// of this machine itself.
func reaches(address, listen string) bool {
	if to, ok := strings.CutPrefix(address, "unix:"); ok {
		at, ok := strings.CutPrefix(listen, "unix:")
		return ok && filepath.Clean(to) == filepath.Clean(at)
	}
	to, port, err := net.SplitHostPort(address)
	at, other, err2 := net.SplitHostPort(listen)
	if err != nil || err2 != nil || !samePort(port, other) {
		return false
	}
	if to != "" && plainHost(to) == plainHost(at) {
		return true
	}
	target, listens := destinationOf(to), destinationOf(at)
	switch {
	case target == nowhere || listens == nowhere:
		return false
	case listens.every:
		return target.here(listens.addr)
	case target.every || target.loopback:
		return listens.loopback || listens.addr.IsLoopback()
	case listens.loopback:
		return target.addr.IsLoopback()
	}
	return target.addr == listens.addr
}

func samePort(a, b string) bool {
	m, err := strconv.ParseUint(a, 10, 16)
	n, err2 := strconv.ParseUint(b, 10, 16)
	return err == nil && err2 == nil && m == n && m != 0
}

// A destination is what a host stands for, as far as that is known without looking its name up.
type destination struct {
	addr     netip.Addr
	every    bool // all addresses: to connect to it is to connect to this machine
	loopback bool // a name for this machine
}

var nowhere destination

// destinationOf knows addresses, however they are written, and the names of this machine.
func destinationOf(host string) destination {
	host = plainHost(host)
	if name, err := os.Hostname(); err == nil && host == strings.ToLower(name) || host == "" {
		return destination{every: true}
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || host == "localhost.localdomain" ||
		host == "ip6-localhost" || host == "ip6-loopback" {
		return destination{loopback: true}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		addr, err = oldAddress(host)
	}
	if err != nil {
		return nowhere
	}
	addr = addr.Unmap().WithZone("")
	return destination{addr: addr, every: addr.IsUnspecified()}
}

// here reports whether the destination is this machine, at the addresses of one family if the listener has only that.
func (p destination) here(listens netip.Addr) bool {
	switch {
	case p.every || p.loopback:
		return true
	case listens.Is4() && !p.addr.Is4():
		return false
	}
	return gate.IsOwn(p.addr)
}

// plainHost is a host in lower case, without brackets and the dot at the end.
func plainHost(host string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// oldAddress reads an IPv4 address in the forms that the system's resolver knows: 127.1, 0x7f000001, 0177.0.0.1.
func oldAddress(text string) (netip.Addr, error) {
	parts := strings.Split(text, ".")
	if len(parts) > 4 {
		return netip.Addr{}, strconv.ErrSyntax
	}
	var sum uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 32)
		if err != nil || strings.ContainsAny(part, "_bBoO") {
			return netip.Addr{}, strconv.ErrSyntax
		}
		most := uint64(0xff)
		if i == len(parts)-1 {
			most = 1<<(8*(5-len(parts))) - 1
			sum <<= 8 * (5 - len(parts))
		} else {
			sum <<= 8
		}
		if n > most {
			return netip.Addr{}, strconv.ErrRange
		}
		sum |= n
	}
	var four [4]byte
	binary.BigEndian.PutUint32(four[:], uint32(sum))
	return netip.AddrFrom4(four), nil
}
