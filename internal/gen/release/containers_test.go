package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"weir/app"
	"weir/config"
)

// readYAML reads every document of a file. Fields that are not in the type are left out.
func readYAML[T any](t *testing.T, name string) (all []T) {
	t.Helper()
	f, err := os.Open(root + "/deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := yaml.NewDecoder(f); ; {
		var document T
		switch err := d.Decode(&document); err {
		case nil:
			all = append(all, document)
		case io.EOF:
			return all
		default:
			t.Fatalf("%s: %v", name, err)
		}
	}
}

var secretFile = regexp.MustCompile(`\$\{file:(/run/secrets/[^}]+)\}`)

// containerConfig checks a configuration for containers as weir check does, and returns it with the files that it takes
// secrets from. Here these are others, with a secret that is good enough.
func containerConfig(t *testing.T, name string) (cfg *config.Config, secrets []string) {
	t.Helper()
	text, err := os.ReadFile(root + "/deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("0f", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, found := range secretFile.FindAllSubmatch(text, -1) {
		secrets = append(secrets, string(found[1]))
	}
	cfg, err = config.Parse(name, secretFile.ReplaceAll(text, fmt.Appendf(nil, "$${file:%s}", secret)))
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings) > 0 {
		t.Errorf("%s: %v", name, cfg.Warnings)
	}
	if _, err := app.New(cfg, app.Options{}); err != nil {
		t.Error(err)
	}
	return cfg, secrets
}

// A composed is what matters here of a service in compose.yaml.
type composed struct {
	Image       string   `yaml:"image"`
	User        string   `yaml:"user"`
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	Ports       []string `yaml:"ports"`
	Volumes     []string `yaml:"volumes"`
	Secrets     []string `yaml:"secrets"`
	Networks    []string `yaml:"networks"`
	HealthCheck struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
}

// TestCompose: the services are closed as promised, what they mount exists, and weir's configuration is right and fits
// the names, ports, networks and secrets of the file.
func TestCompose(t *testing.T) {
	t.Parallel()
	file := readYAML[struct {
		Services map[string]composed `yaml:"services"`
		Networks map[string]struct {
			IPAM struct {
				Config []struct {
					Subnet string `yaml:"subnet"`
				} `yaml:"config"`
			} `yaml:"ipam"`
		} `yaml:"networks"`
		Volumes map[string]any `yaml:"volumes"`
		Secrets map[string]struct {
			File string `yaml:"file"`
		} `yaml:"secrets"`
	}](t, "compose.yaml")[0]
	for _, name := range []string{"weir", "upstream", "redis", "prometheus", "grafana"} {
		if _, ok := file.Services[name]; !ok {
			t.Errorf("there is no %s", name)
		}
	}
	for name, s := range file.Services {
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s keeps rights: %v %v", name, s.CapDrop, s.SecurityOpt)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s opens %s to everybody", name, port)
			}
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			_, declared := file.Volumes[source]
			if _, err := os.Stat(filepath.Join(root, "deploy", source)); !declared && err != nil {
				t.Errorf("%s mounts %s: %v", name, source, err)
			}
			if !declared && !strings.HasSuffix(v, ":ro") {
				t.Errorf("%s can write to %s", name, source)
			}
		}
		for _, secret := range s.Secrets {
			if file.Secrets[secret].File == "" {
				t.Errorf("%s wants the secret %s", name, secret)
			}
		}
	}
	w := file.Services["weir"]
	if w.User != fmt.Sprintf("%d:%d", imageUser, imageUser) || !w.ReadOnly {
		t.Errorf("weir runs as %q, read-only: %t", w.User, w.ReadOnly)
	}
	if !slices.Equal(w.HealthCheck.Test, []string{"CMD", "/usr/bin/weir", "status"}) {
		t.Errorf("health check: %q", w.HealthCheck.Test)
	}
	cfg, secrets := containerConfig(t, "compose/weir.yaml")
	for _, secret := range secrets {
		if !slices.Contains(w.Secrets, filepath.Base(secret)) {
			t.Errorf("weir reads %s, which it is not given", secret)
		}
	}
	if !slices.Contains(w.Volumes, "weir:"+cfg.Data) {
		t.Errorf("weir keeps its data in %s", cfg.Data)
	}
	allowed := fmt.Sprint(cfg.Console.Allow)
	if subnet := file.Networks["inside"].IPAM.Config[0].Subnet; !strings.Contains(allowed, subnet) {
		t.Errorf("Prometheus in %s may not read the console: %s", subnet, allowed)
	}
	scraped := readYAML[struct {
		Rules  []string `yaml:"rule_files"`
		Scrape []struct {
			Job    string `yaml:"job_name"`
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}](t, "compose/prometheus.yml")[0].Scrape[0]
	target := scraped.Static[0].Targets[0]
	if host, port, _ := strings.Cut(target, ":"); scraped.Job != "weir" || !slices.Contains(cfg.Console.Hosts, host) ||
		cfg.Console.Listen != ":"+port {
		t.Errorf("Prometheus asks %s as %s; the console is %s at %v", target, scraped.Job, cfg.Console.Listen,
			cfg.Console.Hosts)
	}
	for _, provision := range []string{"compose/grafana-datasource.yaml", "compose/grafana-dashboards.yaml"} {
		if version := readYAML[map[string]any](t, provision)[0]["apiVersion"]; fmt.Sprint(version) != "1" {
			t.Errorf("%s: %v", provision, version)
		}
	}
}

// An object is what matters here of a manifest of Kubernetes'.
type object struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		ServiceName string `yaml:"serviceName"`
		ClusterIP   string `yaml:"clusterIP"`
		NotReady    bool   `yaml:"publishNotReadyAddresses"`
		Ports       []struct {
			Port   int    `yaml:"port"`
			Target string `yaml:"targetPort"`
		} `yaml:"ports"`
		Template struct {
			Spec struct {
				Security struct {
					NonRoot bool `yaml:"runAsNonRoot"`
					User    int  `yaml:"runAsUser"`
				} `yaml:"securityContext"`
				Containers []container `yaml:"containers"`
				Volumes    []struct {
					Name      string `yaml:"name"`
					ConfigMap struct {
						Name string `yaml:"name"`
					} `yaml:"configMap"`
					Secret struct {
						Name string `yaml:"secretName"`
					} `yaml:"secret"`
				} `yaml:"volumes"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type container struct {
	Ports []struct {
		Name string `yaml:"name"`
		Port int    `yaml:"containerPort"`
	} `yaml:"ports"`
	Security struct {
		Escalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnly   bool  `yaml:"readOnlyRootFilesystem"`
	} `yaml:"securityContext"`
	Startup   probe `yaml:"startupProbe"`
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`
	Mounts    []struct {
		Name string `yaml:"name"`
		Path string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	Get struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
}

// TestKubernetes: the manifests name each other rightly, weir runs closed, and its configuration is right and fits
// them.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	kustomization := readYAML[struct {
		Namespace  string   `yaml:"namespace"`
		Resources  []string `yaml:"resources"`
		ConfigMaps []struct {
			Name  string   `yaml:"name"`
			Files []string `yaml:"files"`
		} `yaml:"configMapGenerator"`
	}](t, "kubernetes/kustomization.yaml")[0]
	objects := map[string]object{}
	for _, name := range append(kustomization.Resources, "secret.sample.yaml") {
		for _, m := range readYAML[object](t, "kubernetes/"+name) {
			objects[m.Kind+" "+m.Metadata.Name] = m
		}
	}
	set, farm := objects["StatefulSet weir"], objects["Service weir-farm"]
	if farm.Spec.ClusterIP != "None" || !farm.Spec.NotReady || set.Spec.ServiceName != "weir-farm" {
		t.Errorf("the nodes do not find each other: %+v", farm.Spec)
	}
	pod := set.Spec.Template.Spec
	if len(pod.Containers) != 1 {
		t.Fatalf("%d containers", len(pod.Containers))
	}
	c := pod.Containers[0]
	if !pod.Security.NonRoot || pod.Security.User != imageUser || !c.Security.ReadOnly ||
		c.Security.Escalation == nil || *c.Security.Escalation {
		t.Errorf("weir does not run closed: %+v %+v", pod.Security, c.Security)
	}
	if c.Startup.Get.Path != "/healthz" || c.Liveness.Get.Path != "/healthz" || c.Readiness.Get.Path != "/readyz" {
		t.Errorf("probes: %v %v %v", c.Startup, c.Liveness, c.Readiness)
	}
	ports := map[string]int{}
	for _, p := range c.Ports {
		ports[p.Name] = p.Port
	}
	for _, used := range []string{c.Startup.Get.Port, c.Liveness.Get.Port, c.Readiness.Get.Port,
		farm.Spec.Ports[0].Target, objects["Service weir"].Spec.Ports[0].Target} {
		if ports[used] == 0 {
			t.Errorf("there is no port %q", used)
		}
	}
	cfg, secrets := containerConfig(t, "kubernetes/weir.yaml")
	if cfg.Console.Listen != fmt.Sprint(":", ports["console"]) || cfg.HTTP[0].Listen != fmt.Sprint(":", ports["http"]) {
		t.Errorf("weir listens on %s and %s, the pod has %v", cfg.Console.Listen, cfg.HTTP[0].Listen, ports)
	}
	peers := fmt.Sprintf("weir-farm.%s.svc.cluster.local:%d", kustomization.Namespace, ports["farm"])
	if !slices.Equal(cfg.Farm.Peers, []string{peers}) {
		t.Errorf("peers %q, want %s", cfg.Farm.Peers, peers)
	}
	mounts := map[string]string{}
	for _, m := range c.Mounts {
		mounts[m.Name] = m.Path
	}
	for _, v := range pod.Volumes {
		if name := v.ConfigMap.Name; name != "" && (name != kustomization.ConfigMaps[0].Name ||
			mounts[v.Name]+"/"+kustomization.ConfigMaps[0].Files[0] != "/etc/weir/weir.yaml") {
			t.Errorf("the configuration %s is at %s", name, mounts[v.Name])
		}
		if name := v.Secret.Name; name != "" {
			for key := range objects["Secret "+name].StringData {
				if !slices.Contains(secrets, mounts[v.Name]+"/"+key) {
					t.Errorf("weir reads %q, not %s of %s", secrets, key, name)
				}
			}
		}
	}
	if len(secrets) != 1 || !strings.HasPrefix(cfg.Data, mounts["data"]+"/") {
		t.Errorf("secrets %q, data in %s, mounts %v", secrets, cfg.Data, mounts)
	}
}
