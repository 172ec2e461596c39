package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// replaceFile replaces a file completely or not at all. Anything that is not a regular file, such as /dev/stdout, is
// written to directly.
func replaceFile(name string, data []byte) (err error) {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real // the link stays one
	}
	mode, old := os.FileMode(0o644), os.FileInfo(nil)
	switch info, err := os.Stat(name); {
	case err != nil:
	case !info.Mode().IsRegular():
		return os.WriteFile(name, data, mode)
	default:
		mode, old = info.Mode().Perm(), info
	}
	part, err := writePart(name, data, mode)
	if err == nil && old != nil {
		keepOwner(part, old)
	}
	if err == nil {
		err = os.Rename(part, name)
	}
	if err != nil {
		_ = os.Remove(part)
	}
	return err
}

// createFile makes a file that everybody may read, completely or not at all. A file that exists stays as it is: the
// error is fs.ErrExist.
func createFile(name string, data []byte) error {
	part, err := writePart(name, data, 0o644)
	if err != nil {
		return err
	}
	defer os.Remove(part)
	err = os.Link(part, name) // a rename would replace a file that was made meanwhile
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// Not every file system has links.
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fs.ErrExist, err)
	}
	return os.Rename(part, name)
}

// writePart writes what will be a file into one beside it.
func writePart(name string, data []byte, mode fs.FileMode) (part string, err error) {
	part = fmt.Sprintf("%s.%d.part", name, os.Getpid())
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(part)
	}
	return part, err
}
