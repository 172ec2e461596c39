package httpgate

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"weir/identify"
	"weir/token"
)

// maxPlan is how long the name of a plan may be.
const maxPlan = 64

// tokens are what clients say of themselves in JSON Web Tokens, and by which keys that is checked. They are safe for concurrent use.
type tokens struct {
	opts  token.Options
	names []string
	env   Env

	look    glance
	file    watched[*token.Verifier]
	current atomic.Pointer[token.Verifier]
}

// newTokens reads the keys. What came before is kept where nothing changed for it, with the tokens that it remembers.
func newTokens(o *token.Options, accounts *identify.Accounts, env Env, before *tokens) (*tokens, error) {
	if o == nil {
		return nil, nil
	}
	names := accounts.Claims()
	if o.Plan != "" {
		names = append(names, o.Plan)
	}
	if before != nil && reflect.DeepEqual(before.opts, *o) && reflect.DeepEqual(before.names, names) {
		return before, before.check()
	}
	t := &tokens{opts: *o, names: names, env: env}
	for _, path := range []string{o.Key, o.JWKS} {
		if path != "" {
			t.file.paths = append(t.file.paths, path)
		}
	}
	t.file.parse = t.parse
	return t, t.check()
}

func (t *tokens) parse(contents [][]byte) (*token.Verifier, error) {
	var key, set []byte
	if t.opts.Key != "" {
		key, contents = contents[0], contents[1:]
	}
	if t.opts.JWKS != "" {
		set = contents[0]
	}
	return token.New(t.opts, key, set, t.names)
}

// check looks at the files now.
func (t *tokens) check() error {
	t.look.mu.Lock()
	defer t.look.mu.Unlock()
	t.look.taken(t.env.Clock)
	if anew, _ := t.file.look(); anew {
		t.current.Store(t.file.value)
	}
	if t.file.wrong != "" {
		return fmt.Errorf("jwt: cannot use the keys: %s", t.file.wrong)
	}
	return nil
}

// verifier is what tokens are checked by now. It looks now and then whether the files have changed; tokens that were good by keys that are
// gone are forgotten with them.
func (t *tokens) verifier(now time.Time) *token.Verifier {
	if t.look.due(now) {
		t.look.mu.Lock()
		anew, err := t.file.look()
		if anew {
			t.current.Store(t.file.value)
			t.env.Log.Info("the keys of tokens have changed", "files", t.file.paths)
		}
		if err != nil {
			t.env.Observer.Bounded(BoundCertificate)
			t.env.Log.Error("the new keys of tokens cannot be used; the old ones stay", "files", t.file.paths, "error", err)
		}
		t.look.mu.Unlock()
	}
	return t.current.Load()
}

// said returns what the request's token says, and takes the plan from there. A token that is not good says nothing: the request is then
// one without.
func (x *exchange) said() identify.Claims {
	t := x.setup.tokens
	if t == nil {
		return nil
	}
	v := t.verifier(x.event.Time)
	text := v.Find(x.r.Header)
	if text == "" {
		return nil
	}
	claims, err := v.Verify(text, x.event.Time)
	if err != nil {
		x.gate.env.Observer.Bounded(BoundToken)
		x.gate.env.Log.Debug("a token is not good", "id", x.event.ID, "error", err)
		return nil
	}
	if t.opts.Plan != "" {
		if plan := claims.Claim(t.opts.Plan); len(plan) <= maxPlan {
			x.event.Plan = plan
		}
	}
	return claims
}
