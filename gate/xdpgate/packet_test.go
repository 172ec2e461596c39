//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"weir/internal/testkit/needs"
)

// TestPackets: what the program makes of packets of every kind, in every mode.
func TestPackets(t *testing.T) {
	needs.Unwatched(t)
	synPayload := tcp(443, flagSYN)
	chain := func(n int) []byte {
		var all []byte
		for range n - 1 {
			all = append(all, extension(extDst, 1)...)
		}
		return join(all, extension(protoTCP, 1), synPayload)
	}
	trials := map[string]*Trial{}
	for _, mode := range []string{"syn", "packets", "port"} {
		o := plain()
		if o.Mode = Mode(mode); mode == "port" {
			o.Mode, o.Ports = Packets, []int{1, 443, 65535}
		}
		trials[mode] = trialOf(t, o)
	}
	for _, c := range []struct {
		name   string
		packet []byte
		// What is counted, in the modes syn and packets, and in mode packets with port 443 watched.
		syn, packets, port string
	}{
		{"TCP SYN", syn4(""), "passed", "passed", "passed"},
		{"TCP SYN, IPv6", syn6(""), "passed", "passed", "passed"},
		{"TCP SYN and ACK", ether(typeV4, v4{proto: protoTCP}.packet(tcp(443, flagSYN|flagACK))), "unwatched", "passed",
			"passed"},
		{"TCP ACK", ether(typeV4, v4{proto: protoTCP}.packet(tcp(443, flagACK))), "unwatched", "passed", "passed"},
		{"TCP, no flags", ether(typeV4, v4{proto: protoTCP}.packet(tcp(443, 0))), "unwatched", "passed", "passed"},
		{"TCP SYN to another port", ether(typeV4, v4{proto: protoTCP}.packet(tcp(444, flagSYN))), "passed", "passed",
			"unwatched"},
		{"padded", join(syn4(""), make([]byte, 6)), "passed", "passed", "passed"},
		{"UDP", ether(typeV4, v4{proto: protoUDP}.packet(udp(443))), "unwatched", "passed", "passed"},
		{"UDP to another port", ether(typeV4, v4{proto: protoUDP}.packet(udp(53))), "unwatched", "passed", "unwatched"},
		{"UDP, IPv6", ether(typeV6, v6{next: protoUDP}.packet(udp(443))), "unwatched", "passed", "passed"},
		{"ICMP", ether(typeV4, v4{proto: protoICMP}.packet(make([]byte, 8))), "unwatched", "passed", "unwatched"},
		{"nothing inside", ether(typeV6, v6{next: extNone}.packet()), "unwatched", "passed", "unwatched"},
		{"options", ether(typeV4, v4{proto: protoTCP, options: make([]byte, 40)}.packet(synPayload)), "passed",
			"passed", "passed"},
		{"VLAN", ether(typeVLAN, tag(typeV4), v4{proto: protoTCP}.packet(synPayload)), "passed", "passed", "passed"},
		{"VLAN, IPv6", ether(typeVLAN, tag(typeV6), v6{next: protoTCP}.packet(synPayload)), "passed", "passed",
			"passed"},
		{"VLAN in VLAN", ether(typeQinQ, tag(typeVLAN), tag(typeV6), v6{next: protoTCP}.packet(synPayload)), "passed",
			"passed", "passed"},
		{"three VLAN tags", ether(typeQinQ, tag(typeVLAN), tag(typeVLAN), tag(typeV4),
			v4{proto: protoTCP}.packet(synPayload)), "unwatched", "unwatched", "unwatched"},
		{"ARP", ether(0x0806, make([]byte, 28)), "unwatched", "unwatched", "unwatched"},
		{"LLDP", ether(0x88cc, make([]byte, 46)), "unwatched", "unwatched", "unwatched"},

		{"hop by hop", ether(typeV6, v6{next: extHop}.packet(extension(protoTCP, 1), synPayload)), "passed", "passed",
			"passed"},
		{"all headers", ether(typeV6, v6{next: extHop}.packet(extension(extDst, 2), extension(extRoute, 1),
			extension(extFrag, 3), fragmentHeader(extAH, 0, false),
			authHeader(extDst), extension(protoTCP, 1), synPayload)), "passed", "passed", "passed"},
		{"seven headers", ether(typeV6, v6{next: extDst}.packet(chain(7))), "passed", "passed", "passed"},
		{"too many headers", ether(typeV6, v6{next: extDst}.packet(chain(9))), "passed", "passed", "passed"},
		{"long header", ether(typeV6, v6{next: extDst}.packet(extension(protoTCP, 100), tcp(443, flagACK))),
			"unwatched", "passed", "passed"},
		{"ESP", ether(typeV6, v6{next: 50}.packet(make([]byte, 30))), "unwatched", "passed", "unwatched"},

		{"first fragment", ether(typeV4, v4{proto: protoTCP, fragment: 0x2000}.packet(synPayload)), "passed", "passed",
			"passed"},
		{"first fragment, no SYN", ether(typeV4, v4{proto: protoTCP, fragment: 0x2000}.packet(tcp(443, flagACK))),
			"unwatched", "passed", "passed"},
		{"later fragment", ether(typeV4, v4{proto: protoTCP, fragment: 0x2001}.packet(synPayload)), "unwatched",
			"passed", "passed"},
		{"last fragment", ether(typeV4, v4{proto: protoUDP, fragment: 100}.packet([]byte{1, 2})), "unwatched", "passed",
			"passed"},
		{"first fragment without flags", ether(typeV4, v4{proto: protoTCP, fragment: 0x2000}.packet(synPayload[:8])),
			"passed", "passed", "passed"},
		{"first fragment without ports", ether(typeV4, v4{proto: protoUDP, fragment: 0x2000}.packet()), "passed",
			"passed", "passed"},
		{"first fragment, IPv6", ether(typeV6, v6{next: extFrag}.packet(fragmentHeader(protoTCP, 0, true), synPayload)),
			"passed", "passed", "passed"},
		{"first fragment without flags, IPv6",
			ether(typeV6, v6{next: extFrag}.packet(fragmentHeader(protoTCP, 0, true), synPayload[:8])), "passed",
			"passed", "passed"},
		{"first fragment cut inside a header",
			ether(typeV6, v6{next: extFrag}.packet(fragmentHeader(extDst, 0, true), extension(protoTCP, 2)[:8])),
			"passed", "passed", "passed"},
		{"first fragment cut before a header", ether(typeV6, v6{next: extFrag}.packet(fragmentHeader(extDst, 0, true))),
			"passed", "passed", "passed"},
		{"header cut off", ether(typeV6, v6{next: extDst}.packet(extension(protoTCP, 1)[:4])), "malformed", "malformed",
			"malformed"},
		{"TCP in a further buffer", ether(typeV6,
			v6{next: extDst}.packet(extension(extDst, 250), extension(extDst, 250), extension(protoTCP, 250),
				tcp(443, flagACK))), "passed", "passed", "passed"},
		{"header in a further buffer", ether(typeV6,
			v6{next: extDst}.packet(extension(extDst, 250), extension(extDst, 250), extension(extDst, 250),
				extension(protoTCP, 1), tcp(443, flagACK))), "passed", "passed", "passed"},
		{"later fragment, IPv6", ether(typeV6, v6{next: extFrag}.packet(fragmentHeader(protoTCP, 3, true), synPayload)),
			"unwatched", "passed", "passed"},
		{"fragment that is whole", ether(typeV6,
			v6{next: extFrag}.packet(fragmentHeader(protoTCP, 0, false), synPayload)), "passed", "passed", "passed"},

		{"no IP header", ether(typeV4), "malformed", "malformed", "malformed"},
		{"no IPv6 header", ether(typeV6), "malformed", "malformed", "malformed"},
		{"no tag", ether(typeVLAN), "malformed", "malformed", "malformed"},
		{"IPv6 in IPv4's clothes", ether(typeV4, v6{next: protoTCP}.packet(synPayload)), "malformed", "malformed",
			"malformed"},
		{"IPv4 in IPv6's clothes", ether(typeV6, v4{proto: protoTCP}.packet(synPayload, synPayload)), "malformed",
			"malformed", "malformed"},
		{"header too short", change(syn4(""), 14, 0x44), "malformed", "malformed", "malformed"},
		{"header longer than the packet", change(change(syn4(""), 14, 0x4f), 17, 40), "malformed", "malformed",
			"malformed"},
		{"longer than the frame", change(syn4(""), 17, 41), "malformed", "malformed", "malformed"},
		{"longer than the frame, IPv6", change(syn6(""), 19, 21), "malformed", "malformed", "malformed"},
		{"TCP behind the end", join(change(syn4(""), 17, 33)), "malformed", "malformed", "malformed"},
		{"put together, longer than the field", change(syn4(""), 17, 0), "passed", "passed", "passed"},
		{"jumbogram", change(syn6(""), 19, 0), "passed", "passed", "passed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for mode, want := range map[string]string{"syn": c.syn, "packets": c.packets, "port": c.port} {
				trial := trials[mode]
				before := trial.counters(t)
				out := make([]byte, len(c.packet)+64)
				run := &ebpf.RunOptions{Data: c.packet, DataOut: out}
				got, err := trial.objects.prog.Run(run)
				if err != nil {
					t.Fatal(err)
				}
				if counted := trial.counters(t).minus(before); got != xdpPass || counted != want {
					t.Errorf("mode %s: answer %d, counted as %s, want %s", mode, got, counted, want)
				}
				if !bytes.Equal(run.DataOut, c.packet) {
					t.Errorf("mode %s: the packet has been changed", mode)
				}
			}
		})
	}
}

func change(packet []byte, at int, to byte) []byte {
	packet = bytes.Clone(packet)
	packet[at] = to
	return packet
}

// TestTruncated: a packet cut off anywhere is left to the stack, and is never counted as somebody's.
func TestTruncated(t *testing.T) {
	needs.Unwatched(t)
	o := plain()
	o.Ports = []int{443}
	o.Mode = Packets
	trial := trialOf(t, o)
	for _, whole := range [][]byte{
		ether(typeV4, v4{proto: protoTCP, options: make([]byte, 8)}.packet(tcp(443, flagSYN))),
		ether(typeQinQ, tag(typeVLAN), tag(typeV4), v4{proto: protoUDP}.packet(udp(443))),
		ether(typeV6, v6{next: extHop}.packet(extension(extFrag, 2), fragmentHeader(extAH, 0, false),
			authHeader(protoTCP), tcp(443, flagSYN))),
	} {
		for n := 14; n < len(whole); n++ {
			before := trial.counters(t)
			got := trial.judge(t, whole[:n])
			if counted := trial.counters(t).minus(before); got != xdpPass || counted != "malformed" {
				t.Errorf("%d of %d bytes: answer %d, counted as %s", n, len(whole), got, counted)
			}
		}
		before := trial.counters(t)
		trial.judge(t, whole)
		if counted := trial.counters(t).minus(before); counted != "passed" {
			t.Errorf("whole, %d bytes: counted as %s", len(whole), counted)
		}
	}
}

// TestWatched: only packets for the watched networks are counted.
func TestWatched(t *testing.T) {
	needs.Unwatched(t)
	o := plain()
	o.Prefixes = []netip.Prefix{netip.MustParsePrefix("198.18.0.0/24"), netip.MustParsePrefix("fd00:1::/32")}
	trial := trialOf(t, o)
	for dst, want := range map[string]string{"198.18.0.1": "passed", "198.18.1.1": "unwatched", "fd00:1::7": "passed",
		"fd00:2::7": "unwatched", "c612::": "unwatched"} {
		packet := ether(typeV6, v6{dst: "fd00:1::1", next: protoTCP}.packet(tcp(443, flagSYN)))
		if a := netip.MustParseAddr(dst); a.Is4() {
			packet = ether(typeV4, v4{dst: dst, proto: protoTCP}.packet(tcp(443, flagSYN)))
		} else {
			copy(packet[14+24:], a.AsSlice())
		}
		before := trial.counters(t)
		trial.judge(t, packet)
		if counted := trial.counters(t).minus(before); counted != want {
			t.Errorf("to %s: counted as %s, want %s", dst, counted, want)
		}
	}
}
