package identify

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir"
)

// MaxAccount is how many bytes an account id may have.
const MaxAccount = 256

// SourcePrefix begins account ids that are addresses, as in "source:192.0.2.1". No key may begin with it.
const SourcePrefix = "source:"

// Errors of Accounts.Account. They name no part of the id, which may be a secret.
var (
	ErrAccountTooLong  = fmt.Errorf("the account id is longer than %d bytes", MaxAccount)
	ErrAccountBytes    = errors.New("the account id has control characters or white space around it, or is not UTF-8")
	ErrAccountReserved = fmt.Errorf("the account id starts with %q, which stands for source addresses", SourcePrefix)
	ErrAccountTwice    = errors.New("the request names its account twice, with different values: send it once")
	ErrAccountList     = errors.New("the account id has a comma or a space in it, so that servers may read several: " +
		"send one")
	ErrAccountsDiffer = errors.New("the request names different accounts in different places: send one of them")
	ErrAccountWritten = errors.New("the account id is written in a way that servers read differently: escape it as " +
		"%XX, and only once")
	ErrAccountPath = errors.New("the path can be read in several ways, with different accounts in it: write it " +
		"plainly")
	ErrAccountHop = errors.New("the Connection header tells the gate to remove the account: leave the name out " +
		"there")
	ErrAccountSpelling = errors.New("the name of a header or parameter is spelled so that some servers take it for " +
		"the account, and others do not: write it as it is")
)

// A Conflict says what happens to a request that names different accounts in different places.
type Conflict string

// What may happen to it.
const (
	ConflictRefuse Conflict = "refuse" // it is refused; this is the default
	ConflictFirst  Conflict = "first"  // the first place counts, and the others are not looked at
)

type extractorKind uint8

const (
	fromHeader extractorKind = iota
	fromBearer
	fromQuery
	fromCookie
	fromPath
	fromSource
	fromCert
	fromClaim
)

var extractorNames = [...]string{"header", "bearer", "query", "cookie", "path", "source", "cert", "jwt"}

// An extractor is one place in which an account id may be found.
type extractor struct {
	kind extractorKind
	// of the header (canonical), the query parameter, the cookie or the claim; "san" for that of a certificate
	name string
	n    int // of the path segment, from 1
}

// Accounts is the list of places in which the account of a request is looked for. The zero value has none. Goroutines
// may share it.
type Accounts struct {
	list   []extractor
	parts  []partPlace // of keys, see WithParts
	first  bool        // the first place counts
	tokens string      // the header that brings tokens
}

// By sets what happens if places disagree, and the header of tokens; "" is Authorization.
func (a Accounts) By(c Conflict, tokens string) Accounts {
	a.first, a.tokens = c == ConflictFirst, cmp.Or(http.CanonicalHeaderKey(tokens), authorization)
	return a
}

// Validate notes what is wrong with the option account_conflict, given the places where accounts are found.
func (c Conflict) Validate(v *weir.Mistakes, a *Accounts) {
	const field = "account_conflict"
	v.OneOf(field, string(c), string(ConflictRefuse), string(ConflictFirst))
	if c == ConflictFirst || !a.Several() {
		return
	}
	for _, e := range a.list {
		if e.kind == fromPath || e.kind == fromHeader && e.name == "Host" {
			v.Add(field,
				fmt.Sprintf("every request has %s, so each one that names its account elsewhere would be refused", &e),
				"write account_conflict: first, or keep one place")
		}
	}
}

// Several reports whether a client may name its account in more than one place, so that the places may disagree.
func (a *Accounts) Several() bool { return len(a.carriers()) > 1 }

// carriers are the parts of a request in which account ids are looked for. Two places in the same part cannot disagree:
// a claim of a token and the token itself, or two names of a certificate.
func (a *Accounts) carriers() map[string]bool {
	all := map[string]bool{}
	for i := range a.list {
		if e := &a.list[i]; e.kind != fromSource {
			all[a.carrier(e)] = true
		}
	}
	return all
}

func (a *Accounts) carrier(e *extractor) string {
	switch e.kind {
	case fromQuery, fromCookie:
		return e.String()
	case fromPath, fromCert:
		return extractorNames[e.kind]
	}
	return a.header(e)
}

func (e *extractor) String() string {
	switch {
	case e.kind == fromPath:
		return extractorNames[e.kind] + ":" + strconv.Itoa(e.n)
	case e.name != "":
		return extractorNames[e.kind] + ":" + e.name
	}
	return extractorNames[e.kind]
}

// ParseAccounts reads places as an operator writes them: header:NAME, bearer, query:NAME, cookie:NAME, path:N,
// source, cert, cert:san, jwt:CLAIM. Its error joins weir.FieldErrors, with paths as in "[1]". A caller without client
// certificates or tokens checks Certs and Claims.
func ParseAccounts(specs []string) (Accounts, error) {
	all := Accounts{tokens: authorization}
	var mistakes weir.Mistakes
	for i, spec := range specs {
		e, mistake := parseExtractor(spec)
		if mistake != nil {
			mistake.Path = fmt.Sprintf("[%d]", i)
			mistakes = append(mistakes, mistake)
			continue
		}
		all.list = append(all.list, e)
	}
	return all, mistakes.Err()
}

// extractorNoun has the words for an error about a wrong name, and an example of a right one.
var extractorNoun = map[extractorKind]struct{ none, write string }{
	fromHeader: {"no header", "header:X-Api-Key"},
	fromCookie: {"no cookie", "cookie:session"},
	fromQuery:  {"no parameter", "query:key"},
	fromPath:   {"no segment of the path", "path:1 for the first"},
	fromCert:   {"nothing of a certificate", "cert for its common name, cert:san for its first alternative one"},
	fromClaim:  {"no claim", "jwt:sub"},
}

func parseExtractor(spec string) (extractor, *weir.FieldError) {
	word, name, named := strings.Cut(spec, ":")
	for k, known := range extractorNames {
		if word != known {
			continue
		}
		e := extractor{kind: extractorKind(k), name: name}
		valid := name != ""
		switch e.kind {
		case fromBearer, fromSource:
			if named {
				return e, &weir.FieldError{Msg: fmt.Sprintf("%s takes no name", word), Hint: "write " + word}
			}
			valid = true
		case fromHeader:
			e.name = http.CanonicalHeaderKey(name)
			valid = IsToken(name)
		case fromCookie:
			valid = IsToken(name)
		case fromPath:
			var err error
			e.n, err = strconv.Atoi(name)
			valid = err == nil && e.n >= 1 && e.n <= 64
		case fromCert:
			valid = !named || name == "san"
		}
		if !valid {
			about := extractorNoun[e.kind]
			return e, &weir.FieldError{Msg: fmt.Sprintf("%q names %s", spec, about.none), Hint: "write " + about.write}
		}
		return e, nil
	}
	return extractor{}, &weir.FieldError{Msg: fmt.Sprintf("an account cannot be found by %q", spec),
		Hint: hint(word, spec)}
}

func hint(word, spec string) string {
	if best := weir.Nearest(word, extractorNames[:]...); best != "" {
		return "did you mean " + best + strings.TrimPrefix(spec, word) + "?"
	}
	return everyPlace
}

const everyPlace = "one of header:NAME, bearer, query:NAME, cookie:NAME, path:N, source, cert, cert:san, jwt:CLAIM"

// certName returns the common name, or first alternative name, of a client's certificate, if that was verified.
func certName(r *http.Request, alternative bool) string {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 || len(r.TLS.PeerCertificates) == 0 {
		return ""
	}
	c := r.TLS.PeerCertificates[0]
	switch {
	case !alternative:
		return c.Subject.CommonName
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	case len(c.URIs) > 0:
		return c.URIs[0].String()
	case len(c.EmailAddresses) > 0:
		return c.EmailAddresses[0]
	}
	return ""
}

// Certs reports whether an account may be named by the certificate of a client.
func (a *Accounts) Certs() bool {
	return slices.ContainsFunc(a.list, func(e extractor) bool { return e.kind == fromCert })
}

// Claims returns the claims of a token that may name an account, or are a part of a key.
func (a *Accounts) Claims() (names []string) {
	a.places(func(e *extractor) bool {
		if e.kind == fromClaim && !slices.Contains(names, e.name) {
			names = append(names, e.name)
		}
		return false
	})
	return names
}

// Unproven returns the first place in which a client may write any account, in the operator's words, or "" if there is
// none. Tokens and certificates are verified, and the source is the address that the request comes from.
func (a *Accounts) Unproven() string {
	for _, e := range a.list {
		switch e.kind {
		case fromBearer, fromHeader, fromQuery, fromCookie, fromPath:
			return e.String()
		}
	}
	return ""
}

// Programs reports whether an account may be named as programs do it: by a key, a token or a certificate.
func (a *Accounts) Programs() bool {
	return slices.ContainsFunc(a.list, func(e extractor) bool {
		switch e.kind {
		case fromHeader, fromBearer, fromQuery, fromCert, fromClaim:
			return true
		}
		return false
	})
}

// OfSource returns the account of a request that names none: its source, where that is among the places, else "".
func (a *Accounts) OfSource(source netip.Addr) string {
	for _, e := range a.list {
		if e.kind == fromSource && source.IsValid() {
			return sourceAccount(source)
		}
	}
	return ""
}

// sourceAccount is the account of an address. For IPv6 it is that of the /64, since clients choose addresses within it.
func sourceAccount(source netip.Addr) string {
	return SourcePrefix + Network(source, 32, 64).Addr().String()
}

// Challenges returns the values of WWW-Authenticate for a client that named no account: one for each place in which it
// could have. A client cannot be asked for paths, source addresses and certificates.
func (a *Accounts) Challenges() []string {
	var all []string
	for _, e := range a.list {
		switch e.kind {
		case fromBearer, fromClaim:
			if challenge := `Bearer realm="weir"`; !slices.Contains(all, challenge) {
				all = append(all, challenge)
			}
		case fromHeader, fromQuery, fromCookie:
			quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(e.name)
			all = append(all, fmt.Sprintf(`ApiKey realm="weir", in="%s", name="%s"`, extractorNames[e.kind], quoted))
		}
	}
	if len(all) == 0 {
		all = append(all, `ApiKey realm="weir"`) // a 401 without a challenge is none (RFC 9110, 15.5.2)
	}
	return all
}

func check(id string) error {
	if len(id) <= MaxAccount && strings.HasPrefix(id, SourcePrefix) {
		return ErrAccountReserved
	}
	return checkText(id)
}

// checkText is check for what is no account.
func checkText(id string) error {
	if len(id) > MaxAccount {
		return ErrAccountTooLong
	}
	if isPlain(id) {
		return nil
	}
	if !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return ErrAccountBytes
	}
	if strings.TrimFunc(id, IsBlank) != id {
		return ErrAccountBytes // servers trim it away, and it would be another account
	}
	return nil
}

// isPlain reports whether a text has nothing but visible ASCII.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] >= 0x7f {
			return false
		}
	}
	return true
}

// maskKey makes fingerprints useless to readers of the log who have a list of likely ids. It is new in each process.
var maskKey = func() (key [32]byte) {
	_, _ = rand.Read(key[:]) // never fails: crypto/rand
	return key
}()

// Mask returns a short fingerprint of an account id, to be logged in its place. It stays the same as long as the
// process runs, and the id cannot be found out from it. The fingerprint of "" is "".
func Mask(id string) string {
	if id == "" {
		return ""
	}
	var array [len(maskKey) + MaxAccount]byte
	sum := sha256.Sum256(append(append(array[:0], maskKey[:]...), id...))
	return hex.EncodeToString(sum[:4])
}
