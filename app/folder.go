package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// makeFolder makes the data folder, readable by weir only, unless it exists.
func makeFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return ownFolder(path)
}

// ownFolder refuses a data folder that others can write: weir trusts the files in it.
func ownFolder(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it will be made
	}
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("data: others can write to %s (its mode is %04o): remove that right, as with chmod "+
			"go-w %s, or use another folder", path, mode, path)
	}
	return nil
}
