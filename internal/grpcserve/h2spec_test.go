package grpcserve

import (
	"slices"
	"testing"

	"weir/internal/testkit/h2test"
)

// The cases of h2spec that do not apply, and why.
var notApplicable = map[string]string{
	"generic/2/2":   "it awaits content, and what is not a call of gRPC is answered by headers alone",
	"generic/2/3":   "the same",
	"http2/5.1.2/1": "its requests are answered at once, so that they never exceed the bound: TestAttacks does",
}

// TestH2Spec runs h2spec against the server. Its requests are not calls of gRPC; they are answered as such.
func TestH2Spec(t *testing.T) {
	t.Parallel()
	address := newRig(nil).listen(t)
	cases := slices.DeleteFunc(h2test.Cases(), func(c h2test.Case) bool {
		return c.Strict || notApplicable[c.Name] != ""
	})
	h2test.Each(cases, func(c *h2test.Case) {
		if err := c.Run(address, false, false); err != nil {
			t.Error(err)
		}
	})
	if len(cases) < 135 {
		t.Errorf("%d cases are too few", len(cases))
	}
}
