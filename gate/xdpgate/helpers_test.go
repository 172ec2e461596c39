//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/netlab"
	"weir/throttle/bloom"
)

// needsKernel skips a test where the kernel does not take programs from us. In CI it does.
func needsKernel(t testing.TB) {
	t.Helper()
	if err := checkSystem(); err != nil {
		needs.Skip(t, err)
	}
}

// What the program answers.
const (
	xdpDrop = 1
	xdpPass = 2
)

// plain are options with a limit that no test comes near.
func plain() Options {
	return Options{Interface: "lo", Bloom: bloom.Options{Rate: weir.Rate{Count: 100_000, Per: time.Second},
		Attackers: 1000}}
}

// trialOf loads the program for test runs, with the clock in the test's hand.
func trialOf(t testing.TB, o Options) *Trial {
	t.Helper()
	p, err := newPlan(o)
	if err != nil {
		t.Fatal(err)
	}
	return trialFor(t, p)
}

func trialFor(t testing.TB, p *plan) *Trial {
	t.Helper()
	needsKernel(t)
	p.settings.TestClock = 1
	trial, err := p.trial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(trial.Close)
	return trial
}

func (t *Trial) at(now time.Duration) { t.memory.state.Clock = uint64(now) }

// judge runs the program once and returns its answer.
func (t *Trial) judge(tb testing.TB, packet []byte) uint32 {
	got, err := t.objects.prog.Run(&ebpf.RunOptions{Data: packet})
	if err != nil {
		tb.Fatalf("test run of %d bytes: %v", len(packet), err)
	}
	return got
}

func (t *Trial) counters(tb testing.TB) Counters {
	tb.Helper()
	c, err := t.Counters()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// minus is what was counted since.
func (c Counters) minus(before Counters) string {
	then := map[string]uint64{}
	before.ByName(func(name string, n uint64) { then[name] = n })
	var parts []string
	c.ByName(func(name string, n uint64) {
		if n -= then[name]; n == 1 {
			parts = append(parts, name)
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%s %d", name, n))
		}
	})
	return strings.Join(parts, ", ")
}

// What follows builds packets from the inside out.

func join(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func ether(proto uint16, rest ...[]byte) []byte {
	return join([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}, binary.BigEndian.AppendUint16(nil, proto), join(rest...))
}

// tag is a VLAN tag, behind the type that announces it.
func tag(proto uint16) []byte { return binary.BigEndian.AppendUint16([]byte{0, 7}, proto) }

const (
	typeV4   = 0x0800
	typeV6   = 0x86dd
	typeVLAN = 0x8100
	typeQinQ = 0x88a8
)

type v4 struct {
	src, dst string
	proto    byte
	fragment uint16 // flags and offset
	options  []byte
}

func (h v4) packet(payload ...[]byte) []byte {
	rest := join(payload...)
	header := 20 + len(h.options)
	b := make([]byte, 20, header+len(rest))
	b[0] = 0x40 | byte(header/4)
	binary.BigEndian.PutUint16(b[2:], uint16(header+len(rest)))
	binary.BigEndian.PutUint16(b[6:], h.fragment)
	b[8], b[9] = 64, h.proto
	src, dst := address(h.src, "198.18.0.9").As4(), address(h.dst, "198.18.0.1").As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum))
	return join(b, h.options, rest)
}

type v6 struct {
	src, dst string
	next     byte
}

func (h v6) packet(payload ...[]byte) []byte {
	rest := join(payload...)
	b := make([]byte, 40, 40+len(rest))
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], uint16(len(rest)))
	b[6], b[7] = h.next, 64
	src, dst := address(h.src, "fd00::9").As16(), address(h.dst, "fd00::1").As16()
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	return join(b, rest)
}

func address(s, other string) netip.Addr {
	if s == "" {
		s = other
	}
	return netip.MustParseAddr(s)
}

const (
	protoTCP  = 6
	protoUDP  = 17
	protoICMP = 1
	extHop    = 0
	extRoute  = 43
	extFrag   = 44
	extAH     = 51
	extNone   = 59
	extDst    = 60
)

const (
	flagSYN = 0x02
	flagACK = 0x10
)

func tcp(port uint16, flags byte) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b[0:], 40000)
	binary.BigEndian.PutUint16(b[2:], port)
	b[12], b[13] = 0x50, flags
	binary.BigEndian.PutUint16(b[14:], 0xffff)
	return b
}

func udp(port uint16) []byte {
	b := make([]byte, 8)
	binary.BigEndian.PutUint16(b[2:], port)
	b[5] = 8
	return b
}

// extension is an IPv6 extension header of so many units of eight bytes.
func extension(next byte, units int) []byte {
	b := make([]byte, units*8)
	b[0], b[1] = next, byte(units-1)
	return b
}

func fragmentHeader(next byte, offset uint16, more bool) []byte {
	b := []byte{next, 0, 0, 0, 0, 0, 0, 1}
	binary.BigEndian.PutUint16(b[2:], offset<<3)
	if more {
		b[3] |= 1
	}
	return b
}

func authHeader(next byte) []byte {
	b := make([]byte, 24)
	b[0], b[1] = next, 24/4-2
	return b
}

// syn4 and syn6 are the packets that most tests send.
func syn4(src string) []byte {
	return ether(typeV4, v4{src: src, proto: protoTCP}.packet(tcp(443, flagSYN)))
}

func syn6(src string) []byte {
	return ether(typeV6, v6{src: src, next: protoTCP}.packet(tcp(443, flagSYN)))
}

// synFrom is a SYN from any address.
func synFrom(a netip.Addr) []byte {
	if a.Is4() {
		return syn4(a.String())
	}
	return syn6(a.String())
}

// newCable makes two namespaces with a cable between them, and takes the test into the first.
func newCable(t testing.TB) (far netlab.Namespace) {
	t.Helper()
	near, far := netlab.Cable(t)
	near.Enter(t)
	return far
}

// bpffs mounts a BPF file system that only this test sees, and that is gone with it, however it ends.
func bpffs(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	runtime.LockOSThread() // for good: the thread ends with the test
	if err := mountBPF(dir); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// mountBPF mounts a BPF file system for this thread alone, which is of no use to others afterwards.
func mountBPF(dir string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("bpf", dir, "bpf", 0, "")
}

func indexOf(t testing.TB, name string) int {
	t.Helper()
	iface, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return iface.Index
}
