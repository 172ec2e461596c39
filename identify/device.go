package identify

import (
	"errors"
	"fmt"
)

// ErrDevice is returned for a text that is not the address of a network device.
var ErrDevice = errors.New("not the address of a device")

// Device returns the one form of the hardware address of a network device (EUI-48, EUI-64), such as 02:00:5e:00:53:01.
// The usual spellings are read: 02-00-5E-00-53-01, 0200.5e00.5301, 02005e-005301, 02005e005301, and 2:0:5e:0:53:1.
func Device(mac string) (string, error) {
	var (
		digits [16]byte
		n      int  // digits read
		group  int  // digits since the last separator
		width  int  // of the groups before
		sep    byte // between groups
	)
	// end closes a group. All are as wide as the first, except for zeroes that some leave out between colons.
	end := func() bool {
		if sep == ':' && group == 1 && n < len(digits) {
			digits[n], digits[n-1] = digits[n-1], '0'
			n, group = n+1, 2
		}
		if group == 0 || width != 0 && group != width {
			return false
		}
		width, group = group, 0
		return true
	}
	for i := range len(mac) {
		c := mac[i]
		switch {
		case c >= 'A' && c <= 'F':
			c |= 0x20
			fallthrough
		case isDigit(c), c >= 'a' && c <= 'f':
			if n == len(digits) {
				return "", noDevice(mac)
			}
			digits[n] = c
			n, group = n+1, group+1
		case (c == ':' || c == '-' || c == '.') && (sep == 0 || sep == c):
			if sep = c; !end() {
				return "", noDevice(mac)
			}
		default:
			return "", noDevice(mac)
		}
	}
	if !end() || n != 12 && n != 16 || sep != 0 && width != 2 && width != 4 && width != 6 && width != 8 {
		return "", noDevice(mac)
	}
	var out [16 / 2 * 3]byte
	at := out[:0]
	for i := 0; i < n; i += 2 {
		at = append(at, digits[i], digits[i+1], ':')
	}
	return string(at[:len(at)-1]), nil
}

func noDevice(mac string) error {
	return fmt.Errorf("%w: %.64q; write 02:00:5e:00:53:01", ErrDevice, mac)
}
