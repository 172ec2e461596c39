//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// nftablesSet is B6 against nftables in the kernel: a set with a limit for each /24, as its manual has it, of 65,536
// elements, and a flood of SYNs from twice as many networks, each of which sends twice its burst. A network that finds
// the set full is not limited at all. It needs root, ip and nft; the networks that it makes lead nowhere.
func nftablesSet(t *trial) []figure {
	const burst, elements = 10, 65536
	networks := 2 * elements
	if t.quick {
		networks = elements + 1000
	}
	passed := 0
	if err := attempt(func() { passed = t.floodNftables(elements, burst, networks, 2*burst) }); err != nil {
		check(errors.Join(errors.ErrUnsupported, err)) // a peer that is not there is left out
	}
	return []figure{{fmt.Sprintf("for comparison, nftables: a set of %d limits under a flood of %d networks, SYNs "+
		"passed "+
		"/ allowed", elements, networks), "–", fmt.Sprintf("%.2f ×", float64(passed)/float64(networks*burst)), true}}
}

func (t *trial) floodNftables(elements, burst, networks, each int) (passed int) {
	name := fmt.Sprintf("weirbench%d", os.Getpid())
	run := func(command string) string {
		args := strings.Fields(command)
		return output(exec.Command(args[0], args[1:]...))
	}
	run("ip netns add " + name)
	t.cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	in := "ip netns exec " + name + " "
	run(in + "ip link add host0 type veth peer name wire0")
	run(in + "ip addr add 198.18.0.1/15 dev host0")
	run(in + "ip link set host0 up")
	run(in + "ip link set wire0 up")
	rules := exec.Command("ip", "netns", "exec", name, "nft", "-f", "-")
	rules.Stdin = strings.NewReader(fmt.Sprintf(`table netdev weir {
	set flood { type ipv4_addr; size %d; flags dynamic; }
	chain in {
		type filter hook ingress device "host0" priority 0;
		ip saddr 10.0.0.0/8 tcp flags syn update @flood { ip saddr and 255.255.255.0 limit rate over 1/hour burst %d packets } drop
		ip saddr 10.0.0.0/8 counter drop
		ip saddr 11.0.0.0/8 tcp flags syn update @flood { ip saddr and 255.255.255.0 limit rate over 1/hour burst %[2]d packets } drop
		ip saddr 11.0.0.0/8 counter drop
	}
}
`, elements, burst))
	output(rules)
	check(sendSYNs("/var/run/netns/"+name, networks, each))
	for line := range strings.Lines(run(in + "nft list chain netdev weir in")) {
		if _, rest, found := strings.Cut(line, "counter packets "); found {
			n := 0
			fmt.Sscanf(rest, "%d", &n)
			passed += n
		}
	}
	return passed
}

// sendSYNs sends so many SYNs from each of so many /24 networks over wire0 in a network namespace.
func sendSYNs(namespace string, networks, each int) error {
	done := make(chan error)
	go func() {
		// The thread ends with the goroutine, so that no other goroutine runs in the namespace.
		runtime.LockOSThread()
		done <- attempt(func() {
			ns := try(os.Open(namespace))
			defer ns.Close()
			check(unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET))
			iface := try(net.InterfaceByName("wire0"))
			fd := try(unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0))
			defer unix.Close(fd)
			to, frame := &unix.SockaddrLinklayer{Ifindex: iface.Index, Halen: 6}, synPacket()
			for n := range each * networks {
				binary.BigEndian.PutUint32(frame[26:], 10<<24+uint32(n%networks)<<8+1)
				err := unix.Sendto(fd, frame, 0, to)
				for errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EINTR) {
					err = unix.Sendto(fd, frame, 0, to)
				}
				check(err)
			}
		})
	}()
	return <-done
}

// synPacket is an Ethernet frame with a TCP SYN to port 443. Senders set its source. It has no checksums.
func synPacket() []byte {
	frame := make([]byte, 14+20+20)
	binary.BigEndian.PutUint16(frame[12:], 0x0800)
	ip, tcp := frame[14:34], frame[34:]
	ip[0], ip[8], ip[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(ip[2:], 40)
	binary.BigEndian.PutUint16(tcp[2:], 443)
	tcp[12], tcp[13] = 0x50, 0x02
	return frame
}
