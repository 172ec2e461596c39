package netlab

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// SYN is a frame with a TCP SYN from any address to a port of the near end. Its address and checksums are right: the
// host would drop it before TCP otherwise, at no cost.
func SYN(from netip.Addr, port uint16) []byte {
	tcp := make([]byte, 20)
	binary.BigEndian.PutUint16(tcp[0:], 40000)
	binary.BigEndian.PutUint16(tcp[2:], port)
	tcp[12], tcp[13] = 0x50, 0x02
	binary.BigEndian.PutUint16(tcp[14:], 0xffff)

	frame := append(slices.Clone(hostMAC), 2, 0, 0, 0, 0, 2)
	if from.Is6() {
		to := netip.MustParseAddr(HostV6)
		putTCPChecksum(tcp, from, to)
		ip := make([]byte, 8)
		ip[0], ip[6], ip[7] = 0x60, unix.IPPROTO_TCP, 64
		binary.BigEndian.PutUint16(ip[4:], uint16(len(tcp)))
		frame = binary.BigEndian.AppendUint16(frame, unix.ETH_P_IPV6)
		frame = append(frame, ip...)
		frame = append(append(frame, from.AsSlice()...), to.AsSlice()...)
		return append(frame, tcp...)
	}
	to := netip.MustParseAddr(HostV4)
	putTCPChecksum(tcp, from, to)
	ip := make([]byte, 12)
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(tcp)))
	ip = append(append(ip, from.AsSlice()...), to.AsSlice()...)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	frame = binary.BigEndian.AppendUint16(frame, unix.ETH_P_IP)
	return append(append(frame, ip...), tcp...)
}

// putTCPChecksum sums a header up together with its pseudo-header (RFC 9293, section 3.1).
func putTCPChecksum(tcp []byte, from, to netip.Addr) {
	pseudo := append(from.AsSlice(), to.AsSlice()...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(tcp)))
	pseudo = binary.BigEndian.AppendUint32(pseudo, unix.IPPROTO_TCP)
	binary.BigEndian.PutUint16(tcp[16:], checksum(append(pseudo, tcp...)))
}

func checksum(header []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// Flood sends so many frames, in turn, from the far end of a cable.
func Flood(far Namespace, frames [][]byte, count int) error {
	return onWire(far, func(send func([]byte) error) error {
		for i := range count {
			if err := send(frames[i%len(frames)]); err != nil {
				return err
			}
		}
		return nil
	})
}

// tick is how often FloodAt sends.
const tick = 2 * time.Millisecond

// FloodAt sends so many frames a second, in turn, from the far end of a cable, until it is told to stop. It returns
// how many.
func FloodAt(far Namespace, frames [][]byte, rate int, stop <-chan struct{}) (sent int, err error) {
	err = onWire(far, func(send func([]byte) error) error {
		began, ticker := time.Now(), time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return nil
			case <-ticker.C:
			}
			for due := int(time.Since(began).Seconds() * float64(rate)); sent < due; sent++ {
				if err := send(frames[sent%len(frames)]); err != nil {
					return err
				}
			}
		}
	})
	return sent, err
}

// onWire runs f with a function that sends a frame from the far end of a cable.
func onWire(far Namespace, f func(send func([]byte) error) error) error {
	return far.Do(func() error {
		iface, err := net.InterfaceByName(Wire)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		to := &unix.SockaddrLinklayer{Ifindex: iface.Index, Halen: 6}
		return f(func(frame []byte) error {
			for {
				err := unix.Sendto(fd, frame, 0, to)
				if !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR) {
					return err
				}
			}
		})
	})
}
