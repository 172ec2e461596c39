package refusal

import (
	"net/http"
	"slices"
	"strconv"
)

// Singles are the values of headers that have one, in memory of their owner while that suffices. The zero value is
// ready. They belong to one message.
type Singles struct {
	values [6]string
	used   int
}

// Set gives a header one value. The name must be canonical.
func (s *Singles) Set(h http.Header, name, value string) {
	if s.used == len(s.values) {
		h[name] = []string{value}
		return
	}
	s.values[s.used] = value
	h[name] = s.values[s.used : s.used+1 : s.used+1]
	s.used++
}

// Values that are always the same. Nobody changes them.
var (
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
	byAccept = []string{"Accept"}
)

// Head sets the headers that every refusal has.
func (doc *Refusal) Head(h http.Header, values *Singles) {
	if doc.RetryAfter > 0 {
		values.Set(h, "Retry-After", strconv.FormatInt(doc.RetryAfter, 10))
	}
	h["Cache-Control"], h["X-Content-Type-Options"] = noStore, noSniff
}

// Content describes the body of a refusal, which is a page for people or a document for programs.
func Content(h http.Header, values *Singles, kind string, length int) {
	// Caches must keep answers for browsers and for programs apart.
	if h["Vary"] == nil {
		h["Vary"] = byAccept
	} else {
		h["Vary"] = append(slices.Clip(h["Vary"]), "Accept")
	}
	values.Set(h, "Content-Type", kind)
	values.Set(h, "Content-Length", strconv.Itoa(length))
}
