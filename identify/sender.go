package identify

import (
	"net/netip"
	"strings"
	"unicode"
)

// networkBits is how much of an IPv6 address says whose it is: within a /64, one customer takes any address.
const networkBits = 64

// AddressUser returns the name of the user that a client is who sends mail without logging in: its address, and of IPv6
// the /64 that it is in, as in 2001:db8::/64. An invalid address is nobody's: "".
func AddressUser(addr netip.Addr) string {
	addr = Plain(addr)
	switch {
	case !addr.IsValid():
		return ""
	case addr.Is4() || addr.IsLoopback():
		return addr.String()
	}
	return Network(addr, 32, networkBits).String()
}

// ParseAddressUser returns the user that is meant by an address, or by a network that AddressUser gives, if it is one.
func ParseAddressUser(text string) (name string, ok bool) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return AddressUser(addr), true
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is6() || p.Bits() != networkBits || p != p.Masked() {
		return text, false
	}
	return p.String(), true
}

// KeepRealm leaves the names of users as they log in.
const KeepRealm = "keep"

// LogInName returns the name of the user that somebody is who logs in elsewhere, where several spellings may mean one
// account: in lower case, and with a realm, which is a domain, always in the form name@domain, without a +detail. ann,
// ann+x and ANN@example.org are one in the realm example.org. Empty, and KeepRealm, are no realm.
func LogInName(name, realm string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	if realm == "" || realm == KeepRealm || name == "" {
		return name
	}
	local, domain := name, strings.ToLower(realm)
	if at := strings.LastIndexByte(name, '@'); at >= 0 {
		local, domain = name[:at], strings.TrimRightFunc(name[at+1:],
			func(r rune) bool { return r == '.' || unicode.IsSpace(r) })
	}
	if plus := strings.IndexByte(local, '+'); plus > 0 {
		local = local[:plus]
	}
	return local + "@" + domain
}

// IsRealm reports whether a text can be a realm: KeepRealm, or a domain.
func IsRealm(text string) bool {
	if text == KeepRealm {
		return true
	}
	if len(text) > 255 || !strings.Contains(text, ".") {
		return false
	}
	for label := range strings.SplitSeq(text, ".") {
		if label == "" || strings.ContainsFunc(label, func(r rune) bool {
			return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') &&
				r < 0x80
		}) {
			return false
		}
	}
	return true
}
