package identify

import (
	"net/http"
	"net/netip"
	"strings"
)

// Claims are the claims of a verified token.
type Claims interface {
	// Claim returns the value of a claim, or "" where there is none.
	Claim(name string) string
}

// Account returns the id of the account that a request is charged to, or "" if it names none. It is for callers that
// cannot change the request for the upstream: anything that the upstream may read as another account is an error.
func (a *Accounts) Account(r *http.Request, source netip.Addr) (string, error) {
	for name := range r.Header {
		if a.aliasOfAccount(name) {
			return "", ErrAccountSpelling
		}
	}
	if err := checkHeader(r.Header); err != nil {
		return "", err
	}
	if err := CheckTarget(Escaped(r.URL), r.URL.RawQuery); err != nil {
		return "", err
	}
	id, rewrite, err := a.AccountBy(r, r.Header, source, nil)
	if err == nil && rewrite {
		return "", ErrAccountTwice
	}
	return id, err
}

// AccountBy is Account for callers that pass the request on and have verified its token; nil is for no good token. They
// leave out every header that is an Alias and, if rewrite is true, send what Cookies returns. The header fields are
// those of h; r.Header is not looked at.
//
// A place may hold the same id twice. A place with two ids is an error, except for cookies: browsers send one name
// twice for good reasons, so the first counts. By sets what happens if places disagree. The source never disagrees.
func (a *Accounts) AccountBy(r *http.Request, h Fields, source netip.Addr, said Claims) (
	id string, rewrite bool, err error,
) {
	if len(a.list) == 0 {
		return "", false, nil
	}
	if lists := h.Values("Connection"); lists != nil && a.hops(lists) {
		return "", false, ErrAccountHop
	}
	var from *extractor
	token := false // there is one that looks good and is not
	for i := range a.list {
		e := &a.list[i]
		if e.kind == fromSource {
			if from == nil && source.IsValid() {
				return sourceAccount(source), rewrite, nil
			}
			continue
		}
		found, again, err := a.find(e, r, h, said)
		rewrite = rewrite || again
		if err == nil && found != "" {
			err = check(found)
		}
		if err != nil {
			return "", false, err
		}
		switch {
		case found == "":
			if e.kind == fromClaim && said == nil {
				text, _ := Token(h, a.tokens) // find has looked at the error
				token = token || strings.Count(text, ".") == 2
			}
		case from == nil:
			from, id = e, found
			if a.first {
				return id, rewrite, nil
			}
		case found != id && a.carrier(e) != a.carrier(from):
			return "", false, ErrAccountsDiffer
		}
	}
	if token && from != nil && a.carrier(from) != a.tokens {
		return "", false, ErrAccountsDiffer // the upstream may take the token that weir does not
	}
	return id, rewrite, nil
}

// find reads one place. again means that the result of Cookies must be sent on.
func (a *Accounts) find(e *extractor, r *http.Request, h Fields, said Claims) (id string, again bool, err error) {
	switch e.kind {
	case fromHeader:
		if e.name == "Host" {
			return r.Host, false, nil
		}
		id, err = single(h.Values(e.name))
		if err == nil && strings.IndexByte(id, ',') >= 0 {
			err = ErrAccountList
		}
	case fromBearer:
		id, err = Token(h, authorization)
	case fromClaim:
		if _, err = Token(h, a.tokens); err == nil && said != nil {
			id = said.Claim(e.name)
		}
	case fromCert:
		id = certName(r, e.name == "san")
	case fromQuery:
		id, err = queryValue(r.URL.RawQuery, e.name)
	case fromCookie:
		return cookieValue(h.Values("Cookie"), e.name)
	case fromPath:
		var agree bool
		if id, agree = Segments(Escaped(r.URL), e.n); !agree {
			err = ErrAccountPath
		}
	}
	return id, false, err
}

func single(lines []string) (string, error) {
	if len(lines) == 0 {
		return "", nil
	}
	first := strings.Trim(lines[0], " \t")
	for _, line := range lines[1:] {
		if strings.Trim(line, " \t") != first {
			return "", ErrAccountTwice
		}
	}
	return first, nil
}

// authorization is the header that brings tokens, unless another one is named.
const authorization = "Authorization"

// Token returns the bearer token in a header, or "" if there is none. In another header than Authorization it may be
// written without the word. If servers may read several tokens, that is an error.
func Token(h Fields, header string) (string, error) {
	line, err := single(h.Values(header))
	if err != nil || line == "" {
		return "", err
	}
	text := bearer(line)
	if text == "" && header != authorization && !strings.ContainsAny(line, " \t") {
		text = line
	}
	if text != "" {
		if strings.IndexByte(text, ',') >= 0 || hasBlank(text) {
			return "", ErrAccountList
		}
		return text, nil
	}
	for { // credentials of other schemes have commas in them, and a bearer token may follow one
		var more bool
		if _, line, more = strings.Cut(line, ","); !more {
			return "", nil
		}
		if bearer(line) != "" {
			return "", ErrAccountList
		}
	}
}

func bearer(line string) string {
	line = strings.Trim(line, " \t")
	const word = "bearer"
	if len(line) <= len(word) || !strings.EqualFold(line[:len(word)], word) || firstBlank(line[len(word):]) == 0 {
		return ""
	}
	return strings.TrimLeft(line[len(word):], " \t") // a blank of another kind is an error of Token
}

// hops reports whether a Connection header names a header with the account, which the upstream would not get then.
func (a *Accounts) hops(lists []string) bool {
	for i := range a.list {
		if namedIn(lists, a.header(&a.list[i])) {
			return true
		}
	}
	return false
}

// Names reports whether a header, or one that servers may take for it, is one that accounts or parts of keys are found
// in.
func (a *Accounts) Names(header string) bool {
	return a.places(func(e *extractor) bool { return Alike(a.header(e), header) })
}

// Alias reports whether servers may take a header for one that accounts or parts of keys are found in, although it is
// another one. CGI and its successors do not distinguish '-' from '_', and some do not distinguish any two signs.
func (a *Accounts) Alias(header string) bool {
	if a.aliasOfAccount(header) {
		return true
	}
	for i := range a.parts {
		if a.isAlias(&a.parts[i].extractor, header) {
			return true
		}
	}
	return false
}

func (a *Accounts) aliasOfAccount(header string) bool {
	for i := range a.list {
		if a.isAlias(&a.list[i], header) {
			return true
		}
	}
	return false
}

func (a *Accounts) isAlias(e *extractor, header string) bool {
	name := a.header(e)
	return name != header && Alike(name, header) && !strings.EqualFold(name, header)
}

func (a *Accounts) header(e *extractor) string {
	switch e.kind {
	case fromHeader:
		return e.name
	case fromBearer:
		return authorization
	case fromClaim:
		return a.tokens
	case fromCookie:
		return "Cookie"
	}
	return ""
}

// Alike reports whether servers may take two names of headers for one: they differ only in case and signs.
func Alike(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if x, y := lower(a[i]), lower(b[i]); x != y && (isAlnum(x) || isAlnum(y)) {
			return false
		}
	}
	return len(a) > 0
}

func isAlnum(lower byte) bool { return lower >= 'a' && lower <= 'z' || lower >= '0' && lower <= '9' }
