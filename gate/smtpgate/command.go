package smtpgate

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// maxVerb is longer than any known verb.
const maxVerb = 16

// parseCommand returns the verb of a line in upper case, and its argument without spaces around it. A line that cannot
// be a command has no verb.
func parseCommand(line []byte) (verb, arg string) {
	if bytes.IndexByte(line, 0) >= 0 {
		return "", ""
	}
	head, rest, _ := strings.Cut(string(line), " ")
	if head = strings.TrimRight(head, "\t"); len(head) > maxVerb {
		return "", ""
	}
	for i := range len(head) {
		if c := head[i] | 0x20; c < 'a' || c > 'z' {
			return "", ""
		}
	}
	return strings.ToUpper(head), strings.Trim(rest, " \t")
}

var errSyntax = errors.New("syntax error")

// postmaster is the one recipient that needs no domain (RFC 5321 section 4.1.1.3).
const postmaster = "postmaster"

// parsePath reads the argument of MAIL or RCPT: the keyword, an address, and parameters, which it returns as they are.
// It returns the address without quotes, and empty for <>. Old software leaves the brackets out, or puts a space before
// them. A route in front of the address is ignored (RFC 5321 appendix C).
func parsePath(arg, keyword string) (path, params string, err error) {
	if len(arg) < len(keyword) || !strings.EqualFold(arg[:len(keyword)], keyword) {
		return "", "", errSyntax
	}
	rest := strings.TrimLeft(arg[len(keyword):], " ")
	rest, bracket := strings.CutPrefix(rest, "<")
	if bracket && strings.HasPrefix(rest, ">") {
		return "", rest[1:], spaced(rest[1:])
	}
	if strings.HasPrefix(rest, "@") {
		route, after, found := strings.Cut(rest, ":")
		if !found || !isRoute(route) {
			return "", "", errSyntax
		}
		rest = after
	}
	local, rest, ok := cutLocal(rest)
	if !ok {
		return "", "", errSyntax
	}
	path = local
	if strings.HasPrefix(rest, "@") {
		end := indexAny(rest, " \t<>")
		if end == 1 {
			return "", "", errSyntax
		}
		path, rest = path+rest[:end], rest[end:]
	} else if !strings.EqualFold(local, postmaster) {
		return "", "", errSyntax
	}
	if bracket {
		if rest, ok = strings.CutPrefix(rest, ">"); !ok {
			return "", "", errSyntax
		}
	}
	return path, rest, spaced(rest)
}

// indexAny returns where the first of the characters is, or the end of the text.
func indexAny(text, chars string) int {
	if at := strings.IndexAny(text, chars); at >= 0 {
		return at
	}
	return len(text)
}

// spaced checks that there is a space between an address and its parameters.
func spaced(params string) error {
	if params != "" && params[0] != ' ' {
		return errSyntax
	}
	return nil
}

// isRoute reports whether a text is a list of domains, each with an @ before it.
func isRoute(text string) bool {
	return !slices.ContainsFunc(strings.Split(text, ","), func(hop string) bool {
		domain, ok := strings.CutPrefix(hop, "@")
		return !ok || !isDomain(domain)
	})
}

// cutLocal cuts off the part before the @, without quotes. It is never empty.
func cutLocal(text string) (local, rest string, ok bool) {
	if quoted, is := strings.CutPrefix(text, `"`); is {
		var b strings.Builder
		for i := 0; i < len(quoted); i++ {
			switch quoted[i] {
			case '"':
				return b.String(), quoted[i+1:], b.Len() > 0
			case '\\':
				if i++; i == len(quoted) {
					return "", "", false
				}
			}
			b.WriteByte(quoted[i])
		}
		return "", "", false
	}
	end := indexAny(text, "@()<>[]:;\\,\" \t")
	return text[:end], text[end:], end > 0
}

// parseChunk reads the argument of BDAT. If only the size can be read, it returns the size with the error: that many
// bytes follow.
func parseChunk(arg string) (size int64, last bool, err error) {
	words := strings.Fields(arg)
	if len(words) == 0 || !isDigits(words[0]) {
		return -1, false, errSyntax
	}
	if size, err = strconv.ParseInt(words[0], 10, 64); err != nil {
		return -1, false, errSyntax
	}
	switch {
	case len(words) == 1:
		return size, false, nil
	case len(words) == 2 && strings.EqualFold(words[1], "LAST"):
		return size, true, nil
	}
	return size, false, errSyntax
}

func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
