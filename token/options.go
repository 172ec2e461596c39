package token

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir"
)

// Options say which tokens are good.
type Options struct {
	// A file with the public key, or a certificate, in PEM, by which tokens are signed; for HS256, HS384 and HS512 with the shared secret as it
	// is, 32 bytes at least. It is read again when it changes.
	Key string `yaml:"key"`
	// A file with a set of keys (JWKS). A token names one of them by its kid. It is read again when it changes.
	JWKS string `yaml:"jwks"`
	// The algorithms that are good: RS256, ES256, EdDSA and their like. Default: all that fit the keys.
	Algorithms []string `yaml:"algorithms"`
	// Who must have issued the token (iss). Default: anybody who has the key.
	Issuer string `yaml:"issuer"`
	// For whom the token must be (aud): one of these. Default: anybody.
	Audience []string `yaml:"audience"`
	// How far clocks may be apart when a token begins or ends. Default 30s. A token without an end (exp) is not taken.
	Leeway weir.Duration `yaml:"leeway"`
	// The header that brings the token. Default Authorization, as in "Authorization: Bearer …".
	Header string `yaml:"header"`
	// The claim that names the plan of the account. Default: none does.
	Plan string `yaml:"plan"`
	// How many verified tokens are remembered. Default 10000.
	Remember int `yaml:"remember"`
}

const (
	maxLeeway   = 10 * time.Minute
	maxRemember = 1_000_000
	maxAudience = 100
)

// algorithms are those that are known, with those that fit the same kind of key beside each other.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512"}

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	o.Leeway = cmp.Or(o.Leeway, weir.Duration(30*time.Second))
	o.Header = http.CanonicalHeaderKey(cmp.Or(o.Header, "Authorization"))
	o.Remember = cmp.Or(o.Remember, 10_000)
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors. Whether the files are of use is for New to say.
func (o Options) Validate() error {
	var v weir.Mistakes
	if o.Key == "" && o.JWKS == "" {
		v.Add("key", "there is no key to check tokens with", "write key: /etc/weir/token.pem, or jwks: /etc/weir/keys.json")
	}
	shared, public := false, false
	for i, a := range o.Algorithms {
		v.OneOf(fmt.Sprintf("algorithms[%d]", i), a, algorithms...)
		shared = shared || strings.HasPrefix(a, "HS")
		public = public || slices.Contains(algorithms, a) && !strings.HasPrefix(a, "HS")
	}
	if o.Key != "" && shared && public {
		v.Add("algorithms", "the key is either a shared secret or a public one", "keep HS256 and its like apart from the others")
	}
	if len(o.Audience) > maxAudience {
		v.Add("audience", fmt.Sprintf("%d are too many", len(o.Audience)), fmt.Sprintf("at most %d", maxAudience))
	}
	if o.Leeway < 0 || o.Leeway.Std() > maxLeeway {
		v.Add("leeway", fmt.Sprintf("%s is out of bounds", o.Leeway), fmt.Sprintf("between 0s and %s", weir.Duration(maxLeeway)))
	}
	if strings.ContainsAny(o.Header, " \t\r\n:,;\"\\") {
		v.Add("header", fmt.Sprintf("%q names no header", o.Header), "write Authorization")
	}
	v.Count("remember", o.Remember, maxRemember)
	return v.Err()
}
