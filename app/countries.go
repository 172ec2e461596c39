package app

import (
	"net/netip"

	"weir"
	"weir/identify/country"
)

// prepareCountries reads the file that says which country an address is in. It is read on every reload: the one on disk
// may be a newer one.
func (c *change) prepareCountries() error {
	path := c.next.cfg.Countries
	var file *country.File
	if path != "" {
		var err error
		if file, err = country.Open(path); err != nil {
			return &weir.FieldError{Path: "countries", Msg: err.Error()}
		}
	}
	if !c.live {
		c.app.countries.Store(file) // nobody asks yet
		return nil
	}
	c.commit = append(c.commit, func() { c.app.countries.Store(file) })
	return nil
}

// countryOf returns the country of an address, or "" where it is not known.
func (a *App) countryOf(addr netip.Addr) string { return a.countries.Load().Of(addr) }
