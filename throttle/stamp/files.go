package stamp

import (
	"slices"

	"weir/identify"
)

// ReadsFiles reports whether the options name files whose contents count.
func (o *Options) ReadsFiles() bool {
	return len(o.NeverAsk.Files) > 0 ||
		slices.ContainsFunc(o.NeverAsk.Bots, func(b identify.Bot) bool { return len(b.Files) > 0 })
}
