package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// imageUser is the user that weir runs as in its image.
const imageUser = 65532

// The kinds of blobs: OCI image specification 1.1.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

type manifest struct {
	Schema      int               `json:"schemaVersion"`
	MediaType   string            `json:"mediaType"`
	Config      *descriptor       `json:"config,omitempty"`
	Layers      []descriptor      `json:"layers,omitempty"`
	Manifests   []descriptor      `json:"manifests,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type imageConfig struct {
	Created string `json:"created"`
	platform
	Config struct {
		User       string
		Entrypoint []string
		Cmd        []string
		Env        []string
		WorkingDir string
		Volumes    map[string]struct{}
		StopSignal string
		Labels     map[string]string
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []map[string]string `json:"history"`
}

// A layout is an image in the form of a folder: blobs by their checksums.
type layout struct{ files []entry }

func (l *layout) blob(mediaType string, data []byte) descriptor {
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	l.files = append(l.files, entry{name: "blobs/sha256/" + sum, mode: 0o644, data: data})
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(data)}
}

func (l *layout) json(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	return l.blob(mediaType, data), err
}

// image writes one image for all processors, as a tar file of an OCI layout: podman load, skopeo copy oci-archive:… and
// docker load read it.
func (r *release) image(arches []string) error {
	authorities, err := r.authorities()
	if err != nil {
		return err
	}
	annotations := map[string]string{
		"org.opencontainers.image.title":    "weir",
		"org.opencontainers.image.version":  r.version.name,
		"org.opencontainers.image.revision": r.version.commit,
		"org.opencontainers.image.created":  r.version.date.Format(time.RFC3339),
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	l := &layout{}
	all := manifest{Schema: 2, MediaType: typeIndex, Annotations: annotations}
	for _, arch := range arches {
		one, err := r.imageOf(l, arch, authorities, annotations)
		if err != nil {
			return err
		}
		all.Manifests = append(all.Manifests, one)
	}
	index, err := l.json(typeIndex, all)
	if err != nil {
		return err
	}
	index.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version.number()}
	top, err := json.Marshal(manifest{Schema: 2, MediaType: typeIndex, Manifests: []descriptor{index}})
	if err != nil {
		return err
	}
	folders := []entry{{name: "blobs", mode: 0o755, folder: true}, {name: "blobs/sha256", mode: 0o755, folder: true}}
	files := append(folders, l.files...)
	files = append(files, entry{name: "index.json", mode: 0o644, data: top},
		entry{name: "oci-layout", mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)})
	f, err := os.Create(filepath.Join(r.out, "weir_"+r.version.number()+"_oci.tar"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeTar(f, files, r.version.date); err != nil {
		return err
	}
	return f.Close()
}

// imageOf adds the image for one processor.
func (r *release) imageOf(l *layout, arch string, authorities []byte, labels map[string]string) (descriptor, error) {
	files, err := r.rootFiles(arch, authorities)
	if err != nil {
		return descriptor{}, err
	}
	var plain, packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return descriptor{}, err
	}
	if err := writeTar(io.MultiWriter(&plain, z), files, r.version.date); err != nil {
		return descriptor{}, err
	}
	if err := z.Close(); err != nil {
		return descriptor{}, err
	}
	layer := l.blob(typeLayer, packed.Bytes())
	c := imageConfig{Created: r.version.date.Format(time.RFC3339), platform: platform{"linux", arch},
		History: []map[string]string{{"created": r.version.date.Format(time.RFC3339), "created_by": "make release"}}}
	c.Config.User = fmt.Sprintf("%d:%d", imageUser, imageUser)
	c.Config.Entrypoint, c.Config.Cmd = []string{"/usr/bin/weir"}, []string{"serve"}
	c.Config.Env = []string{"PATH=/usr/bin"}
	c.Config.WorkingDir, c.Config.StopSignal = "/var/lib/weir", "SIGTERM"
	c.Config.Volumes, c.Config.Labels = map[string]struct{}{"/var/lib/weir": {}}, labels
	c.RootFS.Type = "layers"
	c.RootFS.DiffIDs = []string{fmt.Sprintf("sha256:%x", sha256.Sum256(plain.Bytes()))}
	config, err := l.json(typeConfig, c)
	if err != nil {
		return descriptor{}, err
	}
	one, err := l.json(typeManifest, manifest{Schema: 2, MediaType: typeManifest, Config: &config,
		Layers: []descriptor{layer}, Annotations: labels})
	one.Platform = &platform{"linux", arch}
	return one, err
}

// rootFiles are all files of the image: weir is static, so that there are few.
func (r *release) rootFiles(arch string, authorities []byte) ([]entry, error) {
	binary, err := os.ReadFile(filepath.Join(r.stage(target{"linux", arch}), "weir"))
	if err != nil {
		return nil, err
	}
	config, err := os.ReadFile(filepath.Join(r.root, "deploy", "weir.yaml"))
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	bill, err := os.ReadFile(filepath.Join(r.stage(target{"linux", arch}), "sbom.cdx.json"))
	if err != nil {
		return nil, err
	}
	folder := func(name string) entry { return entry{name: name, mode: 0o755, folder: true} }
	passwd := fmt.Sprintf("root:x:0:0:root:/:/sbin/nologin\nweir:x:%d:%d:weir:/var/lib/weir:/sbin/nologin\n", imageUser, imageUser)
	return []entry{
		folder("etc"),
		{name: "etc/passwd", mode: 0o644, data: []byte(passwd)},
		{name: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\nweir:x:%d:\n", imageUser)},
		folder("etc/ssl"), folder("etc/ssl/certs"),
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: authorities},
		folder("etc/weir"),
		{name: "etc/weir/weir.yaml", mode: 0o644, data: config},
		{name: "tmp", mode: 0o1777, folder: true},
		folder("usr"), folder("usr/bin"),
		{name: "usr/bin/weir", mode: 0o755, data: binary},
		folder("usr/share"), folder("usr/share/doc"), folder("usr/share/doc/weir"),
		{name: "usr/share/doc/weir/copyright", mode: 0o644, data: license},
		{name: "usr/share/doc/weir/sbom.cdx.json", mode: 0o644, data: bill},
		folder("var"), folder("var/lib"),
		{name: "var/lib/weir", mode: 0o700, uid: imageUser, folder: true},
	}, nil
}

// authorities are those whose certificates weir believes: of upstreams, of servers of ACME, of keys for tokens.
func (r *release) authorities() ([]byte, error) {
	cmd := exec.Command("go", "run", "-C", "internal/tools", "-buildvcs=false", "./cacerts")
	cmd.Dir = r.root
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("cacerts: %w\n%s", err, wrong.String())
	}
	return out, nil
}
