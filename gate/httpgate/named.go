package httpgate

import "fmt"

// A File is one that options name, and the field that does.
type File struct{ Field, Path string }

// Files are those that options name, and without which a gate does not start.
func (o *Options) Files() (all []File) {
	add := func(field, path string) {
		if path != "" {
			all = append(all, File{field, path})
		}
	}
	if t := o.TLS; t != nil {
		add("tls.cert", t.Cert)
		add("tls.key", t.Key)
		for i, c := range t.Certificates {
			add(fmt.Sprintf("tls.certificates[%d].cert", i), c.Cert)
			add(fmt.Sprintf("tls.certificates[%d].key", i), c.Key)
		}
		add("tls.client_ca", t.ClientCA)
	}
	if j := o.JWT; j != nil {
		add("jwt.key", j.Key)
		if !j.Remote() {
			add("jwt.jwks", j.JWKS)
		}
	}
	return all
}
