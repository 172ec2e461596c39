package config

import (
	"fmt"
	"path/filepath"
	"reflect"

	"weir"
	"weir/internal/readfile"
	"weir/store"
)

// beside makes a relative path, or each of several, start from the folder of the configuration, wherever weir is
// started.
func beside(folder string, path reflect.Value) {
	if path.Kind() == reflect.Slice {
		for i := range path.Len() {
			beside(folder, path.Index(i))
		}
		return
	}
	if p := path.String(); p != "" && folder != "." && !filepath.IsAbs(p) {
		path.SetString(filepath.Join(folder, p))
	}
}

// dataElsewhere finds data that is where a relative path leads from the folder in which weir is started, and not beside
// the configuration. weir would begin with nothing.
func (c *Config) dataElsewhere(written string) []*weir.FieldError {
	if c.Data == written || hasStore(c.Data) || !hasStore(written) {
		return nil
	}
	at, err := filepath.Abs(written)
	if err != nil {
		at = written
	}
	var warn warnings
	warn.add("data",
		fmt.Sprintf("a relative path starts from the folder of this file; %s has no data, but %s has", c.Data, at),
		fmt.Sprintf("write data: %s, or move that folder", at))
	return warn
}

// hasStore reports whether a folder has what weir keeps.
func hasStore(folder string) bool {
	_, err := readfile.Stat(filepath.Join(folder, store.File))
	return err == nil
}
