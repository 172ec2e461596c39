package weir

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// HostPort takes an address apart that something listens at, or connects to: 127.0.0.1:80, [::1]:80, :80,
// localhost:80. It looks up no names. The host may be empty, and the port 0.
func HostPort(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", fmt.Errorf("%.100q is not an address with a port", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", "", fmt.Errorf("%.100q has no port up to 65535", address)
	}
	return host, port, CheckHost(host)
}

// CheckHost finds hosts that no connection can be made to: those that look like an IP address, and are none.
func CheckHost(host string) error {
	like := strings.Contains(host, ":") || strings.Contains(host, ".") && strings.Trim(host, ".0123456789") == ""
	if !like {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return fmt.Errorf("%.100q is not an IP address", host)
	}
	return nil
}

// CheckURL finds URLs that no connection can be made to, as far as their host and port say; nil is for others to find.
// It does not repeat the URL, which may have a secret in it.
func CheckURL(u *url.URL) error {
	if u == nil {
		return nil
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%.100q is not a port from 1 to 65535", port)
		}
	}
	return CheckHost(u.Hostname())
}
