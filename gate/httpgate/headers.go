package httpgate

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"weir"
	"weir/gate/refusal"
	"weir/internal/http1"
)

// Headers are changes to the headers of requests and responses.
type Headers struct {
	// What is changed in requests before they go to the upstream.
	Request HeaderRules `yaml:"request"`
	// What is changed in answers before they go to the client, including the gate's own answers.
	Response HeaderRules `yaml:"response"`
}

// HeaderRules are the changes in one direction. Headers are removed first, then set.
type HeaderRules struct {
	// Headers that get this value and no other: {Strict-Transport-Security: max-age=31536000}.
	Set map[string]string `yaml:"set"`
	// Headers that are left out: [Server, X-Powered-By].
	Remove []string `yaml:"remove"`
}

// maxRules is how many headers may be set or removed each way.
const maxRules = 100

// reserved are headers that say where a message begins, ends or goes to. No rule may touch them.
var reserved = []string{"Connection", "Content-Length", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade"}

func (h *HeaderRules) validate() error {
	var v weir.Mistakes
	if n := len(h.Set) + len(h.Remove); n > maxRules {
		v.Add("", fmt.Sprintf("%d headers are too many", n), fmt.Sprintf("at most %d", maxRules))
	}
	name := func(at, s string) {
		switch {
		case !http1.IsToken(s):
			v.Add(at, fmt.Sprintf("%q names no header", s), "write X-Powered-By")
		case slices.Contains(reserved, http.CanonicalHeaderKey(s)):
			v.Add(at, fmt.Sprintf("%s says where a message begins, ends or goes to", s), "leave it to the gate")
		}
	}
	for _, s := range slices.Sorted(maps.Keys(h.Set)) {
		name("set."+s, s)
		if strings.ContainsFunc(h.Set[s], func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			v.Add("set."+s, "the value has control characters", "write one line")
		}
	}
	for i, s := range h.Remove {
		name(fmt.Sprintf("remove[%d]", i), s)
	}
	return v.Err()
}

// rules are HeaderRules in the form in which apply uses them. The zero value changes nothing. Goroutines may share
// them.
type rules struct {
	remove []string
	set    http1.Fields
}

// ready returns the rules for apply, with the names of headers in canonical form.
func (h *HeaderRules) ready() rules {
	var r rules
	for _, name := range h.Remove {
		r.remove = append(r.remove, http.CanonicalHeaderKey(name))
	}
	for _, name := range slices.Sorted(maps.Keys(h.Set)) { // of two spellings, the later one counts
		r.set.Set(http.CanonicalHeaderKey(name), h.Set[name])
	}
	return r
}

// apply changes headers in place.
func (r *rules) apply(h refusal.Header) {
	for _, name := range r.remove {
		h.Del(name)
	}
	for i := range r.set.Len() {
		h.Set(r.set.At(i))
	}
}
