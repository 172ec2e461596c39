package httpgate

import (
	"net/http"
	"strconv"

	"weir/identify"
)

// answerRoute answers a request that the throttles admit and that goes to no upstream, and reports whether it did.
func (x *exchange) answerRoute() bool {
	switch to := x.setup.route; to.end {
	case answered:
		x.answerFixed(to.answer)
	case redirected:
		if x.setup.servers != nil && x.secure() {
			return false // it came over HTTPS, to the proxy in front
		}
		x.redirect(to.to)
	case unmatched:
		x.gate.env.Observer.Bounded(BoundRoute)
		x.problem(http.StatusNotFound, "There is nothing at this address.")
	case unclear:
		x.gate.env.Observer.Bounded(BoundUnclear)
		x.problem(http.StatusBadRequest, "Servers may read this address in several ways.")
	default:
		return false
	}
	x.replied = x.status
	return true
}

func (x *exchange) answerFixed(a *Answer) {
	h := x.w.Header()
	if a.Body != "" {
		h.Set("Content-Type", a.Type)
	}
	if a.Status != http.StatusNoContent && a.Status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	x.leaveBody()
	x.WriteHeader(a.Status)
	if x.r.Method != http.MethodHead && a.Body != "" {
		_, _ = x.Write([]byte(a.Body)) // the end of the exchange knows of an error
	}
}

// redirect sends the client to another site, with the same path and query.
func (x *exchange) redirect(to *Redirect) {
	origin := to.origin()
	if to.To == toHTTPS {
		if x.secure() { // it would come back again and again
			x.gate.env.Observer.Bounded(BoundRoute)
			x.problem(http.StatusNotFound, "There is nothing at this address.")
			return
		}
		// The host is one that the route names, or a name below one: choose has seen to it.
		origin = "https://" + hostOf(x.event.Route.Host)
	}
	b := appendTarget([]byte(origin), identify.Escaped(x.r.URL), "")
	if query := x.r.URL.RawQuery; query != "" || x.r.URL.ForceQuery {
		b = appendTarget(append(b, '?'), query, "?")
	}
	h := x.w.Header()
	h.Set("Location", string(b))
	h.Set("Content-Length", "0")
	x.leaveBody()
	x.WriteHeader(to.Status)
}

// hostOf is a host in the form of rules as it stands in an address.
func hostOf(host string) string {
	for i := range len(host) {
		if host[i] == ':' {
			return "[" + host + "]"
		}
	}
	return host
}

// appendTarget adds a path or a query with the bytes escaped that no address has.
func appendTarget(b []byte, text, also string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', inAddress(c), also != "" && c == also[0]:
			b = append(b, c)
		default:
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}

// inAddress reports whether a byte other than a letter or a digit may stand in a path or a query (RFC 3986, 3.3, 3.4).
func inAddress(c byte) bool {
	switch c {
	case '-', '.', '_', '~', '!', '$', '&', '\'', '(', ')', '*', '+', ',', ';', '=', ':', '@', '/', '%':
		return true
	}
	return false
}
