package reach

import (
	"errors"
	"fmt"
)

// What can be wrong with what is stored or merged. An error may say more; match it with errors.Is.
var (
	ErrCorrupt = errors.New("reach: not what was stored")            // damaged, or something else
	ErrNewer   = errors.New("reach: stored by a newer version")      // nothing is wrong with it
	ErrCells   = errors.New("reach: unusable number of cells")       // or not as many as the sketch to merge with has
	ErrFull    = errors.New("reach: no room for so many recipients") // merging would make too many
)

func corrupt(what string, b []byte) error {
	return fmt.Errorf("%w: %s of %d bytes", ErrCorrupt, what, len(b))
}

// checkVersion looks at the first byte of something stored.
func checkVersion(what string, b []byte, version byte) error {
	switch {
	case len(b) == 0 || b[0] == 0:
		return corrupt(what, b)
	case b[0] > version:
		return fmt.Errorf("%w: %s of version %d, known is %d", ErrNewer, what, b[0], version)
	}
	return nil
}
