//go:build unix

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"weir/internal/testkit/markdown"
	"weir/internal/testkit/needs"
)

// A start is what a page tells a new user to paste, and what they see then.
type start struct {
	begin, try markdown.Block
	want       []string
}

// starts returns the starts of a page: a block `sh start`, a block `sh try` and a block `text`, in this order.
func starts(t *testing.T, p markdown.Page) (all []start) {
	for i, b := range p.Blocks {
		if !b.Is("sh", "start") {
			continue
		}
		if i+2 >= len(p.Blocks) || !p.Blocks[i+1].Is("sh", "try") || !p.Blocks[i+2].Is("text", "") {
			t.Errorf("%s: a block `sh start` is followed by `sh try` and `text`", b.At())
			continue
		}
		all = append(all, start{b, p.Blocks[i+1], strings.Split(strings.TrimSpace(p.Blocks[i+2].Text), "\n")})
	}
	return all
}

// TestStarts pastes every start of every page into a shell, as somebody does who does not wait, and compares what is
// printed. Only the ports are others, so that nothing on this machine is in the way.
func TestStarts(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	shell := needs.Program(t, "bash", "apt-get install bash")
	needs.Program(t, "curl", "apt-get install curl")
	needs.Program(t, "python3", "apt-get install python3")
	all, err := markdown.Pages(repository)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range all {
		for _, s := range starts(t, p) {
			found++
			t.Run(s.begin.At(), func(t *testing.T) {
				t.Parallel()
				s.run(t, shell)
			})
		}
	}
	if found < 5 {
		t.Errorf("%d starts found, there should be five in README.md", found)
	}
}

// port is a port in a start: of an address, of Python's web server or of the mail server for trying.
var port = regexp.MustCompile(`(127\.0\.0\.1:|http\.server |sink\.py )(\d+)`)

func (s *start) run(t *testing.T, shell string) {
	folder := workFolder(t)
	ports := map[string]string{}
	moved := func(text string) string {
		return port.ReplaceAllStringFunc(text, func(found string) string {
			m := port.FindStringSubmatch(found)
			if ports[m[2]] == "" {
				_, ports[m[2]], _ = net.SplitHostPort(needs.FreeAddress())
			}
			return m[1] + ports[m[2]]
		})
	}
	ctx := t.Context()
	paste := func(text string) (string, *exec.Cmd) {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd := exec.CommandContext(ctx, shell, "-e", "-c", text)
		cmd.Dir = folder
		cmd.Stdout, cmd.Stderr = out, out // a file: what goes on in the background does not keep Run waiting
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		err = cmd.Run()
		printed, _ := os.ReadFile(out.Name())
		if err != nil {
			t.Errorf("%v\n%s", err, printed)
		}
		return string(printed), cmd
	}

	_, begun := paste(moved(s.begin.Text))
	defer endGroup(t, begun.Process.Pid)
	if t.Failed() {
		return
	}
	printed, tried := paste(moved(s.try.Text))
	defer endGroup(t, tried.Process.Pid)
	got := strings.Split(strings.TrimSpace(printed), "\n")
	for i, want := range s.want {
		if i >= len(got) || !matches(want, got[i]) {
			t.Fatalf("%s: line %d is not %q:\n%s", s.try.At(), i+1, want, printed)
		}
	}
	if len(got) > len(s.want) && s.want[len(s.want)-1] != "…" {
		t.Errorf("%s: more is printed than the page says:\n%s", s.try.At(), printed)
	}
}

// workFolder looks like the folder of the project to a start, and takes what a start writes.
func workFolder(t *testing.T) string {
	base, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	// The name is short because that of a socket in it is bounded.
	folder, err := os.MkdirTemp("", "w")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	if err := os.Symlink(filepath.Join(base, "examples"), filepath.Join(folder, "examples")); err != nil {
		t.Fatal(err)
	}
	return folder
}

// matches compares a line with one of the page, where an ellipsis stands for anything.
func matches(want, got string) bool {
	parts := strings.Split(want, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(strings.TrimRight(got, "\r"))
}

// endGroup ends what a shell has left in the background, and waits until it is gone.
func endGroup(t *testing.T, group int) {
	_ = syscall.Kill(-group, syscall.SIGTERM)
	defer syscall.Kill(-group, syscall.SIGKILL)
	needs.Wait(t, "the end of what the start left in the background", func() bool { return syscall.Kill(-group, 0) != nil })
}
