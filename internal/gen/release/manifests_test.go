package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

// checkManifests runs the code of kustomize and Kubernetes over a copy of the manifests in which one text is replaced.
func checkManifests(t *testing.T, check, file, old, new string) (printed string, err error) {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(root+"/deploy/kubernetes")); err != nil {
		t.Fatal(err)
	}
	if file != "" {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil || strings.Count(string(text), old) == 0 {
			t.Fatalf("%s has no %q, %v", file, old, err)
		}
		text = []byte(strings.Replace(string(text), old, new, 1))
		if err := os.WriteFile(filepath.Join(folder, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(check, folder, filepath.Join(folder, "secret.sample.yaml")).CombinedOutput()
	return string(out), err
}

// TestManifestsAreStrict: kustomize builds the manifests, and Kubernetes' types have every field in them. A field that
// they do not have, or of another type, or that stands there twice, would be noticed.
func TestManifestsAreStrict(t *testing.T) {
	t.Parallel()
	check := needs.Module(t, root+"/internal/checks/kubernetes")
	out, err := checkManifests(t, check, "", "", "")
	got := regexp.MustCompile(`(weir-config)-\S+`).ReplaceAllString(out, "$1-HASH")
	const want = `StatefulSet weir
Service weir
Service weir-farm
PodDisruptionBudget weir
ConfigMap weir-config-HASH
Secret weir-farm
`
	if err != nil || got != want {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct{ file, old, new, noticed string }{
		{"statefulset.yaml", "readOnlyRootFilesystem:", "readOnlyRootFileSystem:", `unknown field`},
		{"statefulset.yaml", "replicas: 3", "replicas: three", `replicas`},
		{"services.yaml", "publishNotReadyAddresses: true", "publishNotReadyAdresses: true", `unknown field`},
		{"disruption.yaml", "policy/v1", "policy/v9", `no kind`},
		{"secret.sample.yaml", "type: Opaque", "type: Opaque\ntype: Opaque", `type`},
		{"kustomization.yaml", "resources:", "resource:", `resource`},
	} {
		if out, err := checkManifests(t, check, c.file, c.old, c.new); err == nil || !strings.Contains(out, c.noticed) {
			t.Errorf("%s with %q: %v\n%s", c.file, c.new, err, out)
		}
	}
}

// TestComposeIsStrict: the code of Docker Compose reads the file, and its schema has every field in it.
func TestComposeIsStrict(t *testing.T) {
	t.Parallel()
	check := needs.Module(t, root+"/internal/checks/compose")
	read := func(old, new string) (string, error) {
		t.Helper()
		text, err := os.ReadFile(root + "/deploy/compose.yaml")
		if err != nil || strings.Count(string(text), old) == 0 {
			t.Fatalf("compose.yaml has no %q, %v", old, err)
		}
		file := filepath.Join(t.TempDir(), "compose.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), old, new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(check, file).CombinedOutput()
		return string(out), err
	}
	if out, err := read("services:", "services:"); err != nil || out != "grafana\nprometheus\nredis\nupstream\nweir\n" {
		t.Errorf("%v\n%s", err, out)
	}
	for _, wrong := range []string{"readonly:", "read_only: [1]\n    was:"} {
		if out, err := read("read_only:", wrong); err == nil {
			t.Errorf("%q is not noticed:\n%s", wrong, out)
		}
	}
}
