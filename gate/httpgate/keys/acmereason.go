package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// reasons is the transport to an authority. It reads along and keeps why the authority did not believe that a name is
// ours: the ACME client only says that it did not. It is safe for concurrent use.
type reasons struct {
	http.RoundTripper
	stopped context.Context // nothing is asked after its end

	mu sync.Mutex
	of map[string]string // by name; at most maxDomains
}

// Bounds on what is read along of an answer, and on what is kept of a reason.
const (
	maxAuthorization = 64 << 10
	maxReason        = 500
)

// RoundTrip is for http.Client.
func (s *reasons) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := s.stopped.Err(); err != nil {
		return nil, err
	}
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
