package token

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Bounds on tokens.
const (
	MaxToken = 8 << 10 // bytes
	MaxClaim = 512     // bytes of a claim's value; a longer one is none
)

// Errors of Verifier.Verify. They name no part of the token, which is a secret.
var (
	ErrTooLong   = fmt.Errorf("the token is longer than %d bytes", MaxToken)
	ErrMalformed = errors.New("the token is malformed")
	ErrSignature = errors.New("the token is not signed by a known key, or not in an accepted way")
	// ErrUnknownKey is an ErrSignature of a token whose key is not here, or that names none: a newer set may help.
	ErrUnknownKey = fmt.Errorf("%w: it may be signed by a newer one", ErrSignature)
	ErrExpired    = errors.New("the token has expired, or never does")
	ErrEarly      = errors.New("the token is not valid yet")
	ErrIssuer     = errors.New("the token was issued by somebody else")
	ErrAudience   = errors.New("the token is for somebody else")
)

// A Verifier checks tokens. It is safe for concurrent use; make it with New.
type Verifier struct {
	opts   Options  // with defaults
	good   []string // algorithms
	keys   []key
	names  []string // of the claims that are kept
	parser *jwt.Parser
	known  memory
}

// New returns a verifier with keys out of the files that the options name, whose contents are handed in; nil for a file
// that they do not name. Of a token, the claims with the given names are kept.
func New(o Options, keyText, setText []byte, names []string) (*Verifier, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	v := &Verifier{opts: o.WithDefaults(), good: o.Algorithms, names: slices.Clone(names)}
	if len(v.good) == 0 {
		v.good = algorithms
	}
	if keyText != nil {
		keys, err := parseKey(keyText, o.shared())
		if err == nil && o.shared() && !slices.ContainsFunc(keys, key.secret) {
			err = fmt.Errorf("%w: it is a public key, and algorithms names those for secrets only", ErrNoSecret)
		}
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		v.keys = append(v.keys, keys...)
	}
	if setText != nil {
		keys, err := parseSet(setText, o.Remote())
		if err != nil {
			return nil, fmt.Errorf("jwks: %w", err)
		}
		v.keys = append(v.keys, keys...)
	}
	if !slices.ContainsFunc(v.keys, func(k key) bool { return slices.ContainsFunc(v.good, k.fits) }) {
		return nil, ErrNoKey
	}
	v.known.most = v.opts.Remember
	v.parser = jwt.NewParser(jwt.WithValidMethods(v.good), jwt.WithJSONNumber(), jwt.WithStrictDecoding(),
		jwt.WithoutClaimsValidation())
	return v, nil
}

// Claims are what a verified token says. They do not change; nil says nothing.
type Claims struct {
	names, values []string
	from, until   time.Time
}

// Claim returns the value of a claim, or "" where it has none that is a short text or a number.
func (c *Claims) Claim(name string) string {
	if c == nil {
		return ""
	}
	if i := slices.Index(c.names, name); i >= 0 {
		return c.values[i]
	}
	return ""
}

// at reports whether the claims hold at a time.
func (c *Claims) at(now time.Time) error {
	switch {
	case !now.Before(c.until):
		return ErrExpired
	case now.Before(c.from):
		return ErrEarly
	}
	return nil
}

// Verify returns what a token says, or one of the errors above. A token that was good a moment ago costs a hash.
func (v *Verifier) Verify(text string, now time.Time) (*Claims, error) {
	if len(text) > MaxToken {
		return nil, ErrTooLong
	}
	sum := hashOf(text)
	if c := v.known.find(sum); c != nil {
		if err := c.at(now); err != nil {
			return nil, err
		}
		return c, nil
	}
	c, err := v.verify(text, now)
	if err == nil {
		v.known.keep(sum, c)
	}
	return c, err
}

func (v *Verifier) verify(text string, now time.Time) (*Claims, error) {
	said := jwt.MapClaims{}
	if t, err := v.parser.ParseWithClaims(text, said, v.keysFor); err != nil {
		switch {
		case errors.Is(err, jwt.ErrTokenMalformed):
			return nil, ErrMalformed
		case t != nil && !v.has(t):
			return nil, ErrUnknownKey
		}
		return nil, ErrSignature
	}
	c := &Claims{names: v.names}
	leeway := v.opts.Leeway.Std()
	exp, ok := date(said["exp"])
	if !ok {
		return nil, ErrExpired
	}
	c.until = exp.Add(leeway)
	if said["nbf"] != nil {
		if c.from, ok = date(said["nbf"]); !ok {
			return nil, ErrMalformed
		}
		c.from = c.from.Add(-leeway)
	}
	if err := c.at(now); err != nil {
		return nil, err
	}
	if v.opts.Issuer != "" {
		if iss, _ := said["iss"].(string); iss != v.opts.Issuer {
			return nil, ErrIssuer
		}
	}
	if len(v.opts.Audience) > 0 {
		if aud, err := said.GetAudience(); err != nil ||
			!slices.ContainsFunc(aud, func(one string) bool { return slices.Contains(v.opts.Audience, one) }) {
			return nil, ErrAudience
		}
	}
	for _, name := range v.names {
		c.values = append(c.values, value(said[name]))
	}
	return c, nil
}

func (v *Verifier) has(t *jwt.Token) bool {
	kid, _ := t.Header["kid"].(string)
	return kid != "" && slices.ContainsFunc(v.keys, func(k key) bool { return k.id == kid })
}

// keysFor returns the keys that may have signed a token: the one that it names, or all nameless ones that fit.
func (v *Verifier) keysFor(t *jwt.Token) (any, error) {
	if _, critical := t.Header["crit"]; critical {
		return nil, ErrSignature // no critical extension is known (RFC 7515, 4.1.11)
	}
	kid, _ := t.Header["kid"].(string)
	var set jwt.VerificationKeySet
	for i := range v.keys {
		k := &v.keys[i]
		if k.fits(t.Method.Alg()) && (kid == "" || k.id == "" || k.id == kid) {
			set.Keys = append(set.Keys, k.public)
		}
	}
	if len(set.Keys) == 0 || len(set.Keys) > maxTried {
		return nil, ErrSignature
	}
	return set, nil
}

// maxTried is how many keys are tried for a token that names none: each costs time.
const maxTried = 16

// date reads a time in seconds since 1970.
func date(claim any) (time.Time, bool) {
	n, ok := claim.(json.Number)
	if !ok {
		return time.Time{}, false
	}
	const most = 1 << 38 // far away, and small enough to calculate with
	f, err := n.Float64()
	if err != nil || f < 0 || f > most {
		return time.Time{}, false
	}
	return time.Unix(int64(f), 0), true
}

func value(claim any) string {
	s := ""
	switch c := claim.(type) {
	case string:
		s = c
	case json.Number:
		s = c.String()
	}
	if len(s) > MaxClaim {
		return ""
	}
	return strings.Clone(s)
}

// A sum is the hash of a token. Tokens themselves are not kept, since they are secrets.
type sum [sha256.Size]byte

// hashOf allocates nothing for tokens of the usual length.
func hashOf(text string) sum {
	var array [2 << 10]byte
	return sha256.Sum256(append(array[:0], text...))
}

// memory remembers the verified tokens seen last, in two generations. Goroutines may share it.
type memory struct {
	most int // in both
	mu   sync.RWMutex
	a, b map[sum]*Claims // a is the younger one
}

func (m *memory) find(s sum) *Claims {
	m.mu.RLock()
	c, young := m.a[s]
	if !young {
		c = m.b[s]
	}
	m.mu.RUnlock()
	if c != nil && !young {
		m.keep(s, c)
	}
	return c
}

func (m *memory) keep(s sum, c *Claims) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.a == nil || len(m.a) >= max(m.most/2, 1) {
		m.a, m.b = make(map[sum]*Claims), m.a
	}
	m.a[s] = c
}
