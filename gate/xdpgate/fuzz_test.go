//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
)

// classify says what a packet counts as in mode syn with port 443 watched, by a reader of its own.
func classify(b []byte) string {
	const passed, unwatched, malformed = "passed", "unwatched", "malformed"
	proto, rest := binary.BigEndian.Uint16(b[12:]), b[14:]
	for range 2 {
		if proto != typeVLAN && proto != typeQinQ {
			break
		}
		if len(rest) < 4 {
			return malformed
		}
		proto, rest = binary.BigEndian.Uint16(rest[2:]), rest[4:]
	}
	// inner judges what is behind the IP headers: what there is of it, and what the packet says there is.
	inner := func(proto byte, rest []byte, says int, cut bool) string {
		switch need := 4; proto {
		case protoTCP, protoUDP, 33, 132, 136:
			if proto == protoTCP {
				need = 14
			}
			if says < need && !cut || says >= need && len(rest) < need {
				return malformed
			}
			if says < need {
				return passed // hidden
			}
			if binary.BigEndian.Uint16(rest[2:]) == 443 && proto == protoTCP && rest[13]&(flagSYN|flagACK) == flagSYN {
				return passed
			}
		}
		return unwatched
	}
	switch proto {
	case typeV4:
		if len(rest) < 20 {
			return malformed
		}
		header, total := int(rest[0]&15)*4, int(binary.BigEndian.Uint16(rest[2:]))
		if total == 0 {
			total = len(rest)
		}
		if rest[0]>>4 != 4 || header < 20 || total < header || total > len(rest) {
			return malformed
		}
		fragment := binary.BigEndian.Uint16(rest[6:])
		if fragment&0x1fff != 0 {
			return unwatched
		}
		return inner(rest[9], rest[header:], total-header, fragment&0x2000 != 0)
	case typeV6:
		if len(rest) < 40 {
			return malformed
		}
		total := 40 + int(binary.BigEndian.Uint16(rest[4:]))
		if total == 40 {
			total = len(rest)
		}
		if rest[0]>>4 != 6 || total > len(rest) {
			return malformed
		}
		next, at, cut := rest[6], 40, false
		for range 8 {
			switch next {
			case extHop, extRoute, extDst, extFrag, extAH, 135, 139, 140:
			default:
				if at > total && cut {
					return passed // hidden
				} else if at > total {
					return malformed
				}
				return inner(next, rest[min(at, len(rest)):], total-at, cut)
			}
			if total < at+8 && cut {
				return passed // hidden
			} else if total < at+8 {
				return malformed
			}
			h := rest[at:]
			size := (int(h[1]) + 1) * 8
			switch next {
			case extAH:
				size = (int(h[1]) + 2) * 4
			case extFrag:
				offset := binary.BigEndian.Uint16(h[2:])
				if offset&0xfff8 != 0 {
					return unwatched
				}
				size, cut = 8, offset&1 != 0
			}
			next, at = h[0], at+size
		}
		return passed // behind too many headers
	}
	return unwatched
}

// FuzzPacket: whatever arrives, the program reads it as another reader does, changes nothing and answers.
func FuzzPacket(f *testing.F) {
	synPayload := tcp(443, flagSYN)
	for _, seed := range [][]byte{
		syn4(""), syn6(""), make([]byte, 14), ether(0x0806, make([]byte, 28)),
		ether(typeQinQ, tag(typeVLAN), tag(typeV4), v4{proto: protoTCP, options: make([]byte, 12)}.packet(synPayload)),
		ether(typeV6, v6{next: extHop}.packet(extension(extDst, 2), extension(extRoute, 1), extension(extFrag, 3),
			fragmentHeader(extAH, 0, true), authHeader(protoTCP), synPayload)),
		ether(typeV4, v4{proto: protoTCP, fragment: 0x2000}.packet(synPayload[:8])),
		ether(typeV4, v4{proto: protoUDP, fragment: 7}.packet(udp(443))),
	} {
		f.Add(seed)
	}
	o := plain()
	o.Ports = []int{443}
	trial := trialOf(f, o)
	f.Fuzz(func(t *testing.T, packet []byte) {
		if len(packet) < 14 || len(packet) > 3000 {
			return // the kernel runs no test on those
		}
		before := trial.counters(t)
		run := &ebpf.RunOptions{Data: packet, DataOut: make([]byte, len(packet)+64)}
		got, err := trial.objects.prog.Run(run)
		if err != nil {
			t.Fatal(err)
		}
		counted, want := trial.counters(t).minus(before), classify(packet)
		if want == "passed" && counted == "limited" {
			want = "limited" // by its limit
		}
		if counted != want || got != xdpPass && counted != "limited" {
			t.Errorf("answer %d, counted as %s, want %s: %x", got, counted, want, packet)
		}
		if !bytes.Equal(run.DataOut, packet) {
			t.Error("the packet has been changed")
		}
	})
}

// FuzzKey: networks go into the kernel's lists and come back.
func FuzzKey(f *testing.F) {
	f.Add([]byte{198, 18, 0, 0}, uint8(15))
	f.Add(make([]byte, 16), uint8(128))
	f.Fuzz(func(t *testing.T, b []byte, bits uint8) {
		addr, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		if p, err := addr.Prefix(int(bits)); err == nil && prefixOf(keyOf(p)) != p {
			t.Errorf("%s comes back as %s", p, prefixOf(keyOf(p)))
		}
	})
}
