package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// An entry is a file or a folder in an archive. Only what is here gets into one, so that nothing of the machine does:
// no owner, no time.
type entry struct {
	name   string // with slashes, without one in front
	mode   int64
	uid    int
	folder bool
	data   []byte
}

// entries reads files of this machine into a folder of an archive. They are sorted by name.
func entries(under string, mode int64, files ...string) (all []entry, err error) {
	slices.Sort(files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, entry{name: path.Join(under, filepath.Base(file)), mode: mode, data: data})
	}
	return all, nil
}

func writeTar(to io.Writer, all []entry, at time.Time) error {
	w := tar.NewWriter(to)
	for _, e := range all {
		h := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: at, Uid: e.uid, Gid: e.uid,
			Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if e.folder {
			h.Name, h.Typeflag = e.name+"/", tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(e.data); err != nil {
			return err
		}
	}
	return w.Close()
}

// tarball is a compressed tar file.
func tarball(all []entry, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := writeTar(z, all, at); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

func zipped(all []entry, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range all {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(os.FileMode(e.mode))
		f, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// archive writes the archive of a target: the binary, its papers, and how it is run.
func (r *release) archive(t target) error {
	type part struct {
		under string
		mode  int64
		files []string
	}
	glob := func(pattern string) []string {
		found, _ := filepath.Glob(pattern) // the patterns are ours
		return found
	}
	in := func(name string) string { return filepath.Join(r.root, name) }
	top := "weir_" + r.version.number() + "_" + t.String()
	parts := []part{
		{top, 0o755, []string{filepath.Join(r.stage(t), t.binary())}},
		{top, 0o644, []string{in("LICENSE"), in("README.md"), in("CHANGELOG.md"), in("deploy/weir.yaml")}},
		{top + "/examples", 0o644, glob(in("examples/*"))},
		{top + "/docs", 0o644, glob(in("docs/*.md"))},
		{top + "/docs/img", 0o644, glob(in("docs/img/*"))},
		{top + "/docs/adr", 0o644, glob(in("docs/adr/*"))},
		{top + "/deploy/prometheus", 0o644, glob(in("deploy/prometheus/*"))},
		{top + "/deploy/grafana", 0o644, glob(in("deploy/grafana/*"))},
		{top + "/completions", 0o644, glob(filepath.Join(r.work, "completions", "*"))},
	}
	if t.system != "windows" {
		parts = append(parts, part{top + "/man", 0o644, glob(filepath.Join(r.work, "man", "*"))})
	}
	if t.system == "linux" {
		parts = append(parts, part{top + "/systemd", 0o644, glob(in("deploy/systemd/*"))})
	}
	var all []entry
	for _, p := range parts {
		files, err := entries(p.under, p.mode, p.files...)
		if err != nil {
			return err
		}
		all = append(all, files...)
	}
	pack, suffix := tarball, ".tar.gz"
	if t.system == "windows" {
		pack, suffix = zipped, ".zip"
	}
	data, err := pack(all, r.version.date)
	if err != nil {
		return err
	}
	return os.WriteFile(r.file(t, suffix), data, 0o644)
}
