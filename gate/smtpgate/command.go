package smtpgate

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// maxVerb is longer than any verb that is known.
const maxVerb = 16

// parseCommand takes a line apart: the verb in upper case, and what stands behind it, without the spaces around. A line
// that cannot be a command has no verb.
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

// errSyntax is what is wrong with a command that is not written as it should be.
var errSyntax = errors.New("not written as it should be")

// postmaster is the one recipient that needs no domain (RFC 5321 section 4.1.1.3).
const postmaster = "postmaster"

// parsePath reads what follows MAIL or RCPT: the keyword, an address, and its parameters, which are returned as they
// are. The address comes back without quotes, and is empty for <>. Software of old leaves the brackets out, or puts a
// space before them; a route in front of the address is left out (RFC 5321 appendix C).
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
		end := strings.IndexAny(rest, " \t<>")
		if end < 0 {
			end = len(rest)
		}
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

// spaced wants a space between an address and its parameters.
func spaced(params string) error {
	if params != "" && params[0] != ' ' {
		return errSyntax
	}
	return nil
}

// isRoute reports whether a text is a list of domains, each with an @ before it.
func isRoute(text string) bool {
	for hop := range strings.SplitSeq(text, ",") {
		domain, ok := strings.CutPrefix(hop, "@")
		if !ok || !isDomain(domain) {
			return false
		}
	}
	return true
}

// cutLocal cuts off what stands before the @, without quotes. It is never empty.
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
	end := strings.IndexAny(text, "@()<>[]:;\\,\" \t")
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:], end > 0
}

// parseChunk reads what follows BDAT. Where the size can be read and nothing else, the size is returned with the error:
// as much is to come.
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

func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}
