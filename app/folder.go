package app

import (
	"fmt"
	"os"
)

// makeFolder makes the data folder, for weir's eyes only, unless it is there.
func makeFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}
