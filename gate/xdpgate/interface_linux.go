//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// attachment is what the kernel says about the XDP program of an interface.
type attachment struct {
	mode Attachment // "": none
	id   uint32     // of the program
	all  []uint32   // ids of all programs: there may be one in the card beside that of the driver
}

// Values of IFLA_XDP_ATTACHED, from linux/if_link.h.
const (
	xdpAttachedDriver  = 1
	xdpAttachedGeneric = 2
)

// attachedTo asks the kernel which XDP program is on an interface, whoever put it there.
func attachedTo(index int) (attachment, error) {
	rib, err := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if err != nil {
		return attachment{}, fmt.Errorf("cannot list network interfaces: %w", err)
	}
	messages, err := syscall.ParseNetlinkMessage(rib)
	if err != nil {
		return attachment{}, fmt.Errorf("cannot list network interfaces: %w", err)
	}
	for i := range messages {
		m := &messages[i]
		if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg ||
			int(binary.NativeEndian.Uint32(m.Data[4:])) != index {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			return attachment{}, fmt.Errorf("cannot read what is on an interface: %w", err)
		}
		for _, a := range attrs {
			if a.Attr.Type&^unix.NLA_F_NESTED == unix.IFLA_XDP {
				return readAttachment(a.Value), nil
			}
		}
	}
	return attachment{}, nil
}

// readAttachment reads the attributes inside IFLA_XDP.
func readAttachment(b []byte) (a attachment) {
	for len(b) >= unix.SizeofNlAttr {
		length, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
		if length < unix.SizeofNlAttr || length > len(b) {
			return a
		}
		value := b[unix.SizeofNlAttr:length]
		switch {
		case kind == unix.IFLA_XDP_ATTACHED && len(value) >= 1 && value[0] == xdpAttachedGeneric:
			a.mode = Generic
		case kind == unix.IFLA_XDP_ATTACHED && len(value) >= 1 && value[0] != 0:
			a.mode = Native // in the driver, in the card, or several
		case kind == unix.IFLA_XDP_PROG_ID && len(value) >= 4:
			a.id = binary.NativeEndian.Uint32(value)
			a.all = append(a.all, a.id)
		case (kind == unix.IFLA_XDP_DRV_PROG_ID || kind == unix.IFLA_XDP_SKB_PROG_ID ||
			kind == unix.IFLA_XDP_HW_PROG_ID) && len(value) >= 4:
			a.all = append(a.all, binary.NativeEndian.Uint32(value))
		}
		b = b[min((length+3)&^3, len(b)):]
	}
	return a
}

// attach puts the program on an interface, in the driver if that is wanted and possible.
func attach(prog *ebpf.Program, iface *net.Interface, how Attachment, log *slog.Logger) (link.Link, Attachment, error) {
	there, err := attachedTo(iface.Index)
	if err != nil {
		return nil, "", err
	}
	if there.mode != "" {
		return nil, "", occupied(iface.Name, there.id)
	}
	try := func(flags link.XDPAttachFlags) (link.Link, error) {
		return link.AttachXDP(link.XDPOptions{Program: prog, Interface: iface.Index, Flags: flags})
	}
	if how != Generic {
		l, err := try(link.XDPDriverMode)
		if err == nil {
			return l, Native, nil
		}
		if how == Native {
			return nil, "",
				fmt.Errorf("the driver of %s does not run the program: %w (attach: auto or generic works with every "+
					"driver, slower)", iface.Name, err)
		}
		log.Warn("packets are limited in the network stack and not in the driver: SLOWER, a flood costs the host "+
			"several times as much",
			"interface", iface.Name, "why", err)
	}
	l, err := try(link.XDPGenericMode)
	if err != nil {
		return nil, "", fmt.Errorf("cannot attach the program to %s: %w", iface.Name, err)
	}
	return l, Generic, nil
}

// occupied names the program that is on an interface already.
func occupied(iface string, id uint32) error {
	e := &Occupied{Interface: iface, ID: id}
	if prog, err := ebpf.NewProgramFromID(ebpf.ProgramID(id)); err == nil {
		defer prog.Close()
		if info, err := prog.Info(); err == nil {
			e.Program = info.Name
		}
	}
	return e
}

// An attachPoint is where a link runs its program.
type attachPoint struct {
	index int        // of the interface, in its own network namespace; 0: nowhere
	prog  uint32     // the program's id
	here  bool       // the interface is in this namespace
	mode  Attachment // native or generic, if it is
}

// whereIs returns where a link runs its program. Each namespace numbers its interfaces from 1, so the number alone says
// little: the interface here with that number must run the link's program, whose id is unique.
func whereIs(l link.Link) (p attachPoint, err error) {
	if p.index, p.prog, err = linkOf(l); err != nil || p.index == 0 {
		return p, err
	}
	there, err := attachedTo(p.index)
	if err != nil {
		return p, err
	}
	if there.mode != "" && slices.Contains(there.all, p.prog) {
		p.here, p.mode = true, there.mode
	}
	return p, nil
}

// linkOf returns the interface that a link is attached to and the id of its program. The index is 0 when the interface
// is gone or the link was detached.
func linkOf(l link.Link) (index int, prog uint32, err error) {
	info, err := l.Info()
	if err != nil {
		return 0, 0, err
	}
	x := info.XDP()
	if x == nil {
		return 0, 0, errors.New("the link is not of XDP")
	}
	return int(x.Ifindex), uint32(info.Program), nil
}
