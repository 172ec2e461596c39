package identify

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// ErrPhone is returned for a text that is not a telephone number.
var ErrPhone = errors.New("not a telephone number")

// ErrNoCountry is an ErrPhone for a number that is long enough but whose country is unknown.
var ErrNoCountry = fmt.Errorf("%w of a country", ErrPhone)

// How many digits a number has, with that of the country (E.164).
const (
	minDigits   = 8
	maxDigits   = 15
	maxPhone    = 64 // bytes, with everything that people write between the digits
	longestCode = 3  // digits of a country
)

// trunks has the trunk prefix of national numbers in countries in which it is not 0; "" if there is none.
var trunks = map[string]string{
	"1": "", "30": "", "34": "", "36": "06", "39": "", "45": "", "47": "", "48": "", "65": "", "7": "8",
	"351": "", "352": "", "354": "", "356": "", "371": "", "372": "", "420": "", "852": "",
}

// Phone returns the one form of a telephone number (E.164), such as +493012345678. A number without + or 00 is one of
// the country, as in "+49", or refused. So are letters and extensions. With ErrNoCountry its digits are returned.
func Phone(number, country string) (string, error) {
	code := strings.TrimPrefix(country, "+")
	if country != "" && (code == "" || len(code) > longestCode || code[0] == '0' ||
		strings.Trim(code, "0123456789") != "") {
		return "", fmt.Errorf("%w: country %.16q; write +49", ErrPhone, country)
	}
	digits, plus, err := dialled(number, code)
	if err != nil {
		return "", err
	}
	abroad, zeroes := cutAbroad(digits, code)
	switch trunk, special := trunks[code]; {
	case plus:
	case zeroes:
		digits = abroad
	case code == "":
		return noCountry(digits, "%.64q has no country; write +49 30 123456", number)
	case code == "1" && len(digits) == 11 && digits[0] == '1':
	case special && strings.HasPrefix(digits, trunk):
		digits = code + digits[len(trunk):]
	case !special && strings.HasPrefix(digits, "0"):
		digits = code + digits[1:]
	default: // of another country with the + left out, or a part of a number
		return noCountry(digits, "%.64q could be of any country; write +%s 30 123456, or 030 123456", number, code)
	}
	if len(digits) < minDigits || len(digits) > maxDigits || digits[0] == '0' {
		return "", fmt.Errorf("%w: %.64q; with the country's it has %d to %d digits, as in +49 30 123456", ErrPhone,
			number, minDigits, maxDigits)
	}
	return "+" + digits, nil
}

// noCountry returns the digits of a number whose country is unknown, with an error. If they are too few or too many for
// a number with its country, the error is ErrPhone.
func noCountry(digits, format string, of ...any) (string, error) {
	is := ErrNoCountry
	if len(digits) < minDigits || len(digits) > maxDigits {
		digits, is = "", ErrPhone
	}
	return digits, fmt.Errorf("%w: %s", is, fmt.Sprintf(format, of...))
}

// cutAbroad cuts off the prefix of international calls: 00, and 011 in North America.
func cutAbroad(digits, code string) (abroad string, found bool) {
	if abroad, found = strings.CutPrefix(digits, "00"); !found && code == "1" {
		abroad, found = strings.CutPrefix(digits, "011")
	}
	return abroad, found
}

func dialled(number, code string) (digits string, plus bool, err error) {
	if len(number) > maxPhone {
		return "", false, fmt.Errorf("%w: %.64q… is longer than %d bytes", ErrPhone, number, maxPhone)
	}
	var array [maxPhone]byte
	n := 0
	for i, c := range number {
		switch {
		case c >= '0' && c <= '9':
			if c == '0' && i > 0 && number[i-1] == '(' && strings.HasPrefix(number[i+1:], ")") &&
				skipped(string(array[:n]), code, plus) {
				continue
			}
			array[n] = byte(c)
			n++
		case c == '+' && n == 0 && !plus:
			plus = true
		case strings.ContainsRune(" \t-./()\u00a0\u202f\u2010\u2011\u2012\u2013", c):
		default:
			return "", false, fmt.Errorf("%w: %.64q; write digits, as in +49 30 123456", ErrPhone, number)
		}
	}
	return string(array[:n]), plus, nil
}

// skipped reports whether a 0 in brackets is not dialled, as in +49 (0)30 and 0049 (0)30. In Italy it always is.
func skipped(before, code string, plus bool) bool {
	country := before
	if !plus {
		var abroad bool
		if country, abroad = cutAbroad(before, code); !abroad {
			return false
		}
	}
	return country != "" && country != "39"
}

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

// domains converts names in any script to the form of the DNS. Only letters, digits and hyphens are accepted, so that
// no character turns into an @ or a dot.
var domains = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.StrictDomainName(true),
	idna.VerifyDNSLength(true))

// Domain returns the one form of a domain: in lower case, in ASCII, without a dot at the end. München.example. becomes
// xn--mnchen-3ya.example. An invalid name in another script is only lower-cased.
func Domain(domain string) string {
	domain = strings.TrimRight(strings.ToLower(domain), ".。．｡")
	if !strings.ContainsFunc(domain, func(r rune) bool { return r >= 0x80 }) {
		return domain // an xn-- name has one spelling
	}
	if ascii, err := domains.ToASCII(domain); err == nil {
		return ascii
	}
	return domain
}

// domainName reports whether a text can be a domain in a configuration.
func domainName(text string) bool {
	if text == "" || len(text) > maxDomain || strings.HasPrefix(text, ".") || strings.HasSuffix(text, ".") ||
		strings.Contains(text, "..") {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || r < 0x80 && r != '.' && r != '-' && r != '_' &&
			!isLetter(byte(r)) && !isDigit(byte(r))
	})
}

// Name returns the one form of a person's name: in lower case, and with one space between words. Other spellings of a
// letter stay different, since they may be another name.
func Name(name string) string {
	if plainName(name) {
		return name
	}
	var b strings.Builder
	b.Grow(len(name))
	space := false
	for _, r := range name {
		if unicode.IsSpace(r) {
			space = b.Len() > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		// by way of the capital letter, so that the two small sigmas become one
		b.WriteRune(unicode.ToLower(unicode.ToUpper(r)))
	}
	return b.String()
}

func plainName(name string) bool {
	last := byte(' ')
	for i := range len(name) {
		c := name[i]
		if c >= 0x80 || c >= 'A' && c <= 'Z' || c < ' ' || c == ' ' && last == ' ' {
			return false
		}
		last = c
	}
	return name == "" || last != ' '
}
