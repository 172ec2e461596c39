package httpgate

import (
	"strings"

	"weir"
	"weir/identify"
	"weir/internal/http1"
)

// prefixHeader tells the upstream what was cut off, as other proxies do, for links and redirects of its own.
const prefixHeader = "X-Forwarded-Prefix"

// cuttable reports whether a request that takes this route has a path from which the route can cut its own off, where
// it does that at all.
func (s *setup) cuttable(escaped string) bool {
	if s.route == nil || s.route.cut == "" {
		return true
	}
	_, ok := withoutPrefix(escaped, s.at)
	return ok
}

// withoutPrefix cuts the path of a route, in the form of rules, off the path of a request, escaped as it came. What is
// left begins with one slash. It reports false where servers may read something else there: a path that does not begin
// with that of the route as it is written, or whose rest leads above the root, or to another host.
func withoutPrefix(escaped, prefix string) (rest string, ok bool) {
	rest, ok = cutSpelled(escaped, prefix)
	if !ok {
		return "", false
	}
	if rest == "" {
		return "/", true
	}
	if rest[0] != '/' { // the prefix ends within a segment, or before parameters or a slash that is escaped
		return "", false
	}
	// Clients join "/v1/" and "/users". Two slashes at the beginning would name a host to some.
	rest = "/" + strings.TrimLeft(rest, "/")
	if identify.Straight(rest) {
		return rest, true
	}
	for _, read := range identify.Route("", "", rest, nil).Also {
		if read == weir.Any || strings.HasPrefix(read, "//") {
			return "", false
		}
	}
	return rest, true
}

// cutSpelled cuts a prefix off an escaped path. Letters may be escaped, slashes may not.
func cutSpelled(escaped, prefix string) (rest string, ok bool) {
	for i := range len(prefix) {
		if escaped == "" {
			return "", false
		}
		c, size := escaped[0], 1
		if c == '%' {
			if c, ok = unescaped(escaped); !ok || c == '/' {
				return "", false
			}
			size = 3
		}
		if c != prefix[i] {
			return "", false
		}
		escaped = escaped[size:]
	}
	return escaped, true
}

// unescaped decodes the escape that a text begins with.
func unescaped(text string) (c byte, ok bool) {
	if len(text) < 3 {
		return 0, false
	}
	for _, digit := range []byte(text[1:3]) {
		switch {
		case '0' <= digit && digit <= '9':
			digit -= '0'
		case 'a' <= digit|0x20 && digit|0x20 <= 'f':
			digit = (digit | 0x20) - 'a' + 10
		default:
			return 0, false
		}
		c = c<<4 | digit
	}
	return c, true
}

// cutPrefix takes the path of the route from the request that goes to the upstream, where the options say so. The route
// was chosen by the path as it came, and choose has seen that it can be cut.
func (x *exchange) cutPrefix(o *onward) {
	to := x.setup.route
	if to == nil || to.cut == "" {
		return
	}
	rest, ok := withoutPrefix(identify.Escaped(x.r.URL), x.setup.at)
	if !ok {
		return
	}
	u := *x.r.URL
	u.Path, u.RawPath = identify.Unescape(rest), rest
	if o.Request != &o.request { // it is that of the client, which stays as it is
		o.request = *x.r
		o.Request = &o.request
	}
	o.request.URL, o.Target = &u, ""
	o.Fields.Set(prefixHeader, x.outerPrefix(&o.Fields)+to.cut)
}

// outerPrefix is what a trusted proxy in front has cut off before; the fields are those that go on.
func (x *exchange) outerPrefix(f *http1.Fields) (outer string) {
	if !x.origin.Proxied {
		return ""
	}
	for _, line := range f.Values(prefixHeader) {
		for part := range strings.SplitSeq(line, ",") {
			part = strings.TrimSuffix(strings.TrimSpace(part), "/")
			if part != "" && !identify.Straight(part) {
				return ""
			}
			outer += part
		}
	}
	return outer
}
