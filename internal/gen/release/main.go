package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A version is what a release says of itself.
type version struct {
	name   string // of the tag, such as v1.2.3
	commit string
	date   time.Time // of the commit
}

// number is the version as packages write it.
func (v version) number() string { return strings.TrimPrefix(v.name, "v") }

// A target is what a binary is built for.
type target struct{ system, arch string }

func (t target) String() string { return t.system + "_" + t.arch }

// binary is the name of the program there.
func (t target) binary() string {
	if t.system == "windows" {
		return "weir.exe"
	}
	return "weir"
}

func parseTarget(text string) (target, error) {
	system, arch, found := strings.Cut(text, "/")
	if !found || system == "" || arch == "" {
		return target{}, fmt.Errorf("%q is not a system and a processor, such as linux/amd64", text)
	}
	return target{system, arch}, nil
}

func main() {
	out := flag.String("out", "dist", "the folder for the release; what is in it is removed")
	name := flag.String("version", "", "the version, such as v1.2.3")
	commit := flag.String("commit", "", "the commit")
	epoch := flag.Int64("epoch", 0, "when the commit was made, in seconds since 1970 (SOURCE_DATE_EPOCH)")
	maintainer := flag.String("maintainer", "", `who answers for the packages, such as "Ann Example <ann@example.com>"`)
	flag.Parse()
	r := &release{root: ".", out: *out, log: os.Stdout, maintainer: *maintainer,
		version: version{*name, *commit, time.Unix(*epoch, 0).UTC()}}
	err := errors.Join(r.version.check(), checkMaintainer(*maintainer))
	for _, text := range flag.Args() {
		t, wrong := parseTarget(text)
		err = errors.Join(err, wrong)
		r.targets = append(r.targets, t)
	}
	if err == nil {
		err = r.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (v version) check() error {
	if len(v.name) < 2 || v.name[0] != 'v' || v.name[1] < '0' || v.name[1] > '9' {
		return fmt.Errorf("%q is not a version: write v1.2.3", v.name)
	}
	return nil
}

// checkMaintainer: packages of Debian want a name and an address (Debian Policy 5.6.2).
func checkMaintainer(text string) error {
	if a, err := mail.ParseAddress(text); err != nil || a.Name == "" || strings.ContainsAny(text, "\r\n") {
		return fmt.Errorf("%q is not a maintainer: write a name and an address, such as Ann Example <ann@example.com>", text)
	}
	return nil
}

// A release is a version on its way into a folder.
type release struct {
	root       string // of the source
	out        string
	version    version
	targets    []target
	maintainer string
	log        io.Writer
	work       string // what is not part of the release
}

// run makes all of it. A target that cannot be built is left out, named with its reason, and fails the release in the
// end.
func (r *release) run() error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	var err error
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "weir-release"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := r.papers(); err != nil {
		return err
	}
	var missing error
	var images []string
	for _, t := range r.targets {
		r.say("build", t)
		if err := r.build(t); err != nil {
			missing = errors.Join(missing, fmt.Errorf("%s is left out: %w", t, err))
			continue
		}
		if err := r.archive(t); err != nil {
			return err
		}
		if t.system == "linux" {
			r.say("packages", t)
			if err := r.packages(t); err != nil {
				return err
			}
			images = append(images, t.arch)
		}
	}
	if len(images) > 0 {
		r.say("image", strings.Join(images, ", "))
		if err := r.image(images); err != nil {
			return err
		}
	}
	return errors.Join(missing, r.sums())
}

func (r *release) say(step string, about any) { fmt.Fprintf(r.log, "%s: %v\n", step, about) }

// file is the path of a file of the release.
func (r *release) file(t target, suffix string) string {
	return filepath.Join(r.out, fmt.Sprintf("weir_%s_%s%s", r.version.number(), t, suffix))
}

// stage is the folder with what was made for a target.
func (r *release) stage(t target) string { return filepath.Join(r.work, t.String()) }

// linkFlags tell the binary its version, and leave out what only debuggers read.
func (r *release) linkFlags() string {
	return fmt.Sprintf("-s -w -buildid= -X main.release=%s -X main.commit=%s -X main.date=%s", r.version.name,
		r.version.commit, r.version.date.Format(time.RFC3339))
}

// build builds the binary for a target and describes what is in it.
func (r *release) build(t target) error {
	binary := filepath.Join(r.stage(t), t.binary())
	if err := r.goBuild(t, binary); err != nil {
		return err
	}
	bill, err := billOf(binary, t, r.version)
	if err != nil {
		return err
	}
	for _, at := range []string{filepath.Join(r.stage(t), "sbom.cdx.json"), r.file(t, ".cdx.json")} {
		if err := os.WriteFile(at, bill, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) goBuild(t target, to string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-p", "1", "-ldflags="+r.linkFlags(), "-o", to,
		"./cmd/weir")
	cmd.Env = append(os.Environ(), "GOOS="+t.system, "GOARCH="+t.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1")
	return r.command(cmd)
}

// command runs a command in the source's folder. Its output is part of the error.
func (r *release) command(cmd *exec.Cmd) error {
	cmd.Dir = r.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// papers makes the manual pages, and what shells complete, with a weir for this machine.
func (r *release) papers() error {
	here := target{runtime.GOOS, runtime.GOARCH}
	weir := filepath.Join(r.work, "here", here.binary())
	if err := r.goBuild(here, weir); err != nil {
		return err
	}
	man := filepath.Join(r.work, "man")
	completions := filepath.Join(r.work, "completions")
	if err := errors.Join(os.Mkdir(man, 0o755), os.Mkdir(completions, 0o755)); err != nil {
		return err
	}
	if err := r.command(exec.Command(weir, "man", man)); err != nil {
		return err
	}
	for shell, name := range map[string]string{"bash": "weir", "zsh": "_weir", "fish": "weir.fish"} {
		script, err := exec.Command(weir, "completion", shell).Output()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(completions, name), script, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sums writes the checksums of all files, in the form of sha256sum.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(data), e.Name()))
	}
	slices.Sort(lines)
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
