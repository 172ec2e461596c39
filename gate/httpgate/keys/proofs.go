package keys

import (
	"crypto/tls"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/acme"
)

// ProofProtocol is what a connection speaks that an authority makes to see whether a domain belongs to the gate
// (TLS-ALPN-01). The handshake is the proof, and nothing comes after it.
const ProofProtocol = acme.ALPNProto

func isProof(hello *tls.ClientHelloInfo) bool {
	return len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == ProofProtocol
}

// Proofs let gates without TLS prove to an authority that a domain belongs to those that get their certificates from
// it (HTTP-01). All gates of a weir share them. They are safe for concurrent use; the zero value has none.
type Proofs struct {
	mu  sync.RWMutex
	all []*account
}

// add takes an account in, and drops those that have ended.
func (p *Proofs) add(a *account) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(old *account) bool { return old.stopped.Err() != nil })
	p.all = append(p.all, a)
	_ = a.manager.HTTPHandler(nil) // from now on the manager offers to be asked this way
}

// proofPath is below what an authority asks for (RFC 8555, 8.3).
const proofPath = "/.well-known/acme-challenge/"

// Tokens of proofs have at least 128 bits in base64url.
const (
	minToken   = 22
	maxToken   = 256
	tokenChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// Answer returns what the authority wants to see at the request's path, or nil when nobody expects it there: the path
// may be one of the upstream's. It may be called on nil.
func (p *Proofs) Answer(r *http.Request) []byte {
	token, found := strings.CutPrefix(r.URL.Path, proofPath)
	if p == nil || !found || len(token) < minToken || len(token) > maxToken || strings.Trim(token, tokenChars) != "" {
		return nil
	}
	p.mu.RLock()
	all := slices.Clone(p.all)
	p.mu.RUnlock()
	for _, a := range all {
		w := answerWriter{header: http.Header{}}
		a.manager.HTTPHandler(nil).ServeHTTP(&w, r)
		if w.status == 0 {
			return w.text
		}
	}
	return nil
}

// An answerWriter keeps what is written to it. The manager writes a status only if it has no answer.
type answerWriter struct {
	header http.Header
	status int
	text   []byte
}

func (w *answerWriter) Header() http.Header    { return w.header }
func (w *answerWriter) WriteHeader(status int) { w.status = status }
func (w *answerWriter) Write(p []byte) (int, error) {
	w.text = append(w.text, p...)
	return len(p), nil
}
