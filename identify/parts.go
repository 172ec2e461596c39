package identify

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"weir"
)

// A PartError says that a part of a key cannot be read from a request. It names no value, which may be a secret.
type PartError struct {
	Part string // as the operator writes it
	Err  error  // one of those of accounts
}

func (e *PartError) Error() string {
	why := "it cannot be read"
	for _, known := range partErrors {
		if errors.Is(e.Err, known.err) {
			why = known.why
		}
	}
	return fmt.Sprintf("limits count by %s, and %s", e.Part, why)
}

func (e *PartError) Unwrap() error { return e.Err }

// partErrors are the errors of accounts in words for parts.
var partErrors = []struct {
	err error
	why string
}{
	{ErrAccountTooLong, fmt.Sprintf("it is longer than %d bytes", MaxAccount)},
	{ErrAccountBytes, "it has control characters or white space around it, or is not UTF-8"},
	{ErrAccountTwice, "it is there twice, with different values: send it once"},
	{ErrAccountList, "it has a comma or a space in it, so that servers may read several values: send one"},
	{ErrAccountWritten, "it is written in a way that servers read differently: escape it as %XX, and only once"},
	{ErrAccountHop, "the Connection header tells the gate to remove it: leave the name out there"},
	{ErrAccountSpelling, "its name is spelled so that some servers read it, and others do not: write it as it is"},
}

// WithParts adds the parts of keys that gates have to find in requests, as Key.Said returns them. Headers and cookies
// that bring one are then treated as those of accounts.
func (a Accounts) WithParts(specs []string) (Accounts, error) {
	a.parts = nil
	var v weir.Mistakes
	for i, spec := range specs {
		e, mistake := parseExtractor(spec)
		if mistake != nil {
			v.Add(fmt.Sprintf("[%d]", i), mistake.Msg, mistake.Hint)
			continue
		}
		a.parts = append(a.parts, partPlace{e, e.String()})
	}
	return a, v.Err()
}

// A partPlace is where a part of a key is found.
type partPlace struct {
	extractor
	spec string
}

// Parts appends the parts that WithParts named, as they stand in a request. One that is missing is left out. rewrite
// means that the result of Cookies must be sent on; h and said are as for AccountBy.
//
// It is as strict as AccountBy: what servers may read in another way is a PartError.
func (a *Accounts) Parts(to []weir.Part, r *http.Request, h Fields, said Claims) (
	_ []weir.Part, rewrite bool, err error,
) {
	for i := range a.parts {
		p := &a.parts[i]
		value, again, err := a.part(p, r, h, said)
		if err != nil {
			return to, false, &PartError{p.spec, err}
		}
		rewrite = rewrite || again
		if value != "" {
			to = append(to, weir.Part{Name: p.spec, Value: value})
		}
	}
	return to, rewrite, nil
}

func (a *Accounts) part(p *partPlace, r *http.Request, h Fields, said Claims) (value string, again bool, err error) {
	if lists := h.Values("Connection"); lists != nil && namedIn(lists, a.header(&p.extractor)) {
		return "", false, ErrAccountHop
	}
	if value, again, err = a.find(&p.extractor, r, h, said); err != nil {
		return "", false, err
	}
	return value, again, checkText(value)
}

// PartsOf is Parts for callers that cannot change the request for the upstream.
func (a *Accounts) PartsOf(to []weir.Part, r *http.Request) ([]weir.Part, error) {
	if len(a.parts) == 0 {
		return to, nil
	}
	for name := range r.Header {
		for i := range a.parts {
			if a.isAlias(&a.parts[i].extractor, name) {
				return to, &PartError{a.parts[i].spec, ErrAccountSpelling}
			}
		}
	}
	to, rewrite, err := a.Parts(to, r, r.Header, nil)
	if err == nil && rewrite {
		i := slices.IndexFunc(a.parts, func(p partPlace) bool { return p.kind == fromCookie })
		return to, &PartError{a.parts[i].spec, ErrAccountTwice}
	}
	return to, err
}

// namedIn reports whether a Connection header names a header, or one that servers may take for it.
func namedIn(lists []string, header string) bool {
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			if Alike(header, strings.Trim(name, " \t")) {
				return true
			}
		}
	}
	return false
}

// places calls f with every place that accounts and parts are found in, until it returns true.
func (a *Accounts) places(f func(*extractor) bool) bool {
	for i := range a.list {
		if f(&a.list[i]) {
			return true
		}
	}
	for i := range a.parts {
		if f(&a.parts[i].extractor) {
			return true
		}
	}
	return false
}
