package identify

import (
	"slices"
	"strings"
)

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
