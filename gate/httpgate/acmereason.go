package httpgate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// reasons reads along what an authority answers, and keeps why it did not believe that a name is ours: the ACME client
// says no more than that it did not. It is safe for concurrent use.
type reasons struct {
	http.RoundTripper

	mu sync.Mutex
	of map[string]string // by name; at most maxDomains
}

// maxReason bounds what is read along of an answer, and how much of a reason is kept.
const (
	maxAuthorization = 64 << 10
	maxReason        = 500
)

// RoundTrip reads along.
func (s *reasons) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.RoundTripper.RoundTrip(r)
	if err != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		return res, err
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAuthorization))
	if err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	s.note(text)
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), res.Body), res.Body}
	return res, nil
}

// note keeps the reason that an authorization gives (RFC 8555, section 7.1.4).
func (s *reasons) note(text []byte) {
	var doc struct {
		Status     string
		Identifier struct{ Value string }
		Challenges []struct {
			Type  string
			Error struct{ Type, Detail string }
		}
	}
	if json.Unmarshal(text, &doc) != nil || doc.Status != "invalid" || doc.Identifier.Value == "" {
		return
	}
	var all []string
	for _, c := range doc.Challenges {
		if c.Error.Type != "" || c.Error.Detail != "" {
			kind := strings.TrimPrefix(c.Error.Type, "urn:ietf:params:acme:error:")
			all = append(all, fmt.Sprintf("%s: %s: %s", c.Type, kind, c.Error.Detail))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(all) == 0 || len(s.of) >= maxDomains && s.of[doc.Identifier.Value] == "" {
		return
	}
	if s.of == nil {
		s.of = map[string]string{}
	}
	why := strings.ToValidUTF8(strings.Join(all, "; "), "?")
	s.of[doc.Identifier.Value] = why[:min(len(why), maxReason)]
}

// take returns the reason for a name, and forgets it.
func (s *reasons) take(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := s.of[name]
	delete(s.of, name)
	return why
}
