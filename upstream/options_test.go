package upstream

import "testing"

func TestHere(t *testing.T) {
	for _, c := range []struct {
		here    bool
		servers []string
	}{
		{true, []string{"http://127.0.0.1:3000"}},
		{true, []string{"https://localhost", "h2c://[::1]:80", "unix:/run/service.sock"}},
		{false, []string{"http://127.0.0.1:3000", "http://10.0.0.1"}},
		{false, []string{"http://service"}},
		{false, []string{"what"}},
		{false, nil},
	} {
		if got := (Options{Servers: c.servers}).Here(); got != c.here {
			t.Errorf("%v: %t", c.servers, got)
		}
	}
}
