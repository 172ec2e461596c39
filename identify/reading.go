package identify

import (
	"slices"
	"strings"
	"unicode/utf8"

	"weir"
)

// MaxReadings is how many other paths and methods of one request are enumerated. Beyond it every rule matches.
const MaxReadings = 8

// maxOddPath is how many bytes of such a path are taken apart. Beyond it every rule matches, too.
const maxOddPath = 1024

// Headers by which clients override the path or the method at servers that honour them, in canonical form.
var (
	pathHeaders   = [...]string{"X-Original-Url", "X-Rewrite-Url"}
	methodHeaders = [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}
)

// anything stands for readings that are not enumerated. It is never written to.
var anything = []string{weir.Any}

// Route returns the route of a request. The path is the one of the request line: escaped, without the query. h may be
// nil.
//
// A path that is Straight has one reading. For any other, Also has the paths that servers may read in it: with path
// parameters cut off, with dot segments resolved or not, decoded once more, and so on, in any order. Headers that
// override the path or the method count too. An ordinary request allocates nothing unless its path has escapes.
func Route(method, host, escaped string, h Fields) weir.Route {
	r := weir.Route{Method: method, Host: Host(host)}
	var others []string
	if h != nil {
		others = overridden(h, escaped)
		r.AlsoMethods = overriding(h)
	}
	if straight := Straight(escaped); straight && others == nil {
		if r.Path = decode(escaped, ""); r.Path != "/" {
			r.Path = strings.TrimSuffix(r.Path, "/") // Path would change nothing else
		}
	} else {
		before, _, _ := strings.Cut(escaped, "#") // nginx ends a path there, but passes all of it on
		r.Path = Path(decode(before, ""))
		r.Also = readings(r.Path, append(others, escaped))
		r.Odd = !straight || r.Also != nil
	}
	return r
}

// Segments returns the n-th segment of an escaped path, from 1, and whether all readings of the path have the same
// one there. It is empty where the path is shorter. Doubled slashes count as one, as an empty segment names nothing.
func Segments(escaped string, n int) (first string, agree bool) {
	if Straight(escaped) {
		return nth(decode(escaped, ""), n), true
	}
	r := Route("", "", escaped, nil)
	first = nth(r.Path, n)
	for _, p := range r.Also {
		if p == weir.Any || nth(p, n) != first {
			return first, false
		}
	}
	return first, true
}

// nth returns the n-th segment of a path that is not empty.
func nth(p string, n int) string {
	for p != "" {
		segment := p
		if end := strings.IndexByte(p, '/'); end >= 0 {
			segment, p = p[:end], p[end+1:]
		} else {
			p = ""
		}
		if segment == "" {
			continue
		}
		if n--; n == 0 {
			return segment
		}
	}
	return ""
}

// overridden returns the paths that headers name instead of the one in the request line.
func overridden(h Fields, escaped string) (all []string) {
	for _, name := range pathHeaders {
		for _, v := range h.Values(name) {
			v, _, _ = strings.Cut(v, "?")
			if v = withoutOrigin(trimBlanks(v)); v != "" && v != escaped {
				all = append(all, v)
			}
		}
	}
	return all
}

// overriding returns the methods that headers name instead of the one in the request line.
func overriding(h Fields) (all []string) {
	for _, name := range methodHeaders {
		for _, line := range h.Values(name) {
			for v := range strings.SplitSeq(line, ",") {
				if v = trimBlanks(v); v == "" || slices.Contains(all, v) {
					continue
				}
				if len(all) == MaxReadings {
					return anything
				}
				all = append(all, v)
			}
		}
	}
	return all
}

// withoutOrigin returns the path of a target in absolute form.
func withoutOrigin(target string) string {
	scheme, rest, found := strings.Cut(target, "://")
	if !found || strings.ContainsAny(scheme, `/\`) {
		return target
	}
	return withoutAuthority(rest)
}

func withoutAuthority(rest string) string {
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return "/"
}

// readings returns what servers may read in some escaped paths, other than the path itself, or nil.
//
// It applies every rewriting that some server does until there is nothing new, so the order in which a server works
// does not matter. It ends, since each rewriting makes a path shorter or leaves fewer backslashes.
func readings(path string, escaped []string) []string {
	all := found{paths: []string{path}}
	for _, e := range escaped {
		if len(e) > maxOddPath {
			return anything
		}
		e = decode(withoutOrigin(e), special)
		all.add(e)
		// Parsers of URLs take what follows two or more slashes for a host.
		if slashed := strings.ReplaceAll(e, `\`, "/"); strings.HasPrefix(slashed, "//") {
			all.add(withoutAuthority(strings.TrimLeft(slashed, "/")))
		}
	}
	for i := 0; i < len(all.paths) && !all.tooMany; i++ {
		all.rewrite(all.paths[i])
	}
	switch {
	case all.tooMany:
		return anything
	case len(all.paths) == 1:
		return nil
	}
	return all.paths[1:]
}

// found are the readings of a path so far.
type found struct {
	paths   []string // the first is the path itself
	tooMany bool
}

func (f *found) add(p string) {
	if p == "" || p[0] != '/' {
		p = "/" + p
	}
	if len(p) > 1 {
		p = strings.TrimSuffix(p, "/") // no rule tells the two apart
	}
	switch {
	case slices.Contains(f.paths, p):
	case len(f.paths) > MaxReadings:
		f.tooMany = true
	default:
		f.paths = append(f.paths, p)
	}
}

// rewrite adds what servers may make of a path in one step.
func (f *found) rewrite(p string) {
	if strings.IndexByte(p, '%') >= 0 {
		f.add(decode(p, ""))
		f.add(decode(p, `/\`)) // as Apache with "AllowEncodedSlashes NoDecode"
		f.add(decodeWide(p))
	}
	if strings.IndexByte(p, ';') >= 0 {
		f.add(eachSegment(p, func(s string) string { s, _, _ = strings.Cut(s, ";"); return s }))
	}
	if strings.IndexByte(p, '\\') >= 0 {
		f.add(strings.ReplaceAll(p, `\`, "/"))
	}
	for _, end := range "\x00?#" {
		if i := strings.IndexByte(p, byte(end)); i >= 0 {
			f.add(p[:i])
		}
	}
	if strings.ContainsAny(p, "\t\r\n") {
		f.add(strings.NewReplacer("\t", "", "\r", "", "\n", "").Replace(p))
	}
	if strings.Contains(p, "//") {
		f.add(mergeSlashes(p))
	}
	if strings.Contains(p, "/.") {
		resolved, above := resolveDots(p)
		if above {
			// The result depends on the path that the upstream puts before it.
			f.tooMany = true
		}
		f.add(resolved)
	}
	f.add(eachSegment(p, trimEnd))
	f.add(shorten(p))
}

// special are the bytes that have a meaning in a path for some server. All servers decode other escapes.
const special = "/\\.;%?# \x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\x0c\r\x0e\x0f" +
	"\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f"

// decode decodes escapes once, except those of the bytes to keep. What is no escape stays as it is.
func decode(p, keep string) string {
	at := strings.IndexByte(p, '%')
	if at < 0 {
		return p
	}
	b := append(make([]byte, 0, len(p)), p[:at]...)
	for i := at; i < len(p); i++ {
		c := p[i]
		if c == '%' {
			if plain, ok := fromEscape(p[i:]); ok && strings.IndexByte(keep, plain) < 0 {
				c = plain
				i += 2
			}
		}
		b = append(b, c)
	}
	return string(b)
}

// Unescape decodes the escapes of a path once. What is no escape stays as it is.
func Unescape(escaped string) string { return decode(escaped, "") }

func fromEscape(s string) (byte, bool) {
	if len(s) < 3 {
		return 0, false
	}
	high, ok1 := fromHex(s[1])
	low, ok2 := fromHex(s[2])
	return high<<4 | low, ok1 && ok2
}

// decodeWide decodes %uXXXX, which is an escape to IIS.
func decodeWide(p string) string {
	if strings.IndexByte(p, '%') < 0 {
		return p
	}
	var b strings.Builder
	for i := 0; i < len(p); i++ {
		if r, ok := fromWideEscape(p[i:]); ok {
			b.WriteRune(r)
			i += len("uXXXX")
			continue
		}
		b.WriteByte(p[i])
	}
	return b.String()
}

func fromWideEscape(s string) (r rune, ok bool) {
	if len(s) < len("%uXXXX") || s[0] != '%' || s[1] != 'u' && s[1] != 'U' {
		return 0, false
	}
	for i := 2; i < len("%uXXXX"); i++ {
		digit, ok := fromHex(s[i])
		if !ok {
			return 0, false
		}
		r = r<<4 | rune(digit)
	}
	return r, true
}

func eachSegment(p string, f func(string) string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		segments[i] = f(s)
	}
	return strings.Join(segments, "/")
}

// trimEnd cuts off what Windows ignores at the end of a name, and some patterns at the end of a line. Programs trim
// spaces of any kind away.
func trimEnd(segment string) string {
	if !isASCII(segment) {
		segment = trimBlanks(segment)
	}
	segment = strings.TrimRightFunc(segment, func(r rune) bool { return r <= ' ' })
	if segment == "." || segment == ".." {
		return segment
	}
	return strings.TrimRightFunc(segment, func(r rune) bool { return r <= ' ' || r == '.' })
}

func mergeSlashes(p string) string {
	for strings.Contains(p, "//") {
		p = strings.ReplaceAll(p, "//", "/")
	}
	return p
}

// resolveDots resolves dot segments (RFC 3986, 5.2.4) without merging slashes. It reports a path above the root.
func resolveDots(p string) (resolved string, above bool) {
	var kept []string
	for segment := range strings.SplitSeq(p[1:], "/") {
		switch {
		case segment == ".":
		case segment != "..":
			kept = append(kept, segment)
		case len(kept) == 0:
			above = true
		default:
			kept = kept[:len(kept)-1]
		}
	}
	return "/" + strings.Join(kept, "/"), above
}

// shorten decodes overlong UTF-8 as lenient decoders do: C0 AF is a slash to them.
func shorten(p string) string {
	if utf8.ValidString(p) {
		return p
	}
	b := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		c := p[i]
		if short, size := overlong(p[i:]); size > 0 {
			c = short
			i += size - 1
		}
		b = append(b, c)
	}
	return string(b)
}

// overlong reads an ASCII character at the start of s that is written in two to four bytes; size 0 for none.
func overlong(s string) (short byte, size int) {
	follows := func(i int, least, most byte) bool { return i < len(s) && s[i] >= least && s[i] <= most }
	switch {
	case (s[0] == 0xc0 || s[0] == 0xc1) && follows(1, 0x80, 0xbf):
		size = 2
	case s[0] == 0xe0 && follows(1, 0x80, 0x81) && follows(2, 0x80, 0xbf):
		size = 3
	case s[0] == 0xf0 && follows(1, 0x80, 0x80) && follows(2, 0x80, 0x81) && follows(3, 0x80, 0xbf):
		size = 4
	default:
		return 0, 0
	}
	return s[size-2]&1<<6 | s[size-1]&0x3f, size
}
