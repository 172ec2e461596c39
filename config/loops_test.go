package config

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"weir/gate"
)

// foreign is an address of documentation, which no interface has.
const foreign = "192.0.2.77"

// TestReaches: where a connection arrives, however the addresses are written.
func TestReaches(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	own := ""
	for _, p := range gate.OwnNetworks() {
		if p.Addr().Is4() && !p.Addr().IsLoopback() {
			own = p.Addr().String()
		}
	}
	for _, c := range []struct {
		address, listen string
		want            bool
	}{
		{"127.0.0.1:80", "127.0.0.1:80", true},
		{"127.0.0.1:080", "127.0.0.1:80", true},
		{"127.0.0.1:80", "127.0.0.1:81", false},
		{"127.0.0.1:0", "127.0.0.1:0", false},
		{"127.0.0.2:80", "127.0.0.1:80", false},
		{"localhost:80", "127.0.0.1:80", true},
		{"LocalHost.:80", "127.0.0.1:80", true},
		{"a.localhost:80", "127.0.0.1:80", true},
		{"127.0.0.1:80", "localhost:80", true},
		{"[::1]:80", "localhost:80", true},
		{"[::ffff:127.0.0.1]:80", "127.0.0.1:80", true},
		{"127.1:80", "127.0.0.1:80", true},
		{"2130706433:80", ":80", true},
		{"0x7f.1:80", ":80", true},
		{"0177.0.0.1:80", ":80", true},
		{"0:80", "127.0.0.1:80", true},
		{"0.0.0.0:80", "127.0.0.1:80", true},
		{"[::]:80", "[::1]:80", true},
		{"[::1]:80", "0.0.0.0:80", false},
		{"[::1]:80", "[::]:80", true},
		{"127.9.9.9:80", ":80", true},
		{host + ":80", ":80", true},
		{foreign + ":80", ":80", false},
		{foreign + ":80", foreign + ":80", true},
		{"app:80", ":80", false},
		{"app:80", "APP:80", true},
		{"256.1:80", ":80", false},
		{"1.2.3.4.5:80", ":80", false},
		{"unix:/run/a/../b", "unix:/run/b", true},
		{"unix:/run/a", "unix:/run/b", false},
		{"unix:/run/a", ":80", false},
	} {
		if got := reaches(c.address, c.listen); got != c.want {
			t.Errorf("%s at %s: %t", c.address, c.listen, got)
		}
	}
	if own != "" && !(reaches(own+":80", ":80") && reaches(own+":80", "0.0.0.0:80") && !reaches(own+":80", "127.0.0.1:80")) {
		t.Error("an interface's address", own)
	}
	if got, err := oldAddress("10.1.258"); got != netip.MustParseAddr("10.1.1.2") || err != nil {
		t.Error(got, err)
	}
}

// TestLoops: gates whose servers lead back to them are refused, with the way; a chain of gates is not.
func TestLoops(t *testing.T) {
	for _, c := range []struct{ gates, at, way string }{
		{`http: [{listen: ":8080", upstream: "http://127.0.0.1:8080"}]`, "weir.yaml:2:", ""},
		{`http: [{listen: ":8080", upstream: {servers: ["http://app:8080", "https://localhost:8080"]}}]`, "weir.yaml:2:", ""},
		{`http: [{listen: "unix:/run/w", upstream: "unix:/run/w"}]`, "weir.yaml:2:", ""},
		{`http: [{listen: ":8080", upstream: "http://app", routes: [{path: /a, upstream: "h2c://[::1]:8080"}]}]`,
			"weir.yaml:2:70", ""},
		{`http: [{listen: ":8080", upstream: "http://127.0.0.1:8081"}, {listen: ":8081", upstream: "http://127.0.0.1:8080"}]`,
			"weir.yaml:2:", "http[1]"},
		{`{http: [{listen: ":8080", upstream: "http://127.0.0.1:8081"}], tcp: [{listen: ":8081", upstream: "127.0.0.1:8080"}]}`,
			"weir.yaml:1:41", "tcp[0]"},
		{`http: [{listen: ":8080", upstream: "http://127.0.0.1:8081"}, {listen: ":8081", upstream: "http://app:8080"}]`, "", ""},
	} {
		_, err := Parse("weir.yaml", fmt.Appendf(nil, "data: /tmp/x\n%s\n", strings.Trim(c.gates, "{}")))
		if c.gates[0] == '{' {
			_, err = Parse("weir.yaml", []byte(strings.Replace(c.gates, "{", "{data: /tmp/x, ", 1)))
		}
		text := fmt.Sprint(err)
		if c.at == "" {
			if strings.Contains(text, "leads back") {
				t.Errorf("%s: %v", c.gates, err)
			}
			continue
		}
		if !strings.Contains(text, c.at) || !strings.Contains(text, "leads back") || !strings.Contains(text, c.way) {
			t.Errorf("%s: %v", c.gates, err)
		}
	}
}
