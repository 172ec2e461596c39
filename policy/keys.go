package policy

import (
	"slices"
	"strings"

	"weir"
)

// A Keyed throttle counts by parts of requests that the gate has to find for it, or charges what answers say.
type Keyed interface {
	// KeyParts lists the parts, as weir.Event.Parts is to name them.
	KeyParts() []string
	// CostHeader is the header of an answer that says what the request cost; empty for none.
	CostHeader() string
}

// KeyParts lists the parts of requests by which throttles of the chain count.
func (c *Chain) KeyParts() (all []string) {
	for _, l := range c.links {
		for _, part := range l.Parts {
			if !slices.Contains(all, part) {
				all = append(all, part)
			}
		}
	}
	return all
}

// CostHeader is the header of answers that says what requests cost; empty where no throttle looks at one. All throttles
// of a chain have the same.
func (c *Chain) CostHeader() string {
	for _, l := range c.links {
		if l.CostHeader != "" {
			return l.CostHeader
		}
	}
	return ""
}

// maxPriceDigits is how many digits a price may have. More is no price.
const maxPriceDigits = 15

// PriceOf reads what the values of a cost header say: a whole number that is there once. Anything else says nothing.
func PriceOf(values []string) weir.Price {
	none := weir.Price{Known: weir.Unpriced}
	if len(values) != 1 {
		return none
	}
	text := strings.Trim(values[0], " \t")
	if text == "" || len(text) > maxPriceDigits {
		return none
	}
	n := int64(0)
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return none
		}
		n = 10*n + int64(c-'0')
	}
	return weir.Price{Known: weir.Priced, N: n}
}
