package farm

import (
	"strings"
	"testing"

	"weir"
)

// TestOptions: what configurations in config/testdata do not show.
func TestOptions(t *testing.T) {
	good := Options{Node: "a", Peers: []string{"10.0.0.1:7400"}, Secret: Secrets{"0123456789abcdef"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if full := (Options{}).WithDefaults(); full.Node == "" || full.Listen != DefaultListen ||
		strings.Contains(full.Node, ".") {
		t.Errorf("%+v", full)
	}
	if full := (Options{NATS: "nats://x:4222"}).WithDefaults(); full.Listen != "" {
		t.Errorf("%+v", full)
	}
	for name, spoil := range map[string]func(*Options){
		"node":      func(o *Options) { o.Node = strings.Repeat("a", MaxNode+1) },
		"secret":    func(o *Options) { o.Secret = nil },
		"secret[0]": func(o *Options) { o.Secret = Secrets{"0123456789abcde"} },
		"secret[1]": func(o *Options) { o.Secret = Secrets{"0123456789abcdef", "0123456789abcdef"} },
		"peers":     func(o *Options) { o.Peers = make([]string, MaxNodes+1) },
		"tls":       func(o *Options) { o.TLS.CA = "ca.pem" },
		"counters_tls": func(o *Options) {
			o.Counters, o.CountersTLS = "rediss://a", TLS{CA: "ca.pem", Key: "key.pem"}
		},
	} {
		bad := good
		spoil(&bad)
		if all := weir.FieldErrors(bad.Validate()); len(all) == 0 || all[0].Path != name {
			t.Errorf("%s: %v", name, all)
		}
	}
}
