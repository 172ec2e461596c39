package config

import (
	"fmt"

	"weir"
	"weir/identify"
)

// accountOddities returns gates where a client may name its account in several places, which may disagree.
func (c *Config) accountOddities() []*weir.FieldError {
	var odd odds
	look := func(at string, sources []string, conflict identify.Conflict) {
		accounts, err := identify.ParseAccounts(sources)
		switch {
		case err != nil || !accounts.Several():
		case conflict == identify.ConflictFirst:
			odd.add(at+".account",
				"a client may name its account in several places: the first counts, and the service behind the gate "+
					"may read another",
				"keep the one place that the service reads")
		default:
			odd.add(at+".account",
				"a client may name its account in several places: a request in which they disagree is refused",
				"keep the one place that the service reads, or list one gate for each")
		}
	}
	for i, g := range c.HTTP {
		look(fmt.Sprintf("http[%d]", i), g.Account, g.AccountConflict)
	}
	for i, g := range c.Auth {
		look(fmt.Sprintf("auth[%d]", i), g.Account, g.AccountConflict)
	}
	for i, g := range c.RLS {
		if g.Authz != nil {
			look(fmt.Sprintf("rls[%d].authz", i), g.Authz.Account, g.Authz.AccountConflict)
		}
	}
	return odd
}
