package app

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weir/farm"
	"weir/internal/readfile"
)

// nodesName is the file in the data folder that says which nodes belong to the farm. It is no part of a backup: an old
// one would give a node a part of the limits that others have taken over since.
const nodesName = "nodes"

// A nodesFile keeps who belongs to the farm over a restart.
type nodesFile struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex // one write at a time
	asked   uint64     // under asking
	written uint64
	failing bool // and that was said
	asking  sync.Mutex
	writes  sync.WaitGroup
}

// read returns what the file has, nil where there is none. Without it a node waits until it has heard of the others.
func (n *nodesFile) read() []byte {
	text, err := readfile.Read(n.path, farm.MaxRoll)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.log.Error("who belongs to the farm cannot be read: this node has to hear of it anew", "err", err)
	}
	return text
}

// keep writes what belongs into the file, without waiting for the disk. The latest call counts.
func (n *nodesFile) keep(text []byte, done func(error)) {
	n.asking.Lock()
	n.asked++
	nth := n.asked
	n.asking.Unlock()
	n.writes.Go(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		var err error
		if nth > n.written {
			if err = writeWhole(n.path, text); err == nil {
				n.written = nth
			} else if !n.failing { // it is tried again each second
				n.log.Error("who belongs to the farm cannot be kept: this node gets no part of the limits", "err", err)
			}
			n.failing = err != nil
		}
		done(err)
	})
}

// close waits until all is written, unless the disk does not answer.
func (n *nodesFile) close() {
	written := make(chan struct{})
	go func() { n.writes.Wait(); close(written) }()
	select {
	case <-written:
	case <-time.After(closePatience):
	}
}

// writeWhole writes a file for the owner only, completely or not at all, and returns when it is on the disk.
func writeWhole(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	if folder, err := os.Open(filepath.Dir(path)); err == nil {
		_ = folder.Sync() // or its name is lost with the power; not every file system can, and then it need not
		_ = folder.Close()
	}
	return nil
}
