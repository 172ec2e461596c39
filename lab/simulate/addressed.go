package simulate

import (
	"slices"
	"strings"

	"weir/identify"
)

// An addressed is the recipients of one mail, by key, each once.
type addressed struct {
	keys  []uint64
	seen  map[uint64]struct{} // nil: they are few, and looked through
	spare map[uint64]struct{} // seen, of the latest mail to many
}

// fewRecipients are looked through: emptying a map that was large once takes long, and most mails have one recipient.
const fewRecipients = 32

func (a *addressed) begin(named int) {
	a.keys, a.seen = a.keys[:0], nil
	if named <= fewRecipients {
		return
	}
	if a.spare == nil {
		a.spare = map[uint64]struct{}{}
	}
	clear(a.spare)
	a.seen = a.spare
}

// add reports whether somebody was not among them yet.
func (a *addressed) add(key uint64) bool {
	if a.seen == nil {
		if slices.Contains(a.keys, key) {
			return false
		}
	} else {
		if _, twice := a.seen[key]; twice {
			return false
		}
		a.seen[key] = struct{}{}
	}
	a.keys = append(a.keys, key)
	return true
}

// normal is the form of an address by which a gate counts it: in lower case, and without a name or quotes, which few
// logs have.
func normal(address string) string {
	if strings.ContainsAny(address, "\"<(:\\ \t") {
		if r, err := identify.Recipient(address); err == nil {
			return r
		}
	}
	return strings.ToLower(address)
}
