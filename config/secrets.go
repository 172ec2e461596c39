package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"weir/internal/readfile"
)

// Bounds on what references bring in.
const (
	MaxSecret  = 64 << 10 // bytes in one value
	maxSecrets = 1 << 20  // bytes in all values together
)

// secrets puts in what a value refers to: ${env:NAME} and ${file:/path}. It remembers what came in, so that no message
// repeats it.
type secrets struct {
	folder string // that relative paths start from
	total  int
	known  []secret
}

type secret struct{ reference, value string }

// expand returns text with its references replaced, and whether there were any. $${ stands for a plain ${.
func (s *secrets) expand(text string) (value string, found bool, err *Error) {
	if !strings.Contains(text, "${") {
		return text, false, nil
	}
	var b strings.Builder
	for rest := text; ; {
		before, after, more := strings.Cut(rest, "${")
		if !more {
			b.WriteString(before)
			break
		}
		if plain, escaped := strings.CutSuffix(before, "$"); escaped {
			b.WriteString(plain + "${")
			rest = after
			continue
		}
		b.WriteString(before)
		name, tail, closed := strings.Cut(after, "}")
		if !closed {
			return "", true, &Error{Msg: "${ is never closed",
				Hint: "write ${env:NAME} or ${file:/path}; $${ for a plain ${"}
		}
		part, err := s.lookup(name)
		if err != nil {
			return "", true, err
		}
		if s.total += len(part); s.total > maxSecrets || b.Len()+len(part) > MaxSecret {
			return "", true, &Error{Msg: fmt.Sprintf("${%s} brings in more than %d KiB", name, MaxSecret>>10)}
		}
		found = true
		s.remember(secret{"${" + name + "}", part})
		b.WriteString(part)
		rest = tail
	}
	return b.String(), found, nil
}

func (s *secrets) remember(new secret) {
	for _, old := range s.known {
		if old == new {
			return
		}
	}
	s.known = append(s.known, new)
}

func (s *secrets) lookup(name string) (string, *Error) {
	scheme, what, _ := strings.Cut(name, ":")
	switch {
	case scheme == "env" && what != "":
		value, set := os.LookupEnv(what)
		if !set {
			return "", &Error{Msg: fmt.Sprintf("the environment variable %s is not set", what)}
		}
		return trimLine(value), nil
	case scheme == "file" && what != "":
		return s.read(what)
	default:
		return "", &Error{Msg: fmt.Sprintf("${%s} is not a reference", name),
			Hint: "write ${env:NAME} or ${file:/path}; $${ for a plain ${"}
	}
}

func (s *secrets) read(path string) (string, *Error) {
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(s.folder, full)
	}
	info, err := readfile.Stat(full)
	if err == nil && !info.Mode().IsRegular() {
		return "", &Error{Msg: fmt.Sprintf("%s is not a file", path)}
	}
	var content []byte
	if err == nil {
		content, err = readfile.Read(full, MaxSecret)
	}
	switch {
	case errors.Is(err, readfile.ErrLarge):
		return "", &Error{Msg: fmt.Sprintf("%s is larger than %d KiB", path, MaxSecret>>10)}
	case err != nil:
		return "", &Error{Msg: fmt.Sprintf("%s cannot be read: %s", path, reason(err)), cause: err}
	}
	return trimLine(string(content)), nil
}

// reason is what the system said, without the path.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}

func trimLine(s string) string { return strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r") }

// hide takes out of a message what references brought in. own says that the message is about such a value, which may
// then appear in it in any form. In other messages short values stay: they would be found in any text.
func (s *secrets) hide(e *Error, own bool) {
	for _, k := range s.known {
		if len(k.value) >= 6 || own && len(k.value) >= 3 {
			e.Msg, e.Hint = k.replace(e.Msg), k.replace(e.Hint)
		}
	}
	if !own {
		return
	}
	for _, k := range s.known {
		if k.in(e.Msg) || k.in(e.Hint) {
			e.Msg, e.Hint = "the value of the reference is not valid here",
				"its value is not shown, it may be a secret"
			return
		}
	}
}

func (k secret) replace(text string) string {
	text = strings.ReplaceAll(text, k.value, k.reference)
	quoted := strconv.Quote(k.value)
	return strings.ReplaceAll(text, quoted[1:len(quoted)-1], k.reference)
}

// in reports whether a piece of the secret can still be read in a text.
func (k secret) in(text string) bool {
	const piece = 4
	text = strings.ReplaceAll(text, k.reference, "")
	if len(k.value) < piece {
		return k.value != "" && strings.Contains(text, k.value)
	}
	for i := 0; i+piece <= len(k.value); i++ {
		if strings.Contains(text, k.value[i:i+piece]) {
			return true
		}
	}
	return false
}
