package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	oci "github.com/opencontainers/image-spec/specs-go/v1"

	"weir/internal/testkit/needs"
)

var tested = version{"v1.2.3", "0123456789abcdef", time.Unix(1_700_000_000, 0).UTC()}

// The linker says nothing where a variable that it is to set does not exist.
func TestLinkFlagsNameVariables(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/cmd/weir/version.go")
	if err != nil {
		t.Fatal(err)
	}
	r := release{version: tested}
	names := regexp.MustCompile(`-X main\.(\w+)=(\S+)`).FindAllStringSubmatch(r.linkFlags(), -1)
	if len(names) != 3 {
		t.Fatalf("%q", r.linkFlags())
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)^\t` + name[1] + `\s+string\b`).Match(text) {
			t.Errorf("cmd/weir has no variable %s", name[1])
		}
	}
}

// testMaintainer is the one of packages that tests make.
const testMaintainer = "Ann Example <ann@example.com>"

func TestMaintainers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{testMaintainer: true, "The weir authors <maintainers@weir.invalid>": true,
		"The weir authors": false, "ann@example.com": false, "<ann@example.com>": false, "": false,
		"Ann <ann@example.com>\nEssential: yes": false, "Ann\n Example <ann@example.com>": false} {
		if err := checkMaintainer(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"v1.2.3": true, "v0.0.0-dev": true, "1.2.3": false, "": false, "v": false,
		"version": false} {
		if err := (version{name: text}).check(); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, want := range map[string]bool{"linux/arm64": true, "linux": false, "/arm64": false, "": false} {
		if _, err := parseTarget(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A bill of materials names every module of the binary, and is the same for the same binary.
func TestBill(t *testing.T) {
	t.Parallel()
	self := filepath.Join(t.TempDir(), "crosscheck") // a binary of a test does not name its modules
	if out, err := exec.Command("go", "build", "-o", self, "../crosscheck").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := billOf(self, target{"linux", "amd64"}, tested)
	if err != nil {
		t.Fatal(err)
	}
	again, err := billOf(self, target{"linux", "amd64"}, tested)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("two bills of one binary differ (%v)", err)
	}
	var b cdx.BOM
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	refs := map[string]bool{}
	for _, c := range *b.Components {
		if refs[c.BOMRef] || !strings.HasPrefix(c.PackageURL, "pkg:golang/") || strings.HasSuffix(c.PackageURL, "@") {
			t.Errorf("%+v", c)
		}
		refs[c.BOMRef] = true
	}
	found := false
	for ref := range refs {
		found = found || strings.HasPrefix(ref, "pkg:golang/golang.org/x/tools@v")
	}
	if on := *b.Dependencies; !found || len(on) != 1 || len(*on[0].Dependencies) != len(refs) {
		t.Errorf("%d modules, %+v", len(refs), on)
	}
	uuid := regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if !uuid.MatchString(b.SerialNumber) {
		t.Errorf("serial number %s", b.SerialNumber)
	}
	if _, err := billOf(root+"/LICENSE", target{}, tested); err == nil {
		t.Error("a text is no binary")
	}
}

// Archives depend on what is in them alone.
func TestArchives(t *testing.T) {
	t.Parallel()
	all := []entry{{name: "a", mode: 0o755, folder: true}, {name: "a/b", mode: 0o644, data: []byte("text")}}
	for name, pack := range map[string]func([]entry, time.Time) ([]byte, error){"tar": tarball, "zip": zipped} {
		one, err := pack(all, tested.date)
		other, wrong := pack(all, tested.date)
		if err = errors.Join(err, wrong); err != nil || !bytes.Equal(one, other) || len(one) == 0 {
			t.Errorf("%s: %d and %d bytes, %v", name, len(one), len(other), err)
		}
	}
}

// checkImage: an image is what the specification of OCI says. Every blob is where its checksum says, layers unpack to
// what the configuration names, weir is not root, and the files are those that it needs.
func checkImage(t *testing.T, file string, arches int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = data
		if sum, ok := strings.CutPrefix(h.Name, "blobs/sha256/"); ok && sum != "" &&
			sum != fmt.Sprintf("%x", sha256.Sum256(data)) {
			t.Errorf("%s has another checksum", h.Name)
		}
	}
	read := func(name string, v any) {
		t.Helper()
		if err := json.Unmarshal(files[name], v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	at := func(d oci.Descriptor) string { return "blobs/sha256/" + d.Digest.Encoded() }
	var top, index oci.Index
	read("index.json", &top)
	read(at(top.Manifests[0]), &index)
	if len(index.Manifests) != arches || string(files["oci-layout"]) != `{"imageLayoutVersion":"1.0.0"}` {
		t.Fatalf("%d images", len(index.Manifests))
	}
	for _, d := range index.Manifests {
		var one oci.Manifest
		read(at(d), &one)
		var c oci.Image
		read(at(one.Config), &c)
		if c.Config.User != "65532:65532" || c.Architecture != d.Platform.Architecture {
			t.Errorf("%+v", c)
		}
		if d.Platform.Architecture == runtime.GOARCH {
			runImage(t, files[at(one.Layers[0])])
		}
		names := layerNames(t, files[at(one.Layers[0])], string(c.RootFS.DiffIDs[0]))
		for _, name := range []string{"usr/bin/weir", "etc/weir/weir.yaml", "etc/ssl/certs/ca-certificates.crt", "var/lib/weir/"} {
			if !names[name] {
				t.Errorf("the image has no %s", name)
			}
		}
	}
}

func TestImage(t *testing.T) {
	t.Parallel()
	r := &release{root: root, out: t.TempDir(), work: t.TempDir(), version: tested}
	for _, arch := range []string{"amd64", "arm64"} {
		stage := r.stage(target{"linux", arch})
		if err := os.Mkdir(stage, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"weir", "sbom.cdx.json"} {
			if err := os.WriteFile(filepath.Join(stage, name), []byte(arch), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	l := &layout{}
	one, err := r.imageOf(l, "arm64", []byte("authorities"), nil)
	if err != nil || one.Platform.Architecture != "arm64" || len(l.files) != 3 {
		t.Fatalf("%+v, %d blobs, %v", one, len(l.files), err)
	}
	again := &layout{}
	if two, err := r.imageOf(again, "arm64", []byte("authorities"), nil); err != nil || two.Digest != one.Digest {
		t.Errorf("the same files give %s and %s (%v)", one.Digest, two.Digest, err)
	}
}

// checkExamples looks for all examples, the documentation and the files for watching in what a command lists.
func checkExamples(t *testing.T, command ...string) {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	examples, err := os.ReadDir(root + "/examples")
	if err != nil || len(examples) == 0 {
		t.Fatal(err)
	}
	for _, e := range examples {
		if !bytes.Contains(out, []byte("/examples/"+e.Name()+"\n")) {
			t.Errorf("%v: there is no %s", command, e.Name())
		}
	}
	for _, name := range []string{"/docs/install.md", "/docs/img/flow.svg", "/deploy/prometheus/weir.rules.yml", "/deploy/grafana/weir.json"} {
		if !bytes.Contains(out, []byte(name+"\n")) {
			t.Errorf("%v: there is no %s", command, name)
		}
	}
}

// TestStagedPapers: packages get the examples as they are, and the manual pages compressed, in the same way each time.
func TestStagedPapers(t *testing.T) {
	t.Parallel()
	to := target{"linux", "amd64"}
	var staged [2]map[string]string
	for i := range staged {
		r := &release{root: root, work: t.TempDir(), version: tested}
		for name, text := range map[string]string{"man/weir.1": "a page", "completions/_weir": "a script"} {
			file := filepath.Join(r.work, name)
			err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600))
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := r.stagePapers(to); err != nil {
			t.Fatal(err)
		}
		staged[i] = map[string]string{}
		under := os.DirFS(r.stage(to))
		if err := fs.WalkDir(under, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm() != 0o644 && runtime.GOOS != "windows" {
				t.Errorf("%s: %v", name, info.Mode())
			}
			text, wrong := fs.ReadFile(under, name)
			staged[i][name] = string(text)
			return errors.Join(err, wrong)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if !maps.Equal(staged[0], staged[1]) {
		t.Error("twice is not the same")
	}
	if staged[0]["completions/_weir"] != "a script" || staged[0]["man/weir.1.gz"] == "" {
		t.Errorf("%v", slices.Sorted(maps.Keys(staged[0])))
	}
	// weir init names the first two, and the examples name pages.
	for _, name := range []string{"examples/nginx-auth.conf", "examples/envoy-edge.yml", "docs/envoy.md", "docs/img/flow.svg"} {
		want, err := os.ReadFile(root + "/" + name)
		if err != nil || staged[0][name] != string(want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRelease makes a release for one target twice: the bytes are the same, and what is in them works.
func TestRelease(t *testing.T) {
	if !needs.Long() {
		t.Skip("a full build, twice: make long")
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	make := func() string {
		r := &release{root: top, out: filepath.Join(t.TempDir(), "dist"), version: tested, log: t.Output(),
			maintainer: testMaintainer, targets: []target{{"linux", "amd64"}}}
		if err := r.run(); err != nil {
			t.Fatal(err)
		}
		sums, err := os.ReadFile(filepath.Join(r.out, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(sums, []byte("\n")); n != 5 {
			t.Errorf("%d files:\n%s", n, sums)
		}
		return r.out
	}
	one, other := make(), make()
	a, err := os.ReadFile(filepath.Join(one, "SHA256SUMS"))
	b, wrong := os.ReadFile(filepath.Join(other, "SHA256SUMS"))
	if err = errors.Join(err, wrong); err != nil || !bytes.Equal(a, b) {
		t.Errorf("%v\n%s\n%s", err, a, b)
	}
	checkImage(t, filepath.Join(one, "weir_1.2.3_oci.tar"), 1)
	if rpm, err := exec.LookPath("rpm"); err == nil {
		out, err := exec.Command(rpm, "-qpl", filepath.Join(one, "weir_1.2.3_linux_amd64.rpm")).CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("/usr/lib/systemd/system/weir-edge.service\n")) {
			t.Errorf("%v\n%s", err, out)
		}
	}
	deb := filepath.Join(one, "weir_1.2.3_linux_amd64.deb")
	checkExamples(t, "tar", "-tzf", filepath.Join(one, "weir_1.2.3_linux_amd64.tar.gz"))
	if dpkg, err := exec.LookPath("dpkg-deb"); err == nil {
		checkExamples(t, dpkg, "--contents", deb)
		out, err := exec.Command(dpkg, "--field", deb, "Maintainer").CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != testMaintainer {
			t.Errorf("%v\n%s", err, out)
		}
	}
	checkInstall(t, deb)
}

// layerNames are the files in a layer, whose unpacked form has the checksum that the configuration names.
func layerNames(t *testing.T, packed []byte, sum string) map[string]bool {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("sha256:%x", sha256.Sum256(plain)); got != sum {
		t.Errorf("the layer is %s, and the configuration says %s", got, sum)
	}
	names := map[string]bool{}
	for r := tar.NewReader(bytes.NewReader(plain)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names[h.Name] = true
	}
}
