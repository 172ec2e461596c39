package token

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir"
)

// Options are the conditions that a token must meet to be accepted.
type Options struct {
	// A file with the public key, or the certificate, that tokens are signed with: PEM, DER, or base64 of it. It is
	// read again when it changes. With algorithms HS256, HS384 or HS512, a file with the shared secret as it is, at
	// least 32 bytes; a public key is never accepted as a secret.
	Key string `yaml:"key"`
	// A set of keys (JWKS), of which a token names one by its kid: a file, which is read again when it changes, or the
	// address of one at the identity provider, as in https://login.example.org/keys, which is fetched every 10 minutes.
	// http:// is allowed for this machine only.
	JWKS string `yaml:"jwks"`
	// The accepted algorithms: RS256, ES256, EdDSA and the like. Default: all that fit the keys. Those with a shared
	// secret (HS256, HS384, HS512) must be named where key is the secret.
	Algorithms []string `yaml:"algorithms"`
	// Who must have issued the token (iss). Default: anybody who has the key.
	Issuer string `yaml:"issuer"`
	// The audience of the token (aud) must be one of these. Default: any.
	Audience []string `yaml:"audience"`
	// How far apart clocks may be when a token becomes valid or expires. Default 30s. A token without an expiry (exp)
	// is not accepted.
	Leeway weir.Duration `yaml:"leeway"`
	// The header that has the token. Default Authorization, as in "Authorization: Bearer …".
	Header string `yaml:"header"`
	// The claim that names the plan of the account. Default: none does.
	Plan string `yaml:"plan"`
	// How many verified tokens are remembered. Default 10000.
	Remember int `yaml:"-"`
}

const (
	maxLeeway   = 10 * time.Minute
	maxRemember = 1_000_000
	maxAudience = 100
)

// algorithms are the known ones, in groups of those for the same kind of key.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
	"HS256", "HS384", "HS512"}

// shared reports whether tokens may be signed with a shared secret that the options name.
func (o *Options) shared() bool {
	return slices.ContainsFunc(o.Algorithms, func(a string) bool { return strings.HasPrefix(a, "HS") })
}

// Remote reports whether the set of keys is fetched from somewhere, instead of read from a file.
func (o *Options) Remote() bool { return strings.Contains(o.JWKS, "://") }

// maxAddress is how long the address of a set may be.
const maxAddress = 2048

// validateAddress finds mistakes in the address of a set. Whoever could change the set on its way could sign tokens.
func (o *Options) validateAddress(v *weir.Mistakes) {
	if !o.Remote() {
		return
	}
	const hint = "write https://login.example.org/keys"
	u, err := url.Parse(o.JWKS)
	wrong := weir.CheckURL(u)
	switch {
	case err != nil || u.Hostname() == "" || len(o.JWKS) > maxAddress:
		v.Add("jwks", "it is not the address of a set of keys", hint)
	case wrong != nil:
		v.Add("jwks", wrong.Error(), hint)
	case u.User != nil:
		v.Add("jwks", "the address of a set has no name and password in it", hint)
	case u.Fragment != "":
		v.Add("jwks", "the address of a set has no # in it", hint)
	case u.Scheme == "http" && !Loopback(u.Hostname()):
		v.Add("jwks", "by http anybody on the way can put in keys of their own",
			"write https; http is good for 127.0.0.1, [::1] and localhost")
	case u.Scheme != "https" && u.Scheme != "http":
		v.Add("jwks", fmt.Sprintf("a set of keys cannot be fetched by %s", u.Scheme), hint)
	}
}

// Loopback reports whether a host is this machine.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	o.Leeway = cmp.Or(o.Leeway, weir.Duration(30*time.Second))
	o.Header = http.CanonicalHeaderKey(cmp.Or(o.Header, "Authorization"))
	o.Remember = cmp.Or(o.Remember, 10_000)
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors. New looks into the files.
func (o Options) Validate() error {
	var v weir.Mistakes
	if o.Key == "" && o.JWKS == "" {
		v.Add("key", "there is no key to check tokens with",
			"write key: /etc/weir/token.pem, or jwks: /etc/weir/keys.json")
	}
	o.validateAddress(&v)
	shared, public := false, false
	for i, a := range o.Algorithms {
		v.OneOf(fmt.Sprintf("algorithms[%d]", i), a, algorithms...)
		shared = shared || strings.HasPrefix(a, "HS")
		public = public || slices.Contains(algorithms, a) && !strings.HasPrefix(a, "HS")
	}
	if o.Key != "" && shared && public {
		v.Add("algorithms", "the key is either a shared secret or a public one",
			"keep HS256 and its like apart from the others")
	}
	v.AtMost("audience", "", len(o.Audience), maxAudience)
	if o.Leeway < 0 || o.Leeway.Std() > maxLeeway {
		v.Add("leeway", fmt.Sprintf("%s is out of bounds", o.Leeway),
			fmt.Sprintf("between 0s and %s", weir.Duration(maxLeeway)))
	}
	if strings.ContainsAny(o.Header, " \t\r\n:,;\"\\") {
		v.Add("header", fmt.Sprintf("%q names no header", o.Header), "write Authorization")
	}
	v.Count("remember", o.Remember, maxRemember)
	return v.Err()
}
