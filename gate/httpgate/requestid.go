package httpgate

import (
	"math/rand/v2"
	"strings"
	"time"
)

// idLetters are those of Crockford's base 32, in lower case: ids sort by time, and no two letters look alike.
const idLetters = "0123456789abcdefghjkmnpqrstvwxyz"

// newID returns an id for a request: 16 letters, of which eight are the time in milliseconds and eight are random. It
// is not a secret, but cannot be guessed.
func newID(now time.Time) string {
	var id [16]byte
	time, luck := uint64(now.UnixMilli()), rand.Uint64() // 40 bits of a time wrap after 34 years
	for i := range 8 {
		id[7-i], time = idLetters[time&31], time>>5
		id[15-i], luck = idLetters[luck&31], luck>>5
	}
	return string(id[:])
}

// maxID is how long an id may be that a trusted proxy sends.
const maxID = 128

var idBytes = byteSet("!#$%&'*+-.^_`|~=/:@")

// saneID returns the id that a trusted proxy sent, if it is the only one and fit to be shown and logged.
func saneID(ids []string) string {
	if len(ids) != 1 || len(ids[0]) == 0 || len(ids[0]) > maxID {
		return ""
	}
	if strings.ContainsFunc(ids[0], func(c rune) bool { return c >= 0x80 || !idBytes[c] }) {
		return ""
	}
	return ids[0]
}
