//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"weir"
	"weir/gate"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/netlab"
	"weir/throttle/bloom"
)

// attached returns a gate on an interface. It is detached at the end.
func attached(t *testing.T, o Options, env Env) *Gate {
	t.Helper()
	g, err := New(o, env)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Attach(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Close()
		if err := Detach(g.plan.opts.Pin, g.plan.opts.Interface); err != nil && !errors.Is(err, ErrNotPinned) {
			t.Error(err)
		}
	})
	return g
}

// onHost are options for the near end of a cable.
func onHost(t *testing.T) Options {
	o := slow()
	o.Interface, o.Pin = netlab.Host, bpffs(t)+"/weir"
	return o
}

// judge runs the gate's program on a packet.
func (g *Gate) judge(t *testing.T, packet []byte) uint32 {
	t.Helper()
	got, err := g.kernel.prog.Run(&ebpf.RunOptions{Data: packet})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (g *Gate) granted(t *testing.T, packet []byte) (n int) {
	t.Helper()
	for g.judge(t, packet) == xdpPass && n < 10_000 {
		n++
	}
	return n
}

func mode(t *testing.T, g *Gate) Attachment {
	t.Helper()
	s, err := g.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return s.Attach
}

// TestRestart: the limits survive the gate, and the next gate takes them over.
func TestRestart(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	newCable(t)
	o := onHost(t)
	o.Ban = []netip.Prefix{netip.MustParsePrefix("198.18.66.0/24")}
	g := attached(t, o, Env{})
	if mode(t, g) != Native {
		t.Errorf("attached %s", mode(t, g))
	}
	if got := g.granted(t, syn4("198.18.7.1")); got != 10 {
		t.Fatalf("%d granted", got)
	}
	if err := g.Ban(netip.MustParsePrefix("198.18.67.0/24"), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Counters(); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	list, err := List(o.Pin)
	if err != nil || len(list) != 1 || !list[0].Attached || list[0].Attach != Native ||
		list[0].Interface != netlab.Host || list[0].Bans != 2 || list[0].Counters.Passed != 10 {
		t.Errorf("pinned: %+v, %v", list, err)
	}

	o.Ban = nil
	g = attached(t, o, Env{})
	if got := g.granted(t, syn4("198.18.7.1")); got != 0 {
		t.Errorf("%d granted after a restart", got)
	}
	if got := g.granted(t, syn4("198.18.8.1")); got != 10 {
		t.Errorf("%d granted to another after a restart", got)
	}
	c, err := g.Counters()
	if err != nil || c.Passed != 20 || c.Limited != 3 {
		t.Errorf("counters after a restart: %+v, %v", c, err)
	}
	// Bans of the configuration go with it; others stay.
	bans, err := g.Bans()
	if err != nil || len(bans) != 1 || bans[0].Prefix.String() != "198.18.67.0/24" || bans[0].Static ||
		time.Until(bans[0].Until) > time.Hour || time.Until(bans[0].Until) < 50*time.Minute {
		t.Errorf("bans after a restart: %v, %v", bans, err)
	}

	// Another limit needs other tables; the lists are kept.
	g.Close()
	o.Bloom.Rate.Count, o.Bloom.Burst = 20, 20
	g = attached(t, o, Env{})
	if got := g.granted(t, syn4("198.18.7.1")); got != 20 {
		t.Errorf("%d granted after the limit was changed", got)
	}
	if got := g.judge(t, syn4("198.18.67.1")); got != xdpDrop {
		t.Errorf("answer %d to a banned network after the limit was changed", got)
	}

	g.Close()
	if err := Detach(o.Pin, netlab.Host); err != nil {
		t.Fatal(err)
	}
	if there, err := attachedTo(g.kernelIndex(t)); err != nil || there.mode != "" {
		t.Errorf("after Detach: %+v, %v", there, err)
	}
	if _, err := os.Stat(o.Pin); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Detach: %v", err)
	}
	if err := Detach(o.Pin, netlab.Host); !errors.Is(err, ErrNotPinned) {
		t.Errorf("Detach again: %v", err)
	}
	if list, err := List(o.Pin); err != nil || len(list) != 0 {
		t.Errorf("pinned after Detach: %v, %v", list, err)
	}
}

func (g *Gate) kernelIndex(t *testing.T) int {
	t.Helper()
	return indexOf(t, g.plan.opts.Interface)
}

func TestConfigure(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	newCable(t)
	o := onHost(t)
	g := attached(t, o, Env{})
	if got := g.granted(t, syn4("198.18.7.1")); got != 10 {
		t.Fatalf("%d granted", got)
	}
	before, err := attachedTo(g.kernelIndex(t))
	if err != nil {
		t.Fatal(err)
	}
	o.Allow = []netip.Prefix{netip.MustParsePrefix("198.18.7.7/32")}
	o.Bloom.Exempt = []netip.Prefix{netip.MustParsePrefix("198.18.7.8/32")}
	o.Ports = []int{443}
	if err := g.Configure(o); err != nil {
		t.Fatal(err)
	}
	for packet, want := range map[string]uint32{"198.18.7.1": xdpDrop, "198.18.7.7": xdpPass, "198.18.7.8": xdpPass} {
		if got := g.judge(t, syn4(packet)); got != want {
			t.Errorf("answer %d to %s, want %d", got, packet, want)
		}
	}
	if got := g.judge(t,
		ether(typeV4, v4{src: "198.18.7.1", proto: protoTCP}.packet(tcp(80, flagSYN)))); got != xdpPass {
		t.Errorf("answer %d to a port that is not watched", got)
	}
	if after, err := attachedTo(g.kernelIndex(t)); err != nil || after.id == before.id || after.mode != before.mode {
		t.Errorf("program %+v, before %+v, %v", after, before, err)
	}
	for path, change := range map[string]func(*Options){
		"interface":  func(o *Options) { o.Interface = "lo" },
		"pin":        func(o *Options) { o.Pin += "2" },
		"mode":       func(o *Options) { o.Mode = "sin" },
		"bloom.rate": func(o *Options) { o.Bloom.Rate = weir.Rate{} },
	} {
		wrong := o
		change(&wrong)
		if all := weir.FieldErrors(g.Configure(wrong)); len(all) == 0 || all[0].Path != path {
			t.Errorf("%s: %v", path, all)
		}
	}
	if got := g.judge(t, syn4("198.18.7.1")); got != xdpDrop {
		t.Errorf("answer %d after mistakes", got)
	}
	if err := g.SetShadow(true); err != nil {
		t.Fatal(err)
	}
	if got := g.judge(t, syn4("198.18.7.1")); got != xdpPass {
		t.Errorf("answer %d in shadow", got)
	}
	// Driver or stack can be changed too.
	o.Attach = Generic
	if err := g.Configure(o); err != nil {
		t.Fatal(err)
	}
	if there, err := attachedTo(g.kernelIndex(t)); err != nil || there.mode != Generic || mode(t, g) != Generic {
		t.Errorf("attached %+v, %v", there, err)
	}
	if got := g.judge(t, syn4("198.18.7.1")); got != xdpDrop {
		t.Errorf("answer %d after the shadow", got)
	}
}

// TestNotElsewhere: an interface that cannot run the program where it should keeps its limits where they are.
func TestNotElsewhere(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	netlab.New(t).Enter(t)
	o := slow()
	o.Pin = bpffs(t)
	var said bytes.Buffer
	g := attached(t, o, Env{Env: gate.Env{Log: slog.New(slog.NewTextHandler(&said, nil))}})
	if got := g.granted(t, syn4("")); got != 10 {
		t.Fatalf("%d granted", got)
	}
	o.Attach = Native
	if err := g.Configure(o); err != nil {
		t.Error(err)
	}
	if there, err := attachedTo(g.kernelIndex(t)); err != nil || there.mode != Generic || mode(t, g) != Generic ||
		!strings.Contains(said.String(), "level=ERROR") {
		t.Errorf("attached %+v, %v; said %s", there, err, said.String())
	}
	if got := g.judge(t, syn4("")); got != xdpDrop {
		t.Errorf("answer %d", got)
	}
}

// TestGeneric: where the driver cannot, the stack does, and that is said loudly.
func TestGeneric(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	netlab.New(t).Enter(t)
	o := slow()
	o.Pin = bpffs(t)
	var said bytes.Buffer
	g := attached(t, o, Env{Env: gate.Env{Log: slog.New(slog.NewTextHandler(&said, nil))}})
	if mode(t, g) != Generic || !strings.Contains(said.String(), "level=WARN") ||
		!strings.Contains(said.String(), "SLOWER") {
		t.Errorf("attached %s, said %s", mode(t, g), said.String())
	}
	g.Close()
	if err := Detach(o.Pin, "lo"); err != nil {
		t.Fatal(err)
	}
	o.Attach = Native
	g, err := New(o, Env{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Attach(); err == nil || !strings.Contains(err.Error(), "attach: auto") {
		t.Errorf("native on lo: %v", err)
	}
	if _, err := g.Counters(); !errors.Is(err, ErrNotAttached) {
		t.Errorf("counters: %v", err)
	}
	if there, err := attachedTo(indexOf(t, "lo")); err != nil || there.mode != "" {
		t.Errorf("left %+v, %v", there, err)
	}
}

// TestJumboFrames: with a large MTU packets have several buffers, and drivers refuse programs that do not know of them.
func TestJumboFrames(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	far := newCable(t)
	if err := errors.Join(netlab.Command("ip", "link", "set", netlab.Host, "mtu", "9000"),
		far.Do(func() error { return netlab.Command("ip", "link", "set", netlab.Wire, "mtu", "9000") })); err != nil {
		t.Fatal(err)
	}
	o := onHost(t)
	o.Mode, o.Attach = Bytes, Native
	o.Bloom.Burst = 1_000_000
	g := attached(t, o, Env{})
	before, err := g.Stats()
	if err != nil || before.Attach != Native {
		t.Fatalf("%+v, %v", before, err)
	}
	// The whole length counts, not only the first buffer.
	frame := append(syn4("198.18.7.1"), make([]byte, 9000-54)...)
	frame[16], frame[17] = 0x23, 0x1a // 8986
	s := g.plan.shapes[0]
	want := s.K * s.Capacity / int(s.Tokens(9000)) // a frame may be paid by two limiters
	if got := g.granted(t, frame); got != want {
		t.Errorf("%d frames of 9000 bytes granted, want %d", got, want)
	}
}

// TestOccupied: another's program is left alone, and named.
func TestOccupied(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	newCable(t)
	other, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "somebody", Type: ebpf.XDP, License: "MIT",
		Instructions: asm.Instructions{asm.LoadImm(asm.R0, xdpPass, asm.DWord), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	dir := bpffs(t)
	if err := other.Pin(dir + "/other"); err != nil {
		t.Fatal(err)
	}
	if err := netlab.Command("ip", "link", "set", "dev", netlab.Host, "xdp", "pinned", dir+"/other"); err != nil {
		t.Fatal(err)
	}
	o := slow()
	o.Interface, o.Pin = netlab.Host, dir+"/weir"
	g, err := New(o, Env{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	err = g.Attach()
	if busy, ok := errors.AsType[*Occupied](err); !ok || busy.Program != "somebody" || busy.Interface != netlab.Host {
		t.Errorf("%v", err)
	}
	if err := netlab.Command("ip", "link", "set", "dev", netlab.Host, "xdp", "off"); err != nil {
		t.Fatal(err)
	}
	attached(t, o, Env{})
	// Two weirs with other pins are others to each other.
	o.Pin = dir + "/weir2"
	second, err := New(o, Env{})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if busy, ok := errors.AsType[*Occupied](second.Attach()); !ok || busy.Program != "weir_limit" {
		t.Errorf("%v", busy)
	}
}

// TestInterfaceGone: an interface that was removed and made again gets a new link, and the tables go on.
func TestInterfaceGone(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	netlab.New(t).Enter(t)
	make := func() {
		if err := errors.Join(netlab.Command("ip", "link", "add", "dummy.7", "type", "veth", "peer", "name", "other"),
			netlab.Command("ip", "link", "set", "dummy.7", "up")); err != nil {
			t.Fatal(err)
		}
	}
	make()
	o := slow()
	o.Interface, o.Pin = "dummy.7", bpffs(t)
	g := attached(t, o, Env{})
	if got := g.granted(t, syn4("")); got != 10 {
		t.Fatalf("%d granted", got)
	}
	g.Close()
	if err := netlab.Command("ip", "link", "del", "dummy.7"); err != nil {
		t.Fatal(err)
	}
	if list, err := List(o.Pin); err != nil || len(list) != 1 || list[0].Attached || list[0].Interface != "dummy.7" {
		t.Errorf("pinned: %+v, %v", list, err)
	}
	make()
	g = attached(t, o, Env{})
	if got := g.granted(t, syn4("")); got != 0 {
		t.Errorf("%d granted after the interface was made again", got)
	}
	if list, err := List(o.Pin); err != nil || len(list) != 1 || !list[0].Attached {
		t.Errorf("pinned: %+v, %v", list, err)
	}
}

func TestAttachMistakes(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	o := slow()
	o.Pin = t.TempDir()
	g, err := New(o, Env{})
	if err != nil {
		t.Fatal(err)
	}
	if none, ok := errors.AsType[*NoFileSystem](g.Attach()); !ok || !strings.Contains(none.Error(), "mount -t bpf") {
		t.Errorf("no BPF file system: %v", none)
	}
	o.Interface = "nowhere0"
	if g, err = New(o, Env{}); err != nil {
		t.Fatal(err)
	}
	if all := weir.FieldErrors(g.Attach()); len(all) != 1 || all[0].Path != "interface" {
		t.Errorf("no such interface: %v", all)
	}
	g.Close()
	if err := g.Attach(); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if err := Detach(o.Pin, "lo"); !errors.Is(err, ErrNotPinned) {
		t.Errorf("nothing to detach: %v", err)
	}
}

// handClock makes the gate, its timers and its program go by one clock in the test's hand.
func handClock(t *testing.T, o Options, env Env) (*Gate, func(time.Duration)) {
	t.Helper()
	fake := clock.NewFake(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
	start := fake.Now()
	env.Clock = fake
	g, err := New(o, env)
	if err != nil {
		t.Fatal(err)
	}
	g.plan.settings.TestClock = 1
	// The kernel's clock began long before.
	g.clock = func() time.Duration { return time.Hour + fake.Now().Sub(start) }
	if err := g.Attach(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Close()
		if err := Detach(o.Pin, o.Interface); err != nil {
			t.Error(err)
		}
	})
	move := func(d time.Duration) {
		fake.Advance(d)
		g.kernel.memory.state.Clock = uint64(g.clock())
	}
	move(0)
	return g, move
}

// notices keeps what it is told.
type notices []bloom.Notice

func (n *notices) Notice(one bloom.Notice) { *n = append(*n, one) }

// TestCare: tables are swept, keys change and nothing is forgotten meanwhile, and too much damage is told.
func TestCare(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	newCable(t)
	o := onHost(t)
	o.Bloom.Rate, o.Bloom.Rotate = small().Bloom.Rate, weir.Duration(2*time.Minute)
	o.Bloom.Attackers = 60
	var told notices
	g, move := handClock(t, o, Env{Observer: &told})
	flood := func(networks int) (passed int) {
		for i := range networks {
			passed += g.granted(t, syn4(fmt.Sprintf("198.18.%d.1", i)))
		}
		return passed
	}
	if got := flood(20); got < 150 {
		t.Fatalf("%d granted", got)
	}
	keys := g.kernel.memory.state.Half
	for range 600 {
		move(time.Second)
		flood(20)
	}
	s, err := g.Stats()
	if err != nil || s.Rotations != 5 && s.Rotations != 4 {
		t.Errorf("%+v, %v", s, err)
	}
	if g.kernel.memory.state.Half[0][0].Key == keys[0][0].Key {
		t.Error("the key has not changed")
	}
	if s.Drained == 0 || s.Collateral == 0 || s.Attackers < 10 || s.Attackers > 40 || s.Bytes == 0 {
		t.Errorf("20 attackers: %+v", s)
	}
	// In 600 seconds, 20 sources get 600 each, and their bursts; new keys give nobody a new burst.
	c, err := g.Counters()
	if most := uint64(20 * (600 + 10)); err != nil || c.Passed > most {
		t.Errorf("%d passed, want at most %d", c.Passed, most)
	}
	if len(told) != 0 {
		t.Errorf("told %v", told)
	}
	// Far more attackers than planned for.
	for range 10 {
		move(time.Second)
		flood(250)
	}
	if len(told) != 1 || told[0].What != bloom.NoticeOver {
		t.Errorf("told %v", told)
	}
	move(time.Minute)
	if len(told) != 2 || told[1].What != bloom.NoticeUnder {
		t.Errorf("told %v", told)
	}
	// A restart in the middle of an overlap goes on where it was.
	for !g.kernel.care.charged {
		move(time.Second)
		flood(1) // tables that nobody asks keep their key
	}
	kernel := g.kernel
	g.kernel = nil
	kernel.held.Close() // as the process ends
	again, err := g.install(g.plan)
	if err != nil {
		t.Fatal(err)
	}
	if again.care.now != kernel.care.now || !again.care.charged || again.care.rotated != kernel.care.rotated ||
		again.care.levels[1].born != kernel.care.levels[1].born {
		t.Errorf("taken over as %+v, was %+v", again.care, kernel.care)
	}
	g.kernel = again
	kernel.Close()
}

// TestNobodyKeepsTheOthersOut: sixteen /48s, a quarter of the attackers that are planned for, as each takes four limits
// of the narrower networks, send from random /64s. Other networks connect once each, and no more of them are refused
// than planned, while tables learn and when keys change.
func TestNobodyKeepsTheOthersOut(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	newCable(t)
	o := onHost(t)
	o.Bloom = bloom.Options{Rate: weir.Rate{Count: 60, Per: time.Minute}, Burst: 15, Attackers: 64,
		Rotate: weir.Duration(3 * time.Minute)}
	g, move := handClock(t, o, Env{})
	attack := syn6("2001:db8::1")
	dice, passed, refused := rand.New(rand.NewPCG(1, 2)), 0, 0
	for second := range 400 {
		move(time.Second)
		for i := range 16 * 30 {
			binary.BigEndian.PutUint32(attack[14+8+4:], uint32(i%16)<<16|dice.Uint32N(1<<16))
			if g.judge(t, attack) == xdpPass {
				passed++
			}
		}
		for i := range 10 {
			n := second*10 + i
			if g.judge(t, syn4(fmt.Sprintf("198.%d.%d.1", 18+n>>8, n&255))) != xdpPass {
				refused++
			}
		}
		if second%20 == 19 {
			if refused > 2 { // 1 %
				t.Errorf("after %d s, %d of 200 innocent networks are refused", second, refused)
			}
			refused = 0
		}
	}
	if s, err := g.Stats(); err != nil || s.Rotations != 2 || passed > 16*4*(400+15) {
		t.Errorf("%+v, %v, %d of the attackers' packets passed", s, err, passed)
	}
}

// TestCallsAtOnce: operators call, reloads come and the gate tends its tables, all at the same time.
func TestCallsAtOnce(t *testing.T) {
	needsKernel(t)
	newCable(t)
	o := onHost(t)
	g := attached(t, o, Env{})
	until := time.Now().Add(time.Hour)
	var all sync.WaitGroup
	for i := range 3 { // on other threads, which do not see the interface
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 70, byte(i)}), 32)
		all.Go(func() {
			for range 8 {
				g.tend()
				_, counters := g.Counters()
				_, stats := g.Stats()
				_, bans := g.Bans()
				if err := errors.Join(counters, stats, bans, g.Ban(p, until), g.Allow(p, until), g.Disallow(p),
					g.SetShadow(i == 0)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 {
		if err := g.Configure(o); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
	if bans, err := g.Bans(); len(bans) != 3 || err != nil {
		t.Errorf("%v, %v", bans, err)
	}
}
