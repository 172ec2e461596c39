package identify

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"weir"
)

// MaxAccount is how many bytes an account id may have.
const MaxAccount = 256

// SourcePrefix stands in front of account ids that are source addresses, as in "source:192.0.2.1", so that nobody can be charged
// for an address by naming it as a key.
const SourcePrefix = "source:"

// Errors of Accounts.Account. They name no part of the id, which may be a secret.
var (
	ErrAccountTooLong  = fmt.Errorf("the account id is longer than %d bytes", MaxAccount)
	ErrAccountBytes    = errors.New("the account id has control characters, or is not UTF-8")
	ErrAccountReserved = fmt.Errorf("the account id starts with %q, which stands for source addresses", SourcePrefix)
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

// an extractor is one place where an account id may stand.
type extractor struct {
	kind extractorKind
	name string // of the header, in its canonical form, of the query parameter, the cookie or the claim; "san" for that of a certificate
	n    int    // of the path segment, from 1
}

// Accounts are the places where the account of a request may be found, in order. The zero value finds none. It is safe for
// concurrent use.
type Accounts struct{ list []extractor }

// ParseAccounts reads places as an operator writes them: header:NAME, bearer, query:NAME, cookie:NAME, path:N, source, cert, cert:san,
// jwt:CLAIM. Its error joins weir.FieldErrors, with paths as in "[1]". Who has no certificates of clients, or no tokens, asks Certs and Claims
// whether they are wanted.
func ParseAccounts(specs []string) (Accounts, error) {
	var all Accounts
	var mistakes []error
	for i, spec := range specs {
		e, mistake := parseExtractor(spec)
		if mistake != nil {
			mistake.Path = fmt.Sprintf("[%d]", i)
			mistakes = append(mistakes, mistake)
			continue
		}
		all.list = append(all.list, e)
	}
	return all, errors.Join(mistakes...)
}

func parseExtractor(spec string) (extractor, *weir.FieldError) {
	word, name, named := strings.Cut(spec, ":")
	for k, known := range extractorNames {
		if word != known {
			continue
		}
		e := extractor{kind: extractorKind(k), name: name}
		switch e.kind {
		case fromBearer, fromSource:
			if named {
				return e, &weir.FieldError{Msg: fmt.Sprintf("%s takes no name", word), Hint: "write " + word}
			}
		case fromHeader:
			if name == "" || token(name) != name {
				return e, &weir.FieldError{Msg: fmt.Sprintf("%q names no header", spec), Hint: "write header:X-Api-Key"}
			}
			e.name = http.CanonicalHeaderKey(name)
		case fromCookie:
			if name == "" || token(name) != name {
				return e, &weir.FieldError{Msg: fmt.Sprintf("%q names no cookie", spec), Hint: "write cookie:session"}
			}
		case fromQuery:
			if name == "" {
				return e, &weir.FieldError{Msg: fmt.Sprintf("%q names no parameter", spec), Hint: "write query:key"}
			}
		case fromPath:
			n, err := strconv.Atoi(name)
			if err != nil || n < 1 || n > 64 {
				return e, &weir.FieldError{Msg: fmt.Sprintf("%q names no segment of the path", spec), Hint: "write path:1 for the first"}
			}
			e.n = n
		case fromCert:
			if named && name != "san" {
				return e, &weir.FieldError{Msg: fmt.Sprintf("%q names nothing of a certificate", spec), Hint: "write cert for its common name, cert:san for its first alternative one"}
			}
		case fromClaim:
			if name == "" {
				return e, &weir.FieldError{Msg: fmt.Sprintf("%q names no claim", spec), Hint: "write jwt:sub"}
			}
		}
		return e, nil
	}
	return extractor{}, &weir.FieldError{Msg: fmt.Sprintf("an account cannot be found by %q", spec), Hint: hint(word, spec)}
}

// hint suggests the nearest known word.
func hint(word, spec string) string {
	if best := weir.Nearest(word, extractorNames[:]...); best != "" {
		return "did you mean " + best + strings.TrimPrefix(spec, word) + "?"
	}
	return "one of header:NAME, bearer, query:NAME, cookie:NAME, path:N, source, cert, cert:san, jwt:CLAIM"
}

// Claims are what a token says that somebody has verified.
type Claims interface {
	// Claim returns the value of a claim, or "" where there is none.
	Claim(name string) string
}

// Account returns the id of the account that a request is charged to: the first place that holds one counts, and an empty value
// is none. It returns "" when no place holds one.
func (a *Accounts) Account(r *http.Request, source netip.Addr) (string, error) {
	return a.AccountBy(r, source, nil)
}

// AccountBy is Account for a request that brought a token. Nil stands for one without, or with one that is not good.
func (a *Accounts) AccountBy(r *http.Request, source netip.Addr, said Claims) (string, error) {
	for i := range a.list {
		e := &a.list[i]
		id := ""
		switch e.kind {
		case fromSource:
			if source.IsValid() {
				return sourceAccount(source), nil
			}
		case fromCert:
			id = certName(r, e.name == "san")
		case fromClaim:
			if said != nil {
				id = said.Claim(e.name)
			}
		default:
			id = e.find(r)
		}
		if id != "" {
			return id, check(id)
		}
	}
	return "", nil
}

// certName returns what the certificate of a client calls it: its common name, or the first of its alternative names. A certificate that
// nobody verified says nothing.
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

// Claims returns the claims of a token that may name an account.
func (a *Accounts) Claims() []string {
	var names []string
	for _, e := range a.list {
		if e.kind == fromClaim {
			names = append(names, e.name)
		}
	}
	return names
}

// Unproven returns the first place where a client may write whatever account it likes, as an operator writes it, or ""
// where there is none: tokens and certificates are verified, and the source is where the request comes from.
func (a *Accounts) Unproven() string {
	for _, e := range a.list {
		switch e.kind {
		case fromBearer:
			return extractorNames[e.kind]
		case fromHeader, fromQuery, fromCookie:
			return extractorNames[e.kind] + ":" + e.name
		case fromPath:
			return extractorNames[e.kind] + ":" + strconv.Itoa(e.n)
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

// sourceAccount is the account that stands for an address. Who has one IPv6 address has a /64 of them.
func sourceAccount(source netip.Addr) string {
	return SourcePrefix + Network(source, 32, 64).Addr().String()
}

// Queries reports whether an account may be named in the query.
func (a *Accounts) Queries() bool {
	for _, e := range a.list {
		if e.kind == fromQuery {
			return true
		}
	}
	return false
}

// Challenges returns what WWW-Authenticate should say to a client that named no account: one challenge for each place where it
// could have. Paths, source addresses and certificates are nothing that a client could be asked for.
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

func (e *extractor) find(r *http.Request) string {
	switch e.kind {
	case fromHeader:
		if e.name == "Host" {
			return r.Host
		}
		for _, v := range r.Header[e.name] {
			if v = strings.Trim(v, " \t"); v != "" {
				return v
			}
		}
	case fromBearer:
		for _, v := range r.Header["Authorization"] {
			scheme, credentials, found := strings.Cut(strings.TrimLeft(v, " \t"), " ")
			if found && strings.EqualFold(scheme, "bearer") {
				if credentials = strings.Trim(credentials, " \t"); credentials != "" {
					return credentials
				}
			}
		}
	case fromQuery:
		return queryValue(r.URL.RawQuery, e.name)
	case fromCookie:
		return cookieValue(r.Header["Cookie"], e.name)
	case fromPath:
		return segment(r.URL.Path, e.n)
	}
	return ""
}

// queryValue returns the first value of a parameter that is not empty. It reads pairs as net/url does: a pair with a semicolon
// or a wrong escape is no pair.
func queryValue(query, name string) string {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		if pair == "" || strings.IndexByte(pair, ';') >= 0 {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		key, err1 := url.QueryUnescape(key)
		value, err2 := url.QueryUnescape(value)
		if err1 == nil && err2 == nil && key == name && value != "" {
			return value
		}
	}
	return ""
}

func cookieValue(lines []string, name string) string {
	for _, line := range lines {
		for line != "" {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			key, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
			if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
				value = value[1 : len(value)-1]
			}
			if key == name && value != "" {
				return value
			}
		}
	}
	return ""
}

// segment returns the n-th segment of a path. The path is cleaned first, so that /./ and // do not shift it.
func segment(p string, n int) string {
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	rest := path.Clean(p)[1:]
	for ; n > 1; n-- {
		var found bool
		if _, rest, found = strings.Cut(rest, "/"); !found {
			return ""
		}
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

func check(id string) error {
	if len(id) > MaxAccount {
		return ErrAccountTooLong
	}
	if strings.HasPrefix(id, SourcePrefix) {
		return ErrAccountReserved
	}
	for i := 0; i < len(id); {
		if c := id[i]; c < utf8.RuneSelf {
			if c < ' ' || c == 0x7f {
				return ErrAccountBytes
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(id[i:])
		if r == utf8.RuneError && size == 1 || unicode.IsControl(r) {
			return ErrAccountBytes
		}
		i += size
	}
	return nil
}
