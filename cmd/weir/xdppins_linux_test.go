package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"weir/gate/xdpgate"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/netlab"
)

// noPackets begins the line of the log that operators look for.
const noPackets = "NO PACKETS ARE LIMITED on "

// limiting writes the configuration of a weir that limits the packets of an interface, in a folder of its own.
func limiting(t *testing.T, iface, pin string) (config string) {
	t.Helper()
	folder, err := os.MkdirTemp("", "weir") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	config = filepath.Join(folder, "weir.yaml")
	text := fmt.Sprintf(`
data: %s
console: {listen: "127.0.0.1:9321"}
log: {format: json}
http: [{listen: "127.0.0.1:8080", upstream: "http://127.0.0.1:1"}]
xdp: [{interface: %s, pin: %s, bloom: {rate: 10/s}}]
`, folder, iface, pin)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// inside runs a command in a namespace and returns what it printed.
func inside(t *testing.T, ns netlab.Namespace, args ...string) string {
	t.Helper()
	var out strings.Builder
	code := -1
	err := ns.Do(func() error {
		code = run(args, &terminal{out: &out, err: &out})
		return nil
	})
	if err != nil || code != exitOK {
		t.Fatalf("%v: %v, exit code %d: %s", args, err, code, &out)
	}
	return out.String()
}

// metricsInside reads the metrics of the weir in a namespace.
func metricsInside(t *testing.T, ns netlab.Namespace) string {
	t.Helper()
	var text []byte
	err := ns.Do(func() error {
		c, err := net.Dial("tcp", "127.0.0.1:9321") // a client of net/http would dial on another thread
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprint(c, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err = io.ReadAll(resp.Body)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNoPacketsAreLimited: somebody removes the limiter of a weir that runs. Status, metric and log say so, until a
// reload brings it back.
func TestNoPacketsAreLimited(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	near, _ := netlab.Cable(t)
	pin := filepath.Join(netlab.BPF(t), "weir")
	config := limiting(t, netlab.Host, pin)
	weir := serveInside(t, near, config)
	check := func(when string, limited bool) {
		t.Helper()
		metric := fmt.Sprintf("weir_xdp_attached{interface=%q} ", netlab.Host)
		want := metric + "0"
		if limited {
			want = metric + "1"
		}
		if said := metricsInside(t, near); !strings.Contains(said, want) {
			t.Errorf("%s: no %s in the metrics", when, want)
		}
		said := inside(t, near, "status", "-c", config)
		if strings.Contains(said, "NO PACKETS ARE LIMITED") == limited ||
			strings.Contains(said, "not at all") == limited {
			t.Errorf("%s: %s", when, said)
		}
	}
	check("at first", true)
	if said := inside(t, near, "xdp", "detach", "--pin", pin, netlab.Host); !strings.Contains(said,
		"no longer limited") {
		t.Error(said)
	}
	check("detached", false)
	check("detached, asked again", false)
	inside(t, near, "reload", "-c", config)
	check("after a reload", true)
	weir.stop(t)
	if got := weir.logged(noPackets + netlab.Host); len(got) != 1 || got[0].Level != "ERROR" ||
		got[0].Interface != netlab.Host ||
		got[0].Err != xdpgate.ErrRemoved.Error() {
		t.Errorf("logged %+v", got)
	}
	if got := weir.logged("packets are limited again"); len(got) != 1 {
		t.Errorf("logged %+v", got)
	}
	inside(t, near, "xdp", "detach", "--pin", pin, netlab.Host)
}

// TestReloadFindsWhatWasMissing: there was no BPF file system at the start. It is mounted, and a reload begins to
// limit; what was switched meanwhile stays.
func TestReloadFindsWhatWasMissing(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	near, _ := netlab.Cable(t)
	mount := t.TempDir()
	pin := filepath.Join(mount, "weir")
	config := limiting(t, netlab.Host, pin)
	weir := serveInside(t, near, config)
	if said := inside(t, near, "status", "-c", config); !strings.Contains(said, "NO PACKETS ARE LIMITED") ||
		!strings.Contains(said, "is in no BPF file system") {
		t.Error(said)
	}
	inside(t, near, "shadow", "on", "xdp:"+netlab.Host, "-c", config)
	inside(t, near, "reload", "-c", config) // still nothing
	if err := unix.Mount("bpf", mount, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	inside(t, near, "reload", "-c", config)
	said := inside(t, near, "status", "-c", config)
	if strings.Contains(said, "NO PACKETS ARE LIMITED") || !strings.Contains(said, "native") {
		t.Error(said)
	}
	var all []xdpgate.Pinned
	if err := near.Do(func() (err error) { all, err = xdpgate.List(pin); return err }); err != nil || len(all) != 1 ||
		!all[0].Attached || !all[0].Shadow || !all[0].Held {
		t.Errorf("pinned: %+v, %v", all, err)
	}
	weir.stop(t)
	if got := weir.logged(noPackets + netlab.Host); len(got) != 2 { // at the start, and at the first reload
		t.Errorf("logged %+v", got)
	}
	inside(t, near, "xdp", "detach", "--pin", pin, netlab.Host)
}

// TestPinsAfterTheirNamespace: a weir and its namespace are gone. The next weir, in another namespace, removes what
// is left of it and warns of nothing. While the namespace lives, it leaves it alone.
func TestPinsAfterTheirNamespace(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	near, far := netlab.Cable(t)
	here := netlab.New(t)
	pin := filepath.Join(netlab.BPF(t), "weir")
	const warning = "an earlier weir still limits the packets of "
	first := serveInside(t, near, limiting(t, netlab.Host, pin))
	config := limiting(t, "lo", pin)

	// Both run: neither is an earlier one.
	second := serveInside(t, here, config)
	second.stop(t)
	if got := second.logged(warning); len(got) != 0 {
		t.Errorf("beside a weir that runs: %+v", got)
	}
	first.stop(t)

	// It is stopped and its namespace lives, so its limits hold.
	second = serveInside(t, here, config)
	second.stop(t)
	if got := second.logged(warning); len(got) != 1 || !strings.Contains(got[0].Msg, netlab.Host) {
		t.Errorf("beside limits of a weir that is stopped: %+v", got)
	}
	if said := inside(t, here, "xdp", "status", "--pin", pin); !strings.Contains(said, "elsewhere") {
		t.Error(said)
	}

	near.End(t, far)
	second = serveInside(t, here, config)
	if said := inside(t, here, "xdp", "status", "--pin", pin); strings.Contains(said, netlab.Host) ||
		!strings.Contains(said, "generic") {
		t.Error(said)
	}
	second.stop(t)
	if got := second.logged(warning); len(got) != 0 {
		t.Errorf("after the end of the namespace: %+v", got)
	}
	if got := second.logged("removed the limiter of an interface that is gone"); len(got) != 1 ||
		got[0].Interface != netlab.Host {
		t.Errorf("logged %+v", got)
	}
	inside(t, here, "xdp", "detach", "--pin", pin, "lo")
}
