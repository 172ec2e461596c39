package rlsgate

import (
	"strings"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

func (s step) request(domain string) *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: domain, Descriptors: descriptors(strings.Split(s.ask, ";")...)}
}

// domainOf is the domain of a file.
func domainOf(file string) string {
	_, rest, _ := strings.Cut(file, "domain: ")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

func TestExamples(t *testing.T) {
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			r := newRig(t, Options{Config: write(t, e.file)}, nil)
			for _, s := range e.steps {
				if got := brief(r.send(s.request(domainOf(e.file)))); got != s.want {
					t.Errorf("%s: %q, want %q", s.ask, got, s.want)
				}
			}
			want(t, r.ask("elsewhere", "key=value"), "ok")
		})
	}
}
