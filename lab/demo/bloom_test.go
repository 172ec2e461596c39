package demo

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/internal/testkit/needs"
	"weir/throttle/bloom"
)

// TestCrowd: each network has its volley, a few come at a time and none is left out.
func TestCrowd(t *testing.T) {
	const size, lanes, wants, tries = 60, 3, 2, 6
	c := newCrowd(crowdPlan{first: 7<<8 + 250, size: size, lanes: lanes, wants: wants, tries: tries})
	play := func(atWork bool, turns int) (order []string, connections map[string]int) {
		c.begin(atWork)
		connections = map[string]int{}
		for range turns {
			a := c.next().As4()
			network := fmt.Sprintf("%d.%d", a[1], a[2])
			if connections[network]++; connections[network] == 1 {
				order = append(order, network)
			}
			if a[0] != 127 || a[3] < 1 || a[3] > tries {
				t.Fatalf("from %v", a)
			}
		}
		return order, connections
	}
	check := func(what string, order []string, connections map[string]int, volley int) {
		t.Helper()
		for i, network := range order {
			n := connections[network]
			if n > volley || n < volley && i >= lanes && i < len(order)-lanes {
				t.Errorf("%s: %d connections from %s, number %d of %d", what, n, network, i, len(order))
			}
		}
		if got := c.inHalf.Load(); got != int64(len(order)) {
			t.Errorf("%s: %d networks counted, want %d", what, got, len(order))
		}
	}
	first, n := play(false, 40)
	check("in shadow", first, n, wants)
	if first[0] != "7.250" || !slices.Contains(first, "8.0") {
		t.Errorf("networks: %v", first)
	}
	second, n := play(true, 100)
	check("at work", second, n, tries)
	for _, network := range second {
		if slices.Contains(first, network) {
			t.Errorf("%s comes again, before others have", network)
		}
	}
	if got := c.ever.Load(); got != int64(len(first)+len(second)) {
		t.Errorf("%d networks in both halves", got)
	}
	play(false, 10*size*wants)
	if in, ever := c.inHalf.Load(), c.ever.Load(); in != size || ever != size {
		t.Errorf("in the end %d and %d networks, want all %d", in, ever, size)
	}
}

// atGate sets the stage of the scene, at a limit that does not come back while a test runs.
func atGate(t *testing.T) *Stage {
	t.Helper()
	if err := wideLoopback(); err != nil {
		needs.Skip(t, err)
	}
	tidy(t)
	scene := bloomScene()
	scene.Setup = func(s *Stage) (config.Config, error) {
		cfg, err := setUpBloom(s)
		cfg.Throttles["edge"].Bloom.Rate = weir.Rate{Count: 1, Per: time.Hour}
		return cfg, err
	}
	stage, err := setStage(&scene, slog.New(slog.DiscardHandler), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stage.close)
	return stage
}

// TestRequest: a network gets its burst, whichever of its addresses asks, and the rest is refused; another one is
// served.
func TestRequest(t *testing.T) {
	s := atGate(t)
	ask := func(from string) Result {
		reset := Failed
		if s.AtWork() {
			reset = Refused
		}
		return request(t.Context(), netip.MustParseAddr(from), s.GateAddr(0), reset)
	}
	if err := s.throttle(true); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * bloomBurst {
		want := Served
		if i >= bloomBurst {
			want = Refused
		}
		if got := ask(fmt.Sprintf("127.44.5.%d", 10+i)); got != want {
			t.Errorf("connection %d: %d, want %d", i+1, got, want)
		}
	}
	if got := ask("127.44.6.10"); got != Served {
		t.Errorf("another network: %d", got)
	}
	if err := s.throttle(false); err != nil {
		t.Fatal(err)
	}
	if got := ask("127.44.5.10"); got != Served {
		t.Errorf("in shadow: %d", got)
	}
}

// TestRequestLost: what befalls a connection besides a throttle has failed.
func TestRequestLost(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(*net.TCPConn)
		want   Result
	}{
		"reset": {func(c *net.TCPConn) { c.SetLinger(0) }, Refused},
		"hung up": {func(c *net.TCPConn) {
			c.CloseWrite()
			io.Copy(io.Discard, c)
		}, Failed},
		"cut off": {func(c *net.TCPConn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na")
			c.CloseWrite()
			io.Copy(io.Discard, c)
		}, Failed},
		"overrun": {func(c *net.TCPConn) {
			io.WriteString(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
			io.Copy(io.Discard, c)
		}, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp4", loopback)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				if c, err := l.Accept(); err == nil {
					test.answer(c.(*net.TCPConn))
					c.Close()
				}
			}()
			if got := request(t.Context(), netip.MustParseAddr("127.0.0.1"), l.Addr().String(),
				Refused); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
	for _, when := range []string{"dial", "write", "read"} {
		for _, errno := range []syscall.Errno{syscall.ECONNRESET, syscall.EPIPE} {
			err := &net.OpError{Op: when, Net: "tcp", Err: os.NewSyscallError(when, errno)}
			if lost(err, Refused) != Refused || lost(err, Failed) != Failed {
				t.Errorf("%v", err)
			}
		}
	}
	if lost(errors.New("no route"), Refused) != Failed {
		t.Error("any error counts as refused")
	}
}

func aBloomReport() SceneReport {
	return SceneReport{
		Name: "bloom", LimitPerSecond: 0.1, FloodLimit: 309360, FloodNetworks: 43_210,
		Half: Half{
			People: Figures{51, 51, 0, 0, 22, 82, 0}, Flood: Figures{37156, 4722, 32434, 0, 22, 84, 0}, Seconds: 7.52,
			Actors: []ActorReport{{"people", People, 40, Figures{51, 51, 0, 0, 22, 82, 0}, 0},
				{"flood", Flood, 1560, Figures{37156, 722, 36434, 0, 22, 84, 0}, 0},
				{"next door", Flood, 43_210, Figures{4321, 0, 4321, 0, 0.2, 1.4, 0}, 0}},
			Bloom: &console.Bloom{Stats: bloom.Stats{Bytes: 12_946_304, Attackers: 41_973, Collateral: 7e-5}},
		},
		Without: Half{
			People: Figures{14, 7, 0, 7, 115, 168, 0}, Flood: Figures{5122, 1942, 0, 3180, 96, 270, 0}, Seconds: 2.6,
			Actors: []ActorReport{{"people", People, 14, Figures{14, 7, 0, 7, 115, 168, 0}, 0},
				{"flood", Flood, 1290, Figures{5122, 1942, 0, 3180, 96, 270, 0}, 0}},
		},
	}
}

func TestBloomSummary(t *testing.T) {
	scene, r := bloomScene(), aBloomReport()
	for _, width := range []int{0, 50} {
		golden(t, fmt.Sprintf("summary-bloom-%d.txt", width),
			strings.Join(summary(&scene, &r, width, false), "\n")+"\n")
	}
}

func TestTellBloom(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*SceneReport)
		want   string
	}{
		"stopped": {func(r *SceneReport) { r.Flood = Figures{} }, "stopped before the throttle was at work"},
		"all":     {func(r *SceneReport) { r.FloodNetworks = bloomNetworks }, "All 50,000 networks came"},
		"harm":    {func(r *SceneReport) { r.Bloom.Collateral = 0.00123456 }, " 0.123% of innocent ones"},
		"no harm": {func(r *SceneReport) { r.Bloom.Collateral = 0 }, " 0% of innocent ones"},
	} {
		r := aBloomReport()
		test.change(&r)
		scene := bloomScene()
		if told := strings.Join(scene.tell(r), " "); !strings.Contains(told, test.want) {
			t.Errorf("%s: no %q in %q", name, test.want, told)
		}
	}
}

// TestBloomFigures: what the figures of the scene rest upon.
func TestBloomFigures(t *testing.T) {
	// Of four workers each rests 200 ms at least.
	const peopleEvery = bloomPeople / 4 * 200 * time.Millisecond
	for what, ok := range map[string]bool{
		"the flood fills the service and its line": bloomFlooders > bloomPlaces+bloomLine,
		"a burst from every lane, and another, fit into the service": 2*bloomLanes*bloomBurst <= bloomPlaces+
			bloomLine,
		"a single limiter is enough for people":          peopleEvery > bloomK*time.Minute/bloomLimit,
		"every network of the flood goes over its limit": bloomWants > bloomBurst,
		"what gets in is less than the service can do":   bloomFlooders/bloomRest.Seconds()*bloomBurst/bloomTries < bloomPlaces/bloomWork.Seconds(),
		"networks of people and flood are apart, and not the gate's": bloomFloodFrom > 0 &&
			bloomFloodFrom+bloomNetworks <= bloomPeopleFrom && bloomPeopleFrom+bloomPeople <= 1<<16,
		"every address of a volley is one that a machine could have":     bloomTries < 255,
		"the system's table of connections is not filled in ten seconds": 10*bloomFlooders/bloomRest.Seconds() <= 1<<16,
	} {
		if !ok {
			t.Errorf("not so: %s", what)
		}
	}
}
