//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir"
	"weir/identify"
	"weir/internal/clock"
	"weir/throttle/bloom"
)

// A Gate is the limiter of one network interface. Its methods may be called from several goroutines; the order is New,
// Attach, any number of Configure, Close.
type Gate struct {
	env   Env
	clock func() time.Duration // of the program

	mu     sync.Mutex
	plan   *plan   // as configured
	kernel *kernel // nil before Attach
	timer  clock.Timer
	closed bool
	told   bool // the log says that no packets are limited
}

// A kernel is a program in the kernel, with all that belongs to it.
type kernel struct {
	*objects
	plan   *plan
	memory *memory
	link   link.Link
	attach Attachment // where it runs
	id     uint32     // of the program
	allow  *list
	ban    *list
	care   care
	held   *os.File // the lock on the pins
}

func (k *kernel) Close() {
	if k.held != nil {
		k.held.Close()
	}
	if k.link != nil {
		k.link.Close() // it is pinned
	}
	if k.memory != nil {
		k.memory.Close()
	}
	if k.objects != nil {
		k.objects.Close()
	}
}

// New returns a gate that sees no packets yet.
func New(o Options, env Env) (*Gate, error) {
	p, err := newPlan(o)
	if err != nil {
		return nil, err
	}
	return &Gate{env: env.withDefaults(), clock: kernelTime, plan: p}, nil
}

// Attach loads the program and puts it on its interface. What an earlier gate left there is taken over: its lists
// always, its tables if they were made for the same limit. It returns a MissingCapabilities or an UnsupportedKernel
// where this process or this system cannot limit packets, an Occupied when another program is on the interface, an
// Elsewhere when the pins belong to another network namespace, an InUse when another weir has them, and a NoFileSystem
// when there is nowhere to pin.
func (g *Gate) Attach() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return ErrClosed
	case g.kernel != nil:
		return errors.New("the gate is attached already")
	}
	if err := checkSystem(); err != nil {
		return err
	}
	k, err := g.install(g.plan)
	if err != nil {
		return err
	}
	g.kernel = k
	g.schedule()
	o := k.plan.opts
	g.env.Log.Info("packets are limited", "interface", o.Interface, "attach", k.attach, "mode", o.Mode, "rate",
		o.Bloom.Rate, "shadow", o.Shadow)
	return nil
}

// Configure gives the gate new options: a new program replaces the old one between two packets. It keeps the lists, and
// the tables if they were made for the same limit. On an error nothing has changed. Another interface or another folder
// for the pins needs another gate.
func (g *Gate) Configure(o Options) error {
	p, err := newPlan(o)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch old := g.plan.opts; {
	case g.closed:
		return ErrClosed
	case p.opts.Interface != old.Interface:
		return &weir.FieldError{Path: "interface", Msg: "the interface of a gate cannot change",
			Hint: "close it and make another"}
	case p.opts.Pin != old.Pin:
		return &weir.FieldError{Path: "pin", Msg: "the pins of a gate cannot move", Hint: "close it and make another"}
	}
	if g.kernel != nil {
		k, err := g.install(p)
		if err != nil {
			return err
		}
		g.kernel.Close()
		g.kernel = k
		_ = g.look(k) // logs that packets are limited again
		g.schedule()
	}
	g.plan = p
	return nil
}

// install puts a program in place, or leaves everything as it was. g.mu is held.
func (g *Gate) install(p *plan) (*kernel, error) {
	iface, err := net.InterfaceByName(p.opts.Interface)
	if err != nil {
		return nil, &weir.FieldError{Path: "interface",
			Msg: fmt.Sprintf("there is no network interface %q", p.opts.Interface), Hint: "ip link lists them"}
	}
	folder := pinsOf(p.opts.Pin, p.opts.Interface)
	var before *os.File
	if g.kernel != nil {
		before = g.kernel.held
	}
	held, err := folder.holdOn(before)
	if _, taken := errors.AsType[*InUse](err); taken {
		if there, wrong := describe(folder); wrong == nil && there.Elsewhere {
			return nil, &Elsewhere{Interface: iface.Name, Path: string(folder)}
		}
	}
	if err != nil {
		return nil, err
	}
	k := &kernel{plan: p, held: held}
	reused, err := folder.maps()
	if err != nil {
		k.Close()
		return nil, err
	}
	defer closeMaps(reused)
	p.keepUsable(reused)
	if err := g.replace(k, reused, folder, iface); err != nil {
		folder.clean()
		k.Close()
		return nil, err
	}
	return k, nil
}

// replace loads a program on new maps and those given, and replaces the old one, if there is one. What the old one goes
// by is changed after that, when nothing can fail any more.
func (g *Gate) replace(k *kernel, reused map[string]*ebpf.Map, folder pins, iface *net.Interface) (err error) {
	if k.objects, err = k.plan.load(reused); err != nil {
		return err
	}
	if k.id, err = k.programID(); err != nil {
		return err
	}
	if k.memory, err = mapMemory(k.objects); err != nil {
		return err
	}
	now := g.clock()
	if reused[objectMapLines] != nil {
		k.takeOver(now)
	} else if err := k.first(now); err != nil {
		return err
	}
	if err := k.readLists(); err != nil {
		return err
	}
	fresh := len(reused) == 0
	if fresh {
		if err := k.fillLists(); err != nil {
			return err
		}
	} else if reused[stateMap] == nil {
		k.setFlags()
	}
	if err := folder.stage(k.objects, reused); err != nil {
		return err
	}
	if err := g.hook(k, folder, iface); err != nil {
		return err
	}
	if !fresh {
		err = k.fillLists()
	}
	if err := errors.Join(err, folder.commit(reused)); err != nil {
		// The program runs. Some entries may be missing from the lists, or maps at the next start.
		g.env.Log.Error("the network traffic limiter runs, but not all of it is in place", "interface", iface.Name,
			"err", err)
	}
	return nil
}

// keepUsable keeps the maps that a new program can use, and closes the others. The tables need both the lines and their
// state.
func (p *plan) keepUsable(maps map[string]*ebpf.Map) {
	drop := func(name string) {
		if m := maps[name]; m != nil {
			m.Close()
			delete(maps, name)
		}
	}
	spec, err := p.spec()
	if err != nil {
		return // load reports it
	}
	for _, name := range []string{objectMapAllow, objectMapBan, objectMapCounters} {
		if m := maps[name]; m != nil && spec.Maps[name].Compatible(m) != nil {
			drop(name)
		}
	}
	var s objectShared
	lines, state := maps[objectMapLines], maps[stateMap]
	if lines != nil && state != nil && spec.Maps[objectMapLines].Compatible(lines) == nil {
		info, err := lines.Info()
		if err == nil && state.Lookup(uint32(0), &s) == nil && s.Fingerprint == p.fingerprint() {
			if id, ok := info.ID(); ok && uint64(id) == s.Lines {
				return
			}
		}
	}
	drop(objectMapLines)
	drop(stateMap)
}

// first makes new tables.
func (k *kernel) first(now time.Duration) error {
	info, err := k.lines.Info()
	if err != nil {
		return fmt.Errorf("cannot ask for the id of a map: %w", err)
	}
	id, _ := info.ID()
	k.fresh(now)
	k.memory.state.Fingerprint, k.memory.state.Lines = k.plan.fingerprint(), uint64(id)
	return nil
}

// readLists reads the lists, and checks that there is room for what the options add.
func (k *kernel) readLists() (err error) {
	if k.allow, err = readList("allow", controlAllow, k.objects.allow); err != nil {
		return err
	}
	if k.ban, err = readList("ban", controlBan, k.objects.ban); err != nil {
		return err
	}
	return errors.Join(k.allow.fits(k.plan.opts.Allow), k.ban.fits(k.plan.opts.Ban))
}

// fillLists brings lists and flags to what the options say.
func (k *kernel) fillLists() error {
	err := errors.Join(k.allow.configure(k.plan.opts.Allow), k.ban.configure(k.plan.opts.Ban))
	k.setFlags()
	return err
}

func (k *kernel) setFlags() {
	k.flagLists()
	k.memory.flag(controlShadow, k.plan.opts.Shadow)
}

// flagLists tells the program which lists are empty.
func (k *kernel) flagLists() {
	for _, l := range []*list{k.allow, k.ban} {
		k.memory.flag(l.flag, len(l.entries) > 0)
	}
}

// hook makes the interface run the program: by the old link if that is in the right place, or by a new one.
func (g *Gate) hook(k *kernel, folder pins, iface *net.Interface) error {
	old, err := folder.link()
	if err != nil {
		return err
	}
	before := Attachment("") // where the old one ran
	if old != nil {
		taken, there, err := k.inherit(old, iface)
		if err != nil || taken {
			return err
		}
		before = there
	}
	l, how, err := attach(k.prog, iface, k.plan.opts.Attach, g.env.Log)
	if err != nil && before != "" {
		// Limits in the wrong place are better than none.
		g.env.Log.Error("packets are limited where they were before", "interface", iface.Name, "attach", before, "why",
			err)
		l, how, err = attach(k.prog, iface, before, g.env.Log)
	}
	if err != nil {
		return err
	}
	if err := l.Pin(folder.path(linkPin)); err != nil {
		l.Close()
		return fmt.Errorf("cannot pin at %s: %w", folder.path(linkPin), err)
	}
	k.link, k.attach = l, how
	return nil
}

// inherit makes an old link run the program. If the link is not where the program should be, it is removed instead, and
// inherit returns where on this interface it was.
func (k *kernel) inherit(old link.Link, iface *net.Interface) (taken bool, before Attachment, err error) {
	defer func() {
		if !taken {
			old.Close()
		}
	}()
	at, err := whereIs(old)
	if err != nil {
		return false, "", err
	}
	if at.index != 0 && !at.here {
		return false, "", &Elsewhere{Interface: iface.Name, Path: string(pinsOf(k.plan.opts.Pin, iface.Name))}
	}
	if at.index == iface.Index {
		before = at.mode
		if want := k.plan.opts.Attach; want == Auto || want == before {
			if err := old.Update(k.prog); err != nil {
				return false, "", fmt.Errorf("cannot replace the program on %s: %w", iface.Name, err)
			}
			k.link, k.attach = old, before
			return true, before, nil
		}
	}
	if err := errors.Join(detach(old), old.Unpin()); err != nil {
		return false, "", fmt.Errorf("cannot remove the old link of %s: %w", iface.Name, err)
	}
	return false, before, nil
}

// schedule sets the timer for the next care. g.mu is held.
func (g *Gate) schedule() {
	if g.timer != nil {
		g.timer.Stop()
	}
	g.timer = g.env.Clock.AfterFunc(g.kernel.tendEvery(), g.tend)
}

// tend tends the tables and the lists.
func (g *Gate) tend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.kernel == nil {
		return
	}
	k, now := g.kernel, g.clock()
	_ = g.look(k) // logs a change
	k.tend(now)
	if what := k.care.Look(k.plan.opts.Bloom.Collateral); what != "" {
		g.tell(k.care.Notice(what, k.plan.opts.Bloom.Collateral, k.plan.shapes.Bytes()))
	}
	k.rotate(now)
	if err := errors.Join(k.allow.expire(now), k.ban.expire(now)); err != nil {
		g.env.Log.Error("expired networks stay on the lists; the kernel ignores them", "interface",
			k.plan.opts.Interface, "err", err)
	}
	k.flagLists()
	g.schedule()
}

func (g *Gate) tell(n bloom.Notice) {
	g.env.Observer.Notice(n)
	if n.What == bloom.NoticeOver {
		g.env.Log.Warn("more innocent networks are refused than allowed: plan for more attackers", "interface",
			g.plan.opts.Interface,
			"collateral", n.Collateral, "allowed", n.Allowed, "attackers", n.Attackers)
	} else {
		g.env.Log.Info("no more innocent networks are refused than allowed", "interface", g.plan.opts.Interface,
			"collateral", n.Collateral)
	}
}

// Close ends the upkeep. Program, tables and lists stay in place, and so do the limits; Detach removes them. Closing
// twice does nothing.
func (g *Gate) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	if g.timer != nil {
		g.timer.Stop()
	}
	if g.kernel != nil {
		g.kernel.Close()
		g.kernel = nil
	}
	return nil
}

// with calls f if the gate is attached.
func (g *Gate) with(f func(k *kernel) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return ErrClosed
	case g.kernel == nil:
		return ErrNotAttached
	}
	return f(g.kernel)
}

// SetShadow switches between only counting and dropping.
func (g *Gate) SetShadow(on bool) error {
	return g.with(func(k *kernel) error {
		k.plan.opts.Shadow = on
		k.memory.flag(controlShadow, on)
		return nil
	})
}

// Counters returns what became of the packets so far.
func (g *Gate) Counters() (c Counters, err error) {
	err = g.with(func(k *kernel) (err error) {
		c, err = readCounters(k.counters)
		return err
	})
	return c, err
}

// Stats returns the state of the tables as the last sweep found it.
func (g *Gate) Stats() (s Stats, err error) {
	err = g.with(func(k *kernel) error {
		s = Stats{Stats: k.care.Stats(k.plan.shapes.Bytes(), k.memory.state.Rotations), Bans: len(k.ban.entries),
			Allows: len(k.allow.entries), Attach: k.attach}
		if g.look(k) != nil {
			s.Attach = ""
		}
		return nil
	})
	return s, err
}

// Limits returns nil while the program is on its interface, and otherwise why it is not: ErrNotAttached,
// ErrInterfaceGone, ErrRemoved or ErrReplaced.
func (g *Gate) Limits() error {
	return g.with(g.look)
}

// look finds out whether the program is still on its interface, and logs when that changes. Others may have removed it,
// as weir xdp detach does. g.mu is held.
func (g *Gate) look(k *kernel) error {
	err := k.inPlace()
	name := k.plan.opts.Interface
	switch {
	case err != nil && !g.told:
		g.env.Log.Error("NO PACKETS ARE LIMITED on "+name+"; a reload puts the limit back where it can", "interface",
			name, "err", err)
	case err == nil && g.told:
		g.env.Log.Info("packets are limited again", "interface", name, "attach", k.attach)
	}
	g.told = err != nil
	return err
}

// inPlace returns nil while the interface of that name runs the program.
func (k *kernel) inPlace() error {
	at, err := whereIs(k.link)
	if err != nil {
		return err
	}
	iface, err := net.InterfaceByName(k.plan.opts.Interface)
	switch {
	case err != nil:
		return ErrInterfaceGone // or renamed, or moved to another namespace
	case at.index != iface.Index || !at.here:
		return ErrRemoved
	case at.prog != k.id:
		return ErrReplaced
	}
	return nil
}

// Ban drops the packets of a network until a time; permanently when that is zero. Of two bans of a network, the later
// end counts. It returns ErrListFull when there is no room.
func (g *Gate) Ban(p netip.Prefix, until time.Time) error {
	return g.with(func(k *kernel) error { return g.put(k, k.ban, p, until) })
}

// Unban ends the ban of a network. It returns ErrStatic when the configuration bans it.
func (g *Gate) Unban(p netip.Prefix) error {
	return g.with(func(k *kernel) error { return g.take(k, k.ban, p) })
}

// Allow lets the packets of a network pass until a time, whatever its limit and its bans; permanently when that is
// zero. It returns ErrListFull when there is no room.
func (g *Gate) Allow(p netip.Prefix, until time.Time) error {
	return g.with(func(k *kernel) error { return g.put(k, k.allow, p, until) })
}

// Disallow takes a network off the allow list. It returns ErrStatic when the configuration allows it.
func (g *Gate) Disallow(p netip.Prefix) error {
	return g.with(func(k *kernel) error { return g.take(k, k.allow, p) })
}

// Bans returns the banned networks, in the order of addresses.
func (g *Gate) Bans() ([]Entry, error) { return g.entries(func(k *kernel) *list { return k.ban }) }

// Allowed returns the allow list, in the order of addresses.
func (g *Gate) Allowed() ([]Entry, error) { return g.entries(func(k *kernel) *list { return k.allow }) }

func (g *Gate) entries(of func(*kernel) *list) (all []Entry, err error) {
	err = g.with(func(k *kernel) error {
		all = of(k).all(g.clock(), g.env.Clock.Now())
		return nil
	})
	return all, err
}

func (g *Gate) put(k *kernel, l *list, p netip.Prefix, until time.Time) error {
	if !p.IsValid() {
		return &weir.FieldError{Msg: "not a network", Hint: "write 192.0.2.0/24 or 2001:db8::/32"}
	}
	p = identify.PlainPrefix(p)
	var e entry
	if !until.IsZero() {
		left := until.Sub(g.env.Clock.Now())
		if left <= 0 {
			return nil // it is over already
		}
		e.until = g.clock() + left
	}
	if old, known := l.entries[p]; known && (old.until == 0 || e.until != 0 && e.until < old.until) {
		return nil
	}
	if err := l.put(p, e); err != nil {
		return err
	}
	k.flagLists()
	return nil
}

func (g *Gate) take(k *kernel, l *list, p netip.Prefix) error {
	p = identify.PlainPrefix(p)
	if l.entries[p].static {
		return fmt.Errorf("%s: %w", p, ErrStatic)
	}
	if err := l.remove(p); err != nil {
		return err
	}
	k.flagLists()
	return nil
}
