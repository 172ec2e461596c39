package xdpgate

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"weir/throttle/bloom"
)

// Counters are packets since the program was first attached, on all CPUs together.
type Counters struct {
	Passed    uint64 `json:"passed"`     // within their limit
	Limited   uint64 `json:"limited"`    // over it
	Banned    uint64 `json:"banned"`     // from a banned network
	Allowed   uint64 `json:"allowed"`    // from a network on the allow list
	Exempt    uint64 `json:"exempt"`     // from a network that the limit does not hold for
	Unwatched uint64 `json:"unwatched"`  // not limited: another port, another protocol, no SYN
	Malformed uint64 `json:"malformed"`  // shorter than they say; left to the network stack, which drops them
	TooCostly uint64 `json:"too_costly"` // larger than any burst
	Shadowed  uint64 `json:"shadowed"`   // let pass in shadow: they count as limited, banned or too costly as well
}

// Dropped is how many packets went no further.
func (c Counters) Dropped() uint64 {
	refused := c.Limited + c.Banned + c.TooCostly
	return refused - min(c.Shadowed, refused) // one may have been counted while they were read
}

// ByName calls f with the name and the figure of each counter, for metrics.
func (c Counters) ByName(f func(name string, n uint64)) {
	for i, n := range c.figures() {
		f(counterNames[i], *n)
	}
}

// counterNames and figures are in the order of the program's outcomes.
var counterNames = [...]string{"passed", "limited", "banned", "allowed", "exempt", "unwatched", "malformed",
	"too_costly", "shadowed"}

func (c *Counters) figures() [len(counterNames)]*uint64 {
	return [...]*uint64{&c.Passed, &c.Limited, &c.Banned, &c.Allowed, &c.Exempt, &c.Unwatched, &c.Malformed,
		&c.TooCostly, &c.Shadowed}
}

// Stats is the state of the tables as the last sweep found it.
type Stats struct {
	bloom.Stats
	Bans   int `json:"bans"`
	Allows int `json:"allows"`
	// where the program runs: native or generic; empty when somebody has removed it
	Attach Attachment `json:"attach"`
}

// An Entry is a network on a list.
type Entry struct {
	Prefix netip.Prefix `json:"prefix"`
	Until  time.Time    `json:"until,omitzero"` // zero: permanently
	Static bool         `json:"static"`         // from the configuration
}

// A Pinned is what a gate has pinned, whether it runs or not: see List.
type Pinned struct {
	Interface string `json:"interface"`
	Path      string `json:"path"`     // of the pins
	Version   string `json:"version"`  // of their layout
	Held      bool   `json:"held"`     // by a weir that runs
	Attached  bool   `json:"attached"` // the program sees packets
	// Elsewhere: it sees them in another network namespace, or the interface has another name now.
	Elsewhere bool       `json:"elsewhere,omitempty"`
	Attach    Attachment `json:"attach"` // native or generic, while it sees packets in this namespace
	Shadow    bool       `json:"shadow"`
	Bans      int        `json:"bans"`
	Allows    int        `json:"allows"`
	Bytes     int64      `json:"bytes"` // of the tables
	Counters  Counters   `json:"counters"`
}

// Why something could not be done.
var (
	ErrListFull    = fmt.Errorf("the list is full: it holds %d networks", MaxEntries)
	ErrStatic      = errors.New("the network is on the list by configuration")
	ErrClosed      = errors.New("the gate is closed")
	ErrNotAttached = errors.New("the gate is not attached")
	ErrNotPinned   = errors.New("nothing is pinned for the interface")
)

// Why the packets of a gate that was attached are not limited any more: see Gate.Limits. Configure puts the program
// back.
var (
	ErrInterfaceGone = errors.New("the interface is gone")
	ErrRemoved       = errors.New("somebody removed the program from the interface, or the interface was created again")
	ErrReplaced      = errors.New("somebody put another program in the place of weir's")
)

// MissingCapabilities is why the kernel would not take the program from this process. It is an fs.ErrPermission.
type MissingCapabilities struct{ Missing []string }

func (e *MissingCapabilities) Error() string {
	return fmt.Sprintf("limiting packets needs %s, which this process does not have (run as root, or "+
		"AmbientCapabilities=%s in the unit of systemd)",
		strings.Join(e.Missing, ", "), strings.Join(e.Missing, " "))
}

// Is reports whether target is fs.ErrPermission.
func (e *MissingCapabilities) Is(target error) bool { return target == fs.ErrPermission }

// UnsupportedKernel is why this system cannot limit packets. It is an errors.ErrUnsupported.
type UnsupportedKernel struct{ Have, Need string }

func (e *UnsupportedKernel) Error() string {
	return fmt.Sprintf("limiting packets needs %s; this is %s", e.Need, e.Have)
}

// Is reports whether target is errors.ErrUnsupported.
func (e *UnsupportedKernel) Is(target error) bool { return target == errors.ErrUnsupported }

// Occupied is why the program could not be attached: another one is on the interface.
type Occupied struct {
	Interface string
	Program   string // its name, where this process may ask for it
	ID        uint32
}

func (e *Occupied) Error() string {
	name := ""
	if e.Program != "" {
		name = fmt.Sprintf(" %q", e.Program)
	}
	return fmt.Sprintf("another XDP program%s (id %d) is on %s already (ip link set dev %[3]s xdp off removes it; if "+
		"it hangs on a link, bpftool link finds its owner)", name, e.ID, e.Interface)
}

// Elsewhere is why the program could not be attached: what is pinned there limits an interface of another network
// namespace.
type Elsewhere struct{ Interface, Path string }

func (e *Elsewhere) Error() string {
	return fmt.Sprintf("%s belongs to an interface %s of another network namespace (give each namespace its own pin, "+
		"or weir xdp detach)", e.Path, e.Interface)
}

// InUse is why the program could not be attached: another weir has what is pinned there.
type InUse struct {
	Path string
	PID  int // of the other weir; 0 where the system does not say
}

func (e *InUse) Error() string {
	who := "another weir"
	if e.PID > 0 {
		who += fmt.Sprintf(", process %d,", e.PID)
	}
	return fmt.Sprintf("%s limits packets by way of %s (stop it, or give this one its own pin and interface)", who, e.Path)
}

// NoFileSystem is why nothing could be pinned: the path is in no BPF file system.
type NoFileSystem struct{ Path string }

func (e *NoFileSystem) Error() string {
	return fmt.Sprintf("%s is in no BPF file system (mount -t bpf bpf /sys/fs/bpf)", e.Path)
}
