package gate_test

import (
	"net/netip"
	"slices"
	"testing"

	"weir/gate"
)

// At the bound the source with the most connections loses its newest one to a source with fewer, and nobody else does.
func TestCrowd(t *testing.T) {
	var c gate.Crowd
	const most = 6
	var cut []string
	seats := map[string]*gate.Seat{}
	enter := func(name, source string, room bool) {
		t.Helper()
		addr := netip.Addr{}
		if source != "" {
			addr = netip.MustParseAddr(source)
		}
		if c.Full(addr, most) == room {
			t.Errorf("%s: full %v", name, !room)
		}
		s := c.Enter(addr, most, func() { cut = append(cut, name) })
		if (s != nil) != room {
			t.Errorf("%s: %v", name, s)
		}
		if s != nil {
			seats[name] = s
		}
	}
	want := func(names ...string) {
		t.Helper()
		if !slices.Equal(cut, names) {
			t.Errorf("%q had to go, want %q", cut, names)
		}
		cut = nil
	}
	enter("proxy 1", "", true)
	enter("proxy 2", "", true)
	for _, name := range []string{"a1", "a2", "a3", "a4"} {
		enter(name, "2001:db8::"+name, true)
	}
	want()
	enter("a5", "2001:db8::ffff:1", false) // one /64 is one source
	enter("b1", "192.0.2.1", true)
	want("a4")
	enter("b2", "::ffff:192.0.2.1", true) // now both have two
	want("a3")
	enter("b3", "192.0.2.1", false)
	enter("proxy 3", "", true)
	want("a2")
	enter("c1", "192.0.2.2", true)
	want("b2")
	enter("d1", "192.0.2.3", false) // everybody has one
	want()
	seats["a4"].Leave() // it has left before
	enter("d1", "192.0.2.3", false)
	seats["a1"].Leave()
	seats["a1"].Leave()
	seats["a1"].Of(netip.MustParseAddr("192.0.2.9"))
	enter("d1", "192.0.2.3", true)
	enter("d2", "192.0.2.3", false)
	seats["b1"].Of(netip.MustParseAddr("192.0.2.3")) // a header says whose it is
	enter("e1", "192.0.2.4", true)
	want("b1")
	seats["proxy 1"].Of(netip.MustParseAddr("192.0.2.5"))
	for _, s := range seats {
		s.Leave()
	}
	want()
	for _, name := range []string{"f1", "f2", "f3", "f4", "f5", "f6"} { // all have left
		enter(name, "192.0.2.6", true)
	}
	want()
}
