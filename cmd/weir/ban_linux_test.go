package main

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/gate/xdpgate"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/netlab"
)

// TestBansInTheKernel: who is banned by command is dropped in the kernel, until the ban is removed: while weir is down,
// too. Who must not be dropped is not.
func TestBansInTheKernel(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	near, far := netlab.Cable(t)
	pin := filepath.Join(netlab.BPF(t), "weir")
	folder, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	config := filepath.Join(folder, "weir.yaml")
	configure := func(static string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(fmt.Sprintf(`
data: %s
console: {listen: "off"}
log: {format: json}
http: [{listen: ":8080", upstream: "http://127.0.0.1:1", trusted_proxies: [198.19.3.0/28]}]
xdp:
- {interface: %s, mode: syn, ports: [8080], pin: %s, ban: [%s], bloom: {rate: 100000/s, attackers: 1000}}
`, folder, netlab.Host, pin, static)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("198.19.9.0/24")
	weir := serveInside(t, near, config)
	ban := func(args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		var code int
		if err := near.Do(func() error {
			code = run(append(args, "-c", config), &terminal{out: &out, err: &errs})
			return nil
		}); err != nil || code != exitOK {
			t.Fatalf("%v: %v, %d: %s", args, err, code, &errs)
		}
		return out.String() + errs.String()
	}
	// counted sends a SYN and says what became of it.
	counted := func(from string) string {
		t.Helper()
		before := packetsAt(t, near, pin)
		if err := netlab.Flood(far, [][]byte{netlab.SYN(netip.MustParseAddr(from), 8080)}, 1); err != nil {
			t.Fatal(err)
		}
		fate := ""
		needs.Wait(t, "the SYN is counted", func() bool {
			after := packetsAt(t, near, pin)
			switch {
			case after.Banned > before.Banned:
				fate = "banned"
			case after.Passed > before.Passed:
				fate = "passed"
			}
			return fate != ""
		})
		return fate
	}
	expect := func(when string, want map[string]string) {
		t.Helper()
		for from, how := range want {
			if got := counted(from); got != how {
				t.Errorf("%s: %s %s, want %s", when, from, got, how)
			}
		}
	}
	all := func(how string) map[string]string {
		return map[string]string{"198.19.1.7": how, "198.19.2.7": how, "fd00:1::7": how, "198.19.3.7": "passed",
			"198.19.4.7": "passed", "198.19.9.7": "banned"}
	}
	expect("at first", all("passed"))
	ban("ban", "add", "198.19.1.0/24")
	ban("ban", "add", "198.19.2.7", "--for", "1h")
	ban("ban", "add", "fd00:1::/32", "--for", "1h")
	if said := ban("ban", "add", "198.19.3.0/24"); !strings.Contains(said, "198.19.3.0/28 is a trusted proxy") {
		t.Error(said)
	}
	ban("ban", "add", "198.19.9.0/24", "--for", "1h") // the configuration bans it as well
	ban("ban", "add", "client:abc")
	expect("banned", all("banned"))
	if said := ban("status"); !strings.Contains(said, "bans: 1 client, 5 networks (6 by operators)") {
		t.Error(said)
	}

	// An earlier end, and none at all.
	ban("ban", "add", "198.19.1.0/24", "--for", "1h")
	ban("ban", "add", "198.19.2.7")
	expect("banned anew", all("banned"))

	// In shadow nobody is refused, in the kernel neither.
	ban("shadow", "on", "bans")
	ban("ban", "add", "198.19.77.7") // which waits for the kernel
	expect("in shadow", all("passed"))
	ban("shadow", "off", "bans")
	ban("ban", "remove", "198.19.77.7")
	expect("out of shadow", all("banned"))

	// A weir that is down, and the next one.
	weir.stop(t)
	expect("with weir stopped", all("banned"))
	weir = serveInside(t, near, config)
	ban("ban", "remove", "198.19.2.7")
	want := all("banned")
	want["198.19.2.7"] = "passed"
	expect("after a restart", want)

	// Reloads: what the configuration bans comes and goes, what operators ban stays.
	configure("198.19.1.0/24")
	ban("reload")
	ban("ban", "add", "198.19.2.7")
	expect("banned by both", all("banned"))
	configure("198.19.5.0/24")
	ban("reload")
	ban("ban", "remove", "198.19.2.7")
	expect("banned by one", want)
	// Somebody has removed the limiter; the reload brings it back, with who is banned.
	if err := near.Do(func() error { return xdpgate.Detach(pin, netlab.Host) }); err != nil {
		t.Fatal(err)
	}
	ban("reload")
	ban("ban", "add", "198.19.2.7")
	expect("in a new program", all("banned"))

	for _, who := range []string{"198.19.1.0/24", "198.19.2.7", "fd00:1::/32", "198.19.9.0/24", "198.19.3.0/24"} {
		ban("ban", "remove", who)
	}
	free := all("passed")
	free["198.19.9.7"] = "passed"
	expect("with nobody banned", free)
	weir.stop(t)
	if err := near.Do(func() error { return xdpgate.Detach(pin, netlab.Host) }); err != nil {
		t.Fatal(err)
	}
}
