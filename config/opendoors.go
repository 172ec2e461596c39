package config

import (
	"fmt"
	"net"
	"net/netip"
	"strings"

	"weir"
)

// openDoors finds listeners that other machines can reach and that need no name or password, and those who are believed
// without one.
func (c *Config) openDoors() (all []*weir.FieldError) {
	warn := func(path, listen, msg, hint string) {
		if listen != "" && reachable(listen) {
			all = append(all, &weir.FieldError{Path: path + ".listen",
				Msg: fmt.Sprintf("%s can be reached from outside this machine: %s", listen, msg), Hint: hint})
		}
	}
	for i, g := range c.RLS {
		warn(fmt.Sprintf("rls[%d]", i), g.Listen, "anyone who can reach it can use up the limits of others",
			"listen on 127.0.0.1 or a socket, or let a firewall see to it that only Envoy can connect")
	}
	if c.SelfService.Enabled() {
		warn("self_service", c.SelfService.Listen, "the pages are in plain HTTP, passwords and all",
			"listen on 127.0.0.1:9001, with a web server in front that speaks TLS")
	}
	for i, p := range c.Console.Proxy.From {
		if c.Console.Proxy.Header != "" && p.Addr().Unmap().IsLoopback() {
			all = append(all, &weir.FieldError{Path: fmt.Sprintf("console.proxy.from[%d]", i),
				Msg: fmt.Sprintf("every program on this machine connects from %s, and can claim to be any operator", p),
				Hint: "this is safe where nobody but you and the proxy runs programs here; otherwise run the proxy elsewhere " +
					"and name its address, or leave proxy.header out"})
		}
	}
	return all
}

// reachable reports whether an address to listen on may be reached from outside this machine.
func reachable(listen string) bool {
	if strings.HasPrefix(listen, "unix:") {
		return false
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil || host == "localhost" {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err != nil || !addr.Unmap().IsLoopback()
}

// Connections is how many connections the gates may have open at a time as far as the configuration says so, to clients
// and behind them.
func (c *Config) Connections() (n int) {
	for _, o := range c.Gates() {
		n += o.Facts().Sockets
	}
	return n
}
