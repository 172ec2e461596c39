package weir

import (
	"errors"
	"strings"
)

// A FieldError is a mistake in options and the field that it is in. Validate methods join them: all are seen at once.
type FieldError struct {
	Path string // as in "policies[2].limit"; empty for the whole
	Msg  string // what is wrong
	Hint string // what to write instead, where that is known
	// Other is the path of a second place that the mistake is about, as for two that exclude each other; else empty.
	Other string
}

func (e *FieldError) Error() string {
	var b strings.Builder
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Msg)
	if e.Other != "" {
		b.WriteString(": see " + e.Other)
	}
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// FieldErrors returns the mistakes inside err, however they were joined. Any other error becomes one without a path.
func FieldErrors(err error) []*FieldError {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*FieldError
		for _, e := range joined.Unwrap() {
			all = append(all, FieldErrors(e)...)
		}
		return all
	}
	if fe, ok := err.(*FieldError); ok {
		return []*FieldError{fe}
	}
	// A mistake knows its path better than what wraps it.
	if inner := errors.Unwrap(err); inner != nil {
		if _, inside := errors.AsType[*FieldError](inner); inside {
			return FieldErrors(inner)
		}
	}
	return []*FieldError{{Msg: err.Error()}}
}

// Under puts the mistakes of options below a path, for options inside other options.
func Under(path string, err error) error {
	var all []error
	for _, fe := range FieldErrors(err) {
		next := *fe
		next.Path = below(path, fe.Path)
		if fe.Other != "" {
			next.Other = below(path, fe.Other)
		}
		all = append(all, &next)
	}
	return errors.Join(all...)
}

// below returns a path below another one.
func below(above, path string) string {
	switch {
	case above == "":
		return path
	case path == "":
		return above
	case strings.HasPrefix(path, "["):
		return above + path
	}
	return above + "." + path
}
