package httpgate

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"weir"
	"weir/gate/httpgate/keys"
	"weir/identify/token"
)

func TestValidateListening(t *testing.T) {
	good := Options{Listen: "unix:/run/weir/http", Socket: Socket{Trusted: true},
		ProxyProtocol: ProxyProtocol{Socket: true}, Upstream: to("http://127.0.0.1:1"),
		TLS: &keys.TLS{Cert: "c", Key: "k", ClientCA: "ca"}, Account: []string{"cert", "jwt:sub"},
		JWT: &token.Options{Key: "k"}}
	for _, o := range []Options{good, good.WithDefaults()} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
	if full := good.WithDefaults(); full.Socket.Mode != "0660" || full.TLS.MinVersion != "1.2" ||
		full.TLS.ClientCerts != keys.RequestCerts || good.TLS.MinVersion != "" {
		t.Errorf("%+v", full)
	}
	many := make([]keys.Certificate, maxCertificates+1)
	for i := range many {
		many[i] = keys.Certificate{Cert: "c", Key: "k"}
	}
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Listen = "unix:weir" }, "listen"},
		{func(o *Options) { o.Listen = ":80" }, "socket proxy_protocol.socket"},
		{func(o *Options) { o.Socket.Mode = "1777" }, "socket.mode"},
		{func(o *Options) { o.Socket.Mode = "rw" }, "socket.mode"},
		{func(o *Options) { o.ProxyProtocol.From = []netip.Prefix{{}, netip.MustParsePrefix("::/0")} },
			"proxy_protocol.from[0] proxy_protocol.from[1]"},
		{func(o *Options) { o.TLS.Key = "" }, "tls.key"},
		{func(o *Options) { o.TLS.Certificates = []keys.Certificate{{Key: "k"}} }, "tls.certificates[0].cert"},
		{func(o *Options) { o.TLS.Certificates = many }, "tls.certificates"},
		{func(o *Options) { *o.TLS = keys.TLS{ClientCA: "ca"} }, "tls.cert"},
		{func(o *Options) { o.TLS.MinVersion = "1.1" }, "tls.min_version"},
		{func(o *Options) { o.TLS.ClientCA, o.TLS.ClientCerts = "", keys.RequireCerts }, "tls.client_ca account"},
		{func(o *Options) { o.TLS.ClientCerts = "maybe" }, "tls.client_certs"},
		{func(o *Options) { o.TLS = nil }, "account"},
		{func(o *Options) { o.JWT = nil }, "account"},
		{func(o *Options) { o.JWT.Key = "" }, "jwt.key"},
		{func(o *Options) { o.Headers.Response.Remove = []string{"TE"} }, "headers.response.remove[0]"},
		{func(o *Options) { o.Bounds.Handshakes, o.Timeouts.Handshake = -1, -1 },
			"bounds.handshakes timeouts.handshake"},
	} {
		o := good
		tlsCopy, jwtCopy := *good.TLS, *good.JWT
		o.TLS, o.JWT, o.Account = &tlsCopy, &jwtCopy, slices.Clone(good.Account)
		c.change(&o)
		var paths []string
		for _, fe := range weir.FieldErrors(o.Validate()) {
			paths = append(paths, fe.Path)
			if fe.Msg == "" || fe.Hint == "" {
				t.Errorf("%v has no hint", fe)
			}
		}
		if got := strings.Join(paths, " "); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
