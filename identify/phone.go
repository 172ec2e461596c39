package identify

import (
	"errors"
	"fmt"
	"strings"
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
