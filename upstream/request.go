package upstream

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"weir/identify"
	"weir/internal/http1"
)

// A RequestError says why a request cannot be sent to any server.
type RequestError string

func (e RequestError) Error() string { return string(e) }

// Why a request cannot be sent.
const (
	errNoTarget  RequestError = "the request has no path that can be sent"
	errBadMethod RequestError = "the request has a method that cannot be sent"
	errBadHost   RequestError = "the request has a host that cannot be sent"
	errBadField  RequestError = "the request has a header that cannot be sent"
)

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// bodyLength is the length of a body, or -1 where it is sent in chunks: it is not known, or trailers follow.
func bodyLength(r *http.Request) int64 {
	if r.ContentLength <= 0 || len(r.Trailer) > 0 {
		return -1
	}
	return r.ContentLength
}

// Sendable returns an error for a call that servers could read as another one, or as two.
func Sendable(k *Call) error {
	r := k.Request
	switch {
	case r.URL == nil || r.URL.Opaque != "" || !cleanTarget(r.URL.RawQuery):
		return errNoTarget
	case r.Method != "" && !http1.IsToken(r.Method):
		return errBadMethod
	case !cleanTarget(r.Host) || r.Host == "" && !cleanTarget(r.URL.Host):
		return errBadHost
	}
	for i := range k.Fields.Len() {
		if name, value := k.Fields.At(i); !http1.IsToken(name) || !http1.IsValue(value) {
			return errBadField
		}
	}
	return nil
}

// cleanTarget reports whether s can be a part of a request line: it has neither spaces nor control characters.
func cleanTarget(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// outside escapes the bytes that would end a path.
var outside = strings.NewReplacer("?", "%3F", "#", "%23")

// asSent returns the path as the client wrote it, if it can be sent so.
func asSent(u *url.URL) string {
	if path := identify.Escaped(u); cleanTarget(path) {
		return outside.Replace(path)
	}
	return u.EscapedPath()
}

// appendRequest writes the head of a request. It alone decides on the framing of the body.
func appendRequest(b []byte, to *target, k *Call) []byte {
	r := k.Request
	b = append(b, cmp.Or(r.Method, http.MethodGet)...)
	b = append(append(b, ' '), to.base...)
	if k.Target != "" {
		b = append(b, k.Target...)
	} else {
		path := asSent(r.URL)
		if !strings.HasPrefix(path, "/") {
			b = append(b, '/')
		}
		b = append(b, path...)
		if r.URL.ForceQuery || r.URL.RawQuery != "" {
			b = append(append(b, '?'), r.URL.RawQuery...)
		}
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(append(b, cmp.Or(r.Host, r.URL.Host, to.host)...), "\r\n"...)
	switch {
	case hasBody(r) && bodyLength(r) < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
		b = appendTrailerNames(b, r.Trailer)
	case hasBody(r):
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), r.ContentLength, 10), "\r\n"...)
	case r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch:
		b = append(b, "Content-Length: 0\r\n"...)
	}
	if r.Close {
		b = append(b, "Connection: close\r\n"...)
	}
	for _, name := range ours {
		if k.Fields.Has(name) {
			return append(appendOthers(b, &k.Fields), "\r\n"...)
		}
	}
	return append(k.Fields.Append(b), "\r\n"...)
}

// ours are headers that are written from other fields of the request.
var ours = [...]string{"Host", "Content-Length", "Transfer-Encoding", "Trailer"}

// appendOthers writes all fields but those.
func appendOthers(b []byte, f *http1.Fields) []byte {
	for i := range f.Len() {
		if name, value := f.At(i); !slices.Contains(ours[:], name) {
			b = http1.AppendField(b, name, value)
		}
	}
	return b
}

func appendTrailerNames(b []byte, trailer http.Header) []byte {
	before := "Trailer: "
	for name := range trailer {
		if http1.IsToken(name) && !forbiddenTrailer(name) {
			b = append(append(b, before...), name...)
			before = ", "
		}
	}
	if before == ", " {
		b = append(b, "\r\n"...)
	}
	return b
}

// appendTrailer writes the end of a chunked body.
func appendTrailer(b []byte, trailer http.Header) []byte {
	b = append(b, "0\r\n"...)
	for name, values := range trailer {
		if !http1.IsToken(name) || forbiddenTrailer(name) {
			continue
		}
		for _, v := range values {
			if http1.IsValue(v) {
				b = http1.AppendField(b, name, v)
			}
		}
	}
	return append(b, "\r\n"...)
}

// forbiddenTrailer reports whether a field may not follow a body because it says how to read it (RFC 9110, 6.5.1).
func forbiddenTrailer(name string) bool {
	switch name {
	case "Transfer-Encoding", "Content-Length", "Trailer", "Host", "Connection", "Content-Encoding", "Content-Type",
		"Content-Range":
		return true
	}
	return false
}
