package identify

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Errors of Clients.Read.
var (
	ErrClientMalformed = errors.New("not the cookie of a client")
	ErrClientForged    = errors.New("the cookie of the client was not made here")
	ErrClientOld       = errors.New("the cookie of the client is more than 400 days old, or of another time altogether")
)

// ClientCookie is how long the cookie of a client lasts: browsers keep none for longer.
const ClientCookie = clientDays * 24 * time.Hour

// AddressPrefix begins the ids of clients that have no cookie. No id of a cookie begins with it.
const AddressPrefix = "@"

// A cookie is a version, the id, the day of issue and a tag over them: "1", 22, 4 and 22 characters of base64url.
const (
	clientVersion = '1'
	clientDays    = 400

	idBytes, idChars   = 16, 22
	dayBytes, dayChars = 3, 4
	tagBytes, tagChars = 16, 22

	idAt        = 1
	dayAt       = idAt + idChars
	tagAt       = dayAt + dayChars
	cookieChars = tagAt + tagChars
)

// base64url has no padding, and accepts only one spelling of the same bytes.
var base64url = base64.RawURLEncoding.Strict()

// Clients gives clients an id in a signed cookie. Make it with NewClients. Goroutines may share it.
type Clients struct {
	keys []clientKey // the first one signs
}

// A clientKey is what HMAC-SHA256 begins its two hashes with.
type clientKey struct{ inner, outer [sha256.BlockSize]byte }

// clientLabel keeps the key of these cookies apart from other keys that are derived from the same secret.
const clientLabel = "weir client cookie 1"

// NewClients makes Clients that sign cookies with a secret, which is the same on all nodes of a farm. Cookies signed
// with old secrets are accepted. Without a secret a random one is used, and the ids end with the process.
func NewClients(secret []byte, old ...[]byte) *Clients {
	if len(secret) == 0 {
		secret = make([]byte, sha256.Size)
		_, _ = rand.Read(secret) // never fails
	}
	c := &Clients{keys: []clientKey{newClientKey(secret)}}
	for _, s := range old {
		if len(s) > 0 { // anybody could sign with an empty one
			c.keys = append(c.keys, newClientKey(s))
		}
	}
	return c
}

func newClientKey(secret []byte) clientKey {
	root := hmacKey(secret)
	derived := root.sum([]byte(clientLabel))
	return hmacKey(derived[:])
}

// New gives an id to a client that has none, and the cookie to send it. The cookie is of letters, digits, '-' and '_'.
func (c *Clients) New(now time.Time) (id, cookie string) {
	var raw [idBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	var text [cookieChars]byte
	c.seal(&text, raw, dayOf(now))
	cookie = string(text[:])
	return cookie[idAt:dayAt], cookie
}

func (c *Clients) seal(text *[cookieChars]byte, id [idBytes]byte, day uint32) {
	tag := c.keys[0].tag(id, day)
	text[0] = clientVersion
	base64url.Encode(text[idAt:], id[:])
	base64url.Encode(text[dayAt:], []byte{byte(day >> 16), byte(day >> 8), byte(day)})
	base64url.Encode(text[tagAt:], tag[:tagBytes])
}

// Read returns the id in a cookie, or ErrClientMalformed, ErrClientForged or ErrClientOld.
func (c *Clients) Read(cookie string, now time.Time) (id string, err error) {
	if len(cookie) != cookieChars || cookie[0] != clientVersion {
		return "", ErrClientMalformed
	}
	var text [cookieChars]byte
	copy(text[:], cookie)
	var raw [idBytes]byte
	var days [dayBytes]byte
	var tag [tagBytes]byte
	if !decodeAll(raw[:], text[idAt:dayAt]) || !decodeAll(days[:], text[dayAt:tagAt]) ||
		!decodeAll(tag[:], text[tagAt:]) {
		return "", ErrClientMalformed
	}
	day := uint32(days[0])<<16 | uint32(days[1])<<8 | uint32(days[2])
	genuine := 0
	for i := range c.keys {
		want := c.keys[i].tag(raw, day)
		genuine |= subtle.ConstantTimeCompare(want[:tagBytes], tag[:])
	}
	if genuine == 0 {
		return "", ErrClientForged
	}
	// the clock of another node may be ahead.
	if today := dayOf(now); day > today+1 || today > day+clientDays {
		return "", ErrClientOld
	}
	// The id outlives the request in lists and tables. A clone does not keep the headers that it came with in memory.
	return strings.Clone(cookie[idAt:dayAt]), nil
}

// decodeAll reads bytes that must fill dst. Even the strict decoder skips line breaks; such text does not fill it.
func decodeAll(dst, src []byte) bool {
	n, err := base64url.Decode(dst, src)
	return err == nil && n == len(dst)
}

func dayOf(now time.Time) uint32 {
	return uint32(min(max(now.Unix()/(24*60*60), 0), 1<<(8*dayBytes)-1))
}

func (k *clientKey) tag(id [idBytes]byte, day uint32) [sha256.Size]byte {
	var b [1 + idBytes + dayBytes]byte
	b[0] = clientVersion
	copy(b[1:], id[:])
	b[1+idBytes], b[2+idBytes], b[3+idBytes] = byte(day>>16), byte(day>>8), byte(day)
	return k.sum(b[:])
}

// hmacKey and sum are HMAC-SHA256 (RFC 2104) for short texts. crypto/hmac would allocate, which counts in a flood.
func hmacKey(secret []byte) (k clientKey) {
	if len(secret) > sha256.BlockSize {
		short := sha256.Sum256(secret)
		secret = short[:]
	}
	copy(k.inner[:], secret)
	copy(k.outer[:], secret)
	for i := range k.inner {
		k.inner[i] ^= 0x36
		k.outer[i] ^= 0x5c
	}
	return k
}

func (k *clientKey) sum(text []byte) [sha256.Size]byte {
	var array [2 * sha256.BlockSize]byte
	inner := sha256.Sum256(append(append(array[:0], k.inner[:]...), text...))
	return sha256.Sum256(append(append(array[:0], k.outer[:]...), inner[:]...))
}

// ClientAt names a client with an id of a cookie at its address: what is held against such an id holds at that address
// alone. Somebody else may have the same id, and may have put it into the browser of this client. Other ids name
// somebody wherever they are, and are returned as they are.
func ClientAt(id string, addr netip.Addr) string {
	if len(id) != idChars || strings.ContainsAny(id, ":"+AddressPrefix) {
		return id
	}
	return id + AddressID(addr)
}

// AddressID returns the id of a client without a cookie: its address, as in "@192.0.2.1". For IPv6 it is the /64, as in
// "@2001:db8:1:2::", since clients choose addresses within it. An invalid address gives "".
func AddressID(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	var array [64]byte
	return string(Network(addr, 32, 64).Addr().AppendTo(append(array[:0], AddressPrefix...)))
}

// cookieValue returns the first value of a cookie that is not empty. again means that some server may read another
// value, or none, so that only the result of Cookies may be sent on.
func cookieValue(lines []string, name string) (value string, again bool, err error) {
	first, empty, open := "", false, false
	for _, line := range lines {
		for rest := line; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, ";")
			key, text, _ := strings.Cut(pair, "=")
			if strings.Trim(key, " \t") != name {
				again = again || sameParameter(key, name) || hides(pair, name)
				open = open || opens(pair)
				continue
			}
			switch text = strings.Trim(text, " \t"); {
			case text == "" || text == `""`:
				empty = true
			case first == "":
				first = text
				if value, err = cookieText(text); err != nil {
					return "", false, err
				}
			case text != first:
				again = true
			}
			again = again || open || first != "" && empty
		}
	}
	return value, again, nil
}

// opens reports whether a quote in a pair may swallow the pairs after it. Some servers count quotes anywhere, and some
// only at the start of values.
func opens(pair string) bool {
	if strings.Count(pair, `"`)%2 == 1 {
		return true
	}
	for {
		_, text, found := strings.Cut(pair, "=")
		if !found {
			return false
		}
		pair = text
		if text = strings.TrimLeft(text, " \t"); strings.HasPrefix(text, `"`) && !closes(text[1:]) {
			return true
		}
	}
}

// closes reports whether a quoted text ends. A backslash escapes the next character.
func closes(text string) bool {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return true
		}
	}
	return false
}

// cookieText reads the value of a cookie. Some servers unescape it. No two sessions differ only in that, so all
// spellings of a value are one account. Some servers cut off what RFC 6265 does not allow in a value.
func cookieText(text string) (string, error) {
	if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	if strings.ContainsAny(text, " \t,\"\\") {
		return "", ErrAccountWritten
	}
	return strings.ReplaceAll(strings.Trim(unescape(text), " \t"), " ", "+"), nil
}

// hides reports whether a server that splits cookies at spaces, commas or quotes reads that name in another pair.
func hides(pair, name string) bool {
	for {
		at := strings.IndexAny(pair, " \t,\"")
		if at < 0 {
			return false
		}
		pair = strings.TrimLeft(pair[at:], " \t,\"")
		if key, _, is := strings.Cut(pair, "="); is && sameParameter(strings.Trim(key, " \t"), name) {
			return true
		}
	}
}

// Cookies returns the Cookie header to send on if a cookie names the account, or a part of a key. Such a pair goes
// first, so that no other can swallow it, and other pairs that a server may take for it are left out. nil means none is
// left.
func (a *Accounts) Cookies(lines []string) []string {
	var kept []string
	a.places(func(e *extractor) bool {
		if e.kind == fromCookie {
			kept = lift(split(lines), e.name)
			lines = []string{strings.Join(kept, "; ")}
		}
		return false
	})
	if len(kept) == 0 {
		return nil
	}
	return lines
}

func split(lines []string) (pairs []string) {
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			if pair = strings.Trim(pair, " \t"); pair != "" {
				pairs = append(pairs, pair)
			}
		}
	}
	return pairs
}

// lift moves the first pair of a name that has a value to the front, and drops other pairs that may be read as it.
func lift(pairs []string, name string) []string {
	kept := make([]string, 0, len(pairs)+1)
	lifted := false
	for _, pair := range pairs {
		key, text, _ := strings.Cut(pair, "=")
		switch text = strings.Trim(text, " \t"); {
		case strings.Trim(key, " \t") != name:
			if !sameParameter(key, name) && !hides(pair, name) {
				kept = append(kept, pair)
			}
		case !lifted && text != "" && text != `""`:
			kept, lifted = slices.Insert(kept, 0, pair), true
		}
	}
	return kept
}
