package stamp

import (
	"encoding/base64"
	"encoding/binary"
)

// encoding is strict, so that no two texts mean the same challenge.
var encoding = base64.RawURLEncoding.Strict()

// alphabet are the digits of base64url.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// digits say what a character means in each of the four places of three bytes. A character that means nothing has the
// highest bit set. Four tables of a kilobyte spare a shift for each character: half of what decoding takes.
var digits = func() (t [4][256]uint32) {
	for place := range t {
		for c := range t[place] {
			t[place][c] = notDigit
		}
		for n, c := range []byte(alphabet) {
			t[place][c] = uint32(n) << (18 - 6*place)
		}
	}
	return t
}()

const notDigit = 1 << 31

// decodeText decodes base64url into buf. What decodes is written in exactly one way: without padding and line ends, and
// with no bit left over that is set.
func decodeText(buf []byte, text string, most int) ([]byte, error) {
	want := encoding.DecodedLen(len(text))
	if len(text) > most || want > len(buf) || len(text)%4 == 1 {
		return nil, ErrMalformed
	}
	out := buf[:want]
	if hasTextLanes && textLanes(&text64, out, text) || !hasTextLanes && textPlain(out, text) {
		return out, nil
	}
	return nil, ErrMalformed
}

// textPlain decodes as many bytes as the text has, and reports whether it is right. It is what processors do that do
// not have textLanes.
func textPlain(out []byte, text string) bool {
	wrong := uint32(0)
	for len(text) >= 8 && len(out) >= 8 { // two bytes more than there are: the next ones go over them
		a := digits[0][text[0]] | digits[1][text[1]] | digits[2][text[2]] | digits[3][text[3]]
		b := digits[0][text[4]] | digits[1][text[5]] | digits[2][text[6]] | digits[3][text[7]]
		binary.BigEndian.PutUint64(out, uint64(a)<<40|uint64(b)<<16)
		wrong |= a | b
		text, out = text[8:], out[6:]
	}
	for len(text) >= 4 {
		v := digits[0][text[0]] | digits[1][text[1]] | digits[2][text[2]] | digits[3][text[3]]
		out[0], out[1], out[2] = byte(v>>16), byte(v>>8), byte(v)
		wrong |= v
		text, out = text[4:], out[3:]
	}
	left := uint32(0) // bits that are in no byte
	switch len(text) {
	case 2:
		v := digits[0][text[0]] | digits[1][text[1]]
		out[0], left = byte(v>>16), v&0xffff
		wrong |= v
	case 3:
		v := digits[0][text[0]] | digits[1][text[1]] | digits[2][text[2]]
		out[0], out[1], left = byte(v>>16), byte(v>>8), v&0xff
		wrong |= v
	}
	return wrong&notDigit == 0 && left == 0
}
