//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"weir/identify"
	"weir/throttle/bloom"
)

// The oldest kernels. Compare-and-swap came with 5.12 on amd64 and with 5.18 on arm64; 5.15 is the oldest that is still
// maintained.
var oldest = map[string][2]int{"amd64": {5, 15}, "arm64": {5, 18}}

// checkSystem reports what is missing here, as the kernel would only say "invalid argument".
func checkSystem() error {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("cannot ask for the kernel's version: %w", err)
	}
	need := oldest[runtime.GOARCH]
	if release := unix.ByteSliceToString(name.Release[:]); !newEnough(release, need[0], need[1]) {
		return &UnsupportedKernel{Have: "Linux " + release, Need: fmt.Sprintf("Linux %d.%d", need[0], need[1])}
	}
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return fmt.Errorf("cannot read the capabilities of this process: %w", err)
	}
	missing, err := missingCapabilities(string(status))
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return &MissingCapabilities{missing}
	}
	return nil
}

// A plan is what loading the program needs.
type plan struct {
	opts     Options // complete
	shapes   bloom.Shapes
	settings objectSettings
	ports    [65536 / 64]uint64
	ranges   []bloom.Range
	lines    uint32 // of all tables
}

// The numbers of the modes in the program.
var modes = map[Mode]uint32{SYN: 0, Packets: 1, Bytes: 2}

func newPlan(o Options) (*plan, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	shapes, err := o.Bloom.Shapes()
	if err != nil {
		return nil, err
	}
	return planFor(o, shapes), nil
}

// planFor makes a plan for shapes that have been checked. The options are complete.
func planFor(o Options, shapes bloom.Shapes) *plan {
	p := &plan{opts: o, shapes: shapes, ranges: o.Bloom.Ranges()}
	c := &p.settings
	for i, s := range shapes {
		l := &c.Level[i]
		l.UnitNs, l.Lines, l.Capacity = uint64(s.Unit), uint32(s.Lines), uint32(s.Capacity)
		l.PerUnit, l.Grain, l.V6Bits = uint32(s.PerUnit), uint32(s.Grain), uint32(o.Bloom.V6[i])
		l.Parts, l.Most, l.Share = uint32(s.Parts), uint32(s.Most()), uint32(s.Share)
		l.Bytes, l.Lanes = uint32(s.Bits/8), uint32(s.Lanes())
		for half := range l.Base {
			l.Base[half] = p.lines
			p.lines += uint32(s.Lines)
		}
	}
	if runtime.GOARCH == "amd64" {
		c.Ordered = 1
	}
	c.Levels, c.K, c.Mode, c.V4Bits = uint32(len(shapes)), uint32(shapes[0].K), modes[o.Mode], uint32(o.Bloom.V4)
	if len(o.Ports) > 0 {
		c.WatchPorts = 1
	}
	for _, port := range o.Ports {
		p.ports[port/64] |= 1 << (port % 64)
	}
	if len(o.Prefixes) > 0 {
		c.WatchPrefixes = 1
	}
	if len(p.ranges) > 0 {
		c.HaveRanges = 1
	}
	return p
}

// layout is the version of what is pinned: the maps, and what stands in them. Another layout gets another path.
const layout = "v4"

// fingerprint differs for tables that cannot be taken over.
func (p *plan) fingerprint() uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, layout, p.opts.Mode, p.opts.Bloom.V4, p.opts.Bloom.V6, p.shapes)
	return h.Sum64()
}

// objects are the program and its maps. Those that outlive a program are pinned.
type objects struct {
	prog                               *ebpf.Program
	lines, state, allow, ban, counters *ebpf.Map
}

// stateMap is the section of the object that the shared state is in.
const stateMap = ".data.state"

// names are what the maps are called: in the object, and as pins.
var names = []struct {
	object, pin string
	at          func(*objects) **ebpf.Map
}{
	{"lines", "lines", func(k *objects) **ebpf.Map { return &k.lines }},
	{stateMap, "state", func(k *objects) **ebpf.Map { return &k.state }},
	{"allow", "allow", func(k *objects) **ebpf.Map { return &k.allow }},
	{"ban", "ban", func(k *objects) **ebpf.Map { return &k.ban }},
	{"counters", "counters", func(k *objects) **ebpf.Map { return &k.counters }},
}

// programID is the program's number in the kernel.
func (k *objects) programID() (uint32, error) {
	info, err := k.prog.Info()
	if err != nil {
		return 0, fmt.Errorf("cannot ask for the id of the program: %w", err)
	}
	id, _ := info.ID()
	return uint32(id), nil
}

func (k *objects) Close() {
	if k.prog != nil {
		k.prog.Close()
	}
	for _, n := range names {
		if m := *n.at(k); m != nil {
			m.Close()
		}
	}
}

// spec is the object with its figures and sizes.
func (p *plan) spec() (*ebpf.CollectionSpec, error) {
	spec, err := loadObject()
	if err != nil {
		return nil, err
	}
	// Packets of several buffers are known since 5.18. Without them, drivers refuse native mode on interfaces with a
	// large MTU.
	c := p.settings
	if features.HaveProgramHelper(ebpf.XDP, asm.FnXdpGetBuffLen) == nil {
		c.Frags = 1
	} else {
		spec.Programs[objectProgWeirLimit].Flags &^= unix.BPF_F_XDP_HAS_FRAGS
	}
	if err := spec.Variables[objectVarConfig].Set(c); err != nil {
		return nil, err
	}
	if err := spec.Variables[objectVarPorts].Set(p.ports); err != nil {
		return nil, err
	}
	spec.Maps[objectMapLines].MaxEntries = p.lines
	spec.Maps[objectMapAllow].MaxEntries = MaxEntries
	spec.Maps[objectMapBan].MaxEntries = MaxEntries
	ranges, watched := spec.Maps[objectMapRanges], spec.Maps[objectMapWatched]
	for _, r := range p.ranges {
		e := objectListEntry{Bits: uint32(r.Prefix.Bits()), Mark: r.Group}
		if r.Exempt {
			e.Mark = markExempt
		}
		put(ranges, ebpf.MapKV{Key: keyOf(r.Prefix), Value: e})
	}
	for _, prefix := range p.opts.Prefixes {
		prefix = identify.PlainPrefix(prefix)
		put(watched, ebpf.MapKV{Key: keyOf(prefix), Value: objectListEntry{Bits: uint32(prefix.Bits())}})
	}
	return spec, nil
}

// markExempt marks a range that is not limited.
const markExempt = 1<<32 - 1

func put(m *ebpf.MapSpec, kv ebpf.MapKV) {
	m.Contents = append(m.Contents, kv)
	m.MaxEntries = uint32(len(m.Contents))
}

// load puts the program into the kernel, on the maps given and on new ones for the rest.
func (p *plan) load(reused map[string]*ebpf.Map) (*objects, error) {
	spec, err := p.spec()
	if err != nil {
		return nil, err
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: reused})
	if err != nil {
		if verifier, ok := errors.AsType[*ebpf.VerifierError](err); ok && len(verifier.Log) > 0 {
			return nil, fmt.Errorf("the kernel did not take the program: %w: %s", err,
				strings.Join(verifier.Log[max(0, len(verifier.Log)-5):], "; "))
		}
		return nil, fmt.Errorf("the kernel did not take the program: %w", err)
	}
	defer coll.Close()
	k := &objects{prog: coll.DetachProgram(objectProgWeirLimit)}
	for _, n := range names {
		*n.at(k) = coll.DetachMap(n.object)
	}
	return k, nil
}
