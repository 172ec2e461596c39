package config

import (
	"iter"

	"weir"
	"weir/gate"
	"weir/identify"
)

// accountWarnings returns gates where a client may name its account in several places, which may disagree.
func (c *Config) accountWarnings() []*weir.FieldError {
	var warn warnings
	for at, g := range c.clients() {
		accounts, err := identify.ParseAccounts(g.Account)
		switch {
		case err != nil || !accounts.Several():
		case g.Conflict == identify.ConflictFirst:
			warn.add(at+".account",
				"a client may name its account in several places: the first counts, and the service behind the gate "+
					"may read another",
				"keep the one place that the service reads")
		default:
			warn.add(at+".account",
				"a client may name its account in several places: a request in which they disagree is refused",
				"keep the one place that the service reads, or list one gate for each")
		}
	}
	return warn
}

// clients returns how each gate tells its clients apart, with the path at which that stands.
func (c *Config) clients() iter.Seq2[string, gate.Clients] {
	return func(yield func(string, gate.Clients) bool) {
		for path, o := range c.Gates() {
			facts := o.Facts()
			for _, clients := range append([]gate.Clients{facts.Clients}, facts.Routes...) {
				at := path
				if clients.Under != "" {
					at += "." + clients.Under
				}
				if !yield(at, clients) {
					return
				}
			}
		}
	}
}
