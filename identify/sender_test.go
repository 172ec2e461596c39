package identify

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAddressUser(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1":          "192.0.2.1",
		"::ffff:192.0.2.1":   "192.0.2.1",
		"2001:db8::17":       "2001:db8::/64",
		"2001:db8::ffff:1":   "2001:db8::/64",
		"2001:db8:0:1::17":   "2001:db8:0:1::/64",
		"fe80::1%eth0":       "fe80::/64",
		"::1":                "::1",
		"127.0.0.1":          "127.0.0.1",
		"2001:db8:1:2:3::%x": "2001:db8:1:2::/64",
	} {
		got := AddressUser(netip.MustParseAddr(addr))
		if got != want {
			t.Errorf("%s is %s, want %s", addr, got, want)
		}
		for _, text := range []string{addr, got} {
			if name, ok := ParseAddressUser(text); name != want || !ok {
				t.Errorf("%s is meant to be %s, %v; want %s", text, name, ok, want)
			}
		}
	}
	if got := AddressUser(netip.Addr{}); got != "" {
		t.Errorf("nobody is %q", got)
	}
	for _, text := range []string{"", "ann", "10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32", "2001:db8::1/64",
		"ann@example.org"} {
		if name, ok := ParseAddressUser(text); ok || name != text {
			t.Errorf("%q is the address %q", text, name)
		}
	}
}

// TestLogInName: every spelling is one user, in a realm.
func TestLogInName(t *testing.T) {
	for _, name := range []string{"ann", " Ann ", "ann@example.org", "ANN@Example.ORG", "ann+x", "ann+x@example.org",
		"ann+x+y@EXAMPLE.org", "ann@example.org."} {
		if got := LogInName(name, "Example.org"); got != "ann@example.org" {
			t.Errorf("%q is %q", name, got)
		}
	}
	for name, want := range map[string]string{"Ann": "ann", "ann+x@Example.org": "ann+x@example.org", "": ""} {
		for _, realm := range []string{"", KeepRealm} {
			if got := LogInName(name, realm); got != want {
				t.Errorf("%q is %q in no realm", name, got)
			}
		}
	}
	for name, want := range map[string]string{"ann@example.com": "ann@example.com", "+x": "+x@example.org", "": "",
		"ann@": "ann@"} {
		if got := LogInName(name, "example.org"); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

func FuzzLogInName(f *testing.F) {
	for _, seed := range []string{"ann", "ann@example.org", "ann+x@example.org", "@", "+", "a@b@c", "a+@.", "\xff+x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := LogInName(name, "example.org")
		if again := LogInName(got, "example.org"); again != got {
			t.Errorf("%q is %q, and then %q", name, got, again)
		}
		if (got == "") != (strings.TrimSpace(strings.ToLower(name)) == "") || got != "" && !strings.Contains(got, "@") {
			t.Errorf("%q is %q", name, got)
		}
	})
}

func TestIsRealm(t *testing.T) {
	for _, text := range []string{KeepRealm, "example.org", "mail.Example.org", "bücher.example"} {
		if !IsRealm(text) {
			t.Errorf("%q is none", text)
		}
	}
	for _, text := range []string{"", "kep", "example..org", ".example.org", "example.org.", "@example.org", "a b.org",
		strings.Repeat("a.", 150) + "org"} {
		if IsRealm(text) {
			t.Errorf("%q is one", text)
		}
	}
}
