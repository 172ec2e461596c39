package keys

import (
	"errors"
	"net/url"
	"testing"
)

// By http no other machine is asked, whatever the provider's name resolves to.
func TestNoOtherMachine(t *testing.T) {
	provider := &url.URL{Scheme: "http", Host: "localhost", Path: "/keys"}
	res, err := newKeyClient(provider, nil).Get("http://192.0.2.1/keys") // as if the name had resolved to it
	if !errors.Is(err, errNotHere) {
		t.Errorf("%v, %v", res, err)
	}
}
