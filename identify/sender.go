package identify

import (
	"net/netip"
	"strings"
	"unicode"
)

// networkBits is the length of the network of one IPv6 customer, who may use any address in it.
const networkBits = 64

// AddressUser returns the user name of a client that sends mail without a login: its address, or for IPv6 its /64, as
// in 2001:db8::/64. An invalid address gives "".
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

// ParseAddressUser returns the user of an address, or of a network that AddressUser returns. ok is false for others.
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

// LogInName returns the user name for a login, of which several spellings may mean one account. It is in lower case.
// With a realm, which is a domain, it has the form name@domain without a +detail: ann, ann+x and ANN@example.org are
// one user in the realm example.org. "" and KeepRealm are no realm.
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

// UserName returns the user for a name as people and programs write it in configuration, commands and calls: that of a
// client that is known by its address, and else what LogInName says.
func UserName(name, realm string) string {
	if user, ok := ParseAddressUser(strings.TrimSpace(name)); ok {
		return user
	}
	return LogInName(name, realm)
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
