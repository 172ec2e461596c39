package keys

import (
	"bytes"
	"reflect"
	"slices"
	"sync/atomic"

	"weir/identify/token"
)

// tokens are the keys by which JSON Web Tokens are checked.
type tokens struct {
	opts   token.Options
	claims []string
	env    Env
	remote *keyServer // nil where the set of keys is a file, or there is none

	files    watch[*token.Verifier]
	key, set []byte                         // what the verifier is made of; files.mu guards them
	current  atomic.Pointer[token.Verifier] // nil while there are no keys
}

// newTokens keeps the tokens before, if any, where nothing changed, with the good ones that they remember.
func newTokens(o *token.Options, claims []string, env Env, before *tokens, reload bool) (*tokens, error) {
	if o == nil {
		return nil, nil
	}
	if o.Plan != "" {
		claims = append(slices.Clip(claims), o.Plan)
	}
	if before != nil && reflect.DeepEqual(before.opts, *o) && slices.Equal(before.claims, claims) {
		return before, before.files.check()
	}
	t := &tokens{opts: *o, claims: claims, env: env}
	t.files.clock, t.files.noted = env.Clock, t.noted
	paths := []string{o.Key, o.JWKS}
	if o.Remote() {
		paths[1] = ""
	}
	if paths = slices.DeleteFunc(paths, func(path string) bool { return path == "" }); len(paths) > 0 {
		t.files.all = []*files[*token.Verifier]{{what: "jwt: cannot use the keys", paths: paths, parse: t.parse}}
	}
	if err := t.files.check(); err != nil || !o.Remote() {
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
			t.remote.end()
			return nil, err
		}
	}
	return t, nil
}

// parse makes a verifier of the files. files.mu is held.
func (t *tokens) parse(contents [][]byte) (*token.Verifier, error) {
	var key []byte
	set := t.set
	if t.opts.Key != "" {
		key, contents = contents[0], contents[1:]
	}
	if len(contents) > 0 {
		set = contents[0]
	}
	v, err := token.New(t.opts, key, set, t.claims)
	if err == nil {
		t.key = key
	}
	return v, err
}

// noted takes a new verifier. What it remembers is empty: tokens that were good by keys that are gone are forgotten.
func (t *tokens) noted(f *files[*token.Verifier], first bool, err error) {
	switch {
	case err == nil:
		t.current.Store(f.value)
		if !first {
			t.env.Log.Info("the keys of tokens have changed", "files", f.paths)
		}
	case !first:
		t.env.Unusable()
		t.env.Log.Error("the new keys of tokens cannot be used; the old ones stay", "files", f.paths, "error", err)
	}
}

// use takes a set that was fetched. The same set leaves the verifier and its memory alone.
func (t *tokens) use(set []byte) error {
	t.files.mu.Lock()
	defer t.files.mu.Unlock()
	if t.set != nil && bytes.Equal(set, t.set) {
		return nil
	}
	v, err := token.New(t.opts, t.key, set, t.claims)
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
