package main

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"weir/config"
	"weir/internal/testkit/needs"
)

// root is the folder of the source.
const root = "../../.."

// A nfpmFile is what matters here of deploy/nfpm.yaml.
type nfpmFile struct {
	Scripts  map[string]string `yaml:"scripts"`
	Contents []struct {
		Source      string `yaml:"src"`
		Destination string `yaml:"dst"`
		Type        string `yaml:"type"`
	} `yaml:"contents"`
}

func readNfpm(t *testing.T) (f nfpmFile) {
	t.Helper()
	text, err := os.ReadFile(root + "/deploy/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// What a package is made of exists, or is made by the release; and whatever is below deploy/systemd is in it.
func TestPackagedFilesExist(t *testing.T) {
	t.Parallel()
	f := readNfpm(t)
	made := []string{"weir", "man", "completions/weir", "completions/_weir", "completions/weir.fish", "sbom.cdx.json",
		"examples", "docs"}
	var sources []string
	for _, c := range f.Contents {
		sources = append(sources, c.Source)
		if staged, ok := strings.CutPrefix(c.Source, "${STAGE}/"); ok {
			if !slices.Contains(made, staged) {
				t.Errorf("no step of the release makes %s", staged)
			}
		} else if _, err := os.Stat(filepath.Join(root, c.Source)); err != nil {
			t.Error(err)
		}
	}
	if len(f.Scripts) != 3 {
		t.Errorf("%d scripts", len(f.Scripts))
	}
	for _, script := range f.Scripts {
		if info, err := os.Stat(filepath.Join(root, script)); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s cannot be run: %v", script, err)
		}
	}
	units, err := filepath.Glob(root + "/deploy/systemd/*")
	if err != nil || len(units) < 5 {
		t.Fatalf("%d units, %v", len(units), err)
	}
	for _, unit := range units {
		if !slices.Contains(sources, "deploy/systemd/"+filepath.Base(unit)) {
			t.Errorf("%s is not in the packages", unit)
		}
	}
}

// settings reads the settings of a unit. A name may have several.
func settings(t *testing.T, file string) map[string][]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok && !strings.HasPrefix(name, "#") {
			all[name] = append(all[name], value)
		}
	}
	return all
}

var etc = regexp.MustCompile(`/etc/weir/[a-z.]+`)

// A unit runs what the package installs, on the configuration and in the data folder of its role, and only the one for
// packets may load programs into the kernel.
func TestUnits(t *testing.T) {
	t.Parallel()
	var installed []string
	for _, c := range readNfpm(t).Contents {
		installed = append(installed, c.Destination)
	}
	for role, file := range map[string]string{"edge": "weir.yaml", "mail": "mail.yaml", "xdp": "xdp.yaml"} {
		unit := settings(t, root+"/deploy/systemd/weir-"+role+".service")
		for _, command := range slices.Concat(unit["ExecStart"], unit["ExecStartPre"]) {
			if program := strings.Fields(command)[0]; strings.Contains(program, "weir") &&
				!slices.Contains(installed, program) {
				t.Errorf("weir-%s runs %s, which is in no package", role, program)
			}
			for _, named := range etc.FindAllString(command, -1) {
				if path.Base(named) != file || !slices.Contains(installed, named) {
					t.Errorf("weir-%s reads %s", role, named)
				}
			}
		}
		cfg, err := config.Load(root + "/deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if state := "/var/lib/" + unit["StateDirectory"][0]; cfg.Data != state {
			t.Errorf("weir-%s keeps what it has in %s, and may only write to %s", role, cfg.Data, state)
		}
		for _, set := range []string{"AmbientCapabilities", "CapabilityBoundingSet"} {
			powerful := strings.Contains(unit[set][0], "BPF") || strings.Contains(unit[set][0], "ADMIN")
			if len(unit[set]) != 1 || powerful != (role == "xdp") {
				t.Errorf("weir-%s: %s=%s", role, set, unit[set])
			}
		}
	}
}

// What a package installs is safe as it is, and right once the "#" before the gates is taken away.
func TestInstalledConfigurations(t *testing.T) {
	t.Parallel()
	var consoles []string
	example := regexp.MustCompile(`(?m)^#(\S|  )`)
	for _, name := range []string{"weir.yaml", "mail.yaml", "xdp.yaml"} {
		text, err := os.ReadFile(root + "/deploy/" + name)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Parse(name, text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for gate := range cfg.Gates() {
			t.Errorf("%s: the gate %s is open", name, gate)
		}
		if !strings.HasPrefix(cfg.Console.Listen, "127.0.0.1:") || slices.Contains(consoles, cfg.Console.Listen) {
			t.Errorf("%s: the console listens on %s", name, cfg.Console.Listen)
		}
		consoles = append(consoles, cfg.Console.Listen)
		cfg, err = config.Parse(name, example.ReplaceAll(text, []byte("$1")))
		if err != nil {
			t.Errorf("%s with its example: %v", name, err)
			continue
		}
		if gates := len(cfg.XDP) + len(cfg.HTTP) + len(cfg.SMTP); gates != 1 || len(cfg.Warnings) > 0 {
			t.Errorf("%s with its example: %d gates, %v", name, gates, cfg.Warnings)
		}
	}
}

// The port that a socket unit opens is that of the example in the configuration of its role.
func TestSocketUnits(t *testing.T) {
	t.Parallel()
	for role, file := range map[string]string{"edge": "weir.yaml", "mail": "mail.yaml"} {
		unit := settings(t, root+"/deploy/systemd/weir-"+role+".socket")
		text, err := os.ReadFile(root + "/deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		ports := unit["ListenStream"]
		if len(ports) != 1 || !strings.Contains(string(text), `#- listen: ":`+ports[0]+`"`) {
			t.Errorf("weir-%s.socket opens %q, and no gate in %s listens there", role, ports, file)
		}
	}
}

// exposure is the most that systemd-analyze security may find: the scale is 0 to 10.
const exposure = "30" // in tenths

// systemd knows every setting of the units, and finds them hardened.
func TestSystemdAnalyze(t *testing.T) {
	t.Parallel()
	analyze := needs.Program(t, "systemd-analyze", "apt-get install systemd")
	services, _ := filepath.Glob(root + "/deploy/systemd/*.service")
	for _, service := range services {
		out, err := exec.Command(analyze, "security", "--offline=true", "--threshold="+exposure, service).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", service, err, out)
		}
		if strings.Contains(string(out), "Unknown") {
			t.Errorf("%s:\n%s", service, out)
		}
	}
	// verify looks for the programs too: here a weir stands where the package puts it.
	folder := t.TempDir()
	sockets, _ := filepath.Glob(root + "/deploy/systemd/*.socket")
	args := []string{"verify", "--man=no"}
	for _, unit := range append(services, sockets...) {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		there := strings.ReplaceAll(string(text), "/usr/bin/weir ", "/bin/true ")
		to := filepath.Join(folder, filepath.Base(unit))
		if err := os.WriteFile(to, []byte(there), fs.FileMode(0o644)); err != nil {
			t.Fatal(err)
		}
		args = append(args, to)
	}
	cmd := exec.Command(analyze, args...)
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+folder+":/usr/lib/systemd/system")
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), folder) {
		t.Errorf("%v\n%s", err, out)
	}
}
