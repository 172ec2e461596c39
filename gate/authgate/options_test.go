package authgate

import (
	"net/netip"
	"slices"
	"testing"

	"weir"
	"weir/gate"
)

func TestMistakes(t *testing.T) {
	for path, o := range map[string]Options{
		"listen":      {Listen: "9003"},
		"socket":      {Socket: gate.Socket{Group: "www-data"}},
		"socket.mode": {Listen: "unix:/run/weir/auth", Socket: gate.Socket{Mode: "rw"}},
		"for":         {For: "ngnix"},
		"trusted_proxies[1]": {TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"),
			netip.MustParsePrefix("::/0")}},
		"trusted_proxies[0]": {TrustedProxies: make([]netip.Prefix, 1)},
		"account[0]":         {Account: []string{"heder:X"}},
		"max_wait":           {MaxWait: -1},
		"bounds.connections": {Bounds: Bounds{Connections: -1}},
		"bounds.requests":    {Bounds: Bounds{Requests: maxCount + 1}},
		"bounds.waiting":     {Bounds: Bounds{Waiting: -1}},
		"bounds.header":      {Bounds: Bounds{Header: minHeader - 1}},
		"timeouts.header":    {Timeouts: Timeouts{Header: -1}},
		"timeouts.idle":      {Timeouts: Timeouts{Idle: -1}},
	} {
		all := weir.FieldErrors(o.Validate())
		if len(all) != 1 || all[0].Path != path || all[0].Hint == "" {
			t.Errorf("%s: %v", path, all)
		}
		if _, err := New(o, nil, Env{}); err == nil {
			t.Errorf("%s: taken", path)
		}
	}
	for _, listen := range []string{"unix:auth", "127.0.0.1:70000", "unix:", ":http"} {
		if all := weir.FieldErrors(Options{Listen: listen}.Validate()); len(all) != 1 || all[0].Path != "listen" {
			t.Errorf("%s: %v", listen, all)
		}
	}
}

func TestDefaults(t *testing.T) {
	full := Options{}.WithDefaults()
	if err := full.Validate(); err != nil {
		t.Error(err)
	}
	if full.Listen != "127.0.0.1:9003" || full.For != Auto || len(full.TrustedProxies) != 2 ||
		full.MaxWait.String() != "5s" || full.Bounds.Header.String() != "64KiB" {
		t.Errorf("%+v", full)
	}
	// On a socket its mode says who may ask.
	if socket := (Options{Listen: "unix:/run/weir/auth"}).WithDefaults(); socket.Socket.Mode != "0660" ||
		len(socket.TrustedProxies) != 0 {
		t.Errorf("%+v", socket)
	}
	own := Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	if kept := own.WithDefaults(); len(kept.TrustedProxies) != 1 {
		t.Errorf("%+v", kept)
	}
	if slices.Contains(BoundNames[:], "") {
		t.Error(BoundNames)
	}
}
