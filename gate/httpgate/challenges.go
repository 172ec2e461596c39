package httpgate

import (
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Challenges are how gates without TLS answer an authority on behalf of those that get their certificates from it
// (HTTP-01). All gates of a weir share one. It is safe for concurrent use; make it with NewChallenges.
type Challenges struct {
	mu  sync.RWMutex
	all []*acmeAccount
}

// NewChallenges returns challenges that nobody has put yet.
func NewChallenges() *Challenges { return &Challenges{} }

// add takes an account in, and drops those that have ended.
func (c *Challenges) add(a *acmeAccount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(old *acmeAccount) bool { return old.stopped.Err() != nil })
	c.all = append(c.all, a)
	_ = a.manager.HTTPHandler(nil) // from now on the manager offers to be asked this way
}

// challengePath is below what an authority asks for (RFC 8555, 8.3).
const challengePath = "/.well-known/acme-challenge/"

// Tokens have at least 128 bits in base64url.
const (
	minToken = 22
	maxToken = 256
)

// answer returns what the authority wants to see at a path, or nil when nobody expects it there: it may be the upstream
// that does.
func (c *Challenges) answer(r *http.Request) []byte {
	token, found := strings.CutPrefix(r.URL.Path, challengePath)
	if !found || len(token) < minToken || len(token) > maxToken || strings.Trim(token, tokenChars) != "" {
		return nil
	}
	c.mu.RLock()
	all := slices.Clone(c.all)
	c.mu.RUnlock()
	for _, a := range all {
		var w answerWriter
		a.manager.HTTPHandler(nil).ServeHTTP(&w, r)
		if w.status == 0 {
			return w.text
		}
	}
	return nil
}

const tokenChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// An answerWriter keeps what is written to it. A status is written only by who has no answer.
type answerWriter struct {
	header http.Header
	status int
	text   []byte
}

func (w *answerWriter) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}
func (w *answerWriter) WriteHeader(status int) { w.status = status }
func (w *answerWriter) Write(p []byte) (int, error) {
	w.text = append(w.text, p...)
	return len(p), nil
}
