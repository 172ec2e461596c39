package keys

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"time"

	"weir/identify"
	"weir/identify/token"
	"weir/internal/clock"
)

// An Env is what keys need of their surroundings. Clock, Log and Unusable must be there.
type Env struct {
	Clock clock.Clock
	Log   *slog.Logger
	// Unusable counts new certificates, files and sets of keys that cannot be used. The old ones stay.
	Unusable func()
	// Roots sign the certificates of identity providers. nil stands for the authorities that the system trusts.
	Roots *x509.CertPool
	// Data is the folder below which ordered certificates are kept; empty for none.
	Data string
	// Proofs lets gates without TLS answer authorities; nil for none.
	Proofs *Proofs
}

// Keys are the certificates and keys of one set of options.
type Keys struct {
	tls    *server // nil without TLS
	tokens *tokens // nil where tokens are not looked at
}

// New reads all files. t and jwt may be nil; claims are the names of claims that accounts are made of. What the keys
// before, if any, have in common with these is kept: sessions that clients can resume, verified tokens, certificates on
// order. A reload fails if the keys of tokens cannot be fetched. A gate that starts does without them until they come.
func New(t *TLS, jwt *token.Options, claims []string, env Env, before *Keys) (*Keys, error) {
	old := before
	if old == nil {
		old = &Keys{}
	}
	k := &Keys{}
	var err error
	if k.tokens, err = newTokens(jwt, claims, env, old.tokens, before != nil); err != nil {
		return nil, err
	}
	if k.tls, err = newServer(t, env, old.tls); err != nil {
		k.End(before)
		return nil, err
	}
	return k, nil
}

// Begin orders the certificates that are not there yet, so that no client has to wait for them.
func (k *Keys) Begin() {
	if k.tls != nil && k.tls.orders != nil {
		for _, domain := range k.tls.orders.domains {
			_, _ = k.tls.orders.start(domain)
		}
	}
}

// End ends what goes on in the background, except for what kept uses too. kept may be nil.
func (k *Keys) End(kept *Keys) {
	if kept == nil {
		kept = &Keys{}
	}
	if a := k.account(); a != nil && a != kept.account() {
		a.stop()
	}
	if k.tokens != kept.tokens && k.tokens != nil && k.tokens.remote != nil {
		k.tokens.remote.end()
	}
}

func (k *Keys) account() *account {
	if k.tls == nil || k.tls.orders == nil {
		return nil
	}
	return k.tls.orders.account
}

// Await waits until no keys of tokens are being fetched, ten seconds at most.
func (k *Keys) Await() {
	if k.tokens != nil && k.tokens.remote != nil {
		_ = k.tokens.remote.await() // it is in the log
	}
}

// Config is what the next handshake goes by, or nil without TLS.
func (k *Keys) Config(now time.Time) *tls.Config {
	if k.tls == nil {
		return nil
	}
	if k.tls.ca != nil {
		k.tls.ca.passBy(now)
	}
	return k.tls.config.Load()
}

// maxPlan is how long the name of a plan may be.
const maxPlan = 64

// Claims returns what the token of a request says, and the plan that it names. Without a token, or without keys, both
// are empty. An error means that the token is not good.
func (k *Keys) Claims(h identify.Fields, now time.Time) (claims identify.Claims, plan string, err error) {
	t := k.tokens
	if t == nil {
		return nil, "", nil
	}
	t.files.passBy(now)
	v := t.current.Load()
	if v == nil {
		return nil, "", nil
	}
	text, err := identify.Token(h, t.opts.Header)
	if err != nil || text == "" { // the search for an account reports the error
		return nil, "", nil
	}
	said, err := v.Verify(text, now)
	if err != nil {
		if t.remote != nil && errors.Is(err, token.ErrUnknownKey) {
			t.remote.want(now)
		}
		return nil, "", err
	}
	if t.opts.Plan != "" {
		if plan = said.Claim(t.opts.Plan); len(plan) > maxPlan {
			plan = ""
		}
	}
	return said, plan, nil
}
