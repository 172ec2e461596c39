package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// nfpm is the tool that makes packages, in the module of the tools.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm"

// packages makes the packages of a target with Linux, by deploy/nfpm.yaml.
func (r *release) packages(t target) error {
	tool := filepath.Join(r.work, "nfpm")
	if _, err := os.Stat(tool); errors.Is(err, os.ErrNotExist) {
		cmd := exec.Command("go", "build", "-C", "internal/tools", "-p", "1", "-buildvcs=false", "-o", tool, nfpm)
		if err := r.command(cmd); err != nil {
			return err
		}
	}
	if err := r.stagePapers(t); err != nil {
		return err
	}
	for _, kind := range []string{"deb", "rpm"} {
		cmd := exec.Command(tool, "package", "--config", "deploy/nfpm.yaml", "--packager", kind, "--target",
			r.file(t, "."+kind))
		cmd.Env = append(os.Environ(), "VERSION="+r.version.number(), "ARCH="+t.arch, "STAGE="+r.stage(t),
			"MAINTAINER="+r.maintainer,
			"SOURCE_DATE_EPOCH="+strconv.FormatInt(r.version.date.Unix(), 10))
		if err := r.command(cmd); err != nil {
			return err
		}
	}
	return nil
}

// stagePapers puts the manual pages, compressed as packages have them, the completions, the examples and the
// documentation beside the binary. Their modes are the same wherever the source comes from.
func (r *release) stagePapers(t target) error {
	for _, from := range []string{filepath.Join(r.work, "man"), filepath.Join(r.work, "completions"),
		filepath.Join(r.root, "examples"), filepath.Join(r.root, "docs")} {
		folder := filepath.Base(from)
		to := filepath.Join(r.stage(t), folder)
		err := filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(from, file)
			if err != nil {
				return err
			}
			name := filepath.Join(to, rel)
			if d.IsDir() {
				return os.MkdirAll(name, 0o755)
			}
			data, err := os.ReadFile(file)
			if err == nil && folder == "man" {
				name += ".gz"
				data, err = compressed(data)
			}
			if err != nil {
				return err
			}
			return os.WriteFile(name, data, 0o644)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return nil
}

// compressed is a text as gzip -9n writes it: without name and time.
func compressed(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}
