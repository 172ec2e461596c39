package upstream

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"time"
)

// greet sends the PROXY header as the first bytes of a connection.
func greet(c net.Conn, version ProxyProtocol, by Caller, patience time.Duration) error {
	var client, local netip.AddrPort
	if by != nil {
		client, local = by.Ends()
	}
	_ = c.SetWriteDeadline(time.Now().Add(patience))
	_, err := c.Write(AppendProxyHeader(nil, version, client, local))
	_ = c.SetWriteDeadline(time.Time{})
	return err
}

// greetingV2 begins a header of version 2.
const greetingV2 = "\r\n\r\n\x00\r\nQUIT\n"

// AppendProxyHeader writes a header of the PROXY protocol. Without two addresses of one family it is LOCAL or UNKNOWN.
func AppendProxyHeader(b []byte, version ProxyProtocol, client, local netip.AddrPort) []byte {
	from, to := client.Addr().Unmap().WithZone(""), local.Addr().Unmap().WithZone("")
	if from.Is6() && to.Is4() {
		to = netip.AddrFrom16(to.As16())
	}
	if from.Is4() && to.Is6() {
		from = netip.AddrFrom16(from.As16())
	}
	known := from.IsValid() && to.IsValid()
	if version == ProxyV1 {
		if !known {
			return append(b, "PROXY UNKNOWN\r\n"...)
		}
		family := "TCP4"
		if from.Is6() {
			family = "TCP6"
		}
		b = append(append(append(b, "PROXY "...), family...), ' ')
		b = append(v1Address(b, from), ' ')
		b = append(v1Address(b, to), ' ')
		b = append(strconv.AppendUint(b, uint64(client.Port()), 10), ' ')
		return append(strconv.AppendUint(b, uint64(local.Port()), 10), "\r\n"...)
	}
	b = append(b, greetingV2...)
	switch {
	case !known:
		return append(b, 0x20, 0, 0, 0) // LOCAL
	case from.Is4():
		b = append(b, 0x21, 0x11, 0, 12)
	default:
		b = append(b, 0x21, 0x21, 0, 36)
	}
	b = append(append(b, from.AsSlice()...), to.AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, client.Port())
	return binary.BigEndian.AppendUint16(b, local.Port())
}

// v1Address writes an address as text. IPv4 in IPv6 is written in hexadecimal, which all readers understand.
func v1Address(b []byte, a netip.Addr) []byte {
	if !a.Is4In6() {
		return a.AppendTo(b)
	}
	v4 := a.As16()
	b = append(b, "::ffff:"...)
	b = strconv.AppendUint(b, uint64(binary.BigEndian.Uint16(v4[12:])), 16)
	return strconv.AppendUint(append(b, ':'), uint64(binary.BigEndian.Uint16(v4[14:])), 16)
}
