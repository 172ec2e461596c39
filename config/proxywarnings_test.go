package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProxiesOnLists: a list that frees a trusted proxy from something gets one warning, which names the network, the
// gate and the proxy. Lists without one, and those that never judge what comes through a proxy, get none.
func TestProxiesOnLists(t *testing.T) {
	folder := t.TempDir()
	guests := filepath.Join(folder, "guests.txt")
	if err := os.WriteFile(guests, []byte("198.51.100.0/24\n10.1.2.3\n10.9.0.0/16\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ gates, more, want string }{
		"bans": {"", "bans: {exempt: [192.0.2.0/24, 10.1.0.0/16, 10.2.0.0/16]}",
			"10.1.0.0/16 contains addresses of proxies that http[0] trusts, 10.0.0.0/8"},
		"a wider network": {"", "bans: {exempt: [8.0.0.0/5]}",
			"8.0.0.0/5 contains addresses of proxies that http[0] trusts, 10.0.0.0/8"},
		"mapped into IPv6": {"", "bans: {exempt: ['::ffff:10.1.2.3/128']}",
			"::ffff:10.1.2.3/128 contains addresses of proxies that http[0] trusts, 10.0.0.0/8"},
		"IPv6": {"", "bans: {exempt: ['2001:db8::7/128']}",
			"2001:db8::7/128 contains addresses of proxies that http[0] trusts, 2001:db8::/64"},
		"none of them": {"", "bans: {exempt: [192.0.2.0/24, 11.0.0.0/8, '2001:db8:1::/64']}", ""},
		"bloom": {"", "throttles: {few: {bloom: {rate: 10/s, exempt: [10.1.2.3]}}}",
			"10.1.2.3/32 contains addresses of proxies that http[0] trusts, 10.0.0.0/8"},
		"at the door": {", accept: [door]",
			"throttles: {few: {bloom: {rate: 10/s}}, door: {bloom: {rate: 10/s, exempt: [10.1.2.3]}}}", ""},
		"guests": {"", "throttles: {few: {stamp: {from_load: 0, never_ask: {networks: [10.0.0.0/8]}}}}",
			"10.0.0.0/8 contains addresses of proxies that http[0] trusts, 10.0.0.0/8"},
		"bots": {"",
			"throttles: {few: {stamp: {from_load: 0, never_ask: {bots: [{name: b, agent: bot, networks: " +
				"[10.0.0.1]}]}}}}",
			"10.0.0.1/32 contains addresses of proxies that http[0] trusts, 10.0.0.0/8"},
		"guests in a file": {"", "throttles: {few: {stamp: {from_load: 0, never_ask: {files: [" + guests + "]}}}}",
			"10.1.2.3/32 contains addresses of proxies that http[0] trusts, 10.0.0.0/8"},
		"bots in a file": {"",
			"throttles: {few: {stamp: {from_load: 0, never_ask: {bots: [{name: b, agent: bot, files: [" + guests +
				"]}]}}}}",
			"10.1.2.3/32 contains addresses of proxies that http[0] trusts, 10.0.0.0/8"},
		"a file that is not there": {"",
			"throttles: {few: {stamp: {from_load: 0, never_ask: {files: [" + folder + "/missing]}}}}", ""},
		"a quota's override": {"",
			"throttles: {few: {quota: {policies: [{name: p, limit: 1, period: 1s}], overrides: {'source:10.0.0.1': " +
				"{p: {exempt: true}}, acme: {p: {exempt: true}}}}}}",
			"10.0.0.1/32 contains addresses of proxies that http[0] trusts, 10.0.0.0/8"},
		"a limit of its own": {"",
			"throttles: {few: {quota: {policies: [{name: p, limit: 1, period: 1s}], overrides: {'source:10.0.0.1': " +
				"{p: {limit: 5}}}}}}", ""},
		"forward-auth": {"",
			"auth: [{listen: '127.0.0.1:0', throttles: [few]}]\nthrottles: {few: {bloom: {rate: 10/s, exempt: " +
				"[127.0.0.1]}}}",
			"127.0.0.1/32 contains addresses of proxies that auth[0] trusts, 127.0.0.0/8"},
		"Envoy": {"",
			"rls: [{listen: '127.0.0.1:0', authz: {trusted_proxies: [172.16.0.0/12], throttles: [few]}}]\nthrottles: " +
				"{few: {bloom: {rate: 10/s, exempt: [172.17.0.0/16]}}}",
			"172.17.0.0/16 contains addresses of proxies that rls[0].authz trusts, 172.16.0.0/12"},
		"TCP": {"",
			"tcp: [{listen: '127.0.0.1:0', upstream: 127.0.0.1:1, trusted_proxies: [172.16.0.0/12], proxy_protocol: " +
				"{in: required}, throttles: [few]}]\n" +
				"throttles: {few: {bloom: {rate: 10/s, exempt: [172.17.0.0/16]}}}",
			"172.17.0.0/16 contains addresses of proxies that tcp[0] trusts, 172.16.0.0/12"},
	} {
		if !strings.Contains(c.more, "throttles: {") {
			c.more += "\nthrottles: {few: {bloom: {rate: 10/s}}}"
		}
		file := filepath.Join(t.TempDir(), "weir.yaml")
		text := fmt.Sprintf("http: [{listen: ':8080', upstream: 'http://127.0.0.1:1', trusted_proxies: [10.0.0.0/8, "+
			"'2001:db8::/64'], throttles: [few]%s}]\n%s\n", c.gates, c.more)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := Load(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, w := range cfg.Warnings {
			got = append(got, w.Msg)
			if w.Line == 0 {
				t.Errorf("%s: a warning without a line: %v", name, w)
			}
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTrustedProxies: those of every kind of gate, each once.
func TestTrustedProxies(t *testing.T) {
	c, err := Parse("weir.yaml", []byte(`
http: [{listen: ":8080", upstream: "http://127.0.0.1:1", trusted_proxies: [10.0.0.0/8, 10.0.0.0/8]}]
tcp: [{listen: ":8081", upstream: "127.0.0.1:1", trusted_proxies: ["::ffff:192.168.0.0/112"], proxy_protocol: {in: required}}]
auth: [{listen: ":8082"}, {listen: "unix:/run/weir/auth"}]
rls: [{listen: ":8083", authz: {trusted_proxies: [172.16.0.0/12], throttles: [few]}}]
throttles: {few: {bloom: {rate: 10/s}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.TrustedProxies()); got != "[10.0.0.0/8 127.0.0.0/8 172.16.0.0/12 192.168.0.0/16 ::1/128]" {
		t.Error(got)
	}
}
