package login

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
)

// How new passwords are hashed: the least that OWASP recommends. More memory means fewer at once.
const (
	hashMemory = 19456 // KiB
	hashPasses = 2
	hashLanes  = 1
	saltBytes  = 16
	hashBytes  = 32
)

// Bounds of stored hashes. One of another program must not take all memory, nor a worker for minutes.
const (
	maxStored = 512     // characters
	maxMemory = 1 << 17 // KiB: 128 MiB
	maxPasses = 64
	maxLanes  = 16
	maxWork   = 1 << 20 // KiB times passes: about a second
	minSalt   = 8
	minHash   = 16
	maxBytes  = 64 // of salt and hash
)

var encoding = base64.RawStdEncoding.Strict()

type secret struct {
	memory, passes uint32
	lanes          uint8
	salt, hash     []byte
}

// Hash returns what is stored for a password: argon2id with its parameters and a salt, in the usual text form. The
// password must not be empty nor longer than MaxPassword. Check is for passwords that people choose.
func Hash(password string) (string, error) { return hashWith(hashMemory, password) }

// Hash is the function Hash with the memory of the verifier's options.
func (d *Verifier) Hash(password string) (string, error) { return hashWith(d.o.HashMemory, password) }

func hashWith(memory int, password string) (string, error) {
	switch {
	case password == "":
		return "", ErrShort
	case len(password) > MaxPassword:
		return "", ErrLong
	}
	s := secret{memory: uint32(memory), passes: hashPasses, lanes: hashLanes, salt: make([]byte, saltBytes)}
	_, _ = rand.Read(s.salt) // never fails
	s.hash = derive([]byte(password), &s, hashBytes)
	return s.String(), nil
}

func (s *secret) String() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, s.memory, s.passes, s.lanes,
		encoding.EncodeToString(s.salt), encoding.EncodeToString(s.hash))
}

func derive(password []byte, s *secret, length int) []byte {
	return argon2.IDKey(password, s.salt, s.passes, s.memory, s.lanes, uint32(length))
}

// readStored reads what Hash or another program wrote. Its errors are ErrStored, and show nothing of it.
func readStored(text string) (*secret, error) {
	wrong := func(why string) (*secret, error) { return nil, fmt.Errorf("%w: %s", ErrStored, why) }
	if len(text) > maxStored {
		return wrong("it is too long")
	}
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return wrong("not in the form $argon2id$v=19$m=…,t=…,p=…$salt$hash")
	}
	if parts[2] != "v="+strconv.Itoa(argon2.Version) {
		return wrong("another version of argon2id")
	}
	var s secret
	names := [...]string{"m=", "t=", "p="}
	most := [...]uint64{maxMemory, maxPasses, maxLanes}
	var values [3]uint32
	figures := strings.Split(parts[3], ",")
	if len(figures) != len(names) {
		return wrong("its parameters are not m, t and p")
	}
	for i, f := range figures {
		digits, named := strings.CutPrefix(f, names[i])
		n, err := strconv.ParseUint(digits, 10, 32)
		if !named || err != nil || digits != strconv.FormatUint(n, 10) {
			return wrong("its parameters are not m, t and p")
		}
		if n < 1 || n > most[i] {
			return wrong(fmt.Sprintf("%s%d is out of bounds (1 to %d)", names[i], n, most[i]))
		}
		values[i] = uint32(n)
	}
	s.memory, s.passes, s.lanes = values[0], values[1], uint8(values[2])
	if s.memory < 8*uint32(s.lanes) {
		return wrong("less memory than 8 KiB for each lane")
	}
	if uint64(s.memory)*uint64(s.passes) > maxWork {
		return wrong("its parameters ask for too much work")
	}
	var err error
	if s.salt, err = decode(parts[4], minSalt); err != nil {
		return wrong("its salt " + err.Error())
	}
	if s.hash, err = decode(parts[5], minHash); err != nil {
		return wrong("its hash " + err.Error())
	}
	return &s, nil
}

func decode(text string, least int) ([]byte, error) {
	b, err := encoding.DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") { // which the decoder would skip
		return nil, errors.New("is not base64")
	}
	if len(b) < least || len(b) > maxBytes {
		return nil, fmt.Errorf("is not %d to %d bytes long", least, maxBytes)
	}
	return b, nil
}
