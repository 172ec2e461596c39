package xdpgate

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"slices"
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
	// The limit of each source network. Tables that grow (max_memory) are not available in the kernel; count follows
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

// Bounds on the options, and on what may be added while the gate runs.
const (
	MaxEntries   = 100_000 // networks that are allowed, and as many that are banned
	MaxPrefixes  = 10_000  // to watch
	MaxPorts     = 65_535
	MaxMemory    = 4 << 30
	maxInterface = 15 // characters, as the kernel has it
	maxGrain     = math.MaxInt32

	// The clock of the program ticks at least this often.
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
	var v weir.Mistakes
	switch name := o.Interface; {
	case name == "":
		v.Add("interface", "the limiter has no network interface", "write interface: eth0")
	case len(name) > maxInterface || name == "." || name == ".." || strings.ContainsAny(name, "/: \t\r\n\x00"):
		v.Add("interface", fmt.Sprintf("%q is not the name of a network interface", name), "ip link lists them")
	}
	v.OneOf("mode", string(o.Mode), string(SYN), string(Packets), string(Bytes))
	v.OneOf("attach", string(o.Attach), string(Auto), string(Native), string(Generic))
	if o.Pin != "" && (!filepath.IsAbs(o.Pin) || strings.Contains(o.Pin, "\x00")) {
		v.Add("pin", fmt.Sprintf("%q is not an absolute path", o.Pin), "write "+DefaultPin)
	}
	v.AtMost("ports", "ports", len(o.Ports), MaxPorts)
	for i, port := range o.Ports {
		if port < 1 || port > 65535 {
			v.Add(fmt.Sprintf("ports[%d]", i), fmt.Sprintf("%d is not a port", port), "1 to 65535")
		}
	}
	for _, list := range []struct {
		path     string
		prefixes []netip.Prefix
		most     int
	}{{"prefixes", o.Prefixes, MaxPrefixes}, {"allow", o.Allow, MaxEntries}, {"ban", o.Ban, MaxEntries}} {
		v.AtMost(list.path, "networks", len(list.prefixes), list.most)
		v.Networks(list.path, list.prefixes)
	}
	if o.Bloom.MaxMemory != 0 {
		v.Add("bloom.max_memory", "tables in the kernel do not grow", "leave it out, and plan for more attackers")
	}
	mode, limit := cmp.Or(o.Mode, SYN), o.Bloom
	limit.Count = cmp.Or(limit.Count, mode.count())
	if (limit.Count == bloom.Events || limit.Count == bloom.Bytes) && limit.Count != mode.count() {
		v.Add("bloom.count", fmt.Sprintf("%s are counted, but the mode is %s", limit.Count, mode),
			"leave it out: it follows from the mode")
	}
	if err := limit.Validate(); err != nil {
		v.Under("bloom", err)
	} else {
		o.validateShapes(&v)
	}
	return v.Err()
}

// validateShapes finds limits that the kernel's clock and numbers are too coarse for.
func (o Options) validateShapes(v *weir.Mistakes) {
	o = o.WithDefaults()
	shapes, err := o.Bloom.Shapes()
	if err != nil {
		v.Add("bloom", err.Error(), "") // unreachable: Validate has found shapes
		return
	}
	rate := o.Bloom.Rate
	if least := math.Ceil(float64(rate.Count) * tick.Seconds() / rate.Per.Seconds()); float64(o.Bloom.Burst) < least {
		v.Add("bloom.burst", fmt.Sprintf("a burst of %d is used up in less than a tick of the kernel's clock (%s)",
			o.Bloom.Burst, tick),
			fmt.Sprintf("at least %.0f: what %s gives in that time", least, rate))
	}
	if s := shapes[0]; o.Mode == Bytes && s.Burst() < largestPacket {
		v.Add("bloom.burst", fmt.Sprintf("a burst of %d holds no packet of %d bytes", o.Bloom.Burst, largestPacket),
			fmt.Sprintf("at least %d", largestPacket+int64(s.K)*s.Grain))
	}
	if i := slices.IndexFunc(shapes, func(s bloom.Shape) bool { return s.Grain > maxGrain }); i >= 0 {
		v.Add("bloom.burst", fmt.Sprintf("a token would count for %d", shapes[i].Grain), "a smaller burst")
	}
	if bytes := shapes.Bytes(); bytes > MaxMemory {
		v.Add("bloom.attackers", fmt.Sprintf("the tables would take %s of the kernel's memory", weir.Size(bytes)),
			fmt.Sprintf("at most %s: fewer attackers, more collateral, or fewer levels of IPv6", weir.Size(MaxMemory)))
	}
}
