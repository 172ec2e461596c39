package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
)

// imageUser is the user that weir runs as in its image.
const imageUser = 65532

// second is the version of manifests.
var second = specs.Versioned{SchemaVersion: 2}

// A layout is an image in the form of a folder: blobs by their checksums.
type layout struct{ files []entry }

func (l *layout) blob(mediaType string, data []byte) oci.Descriptor {
	sum := digest.FromBytes(data)
	l.files = append(l.files, entry{name: "blobs/sha256/" + sum.Encoded(), mode: 0o644, data: data})
	return oci.Descriptor{MediaType: mediaType, Digest: sum, Size: int64(len(data))}
}

func (l *layout) json(mediaType string, v any) (oci.Descriptor, error) {
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
		oci.AnnotationTitle:    "weir",
		oci.AnnotationVersion:  r.version.name,
		oci.AnnotationRevision: r.version.commit,
		oci.AnnotationCreated:  r.version.date.Format(time.RFC3339),
		oci.AnnotationLicenses: "Apache-2.0",
	}
	l := &layout{}
	all := oci.Index{Versioned: second, MediaType: oci.MediaTypeImageIndex, Annotations: annotations}
	for _, arch := range arches {
		one, err := r.imageOf(l, arch, authorities, annotations)
		if err != nil {
			return err
		}
		all.Manifests = append(all.Manifests, one)
	}
	index, err := l.json(oci.MediaTypeImageIndex, all)
	if err != nil {
		return err
	}
	index.Annotations = map[string]string{oci.AnnotationRefName: r.version.number()}
	top, err := json.Marshal(oci.Index{Versioned: second, MediaType: oci.MediaTypeImageIndex,
		Manifests: []oci.Descriptor{index}})
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
func (r *release) imageOf(l *layout, arch string, authorities []byte, labels map[string]string) (oci.Descriptor,
	error) {
	files, err := r.rootFiles(arch, authorities)
	if err != nil {
		return oci.Descriptor{}, err
	}
	var plain, packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return oci.Descriptor{}, err
	}
	if err := writeTar(io.MultiWriter(&plain, z), files, r.version.date); err != nil {
		return oci.Descriptor{}, err
	}
	if err := z.Close(); err != nil {
		return oci.Descriptor{}, err
	}
	layer := l.blob(oci.MediaTypeImageLayerGzip, packed.Bytes())
	platform := oci.Platform{OS: "linux", Architecture: arch}
	config, err := l.json(oci.MediaTypeImageConfig, oci.Image{Created: &r.version.date, Platform: platform,
		History: []oci.History{{Created: &r.version.date, CreatedBy: "make release"}},
		RootFS:  oci.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(plain.Bytes())}},
		Config: oci.ImageConfig{User: fmt.Sprintf("%d:%d", imageUser, imageUser), Entrypoint: []string{"/usr/bin/weir"},
			Cmd: []string{"serve"}, Env: []string{"PATH=/usr/bin"}, WorkingDir: "/var/lib/weir", StopSignal: "SIGTERM",
			Volumes: map[string]struct{}{"/var/lib/weir": {}}, Labels: labels},
	})
	if err != nil {
		return oci.Descriptor{}, err
	}
	one, err := l.json(oci.MediaTypeImageManifest, oci.Manifest{Versioned: second, Config: config,
		MediaType: oci.MediaTypeImageManifest, Layers: []oci.Descriptor{layer}, Annotations: labels})
	one.Platform = &platform
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
