//go:build !unix

package gate

import (
	"errors"
	"os"
)

// closeOnExec is for systems on which sockets are handed over.
func closeOnExec(int) {}

func keepOnExec(*os.File) error { return errors.ErrUnsupported }
