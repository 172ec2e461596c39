package identify

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir"
)

// Bounds of keys.
const (
	MaxKeyParts = 8
	MaxKey      = MaxAccount // bytes of a key: it stands where an account would
)

// Errors of Key.Append. Such an event has no key, and must be refused: otherwise it would pass its limit.
var (
	ErrKeyTooLong = fmt.Errorf("what limits count the request by is longer than %d bytes", MaxKey)
	ErrKeyPath    = errors.New("the path can be read in several ways, and limits count by a segment of it: write it " +
		"plainly")
	ErrKeyMethod = errors.New("the method is overridden, and limits count by it: send the method itself")
)

// A Key is the list of parts that a limit counts by, instead of the account alone. The zero value has no parts.
// Goroutines may share it.
//
// Keys are written as text: the parts in order, with a comma in between. A part that is missing is "-". In a part, a
// comma and a backslash have a backslash before them, and what cannot be printed is \xHH. So two lists of parts have
// the same key only if all parts are the same, whatever clients write into them.
type Key struct {
	parts []keyPart
	// V4 and V6 are the lengths of prefixes by which events without an account are counted.
	V4, V6 int
	// Country returns the country of an address, or "". It is nil where nobody knows.
	Country func(netip.Addr) string
}

type keyPart struct {
	kind   partKind
	spec   string // as the operator writes it, in its usual form
	place  extractor
	v4, v6 int // of a network
}

type partKind uint8

const (
	partAccount partKind = iota
	partMethod
	partHost
	partPath
	partNetwork
	partCountry
	partSaid // what the gate finds in the request
)

// The words of parts that need nothing but the event. All others are those of accounts.
var partWords = [...]string{partAccount: "account", partMethod: "method", partHost: "host", partPath: "path",
	partNetwork: "network", partCountry: "country"}

// ParseKey reads the parts of a key as an operator writes them: account, method, host, path:N, network (also as in
// network:24/64), country, header:NAME, bearer, query:NAME, cookie:NAME, cert, cert:san and jwt:CLAIM. Its error joins
// weir.FieldErrors, with paths as in "[1]".
func ParseKey(specs []string) (Key, error) {
	var k Key
	var v weir.Mistakes
	if !v.AtMost("", "parts", len(specs), MaxKeyParts) {
		return k, v.Err()
	}
	for i, spec := range specs {
		at := fmt.Sprintf("[%d]", i)
		p, mistake := parsePart(spec)
		switch {
		case mistake != nil:
			v.Add(at, mistake.Msg, mistake.Hint)
		case slices.ContainsFunc(k.parts, func(other keyPart) bool { return other.spec == p.spec }):
			v.Add(at, fmt.Sprintf("%q is listed twice", spec), "leave one out")
		default:
			k.parts = append(k.parts, p)
		}
	}
	return k, v.Err()
}

func parsePart(spec string) (p keyPart, mistake *weir.FieldError) {
	word, rest, named := strings.Cut(spec, ":")
	p = keyPart{kind: partSaid, spec: spec}
	switch word {
	case "account", "method", "host", "country":
		p.kind = partKind(slices.Index(partWords[:], word))
		if named {
			return p, &weir.FieldError{Msg: fmt.Sprintf("%s takes no name", word), Hint: "write " + word}
		}
		return p, nil
	case "network":
		p.kind, p.v4, p.v6 = partNetwork, 32, 64
		if named && !p.bits(rest) {
			return p, &weir.FieldError{Msg: fmt.Sprintf("%q is not a network", spec),
				Hint: "write network:24/64, for the /24 of an IPv4 address and the /64 of an IPv6 address"}
		}
		p.spec = fmt.Sprintf("network:%d/%d", p.v4, p.v6)
		return p, nil
	case "source":
		return p, &weir.FieldError{Msg: "a key has no part source", Hint: "write network"}
	}
	if p.place, mistake = parseExtractor(spec); mistake != nil {
		if mistake.Hint == everyPlace {
			mistake.Hint = "one of account, method, host, path:N, network, country, header:NAME, bearer, query:NAME, " +
				"cookie:NAME, cert, cert:san, jwt:CLAIM"
			if best := weir.Nearest(word, partWords[:]...); best != "" {
				mistake.Hint = "did you mean " + best + "?"
			}
			mistake.Msg = fmt.Sprintf("a key has no part %q", spec)
		}
		return p, mistake
	}
	if p.place.kind == fromPath {
		p.kind = partPath
	}
	p.spec = p.place.String()
	return p, nil
}

// bits reads the lengths of prefixes, as in 24/64.
func (p *keyPart) bits(text string) bool {
	four, six, both := strings.Cut(text, "/")
	v4, err4 := strconv.Atoi(four)
	v6, err6 := strconv.Atoi(six)
	p.v4, p.v6 = v4, v6
	return both && err4 == nil && err6 == nil && v4 >= 1 && v4 <= 32 && v6 >= 1 && v6 <= 128
}

// PartName returns the usual form of a part that gates find in requests, as in header:X-Tenant.
func PartName(spec string) (string, error) {
	p, mistake := parsePart(spec)
	switch {
	case mistake != nil:
		return "", mistake
	case p.kind != partSaid:
		return "", &weir.FieldError{Msg: fmt.Sprintf("%q is not a part that a request brings by itself", spec)}
	}
	return p.spec, nil
}

// IsZero reports whether the key has no parts, or is the account alone: then limits count by the account.
func (k *Key) IsZero() bool {
	return len(k.parts) == 0 || len(k.parts) == 1 && k.parts[0].kind == partAccount
}

// Has reports whether the key has a part of this word, such as account or country.
func (k *Key) Has(word string) bool {
	return slices.ContainsFunc(k.parts, func(p keyPart) bool { return p.word() == word })
}

// Words returns the word of each part, such as header for header:X-Tenant.
func (k *Key) Words() []string {
	words := make([]string, len(k.parts))
	for i := range k.parts {
		words[i] = k.parts[i].word()
	}
	return words
}

func (p *keyPart) word() string {
	if p.kind == partSaid {
		return extractorNames[p.place.kind]
	}
	return partWords[p.kind]
}

// Said returns the parts that a gate must find in the request, in their usual form.
func (k *Key) Said() (specs []string) {
	for i := range k.parts {
		if k.parts[i].kind == partSaid {
			specs = append(specs, k.parts[i].spec)
		}
	}
	return specs
}

// Free returns the first part that clients may choose as they like, or "" if there is none. An account is for the gate
// to say. Nobody has many methods: unknown ones are one.
func (k *Key) Free() string {
	for i := range k.parts {
		switch p := &k.parts[i]; {
		case p.kind == partHost, p.kind == partPath,
			p.kind == partSaid && p.place.kind != fromClaim && p.place.kind != fromCert:
			return p.spec
		}
	}
	return ""
}

// String is the key as the operator writes it.
func (k *Key) String() string {
	specs := make([]string, len(k.parts))
	for i := range k.parts {
		specs[i] = k.parts[i].spec
	}
	return strings.Join(specs, ",")
}

// Append appends the key of an event that is charged to an account, or to its source where that is empty. It allocates
// nothing if b has room for the key.
func (k *Key) Append(b []byte, ev *weir.Event, account string) ([]byte, error) {
	start := len(b)
	for i := range k.parts {
		if i > 0 {
			b = append(b, ',')
		}
		p := &k.parts[i]
		value := ""
		switch p.kind {
		case partAccount:
			if value = account; value == "" && ev.Source.IsValid() {
				// Unlike the account of an address, it has a length: no figures of single accounts are for it.
				b = Network(ev.Source, k.V4, k.V6).AppendTo(append(b, SourcePrefix...))
				continue
			}
		case partMethod:
			var agree bool
			if value, agree = methodOf(&ev.Route); !agree {
				return b[:start], ErrKeyMethod
			}
		case partHost:
			value = ev.Route.Host
		case partPath:
			var agree bool
			if value, agree = segmentOf(&ev.Route, p.place.n); !agree {
				return b[:start], ErrKeyPath
			}
		case partNetwork:
			if ev.Source.IsValid() {
				b = Network(ev.Source, p.v4, p.v6).AppendTo(b)
				continue
			}
		case partCountry:
			if k.Country != nil && ev.Source.IsValid() {
				value = k.Country(ev.Source)
			}
		case partSaid:
			for j := range ev.Parts {
				if ev.Parts[j].Name == p.spec {
					value = ev.Parts[j].Value
					break
				}
			}
		}
		if len(value) > MaxKey {
			return b[:start], ErrKeyTooLong
		}
		b = appendPart(b, value, p.kind == partPath)
	}
	if len(b)-start > MaxKey {
		return b[:start], ErrKeyTooLong
	}
	return b, nil
}

// methodOf returns the method of a route, and whether all servers read the same one. Clients may make methods up, which
// are all one.
func methodOf(r *weir.Route) (method string, agree bool) {
	for _, other := range r.AlsoMethods {
		if other != r.Method {
			return "", false
		}
	}
	switch r.Method {
	case "", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE":
		return r.Method, true
	}
	return "OTHER", true
}

// segmentOf returns the n-th segment of a route's path, and whether all readings of the path have the same one there.
func segmentOf(r *weir.Route, n int) (segment string, agree bool) {
	segment = nth(r.Path, n)
	for _, p := range r.Also {
		if p == weir.Any || nth(p, n) != segment {
			return "", false
		}
	}
	return segment, true
}

// appendPart appends a part so that it can be read, and told from every other value. Segments of paths are in lower
// case, as some servers do not tell the cases apart.
func appendPart(b []byte, s string, lowered bool) []byte {
	switch s {
	case "":
		return append(b, '-')
	case "-":
		return append(b, `\-`...)
	}
	plain := 0
	for plain < len(s) && keyBytes[s[plain]] && !(lowered && s[plain] >= 'A' && s[plain] <= 'Z') {
		plain++
	}
	b = append(b, s[:plain]...)
	for i := plain; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			switch {
			case c == ',' || c == '\\':
				b = append(b, '\\', c)
			case c < ' ' || c == 0x7f:
				b = appendEscape(b, c)
			case lowered:
				b = append(b, lower(c))
			default:
				b = append(b, c)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) {
			for ; size > 0; size, i = size-1, i+1 {
				b = appendEscape(b, s[i])
			}
			continue
		}
		if lowered {
			r = unicode.ToLower(r)
		}
		b = utf8.AppendRune(b, r)
		i += size
	}
	return b
}

// keyBytes are the bytes that stand for themselves in a key.
var keyBytes = func() (is [256]bool) {
	for c := byte(' '); c < 0x7f; c++ {
		is[c] = c != ',' && c != '\\'
	}
	return is
}()

func appendEscape(b []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'x', digits[c>>4], digits[c&15])
}

// cutPart splits a key behind its first part.
func cutPart(key string) (part, rest string) {
	for i := 0; i < len(key); i++ {
		switch key[i] {
		case '\\':
			i++
		case ',':
			return key[:i], key[i+1:]
		}
	}
	return key, ""
}

// Owner returns the account in a key, as it is written there, or "" where the key has none.
func (k *Key) Owner(key string) string {
	for i := range k.parts {
		var part string
		if part, key = cutPart(key); k.parts[i].kind == partAccount {
			return part
		}
	}
	return ""
}

// Anonymous reports whether a key names nobody: it has networks, methods and the like, but no account and nothing else
// that a client would have to know.
func (k *Key) Anonymous(key string) bool {
	for i := range k.parts {
		var part string
		part, key = cutPart(key)
		switch p := &k.parts[i]; {
		case part == "-" || p.kind != partAccount && p.kind != partSaid:
		case p.kind == partAccount && strings.HasPrefix(part, SourcePrefix):
		default:
			return false
		}
	}
	return true
}

// KeyPart is an account as it is written in a key: with a backslash before commas and backslashes.
func KeyPart(account string) string { return string(appendPart(nil, account, false)) }

// PlainPart is what a part of a key stands for: KeyPart the other way round.
func PlainPart(part string) string {
	if part == "-" {
		return ""
	}
	if strings.IndexByte(part, '\\') < 0 {
		return part
	}
	b := make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		if part[i] != '\\' || i+1 == len(part) {
			b = append(b, part[i])
			continue
		}
		if i++; part[i] == 'x' && i+2 < len(part) {
			high, _ := fromHex(part[i+1])
			low, _ := fromHex(part[i+2])
			b = append(b, high<<4|low)
			i += 2
			continue
		}
		b = append(b, part[i])
	}
	return string(b)
}
