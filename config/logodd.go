package config

import (
	"errors"
	"fmt"
	"io/fs"

	"weir"
	"weir/internal/readfile"
)

// logOddities returns what is missing on this machine for traces.
func (c *Config) logOddities() []*weir.FieldError {
	var odd odds
	missing := func(path string) bool {
		_, err := readfile.Stat(path)
		return path != "" && errors.Is(err, fs.ErrNotExist)
	}
	certs := c.Traces.TLS
	for _, f := range []struct{ key, path string }{{"ca", certs.CA}, {"cert", certs.Cert}, {"key", certs.Key}} {
		if missing(f.path) {
			odd.add("traces.tls."+f.key, fmt.Sprintf("there is no file %s: weir would not start", f.path),
				"put it there before")
		}
	}
	return odd
}
