//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"weir/gate"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/netlab"
)

// attachIn attaches a gate in a namespace.
func attachIn(t *testing.T, ns netlab.Namespace, o Options) *Gate {
	t.Helper()
	g, err := New(o, Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	if err := ns.Do(g.Attach); err != nil {
		t.Fatal(err)
	}
	return g
}

// dead returns what RemoveDead removes.
func dead(t *testing.T, pin string) []string {
	t.Helper()
	removed, err := RemoveDead(pin)
	if err != nil {
		t.Fatal(err)
	}
	return removed
}

// TestPinsOfAGoneNamespace: a namespace ends, and what its weir pinned is removed. What limits packets in another
// namespace is not.
func TestPinsOfAGoneNamespace(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	pin := filepath.Join(netlab.BPF(t), "weir")
	near, far := netlab.Cable(t)
	o := slow()
	o.Interface, o.Pin = netlab.Host, pin
	attachIn(t, near, o).Close() // the limits stay

	living := netlab.New(t)
	o.Interface = "lo"
	g := attachIn(t, living, o)
	g.Close()

	// Both are in namespaces that this test is not in.
	list, err := List(pin)
	if err != nil || len(list) != 2 {
		t.Fatalf("pinned: %+v, %v", list, err)
	}
	for _, p := range list {
		if !p.Attached || !p.Elsewhere || p.Held || p.Attach != "" {
			t.Errorf("pinned: %+v", p)
		}
	}
	if got := dead(t, pin); len(got) != 0 {
		t.Fatalf("%v removed while their namespaces live", got)
	}

	near.End(t, far)
	if list, err := List(pin); err != nil || len(list) != 2 || list[0].Interface != netlab.Host || list[0].Attached ||
		!list[1].Attached {
		t.Errorf("pinned after the end: %+v, %v", list, err)
	}
	if got := dead(t, pin); !reflect.DeepEqual(got, []string{netlab.Host}) {
		t.Errorf("%v removed after the end of a namespace", got)
	}
	if list, err := List(pin); err != nil || len(list) != 1 || list[0].Interface != "lo" || !list[0].Attached {
		t.Errorf("pinned in the other namespace: %+v, %v", list, err)
	}
	if got := dead(t, pin); len(got) != 0 {
		t.Errorf("%v removed at the second time", got)
	}
	if err := Detach(pin, "lo"); err != nil {
		t.Fatal(err)
	}
}

// TestDeadPinsOfARunningWeir: a weir whose interface is gone keeps its pins while it runs, and takes them over when
// both are back.
func TestDeadPinsOfARunningWeir(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	near, _ := netlab.Cable(t)
	o := slow()
	o.Interface, o.Pin = netlab.Host, filepath.Join(netlab.BPF(t), "weir")
	g := attachIn(t, near, o)
	remove := func() {
		if err := near.Do(func() error { return netlab.Command("ip", "link", "del", netlab.Host) }); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	if got := dead(t, o.Pin); len(got) != 0 {
		t.Fatalf("%v removed, of a weir that runs", got)
	}
	if list, err := List(o.Pin); err != nil || len(list) != 1 || list[0].Attached || !list[0].Held {
		t.Errorf("pinned: %+v, %v", list, err)
	}
	if err := near.Do(func() error {
		if err := netlab.Command("ip", "link", "add", netlab.Host, "type", "veth", "peer", "name",
			"other"); err != nil {
			return err
		}
		return g.Configure(o) // a reload
	}); err != nil {
		t.Fatal(err)
	}
	if err := near.Do(g.Limits); err != nil {
		t.Errorf("after a reload: %v", err)
	}
	remove()
	g.Close()
	if got := dead(t, o.Pin); !reflect.DeepEqual(got, []string{netlab.Host}) {
		t.Errorf("%v removed when weir was gone", got)
	}
	if _, err := os.Stat(o.Pin); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is left: %v", err)
	}
}

// TestHalfPinned: a weir that was killed while it started leaves a folder without a link. A weir that starts now is
// not disturbed.
func TestHalfPinned(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	pin := filepath.Join(netlab.BPF(t), "weir")
	half := pinsOf(pin, "eth9")
	held, err := half.hold()
	if err != nil {
		t.Fatal(err)
	}
	if got := dead(t, pin); len(got) != 0 {
		t.Errorf("%v removed, of a weir that starts", got)
	}
	held.Close()
	if got := dead(t, pin); !reflect.DeepEqual(got, []string{"eth9"}) {
		t.Errorf("%v removed", got)
	}
	// Nor does one that starts lock a folder that somebody removes at that moment.
	old, err := half.hold()
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := half.remove(); err != nil {
		t.Fatal(err)
	}
	if f, err := half.lock(); f != nil || err != nil {
		t.Errorf("a folder that is gone: %v, %v", f, err)
	}
	again, err := half.hold()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if free, err := half.seize(); free != nil || err != nil {
		t.Errorf("the new folder is not held: %v", err)
	}
}

// TestOneWeirForEachPin: a second weir with the same pin is refused, and told which process has it. The first one may
// put another program in place all the same, and the next weir may follow when it has ended.
func TestOneWeirForEachPin(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	near, _ := netlab.Cable(t)
	o := slow()
	o.Interface, o.Pin = netlab.Host, filepath.Join(netlab.BPF(t), "weir")
	first := attachIn(t, near, o)
	second, err := New(o, Env{})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	err = near.Do(second.Attach)
	if by, ok := errors.AsType[*InUse](err); !ok || by.PID != os.Getpid() || !strings.HasPrefix(by.Path, o.Pin) {
		t.Fatalf("the second: %v", err)
	}
	o.Shadow = true
	if err := near.Do(func() error { return first.Configure(o) }); err != nil {
		t.Errorf("a reload of the first: %v", err)
	}
	if err := near.Do(second.Attach); err == nil {
		t.Error("the second is let in after a reload of the first")
	}
	first.Close()
	if err := near.Do(second.Attach); err != nil {
		t.Errorf("after the first: %v", err)
	}
}

// TestPinsOfAnotherNamespace: interfaces of two namespaces have the same name and the same number. The second weir
// takes nothing from the first, and does not think that its own packets are limited.
func TestPinsOfAnotherNamespace(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	o := slow()
	o.Pin = filepath.Join(netlab.BPF(t), "weir")
	first, second := netlab.New(t), netlab.New(t)
	g := attachIn(t, first, o)
	if got := g.granted(t, syn4("198.18.7.1")); got != 10 {
		t.Fatalf("%d granted", got)
	}
	before := g.kernel.id
	other, err := New(o, Env{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	err = second.Do(other.Attach)
	if there, ok := errors.AsType[*Elsewhere](err); !ok || there.Interface != "lo" ||
		!strings.HasPrefix(there.Path, o.Pin) {
		t.Fatalf("a second namespace: %v", err)
	}
	if err := first.Do(g.Limits); err != nil {
		t.Errorf("the first: %v", err)
	}
	if at, err := whereIs(g.kernel.link); err != nil || at.prog != before {
		t.Errorf("the first runs %+v, was %d, %v", at, before, err)
	}
	if got := g.judge(t, syn4("198.18.7.1")); got != xdpDrop {
		t.Errorf("answer %d of the first", got)
	}
	g.Close()
	if err := first.Do(func() error { return Detach(o.Pin, "lo") }); err != nil {
		t.Fatal(err)
	}
	if err := second.Do(other.Attach); err != nil {
		t.Errorf("after the first: %v", err)
	}
	if err := second.Do(other.Limits); err != nil {
		t.Error(err)
	}
}

// TestNoPacketsAreLimited: whatever takes the program from its interface, the log says it once, at the next care or
// when somebody asks, and a reload puts it back.
func TestNoPacketsAreLimited(t *testing.T) {
	needs.Unwatched(t)
	needsKernel(t)
	near, _ := netlab.Cable(t)
	near.Enter(t)
	const line = "NO PACKETS ARE LIMITED on " + netlab.Host
	for _, c := range []struct {
		name string
		do   func(t *testing.T, g *Gate) error
		undo func() error
		want error
	}{
		{"detach", func(_ *testing.T, g *Gate) error { return Detach(g.plan.opts.Pin, netlab.Host) }, nil, ErrRemoved},
		{"replace", func(t *testing.T, g *Gate) error {
			other, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "somebody", Type: ebpf.XDP,
				AttachType: ebpf.AttachXDP, License: "MIT",
				Instructions: asm.Instructions{asm.LoadImm(asm.R0, xdpPass, asm.DWord), asm.Return()}})
			if err != nil {
				return err
			}
			defer other.Close()
			return g.kernel.link.Update(other)
		}, nil, ErrReplaced},
		{"rename",
			func(*testing.T, *Gate) error { return netlab.Command("ip", "link", "set", netlab.Host, "name", "lan0") },
			func() error { return netlab.Command("ip", "link", "set", "lan0", "name", netlab.Host) }, ErrInterfaceGone},
		{"anew", func(*testing.T, *Gate) error {
			return errors.Join(netlab.Command("ip", "link", "del", netlab.Host),
				netlab.Command("ip", "link", "add", netlab.Host, "type", "veth", "peer", "name", "other"))
		}, nil, ErrRemoved},
		{"delete", func(*testing.T, *Gate) error { return netlab.Command("ip", "link", "del", netlab.Host) },
			func() error {
				return netlab.Command("ip", "link", "add", netlab.Host, "type", "veth", "peer", "name", "other")
			}, ErrInterfaceGone},
	} {
		o := slow()
		o.Interface, o.Pin = netlab.Host, filepath.Join(netlab.BPF(t), "weir")
		var said bytes.Buffer
		fake := clock.NewFake(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
		g := attached(t, o, Env{Env: gate.Env{Clock: fake, Log: slog.New(slog.NewTextHandler(&said, nil))}})
		if err := g.Ban(netip.MustParsePrefix("198.18.67.0/24"), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if err := g.Limits(); err != nil {
			t.Fatalf("%s: %v before", c.name, err)
		}
		fake.Advance(time.Minute)
		if strings.Contains(said.String(), line) {
			t.Fatalf("%s: said too early: %s", c.name, &said)
		}
		if err := c.do(t, g); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for range 3 {
			fake.Advance(time.Minute)
		}
		if n := strings.Count(said.String(), `level=ERROR msg="`+line); n != 1 {
			t.Errorf("%s: said %d times: %s", c.name, n, &said)
		}
		if err := g.Limits(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if got := mode(t, g); got != "" {
			t.Errorf("%s: runs %s", c.name, got)
		}
		if c.undo != nil {
			if err := c.undo(); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Configure(o); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := g.Limits(); err != nil || mode(t, g) == "" {
			t.Errorf("%s: after a reload: %v", c.name, err)
		}
		if strings.Count(said.String(), line) != 1 ||
			!strings.Contains(said.String(), `level=INFO msg="packets are limited again"`) {
			t.Errorf("%s: said %s", c.name, &said)
		}
		if err := Detach(o.Pin, netlab.Host); err != nil {
			t.Fatal(err)
		}
	}
}
