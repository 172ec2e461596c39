package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/console"
	"weir/gate/xdpgate"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/netlab"
)

// A flood of so many networks, each of which sends many times its limit.
const (
	floodNetworks = 4_000
	floodSYNs     = 120_000
	floodLimit    = 10
)

// TestPacketsOfAServingWeir: before a weir that serves, thousands of networks flood with SYNs, and a polite client from
// another network connects every time. With weir stopped the limits stay, until they are removed.
func TestPacketsOfAServingWeir(t *testing.T) {
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
	if err := os.WriteFile(config, []byte(fmt.Sprintf(`
data: %s
console: {listen: "off"}
log: {format: json}
http: [{listen: ":8080", upstream: "http://127.0.0.1:1"}]
xdp:
- interface: %s
  mode: syn
  ports: [8080]
  pin: %s
  bloom: {rate: %d/h, burst: %[4]d, v4: 24, attackers: 20000}
`, folder, netlab.Host, pin, floodLimit)), 0o600); err != nil {
		t.Fatal(err)
	}
	weir := serveInside(t, near, config)

	var frames [][]byte
	for i := range floodNetworks {
		frames = append(frames, netlab.SYN(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), 8080))
	}
	people := func(when string) {
		t.Helper()
		for i := range 8 {
			if err := visitFrom(far, netip.AddrFrom4([4]byte{198, 19, byte(i), 10})); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	if err := far.Do(func() error {
		for i := range 8 {
			if err := netlab.Command("ip", "addr", "add", fmt.Sprintf("198.19.%d.10/32", i), "dev",
				netlab.Wire); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	people("before the flood")
	if err := netlab.Flood(far, frames, floodSYNs/2); err != nil {
		t.Fatal(err)
	}
	rest := make(chan error)
	go func() { rest <- netlab.Flood(far, frames, floodSYNs/2) }()
	people("during the flood")
	if err := <-rest; err != nil {
		t.Fatal(err)
	}
	counted := packetsAt(t, near, pin)
	t.Logf("%d SYNs of %d networks: %+v", floodSYNs, floodNetworks, counted)
	if most := uint64(floodNetworks*floodLimit + 16); counted.Passed > most ||
		counted.Passed < floodNetworks*floodLimit/2 {
		t.Errorf("%d SYNs passed, the limit is %d", counted.Passed, most)
	}
	if counted.Limited < floodSYNs/2 {
		t.Errorf("only %d SYNs were dropped", counted.Limited)
	}

	weir.stop(t)
	if err := netlab.Flood(far, frames, floodNetworks); err != nil {
		t.Fatal(err)
	}
	after := packetsAt(t, near, pin)
	if passed := after.Passed - counted.Passed; passed > floodNetworks/50 ||
		after.Limited-counted.Limited < floodNetworks/2 {
		t.Errorf("with weir stopped %d of %d SYNs passed", passed, floodNetworks)
	}

	// A weir that is started again finds the limits as they were.
	weir = serveInside(t, near, config)
	people("after a restart")
	if err := netlab.Flood(far, frames, floodNetworks); err != nil {
		t.Fatal(err)
	}
	if again := packetsAt(t, near, pin); again.Passed-after.Passed > floodNetworks/50+8 {
		t.Errorf("after a restart %d of %d SYNs passed", again.Passed-after.Passed, floodNetworks)
	}

	var out strings.Builder
	if err := near.Do(func() error {
		if code := run([]string{"xdp", "detach", "--pin", pin, netlab.Host},
			&terminal{out: &out, err: &out}); code != exitOK {
			return fmt.Errorf("exit code %d", code)
		}
		return nil
	}); err != nil {
		t.Fatalf("detach: %v %s", err, &out)
	}
	people("with the limits removed")
	if left, err := xdpgate.List(pin); err != nil || len(left) != 0 {
		t.Errorf("left behind: %+v, %v", left, err)
	}
	weir.stop(t)
}

// TestExampleOfPackets: examples/xdp.yaml in a network of its own. It is in shadow: whoever is over the limit, or
// banned, is counted and passes.
func TestExampleOfPackets(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	near, far := netlab.Cable(t)
	pin := filepath.Join(netlab.BPF(t), "weir")
	folder, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	raw, err := os.ReadFile("../../examples/xdp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, change := range [][2]string{
		{"./weir-data", folder}, {"interface: lo", "interface: " + netlab.Host},
		{"attach: auto", "attach: auto\n  pin: " + pin}, {"listen: 127.0.0.1:8080", `listen: ":8080"`},
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("there is no %q", change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	config := filepath.Join(folder, "weir.yaml")
	if err := os.WriteFile(config, []byte(text+"\nconsole: {listen: \"off\"}\nlog: {format: json}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	weir := serveInside(t, near, config)
	if err := far.Do(func() error {
		return netlab.Command("ip", "addr", "add", "198.19.0.10/32", "dev",
			netlab.Wire)
	}); err != nil {
		t.Fatal(err)
	}
	flood := [][]byte{netlab.SYN(netip.MustParseAddr("10.1.2.3"), 8080)}
	if err := netlab.Flood(far, flood, 5000); err != nil {
		t.Fatal(err)
	}
	if err := netlab.Flood(far, [][]byte{netlab.SYN(netip.MustParseAddr("198.51.100.7"), 8080)}, 10); err != nil {
		t.Fatal(err)
	}
	if err := visitFrom(far, netip.MustParseAddr("198.19.0.10")); err != nil {
		t.Error(err)
	}
	c := packetsAt(t, near, pin)
	if c.Limited < 1000 || c.Passed < 100 || c.Banned != 10 || c.Shadowed != c.Limited+c.Banned || c.Dropped() != 0 {
		t.Errorf("%+v", c)
	}
	weir.stop(t)
}

// TestPacketsWithoutCapabilities: a weir that may not limit packets says exactly what it lacks, and does the rest of
// its work.
func TestPacketsWithoutCapabilities(t *testing.T) {
	needs.Unwatched(t) // and not in parallel: a process that starts meanwhile would keep the copied program open
	near, _ := netlab.Cable(t)
	const nobody = 65534
	folder, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test's own program lies where nobody else may look.
	program, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	copied, config := filepath.Join(folder, "weir"), filepath.Join(folder, "weir.yaml")
	text := fmt.Sprintf(`
data: %s/data
console: {listen: "off"}
log: {format: json}
http: [{listen: "127.0.0.1:0", upstream: "http://127.0.0.1:1"}]
xdp: [{interface: %s, bloom: {rate: 10/s}}]
`, folder, netlab.Host)
	for _, err := range []error{os.WriteFile(copied, program, 0o755), os.WriteFile(config, []byte(text), 0o644),
		os.Mkdir(filepath.Join(folder, "data"), 0o700),
		os.Chown(filepath.Join(folder, "data"), nobody, nobody), os.Chmod(folder, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &served{Cmd: &exec.Cmd{Path: copied, Args: []string{"weir", "serve", "-c", config},
		SysProcAttr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}}}
	s.start(t, near)
	status, err := console.StatusCall.Ask(t.Context(), console.NewClient(filepath.Join(folder, "data", "weir.sock")),
		console.None{})
	if err != nil {
		t.Fatal(err)
	}
	if !status.Ready || len(status.XDP) != 1 || status.XDP[0].Attach != "" {
		t.Fatalf("%+v", status)
	}
	for _, missing := range []string{"CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"} {
		if !strings.Contains(status.XDP[0].Error, missing) {
			t.Errorf("%q does not name %s", status.XDP[0].Error, missing)
		}
	}
	s.stop(t)
	if got := s.logged("NO PACKETS ARE LIMITED on " + netlab.Host); len(got) != 1 || got[0].Level != "ERROR" ||
		!strings.Contains(got[0].Err, "CAP_BPF") {
		t.Errorf("logged %+v", got)
	}
}

// packetsAt reads the counters in the kernel.
func packetsAt(t testing.TB, ns netlab.Namespace, pin string) xdpgate.Counters {
	t.Helper()
	var all []xdpgate.Pinned
	err := ns.Do(func() (err error) {
		all, err = xdpgate.List(pin)
		return err
	})
	if err != nil || len(all) != 1 || !all[0].Attached {
		t.Fatalf("pinned: %+v, %v", all, err)
	}
	return all[0].Counters
}

// visitFrom asks the weir at the near end for something, from an address of the far end.
func visitFrom(far netlab.Namespace, from netip.Addr) error {
	return far.Do(func() error {
		d := net.Dialer{Timeout: time.Minute, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
		c, err := d.Dial("tcp", netlab.HostV4+":8080")
		if err != nil {
			return fmt.Errorf("from %s: %w", from, err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return fmt.Errorf("from %s: %w", from, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadGateway { // there is no upstream
			return fmt.Errorf("from %s: %s", from, resp.Status)
		}
		return nil
	})
}

// A served is a weir that runs as a process of its own.
type served struct {
	*exec.Cmd
	ready chan struct{}
	ended chan error
	said  []string // its log; to be read when it has ended
}

// serveInside starts weir in a namespace and waits until it is ready.
func serveInside(t testing.TB, ns netlab.Namespace, config string) *served {
	t.Helper()
	s := newServed(t, config)
	s.start(t, ns)
	return s
}

// newServed is a weir that has not been started.
func newServed(t testing.TB, config string) *served {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &served{Cmd: &exec.Cmd{Path: exe, Args: []string{"weir", "serve", "-c", config}}}
}

// start starts the process in a namespace and waits until it is ready.
func (s *served) start(t testing.TB, ns netlab.Namespace) {
	t.Helper()
	s.launch(t, ns)
	s.await(t)
}

// launch starts the process in a namespace.
func (s *served) launch(t testing.TB, ns netlab.Namespace) {
	t.Helper()
	s.ready, s.ended = make(chan struct{}), make(chan error, 1)
	log, err := s.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.Do(s.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Process.Kill()
		for range s.ended { // until the log is read
		}
		log := strings.Join(s.said, "\n")
		if strings.Contains(log, "DATA RACE") { // one that is killed has no exit code
			t.Error("weir has a race")
		}
		if t.Failed() {
			t.Logf("%s:\n%s", s.Args[len(s.Args)-1], log)
		}
	})
	go func() {
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			var line struct{ Msg string }
			s.said = append(s.said, lines.Text())
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "ready" {
				close(s.ready)
			}
		}
		if err := s.Wait(); err != nil {
			err = fmt.Errorf("%w\n%s", err, strings.Join(s.said, "\n"))
			s.ended <- err
		}
		close(s.ended)
	}()
}

// await waits until the process is ready.
func (s *served) await(t testing.TB) {
	t.Helper()
	select {
	case <-s.ready:
	case err := <-s.ended:
		t.Fatalf("weir ended: %v", err)
	case <-time.After(2 * time.Minute):
		t.Fatal("weir is not ready after two minutes")
	}
}

// A logLine is a line of a weir's log.
type logLine struct{ Level, Msg, Err, Interface string }

// logged returns the lines of a weir that has ended whose messages begin so.
func (s *served) logged(begin string) (all []logLine) {
	for _, text := range s.said {
		var line logLine
		if json.Unmarshal([]byte(text), &line) == nil && strings.HasPrefix(line.Msg, begin) {
			all = append(all, line)
		}
	}
	return all
}

// stop ends it as a service manager does.
func (s *served) stop(t testing.TB) {
	t.Helper()
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}
