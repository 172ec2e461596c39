package stamp

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"
)

// Bounds of the format.
const (
	MaxID        = 64  // bytes of a client's or a message's id
	MaxChallenge = 383 // characters
	MaxStamp     = MaxChallenge + 1 + maxSolutionText

	version     = 1
	nonceBytes  = 16
	tagBytes    = 16
	fixedBytes  = 44 // up to and including the nonce
	seedBytes   = nonceBytes + tagBytes
	maxData     = 96
	maxSolution = eqsBytes
	maxBytes    = fixedBytes + 1 + MaxID + 1 + MaxID + 1 + maxData + tagBytes
	minBytes    = fixedBytes + 3 + tagBytes
	maxLifetime = 24 * time.Hour

	maxSolutionText = (maxSolution*8 + 5) / 6 // characters
)

// A Nonce is a number that is used once: it names a challenge.
type Nonce [nonceBytes]byte

// A Challenge says what is to be paid, by which client and for what. It is not stored: it comes back under its tag.
//
//	version 1 | algorithm 1 | key 8 | expires 6 | lifetime 4 | work 8 | nonce 16 |
//	1+message | 1+client | 1+data | tag 16
//
// Times are in milliseconds, numbers big-endian. As text it is base64url without padding.
type Challenge struct {
	Algorithm Algorithm
	Work      Work
	Expires   time.Time
	Lifetime  time.Duration
	Nonce     Nonce
	Message   string // what is asked for; opaque
	Client    string // who asks; opaque
	Data      []byte // dlog: b; dlog-classic: the prime

	keyID uint64
	tag   [tagBytes]byte
}

// Issued is when the challenge was made.
func (c *Challenge) Issued() time.Time { return c.Expires.Add(-c.Lifetime) }

// seed is what the hash puzzles start from. The tag makes it unpredictable, the nonce unique.
func (c *Challenge) seed() (s [seedBytes]byte) {
	copy(s[:], c.Nonce[:])
	copy(s[nonceBytes:], c.tag[:])
	return s
}

// appendHead writes everything up to the data.
func (c *Challenge) appendHead(b []byte) []byte {
	var fixed [fixedBytes]byte
	fixed[0], fixed[1] = version, byte(c.Algorithm)
	binary.BigEndian.PutUint64(fixed[2:], c.keyID)
	// The two bytes before the six are overwritten: the order matters.
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(c.Expires.UnixMilli()))
	copy(fixed[10:16], ms[2:])
	binary.BigEndian.PutUint32(fixed[16:], uint32(c.Lifetime.Milliseconds()))
	binary.BigEndian.PutUint64(fixed[20:], uint64(c.Work))
	copy(fixed[28:], c.Nonce[:])
	b = append(b, fixed[:]...)
	b = append(append(b, byte(len(c.Message))), c.Message...)
	return append(append(b, byte(len(c.Client))), c.Client...)
}

// ParseChallenge reads a challenge without asking whether it is genuine: for whoever has to solve it.
func ParseChallenge(text string) (Challenge, error) {
	var buf [maxBytes]byte
	raw, err := decodeText(buf[:], text, MaxChallenge)
	if err != nil {
		return Challenge{}, err
	}
	var c Challenge
	message, client, err := c.parse(raw)
	if err != nil {
		return Challenge{}, err
	}
	c.Message, c.Client = string(message), string(client)
	c.Data = append([]byte(nil), c.Data...)
	return c, nil
}

// parse reads the binary form. Ids and data are not copied, so that refusing a stamp allocates nothing.
func (c *Challenge) parse(raw []byte) (message, client []byte, err error) {
	if len(raw) < minBytes || raw[0] != version || !Algorithm(raw[1]).known() {
		return nil, nil, ErrMalformed
	}
	c.Algorithm = Algorithm(raw[1])
	c.keyID = binary.BigEndian.Uint64(raw[2:])
	c.Expires = time.UnixMilli(int64(binary.BigEndian.Uint64(raw[8:]) & (1<<48 - 1)))
	c.Lifetime = time.Duration(binary.BigEndian.Uint32(raw[16:])) * time.Millisecond
	c.Work = Work(binary.BigEndian.Uint64(raw[20:]))
	if c.Work < 1 || c.Work > MaxWork || c.Lifetime <= 0 || c.Lifetime > maxLifetime {
		return nil, nil, ErrMalformed
	}
	copy(c.Nonce[:], raw[28:])
	rest := raw[fixedBytes : len(raw)-tagBytes]
	var ok bool
	if message, rest, ok = field(rest, MaxID); !ok {
		return nil, nil, ErrMalformed
	}
	if client, rest, ok = field(rest, MaxID); !ok {
		return nil, nil, ErrMalformed
	}
	if c.Data, rest, ok = field(rest, maxData); !ok || len(rest) != 0 {
		return nil, nil, ErrMalformed
	}
	if size, _ := puzzles[c.Algorithm].sizes(); len(c.Data) != size {
		return nil, nil, ErrMalformed
	}
	copy(c.tag[:], raw[len(raw)-tagBytes:])
	return message, client, nil
}

// field takes a field off b that begins with its length.
func field(b []byte, most int) (value, rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, nil, false
	}
	n := int(b[0])
	if n > most || len(b) < 1+n {
		return nil, nil, false
	}
	return b[1 : 1+n], b[1+n:], true
}

// ID makes one id of fixed length from several parts, such as method, URL and digest of the body: no two lists of parts
// have the same. A change of a single space makes another one.
func ID(parts ...string) string {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return encoding.EncodeToString(h.Sum(nil)[:24])
}

// encoding is strict, so that no two texts mean the same challenge.
var encoding = base64.RawURLEncoding.Strict()

// decodeText decodes a text of at most so many characters into buf. What decodes is written in exactly one way: without
// padding and line ends, and with no bit left over that is set.
func decodeText(buf []byte, text string, most int) ([]byte, error) {
	want := encoding.DecodedLen(len(text))
	if len(text) > most || want > len(buf) || len(text)%4 == 1 {
		return nil, ErrMalformed
	}
	n, err := encoding.Decode(buf, []byte(text))
	if err != nil || n != want { // the decoder skips line ends, so that less is decoded
		return nil, ErrMalformed
	}
	return buf[:n], nil
}

func (c *Challenge) String() string {
	return fmt.Sprintf("%s, %s, until %s", c.Algorithm, c.Work, c.Expires.UTC().Format(time.RFC3339))
}
