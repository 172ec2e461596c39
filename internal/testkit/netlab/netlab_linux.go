package netlab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/testkit/needs"
)

// The ends of a cable, and their addresses. Both networks are set aside for measurements and for private use.
const (
	Host   = "host0" // the near end
	Wire   = "wire0" // the far end
	HostV4 = "198.18.0.1"
	HostV6 = "fd00::1"
	WireV4 = "198.18.0.2"
	wireV6 = "fd00::2"
	bitsV4 = "/15"
	bitsV6 = "/8"
)

// The addresses of the ends. WireMAC is for those who tell the near end about more addresses of the far one: a flood
// from many addresses fills the table of neighbours, and then the system finds no others.
var (
	hostMAC = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	WireMAC = net.HardwareAddr{2, 0, 0, 0, 0, 2}
)

// A Namespace is a network of its own, with no way out.
type Namespace struct{ file *os.File }

// New makes a namespace. If that is impossible, the test is skipped, or fails in CI.
func New(t testing.TB) Namespace {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		needs.Skip(t, "network namespaces need the command ip (iproute2)")
	}
	var ns Namespace
	err := onThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			ns.file, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		}
		return err
	})
	if errors.Is(err, unix.EPERM) {
		needs.Skip(t, "network namespaces need root")
	}
	if err != nil {
		t.Fatalf("a network namespace: %v", err)
	}
	t.Cleanup(func() { ns.file.Close() })
	if err := ns.Do(func() error { return Command("ip", "link", "set", "lo", "up") }); err != nil {
		t.Fatal(err)
	}
	return ns
}

// onThread runs f on a thread that ends with it, so that no other code runs in another namespace. The thread returns to
// its own namespace before, since the first thread of a process never ends and would keep the other one alive.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := errors.New("ended by the test")
		defer func() { done <- err }()
		home, openErr := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		if openErr != nil {
			err = openErr
			return
		}
		defer home.Close()
		defer unix.Setns(int(home.Fd()), unix.CLONE_NEWNET)
		err = f()
	}()
	return <-done
}

// Do runs f inside the namespace. Processes that it starts stay there.
func (ns Namespace) Do(f func() error) error {
	return onThread(func() error {
		if err := ns.join(); err != nil {
			return err
		}
		return f()
	})
}

// join takes the thread into the namespace. Somebody may still want to when the test has ended: they get an error.
func (ns Namespace) join() error {
	raw, err := ns.file.SyscallConn()
	if err != nil {
		return err
	}
	var joined error
	if err := raw.Control(func(fd uintptr) { joined = unix.Setns(int(fd), unix.CLONE_NEWNET) }); err != nil {
		return err
	}
	return joined
}

// Enter takes the test itself into the namespace until its end.
func (ns Namespace) Enter(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	home, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.join(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer home.Close()
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err == nil {
			runtime.UnlockOSThread() // otherwise the thread ends with the goroutine
		}
	})
}

// Cable makes two namespaces with a cable between them.
func Cable(t testing.TB) (near, far Namespace) {
	t.Helper()
	near, far = New(t), New(t)
	there := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), far.file.Fd())
	err := near.Do(func() error {
		return errors.Join(
			Command("ip", "link", "add", Host, "address", hostMAC.String(), "type", "veth", "peer", "name", Wire,
				"address", WireMAC.String(), "netns", there),
			Command("ip", "addr", "add", HostV4+bitsV4, "dev", Host),
			Command("ip", "addr", "add", HostV6+bitsV6, "dev", Host, "nodad"),
			Command("ip", "link", "set", Host, "up"))
	})
	if err != nil {
		t.Fatal(err)
	}
	err = far.Do(func() error {
		return errors.Join(
			Command("ip", "addr", "add", WireV4+bitsV4, "dev", Wire),
			Command("ip", "addr", "add", wireV6+bitsV6, "dev", Wire, "nodad"),
			Command("ip", "link", "set", Wire, "up"),
			Command("ip", "neigh", "add", HostV4, "lladdr", hostMAC.String(), "dev", Wire, "nud", "permanent"),
			Command("ip", "neigh", "add", HostV6, "lladdr", hostMAC.String(), "dev", Wire, "nud", "permanent"))
	})
	if err != nil {
		t.Fatal(err)
	}
	return near, far
}

// BPF mounts a BPF file system for one test and returns where.
func BPF(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, ""); err != nil {
		t.Fatalf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// goneWithin is how long the kernel may take to remove an unused namespace.
const goneWithin = 60 // seconds

// End removes the namespace of the near end of a cable, with its interface. No thread may be inside. It returns when
// the kernel has told the far end that the cable is gone.
func (ns Namespace) End(t testing.TB, far Namespace) {
	t.Helper()
	if err := far.Do(func() error { return ns.end() }); err != nil {
		t.Fatalf("the end of a network namespace: %v", err)
	}
}

// end is called inside the far namespace.
func (ns Namespace) end() error {
	wire, err := net.InterfaceByName(Wire)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_LINK}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: goneWithin})); err != nil {
		return err
	}
	ns.file.Close()
	for buf := make([]byte, 1<<16); ; {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("the far end still has its cable: %w", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return err
		}
		for _, m := range messages {
			if m.Header.Type == unix.RTM_DELLINK && len(m.Data) >= unix.SizeofIfInfomsg &&
				int(binary.NativeEndian.Uint32(m.Data[4:])) == wire.Index {
				return nil
			}
		}
	}
}

// Command runs a command, and tells what it said when it fails.
func Command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
