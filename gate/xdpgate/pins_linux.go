//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// pins is the folder of an interface in the BPF file system: the link, and the maps beside it.
type pins string

// A BPF file system takes no dots in names, and interfaces for VLANs have them.
var (
	escape   = strings.NewReplacer("%", "%25", ".", "%2e")
	unescape = strings.NewReplacer("%25", "%", "%2e", ".")
)

func pinsOf(pin, iface string) pins { return pins(filepath.Join(pin, layout, escape.Replace(iface))) }

const (
	linkPin = "link"
	newPin  = "_new" // after the name of what will replace it
)

// iface is the interface that the folder is named after.
func (p pins) iface() string { return unescape.Replace(filepath.Base(string(p))) }

func (p pins) path(name string) string { return filepath.Join(string(p), name) }

// make makes the folder, in a BPF file system.
func (p pins) make() error {
	// The part of the path that exists shows which file system it is in.
	for at := string(p); ; at = filepath.Dir(at) {
		var s unix.Statfs_t
		err := unix.Statfs(at, &s)
		if err == nil && s.Type != unix.BPF_FS_MAGIC {
			return &NoFileSystem{string(p)}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, unix.ENOENT) || at == filepath.Dir(at) {
			return fmt.Errorf("cannot pin at %s: %w", p, err)
		}
	}
	p.clean() // a start may have been killed
	if err := os.MkdirAll(string(p), 0o700); err != nil {
		return fmt.Errorf("cannot pin at %s: %w", p, err)
	}
	return nil
}

// clean removes what a start that failed has pinned.
func (p pins) clean() {
	for _, n := range names {
		_ = os.Remove(p.path(n.pin + newPin))
	}
	_ = os.Remove(string(p)) // if nothing is pinned at all
}

// link returns the pinned link, or nil.
func (p pins) link() (link.Link, error) {
	l, err := link.LoadPinnedLink(p.path(linkPin), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the pinned link %s: %w", p.path(linkPin), err)
	}
	return l, nil
}

// maps returns those that are pinned, by their names in the object.
func (p pins) maps() (map[string]*ebpf.Map, error) {
	all := map[string]*ebpf.Map{}
	for _, n := range names {
		m, err := ebpf.LoadPinnedMap(p.path(n.pin), nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			closeMaps(all)
			return nil, fmt.Errorf("cannot open the pinned map %s: %w", p.path(n.pin), err)
		}
		all[n.object] = m
	}
	return all, nil
}

func closeMaps(all map[string]*ebpf.Map) {
	for _, m := range all {
		m.Close()
	}
}

// stage pins maps that are not pinned yet under names of their own, so that a start that fails leaves the old ones.
func (p pins) stage(k *objects, reused map[string]*ebpf.Map) error {
	for _, n := range names {
		if reused[n.object] != nil {
			continue
		}
		if err := (*n.at(k)).Pin(p.path(n.pin + newPin)); err != nil {
			return fmt.Errorf("cannot pin at %s: %w", p.path(n.pin), err)
		}
	}
	return nil
}

// commit puts what was staged in the place of the old ones.
func (p pins) commit(reused map[string]*ebpf.Map) error {
	for _, n := range names {
		if reused[n.object] != nil {
			continue
		}
		if err := os.Rename(p.path(n.pin+newPin), p.path(n.pin)); err != nil {
			return fmt.Errorf("cannot pin at %s: %w", p.path(n.pin), err)
		}
	}
	return nil
}

// remove takes the program off its interface and removes all that is pinned.
func (p pins) remove() error {
	if _, err := os.Stat(string(p)); errors.Is(err, fs.ErrNotExist) {
		return ErrNotPinned
	}
	var all []error
	if l, err := p.link(); err != nil {
		all = append(all, err)
	} else if l != nil {
		// A running weir may hold the link as well. It is removed all the same.
		if err := detach(l); err != nil {
			all = append(all, err)
		}
		l.Close()
	}
	all = append(all, os.RemoveAll(string(p)))
	_ = os.Remove(filepath.Dir(string(p)))               // of the layout, if it was the last interface
	_ = os.Remove(filepath.Dir(filepath.Dir(string(p)))) // and of all layouts
	return errors.Join(all...)
}

func detach(l link.Link) error {
	if index, _, err := linkOf(l); err != nil || index == 0 {
		return err // it is detached already
	}
	if d, ok := l.(interface{ Detach() error }); ok {
		return d.Detach()
	}
	return nil
}

// Detach removes the program, its tables and its lists from an interface: its packets are not limited any more. pin is
// where they are pinned, DefaultPin for most. It returns ErrNotPinned when there is nothing to remove.
func Detach(pin, iface string) error {
	if err := pinsOf(pin, iface).remove(); err != nil {
		return fmt.Errorf("%s: %w", iface, err)
	}
	return nil
}

// List tells what is pinned, whether a weir runs or not.
func List(pin string) ([]Pinned, error) {
	folders, err := filepath.Glob(filepath.Join(pin, layout, "*"))
	if err != nil {
		return nil, err
	}
	all := []Pinned{}
	for _, folder := range folders {
		one, err := describe(pins(folder))
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

func describe(p pins) (Pinned, error) {
	out := Pinned{Interface: p.iface(), Path: string(p), Version: layout}
	free, err := p.seize()
	if err != nil {
		return out, err
	}
	if out.Held = free == nil; free != nil {
		free.Close()
	}
	l, err := p.link()
	if err != nil {
		return out, err
	}
	if l != nil {
		defer l.Close()
		at, err := whereIs(l)
		if err != nil {
			return out, err
		}
		out.Attached, out.Attach = at.index != 0, at.mode
		if out.Attached {
			iface, err := net.InterfaceByIndex(at.index)
			out.Elsewhere = !at.here || err != nil || iface.Name != out.Interface
		}
	}
	maps, err := p.maps()
	if err != nil {
		return out, err
	}
	defer closeMaps(maps)
	if m := maps[objectMapCounters]; m != nil {
		if out.Counters, err = readCounters(m); err != nil {
			return out, err
		}
	}
	if m := maps[stateMap]; m != nil {
		var s objectShared
		if err := m.Lookup(uint32(0), &s); err != nil {
			return out, fmt.Errorf("cannot read the state of %s: %w", p, err)
		}
		out.Shadow = s.Control&controlShadow != 0
	}
	if m := maps[objectMapLines]; m != nil {
		out.Bytes = int64(m.MaxEntries()) * int64(m.ValueSize())
	}
	for _, list := range []struct {
		name string
		n    *int
	}{{objectMapBan, &out.Bans}, {objectMapAllow, &out.Allows}} {
		if m := maps[list.name]; m != nil {
			l, err := readList(list.name, 0, m)
			if err != nil {
				return out, err
			}
			now := kernelTime()
			for _, e := range l.entries {
				if e.until == 0 || e.until > now {
					*list.n++
				}
			}
		}
	}
	return out, nil
}
