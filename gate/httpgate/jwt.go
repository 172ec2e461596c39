package httpgate

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"weir/identify"
	"weir/identify/token"
)

// maxPlan is how long the name of a plan may be.
const maxPlan = 64

// tokens are what clients say of themselves in JSON Web Tokens, and by which keys that is checked. They are safe for
// concurrent use.
type tokens struct {
	opts   token.Options
	names  []string
	env    Env
	remote *keyServer // nil where the set of keys is a file, or there is none

	look     glance
	file     watched[*token.Verifier]
	key, set []byte // what the verifier is made of; look.mu guards them
	current  atomic.Pointer[token.Verifier]
}

// newTokens reads the keys. What came before is kept where nothing changed for it, with the tokens that it remembers.
// Keys that are to be fetched are awaited at a reload, which fails without them; a gate that starts does without them
// until they come.
func newTokens(o *token.Options, accounts *identify.Accounts, env Env, before *tokens, reload bool) (*tokens, error) {
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
	if o.Key != "" {
		t.file.paths = append(t.file.paths, o.Key)
	}
	if o.JWKS != "" && !o.Remote() {
		t.file.paths = append(t.file.paths, o.JWKS)
	}
	t.file.parse = t.parse
	if err := t.check(); err != nil || !o.Remote() {
		return t, err
	}
	var same *keyServer
	if before != nil && before.remote != nil && before.opts.JWKS == o.JWKS {
		same = before.remote
	}
	var err error
	if t.remote, err = newKeyServer(o.JWKS, env, t.use, same); err != nil {
		return nil, err
	}
	if reload && same == nil {
		if err := t.remote.await(); err != nil {
			t.end()
			return nil, err
		}
	}
	return t, nil
}

// parse makes a verifier of the files. t.look.mu is held.
func (t *tokens) parse(contents [][]byte) (*token.Verifier, error) {
	var key []byte
	set := t.set
	if t.opts.Key != "" {
		key, contents = contents[0], contents[1:]
	}
	if len(contents) > 0 {
		set = contents[0]
	}
	v, err := token.New(t.opts, key, set, t.names)
	if err == nil {
		t.key = key
	}
	return v, err
}

// use takes a set that was fetched. One that is the same leaves the tokens in memory that are known to be good.
func (t *tokens) use(set []byte) error {
	t.look.mu.Lock()
	defer t.look.mu.Unlock()
	if t.set != nil && bytes.Equal(set, t.set) {
		return nil
	}
	v, err := token.New(t.opts, t.key, set, t.names)
	if err != nil {
		return err
	}
	if t.set != nil {
		t.env.Log.Info("the keys of tokens have changed", "jwks", t.opts.JWKS)
	}
	t.set = set
	t.current.Store(v)
	return nil
}

// end stops fetching keys.
func (t *tokens) end() {
	if t != nil && t.remote != nil {
		t.remote.end()
	}
}

// await waits for keys that are being fetched. Without them the gate goes on all the same.
func (t *tokens) await() {
	if t != nil && t.remote != nil {
		_ = t.remote.await() // it is in the log
	}
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

// verifier is what tokens are checked by now, or nil where no keys are there yet. It looks now and then whether the
// files have changed; tokens that were good by keys that are gone are forgotten with them.
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
			t.env.Log.Error("the new keys of tokens cannot be used; the old ones stay", "files", t.file.paths, "error",
				err)
		}
		t.look.mu.Unlock()
	}
	return t.current.Load()
}

// said returns what the request's token says, and takes the plan from there. A token that is not good says nothing: the
// request is then one without.
func (x *exchange) said() identify.Claims {
	t := x.setup.tokens
	if t == nil {
		return nil
	}
	v := t.verifier(x.event.Time)
	if v == nil {
		return nil
	}
	text, err := identify.Token(x.r.Header, t.opts.Header)
	if err != nil || text == "" { // whoever looks for an account there says what is wrong
		return nil
	}
	claims, err := v.Verify(text, x.event.Time)
	if err != nil {
		x.gate.env.Observer.Bounded(BoundToken)
		if t.remote != nil && errors.Is(err, token.ErrUnknownKey) {
			t.remote.want(x.event.Time)
		}
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
