package refusal

import (
	"net/http"
	"slices"
	"strconv"
)

// A Header is where headers are set, under the names as they are. An http.Header goes by way of Singles: it would write
// RateLimit as Ratelimit.
type Header interface {
	Set(name, value string)
	Add(name, value string)
	Del(name string)
}

// Singles are headers of which most have one value, in memory of their owner while that suffices. They belong to one
// message.
type Singles struct {
	Of     http.Header
	values [6]string
	used   int
}

// Set gives a header one value.
func (s *Singles) Set(name, value string) {
	if s.used == len(s.values) {
		s.Of[name] = []string{value}
		return
	}
	s.values[s.used] = value
	s.Of[name] = s.values[s.used : s.used+1 : s.used+1]
	s.used++
}

// Add adds a value to those that there are.
func (s *Singles) Add(name, value string) {
	if before := s.Of[name]; before != nil {
		s.Of[name] = append(slices.Clip(before), value)
		return
	}
	s.Set(name, value)
}

// Del removes a header.
func (s *Singles) Del(name string) { delete(s.Of, name) }

// Head sets the headers that every refusal has.
func (doc *Refusal) Head(h Header) {
	if doc.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(doc.RetryAfter, 10))
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// Content describes the body of a refusal, which is a page for people or a document for programs.
func Content(h Header, kind string, length int) {
	h.Add("Vary", "Accept") // caches must keep answers for browsers and for programs apart
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(length))
}
