package apigate

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"weir"
	"weir/gate"
	"weir/policy"
)

// A setup is what a request needs to know of the gate's options. It does not change. A reload replaces it, and a
// request keeps the one that it began with.
type setup struct {
	opts   Options             // with defaults, without the tokens
	tokens [][sha256.Size]byte // their hashes, which are of the same length
	chains map[string]*policy.Chain
	names  []string // of the policies, sorted
}

// newSetup checks the options. Each policy must have its chain.
func newSetup(o Options, chains map[string]*policy.Chain) (*setup, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &setup{opts: o.WithDefaults(), chains: map[string]*policy.Chain{}, names: slices.Sorted(maps.Keys(o.Policies))}
	for _, token := range o.Tokens {
		s.tokens = append(s.tokens, sha256.Sum256([]byte(token)))
	}
	s.opts.Tokens = nil
	var v weir.Mistakes
	for _, name := range s.names {
		if s.chains[name] = chains[name]; chains[name] == nil {
			v.Add("policies."+name, fmt.Sprintf("the policy %q has no chain", name), "")
		}
	}
	return s, v.Err()
}

// knows reports whether a request shows one of the tokens. The time that takes does not depend on which one it is, nor
// on how much of it is right.
func (s *setup) knows(r *http.Request) bool {
	shown := r.Header["Authorization"]
	if len(shown) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(shown[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return false
	}
	sum := sha256.Sum256([]byte(strings.Trim(token, " ")))
	same := 0
	for i := range s.tokens {
		same |= subtle.ConstantTimeCompare(sum[:], s.tokens[i][:])
	}
	return same == 1
}

// policy returns the chain that a question is for. A policy need not be named where there is only one.
func (s *setup) policy(name string) (string, *policy.Chain, *problem) {
	if name == "" && len(s.names) == 1 {
		name = s.names[0]
	}
	if chain := s.chains[name]; chain != nil {
		return name, chain, nil
	}
	hint := "there are: " + strings.Join(s.names[:min(len(s.names), 10)], ", ")
	if name == "" {
		return "", nil, invalid("policy", "there are several policies, so that one must be named", hint)
	}
	if near := weir.Nearest(name, s.names...); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return "", nil, invalid("policy", fmt.Sprintf("there is no policy %s", quoted(name)), hint)
}

// maxHeader is the most that net/http reads of a request's line and headers. A token needs no more.
const maxHeader = 8 << 10

func (s *setup) httpOptions() gate.HTTPOptions {
	t := &s.opts.Timeouts
	return gate.HTTPOptions{Header: t.Header.Std(), Idle: t.Idle.Std(), HeaderBytes: maxHeader}
}
