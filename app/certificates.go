package app

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	"weir/config"
	"weir/internal/readfile"
)

// certificateFiles are the files that certificates are in. A gate renews those that it gets by itself long before they
// end: one that ends soon tells that it could not.
func certificateFiles(cfg *config.Config) (all []string) {
	for i := range cfg.HTTP {
		if t := cfg.HTTP[i].TLS; t != nil {
			all = append(all, t.Files(cfg.Data)...)
		}
		if t := cfg.HTTP[i].Upstream.TLS; t != nil { // it is renewed by others
			all = append(all, t.Cert)
		}
	}
	for i := range cfg.SMTP {
		all = append(all, cfg.SMTP[i].TLS.Cert)
	}
	if t := cfg.Console.TLS; t != nil {
		all = append(all, t.Cert)
	}
	if cfg.Farm != nil {
		all = append(all, cfg.Farm.TLS.Cert, cfg.Farm.CountersTLS.Cert)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(path string) bool { return path == "" })
}

// certificateEnd reads when the first certificate of a file ends.
func certificateEnd(path string) (time.Time, error) {
	text, err := readfile.Read(path, readfile.MaxPEM)
	if err != nil {
		return time.Time{}, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return time.Time{}, err
			}
			return c.NotAfter, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s has no certificate", path)
}
