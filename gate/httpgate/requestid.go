package httpgate

import (
	"encoding/base32"
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// idLetters are those of Crockford's base 32, in lower case: ids sort by time, and none reads like another.
var idLetters = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// newID returns an id for a request: 16 letters, the first eight of which tell the time in units of a millisecond and the rest
// are random. It is no secret, but cannot be guessed either.
func newID(now time.Time) string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[0:], uint64(now.UnixMilli())<<24) // 40 bits wrap after 34 years
	binary.BigEndian.PutUint64(raw[5:], rand.Uint64())
	return idLetters.EncodeToString(raw[:10])
}

// maxID is how long an id may be that a trusted proxy sends.
const maxID = 128

// saneID returns the id that a trusted proxy sent, if it is the only one and fit to be shown and logged.
func saneID(ids []string) string {
	if len(ids) != 1 || len(ids[0]) == 0 || len(ids[0]) > maxID {
		return ""
	}
	for _, c := range []byte(ids[0]) {
		if !tokenBytes[c] && c != '=' && c != '/' && c != ':' && c != '@' {
			return ""
		}
	}
	return ids[0]
}
