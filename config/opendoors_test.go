package config

import (
	"net/netip"
	"strings"
	"testing"

	"weir/console"
	"weir/gate/rlsgate"
)

func TestOpenDoors(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:8081": false, "[::1]:8081": false, "localhost:8081": false, "unix:/run/weir/envoy": false,
		"[::ffff:127.0.0.1]:1": false,
		":8081":                true, "0.0.0.0:8081": true, "[::]:8081": true, "192.0.2.1:8081": true,
		"envoy.internal:8081": true,
	} {
		c := &Config{RLS: []rlsgate.Options{{Listen: listen}},
			SelfService: console.SelfServiceOptions{Listen: listen, URL: "https://mail.example.org"}}
		var paths []string
		for _, e := range c.openDoors() {
			paths = append(paths, e.Path)
		}
		if got := strings.Join(paths, " "); (got == "rls[0].listen self_service.listen") != want ||
			want == (got == "") {
			t.Errorf("%s: %s", listen, got)
		}
	}
	if all := (&Config{SelfService: console.SelfServiceOptions{Listen: ":9001"}}).openDoors(); len(all) > 0 {
		t.Error("there are no pages:", all)
	}
}

// TestBelievedNeighbours: who may claim to be an operator is told, where that is everybody on this machine.
func TestBelievedNeighbours(t *testing.T) {
	for _, x := range []struct {
		header, from string
		want         bool
	}{
		{"X-User", "127.0.0.1/32", true},
		{"X-User", "::1/128", true},
		{"X-User", "192.0.2.1/32", false},
		{"", "127.0.0.1/32", false}, // its X-Forwarded-For alone is trusted
	} {
		c := &Config{}
		c.Console.Proxy = console.Proxy{Header: x.header, From: []netip.Prefix{netip.MustParsePrefix(x.from)}}
		all := c.openDoors()
		if got := len(all) == 1 && all[0].Path == "console.proxy.from[0]"; got != x.want {
			t.Errorf("%+v: %v", x, all)
		}
	}
}
