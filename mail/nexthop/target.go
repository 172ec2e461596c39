package nexthop

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"weir"
)

// A target is a server as an operator writes it.
type target struct {
	network, address string // as net.Dial wants them
	host             string // that a certificate must name
	lmtp             bool
	implicit         bool // TLS from the start
	local            bool // on this machine, so that nobody can listen in
}

const targetHint = `write "127.0.0.1:25", "smtps://mx.example.org:465", "lmtp://127.0.0.1:24" or "lmtp:unix:/run/lmtp.sock"`

func parseTarget(text string) (target, error) {
	to := target{network: "tcp"}
	rest, port := text, ""
	if path, found := strings.CutPrefix(strings.TrimPrefix(text, "lmtp:"), "unix:"); found {
		if !strings.HasPrefix(path, "/") {
			return to, &weir.FieldError{Msg: fmt.Sprintf("%.100q does not name a socket", text),
				Hint: "write lmtp:unix:/run/lmtp.sock"}
		}
		return target{network: "unix", address: path, lmtp: strings.HasPrefix(text, "lmtp:"), local: true}, nil
	}
	if scheme, tail, found := strings.Cut(text, "://"); found {
		switch scheme {
		case "smtp":
			port = "25"
		case "smtps":
			port, to.implicit = "465", true
		case "lmtp":
			port, to.lmtp = "24", true
		default:
			hint := targetHint
			if near := weir.Nearest(scheme, "smtp", "smtps", "lmtp"); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			return to, &weir.FieldError{Msg: fmt.Sprintf("unknown protocol %.100q", scheme), Hint: hint}
		}
		rest = strings.TrimSuffix(tail, "/")
	}
	host, given, err := net.SplitHostPort(rest)
	if err != nil && port != "" {
		host, given, err = net.SplitHostPort(rest + ":" + port)
	}
	n, notPort := strconv.ParseUint(given, 10, 16)
	if err != nil || notPort != nil || n == 0 || !isHost(host) {
		return to, &weir.FieldError{Msg: fmt.Sprintf("%.100q is not a host with a port", text), Hint: targetHint}
	}
	addr, err := netip.ParseAddr(host)
	to.host, to.address = host, net.JoinHostPort(host, given)
	to.local = host == "localhost" || err == nil && addr.Unmap().IsLoopback()
	return to, nil
}

func isHost(host string) bool {
	if strings.Contains(host, ":") {
		_, err := netip.ParseAddr(host)
		return err == nil
	}
	return isHostName(host) && !strings.ContainsAny(host, "[]")
}
