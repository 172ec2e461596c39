package app

import (
	"slices"
	"testing"

	"weir/config"
	"weir/console"
	"weir/farm"
	"weir/gate/httpgate"
	"weir/gate/httpgate/keys"
	"weir/gate/smtpgate"
)

// TestCertificateFiles: all that weir serves with, or knows itself by.
func TestCertificateFiles(t *testing.T) {
	t.Parallel()
	cfg := &config.Config{Data: "/data", Farm: &farm.Options{TLS: farm.TLS{Cert: "farm"}}}
	cfg.HTTP = make([]httpgate.Options, 2)
	cfg.HTTP[0].TLS = &keys.TLS{Cert: "site", Certificates: []keys.Certificate{{Cert: "shop"}, {Cert: "site"}}}
	cfg.HTTP[1].TLS = &keys.TLS{ACME: &keys.ACME{Domains: []string{"WWW.example.com"}}}
	cfg.SMTP = make([]smtpgate.Options, 2)
	cfg.SMTP[1].TLS.Cert = "mail"
	cfg.Console.TLS = &console.TLS{Cert: "console"}
	want := []string{"/data/acme/www.example.com", "/data/acme/www.example.com+rsa", "console", "farm", "mail", "shop", "site"}
	if got := certificateFiles(cfg); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
