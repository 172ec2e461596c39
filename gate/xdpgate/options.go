package xdpgate

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"weir"
	"weir/throttle/bloom"
)

// A Mode says what counts against the limit.
type Mode string

// What may count.
const (
	SYN     Mode = "syn"     // each packet that asks for a TCP connection
	Packets Mode = "packets" // each packet
	Bytes   Mode = "bytes"   // the length of each packet, with all its headers
)

// An Attachment says where in the kernel the program runs.
type Attachment string

// Where the program may run.
const (
	Auto    Attachment = "auto"    // in the driver, or else in the stack
	Native  Attachment = "native"  // in the driver of the network card, before memory is spent on a packet
	Generic Attachment = "generic" // in the network stack: works with every card, and is several times slower
)

// Options configure the network traffic limiter of one interface. It needs Linux, and the capabilities CAP_BPF,
// CAP_NET_ADMIN and CAP_PERFMON.
type Options struct {
	// The network interface whose incoming packets are limited: eth0.
	Interface string `yaml:"interface"`
	// What counts against the limit: syn (each packet that asks for a TCP connection), packets, or bytes. Default syn.
	Mode Mode `yaml:"mode"`
	// The limit of each source network. Tables that grow (max_memory) are not to be had in the kernel; count follows
	// from the mode.
	Bloom bloom.Options `yaml:"bloom"`
	// Destination ports to watch; packets to others pass. A fragment without a port counts as being for a watched one.
	// Default: all.
	Ports []int `yaml:"ports"`
	// Destination networks to watch; packets to others pass. Default: all.
	Prefixes []netip.Prefix `yaml:"prefixes"`
	// Source networks that are neither limited nor banned.
	Allow []netip.Prefix `yaml:"allow"`
	// Source networks whose packets are dropped, in every mode, when they are for what is watched.
	Ban []netip.Prefix `yaml:"ban"`
	// Judge and count, but let everything pass. Default false.
	Shadow bool `yaml:"shadow"`
	// Where the program runs: native (in the driver), generic (in the network stack, slower), or auto: native if the
	// driver can, else generic. Default auto.
	Attach Attachment `yaml:"attach"`
	// Where the program and its maps are pinned, in a BPF file system, so that the limits survive a restart. Default
	// /sys/fs/bpf/weir.
	Pin string `yaml:"pin"`
}

// DefaultPin is where programs and maps are pinned unless the options say otherwise.
const DefaultPin = "/sys/fs/bpf/weir"

// Bounds on what an operator may write, and on what may be added while the gate runs.
const (
	MaxEntries   = 100_000 // of the allow list, and of the ban list
	MaxPrefixes  = 10_000  // to watch
	MaxPorts     = 65_535
	MaxMemory    = 4 << 30
	maxInterface = 15 // characters, as the kernel has it
	maxGrain     = math.MaxInt32

	// The clock of the program may stand still for so long.
	tick = 10 * time.Millisecond
	// The largest packet: cards and kernels put several together before the program sees them.
	largestPacket = 64<<10 + 512
)

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	o.Mode = cmp.Or(o.Mode, SYN)
	o.Attach = cmp.Or(o.Attach, Auto)
	o.Pin = cmp.Or(o.Pin, DefaultPin)
	o.Bloom.Count = o.Mode.count()
	o.Bloom = o.Bloom.WithDefaults()
	return o
}

func (m Mode) count() bloom.Count {
	if m == Bytes {
		return bloom.Bytes
	}
	return bloom.Events
}

// Validate returns every mistake in the options, as joined weir.FieldErrors. Whether the interface exists is for Attach
// to say.
func (o Options) Validate() error {
	var all []error
	wrong := func(path, msg, hint string) {
		all = append(all, &weir.FieldError{Path: path, Msg: msg, Hint: hint})
	}
	switch name := o.Interface; {
	case name == "":
		wrong("interface", "the limiter has no network interface", "write interface: eth0")
	case len(name) > maxInterface || name == "." || name == ".." || strings.ContainsAny(name, "/: \t\r\n\x00"):
		wrong("interface", fmt.Sprintf("%q is not the name of a network interface", name), "ip link lists them")
	}
	oneOf(wrong, "mode", o.Mode, SYN, Packets, Bytes)
	oneOf(wrong, "attach", o.Attach, Auto, Native, Generic)
	if o.Pin != "" && (!filepath.IsAbs(o.Pin) || strings.Contains(o.Pin, "\x00")) {
		wrong("pin", fmt.Sprintf("%q is not an absolute path", o.Pin), "write "+DefaultPin)
	}
	if len(o.Ports) > MaxPorts {
		wrong("ports", fmt.Sprintf("%d ports are too many", len(o.Ports)), fmt.Sprintf("at most %d", MaxPorts))
	}
	for i, port := range o.Ports {
		if port < 1 || port > 65535 {
			wrong(fmt.Sprintf("ports[%d]", i), fmt.Sprintf("%d is not a port", port), "1 to 65535")
		}
	}
	for _, list := range []struct {
		path     string
		prefixes []netip.Prefix
		most     int
	}{{"prefixes", o.Prefixes, MaxPrefixes}, {"allow", o.Allow, MaxEntries}, {"ban", o.Ban, MaxEntries}} {
		if n := len(list.prefixes); n > list.most {
			wrong(list.path, fmt.Sprintf("%d networks are too many", n), fmt.Sprintf("at most %d", list.most))
		}
		for i, p := range list.prefixes {
			if !p.IsValid() {
				wrong(fmt.Sprintf("%s[%d]", list.path, i), "not a network", "write 192.0.2.0/24 or 2001:db8::/32")
			}
		}
	}
	if o.Bloom.MaxMemory != 0 {
		wrong("bloom.max_memory", "tables in the kernel do not grow", "leave it out, and plan for more attackers")
	}
	switch count := o.Bloom.Count; count {
	case "", bloom.Events, bloom.Bytes:
		if mode := cmp.Or(o.Mode, SYN); count != "" && count != mode.count() {
			wrong("bloom.count", fmt.Sprintf("%s are counted, but the mode is %s", count, mode),
				"leave it out: it follows from the mode")
		}
	}
	limit := o.Bloom
	if limit.Count == "" {
		limit.Count = cmp.Or(o.Mode, SYN).count()
	}
	if err := limit.Validate(); err != nil {
		all = append(all, weir.Under("bloom", err))
	} else {
		o.validateShapes(wrong)
	}
	return errors.Join(all...)
}

// validateShapes finds what the kernel's clock and numbers are too coarse for.
func (o Options) validateShapes(wrong func(path, msg, hint string)) {
	o = o.WithDefaults()
	shapes, err := o.Bloom.Shapes()
	if err != nil {
		wrong("bloom", err.Error(), "") // Validate has said that there are shapes
		return
	}
	rate := o.Bloom.Rate
	if least := math.Ceil(float64(rate.Count) * tick.Seconds() / rate.Per.Seconds()); float64(o.Bloom.Burst) < least {
		wrong("bloom.burst", fmt.Sprintf("a burst of %d is used up in less than a tick of the kernel's clock (%s)",
			o.Bloom.Burst, tick),
			fmt.Sprintf("at least %.0f: what %s gives in that time", least, rate))
	}
	if s := shapes[0]; o.Mode == Bytes && s.Burst() < largestPacket {
		wrong("bloom.burst", fmt.Sprintf("a burst of %d holds no packet of %d bytes", o.Bloom.Burst, largestPacket),
			fmt.Sprintf("at least %d", largestPacket+int64(s.K)*s.Grain))
	}
	var bytes int64
	for _, s := range shapes {
		bytes += 2 * s.Bytes()
		if s.Grain > maxGrain {
			wrong("bloom.burst", fmt.Sprintf("a token would stand for %d", s.Grain), "a smaller burst")
			break
		}
	}
	if bytes > MaxMemory {
		wrong("bloom.attackers", fmt.Sprintf("the tables would take %s of the kernel's memory", weir.Size(bytes)),
			fmt.Sprintf("at most %s: fewer attackers, more collateral, or fewer levels of IPv6", weir.Size(MaxMemory)))
	}
}

func oneOf[T ~string](wrong func(path, msg, hint string), path string, got T, known ...T) {
	names := make([]string, len(known))
	for i, k := range known {
		if names[i] = string(k); got == k || got == "" {
			return
		}
	}
	hint := "one of " + strings.Join(names, ", ")
	if close := weir.Nearest(string(got), names...); close != "" {
		hint = fmt.Sprintf("did you mean %q?", close)
	}
	wrong(path, fmt.Sprintf("unknown %s %q", path, got), hint)
}
