//go:build unix

package docstest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/needs"
)

// patience bounds what a start may take on a machine that has a lot else to do. It is not a measurement.
const patience = 2 * time.Minute

// A start is what a page tells a new user to paste, and what they see then.
type start struct {
	begin, try block
	want       []string
}

// starts returns the starts of a page: a block `sh start`, a block `sh try` and a block `text`, in this order.
func starts(t *testing.T, p page) (all []start) {
	for i, b := range p.blocks {
		if !b.is("sh", "start") {
			continue
		}
		if i+2 >= len(p.blocks) || !p.blocks[i+1].is("sh", "try") || !p.blocks[i+2].is("text", "") {
			t.Errorf("%s: a block `sh start` is followed by `sh try` and `text`", b.at())
			continue
		}
		all = append(all, start{b, p.blocks[i+1], strings.Split(strings.TrimSpace(p.blocks[i+2].text), "\n")})
	}
	return all
}

// TestStarts pastes every start of every page into a shell and compares what is printed. Only the ports are others, so
// that nothing on this machine is in the way.
func TestStarts(t *testing.T) {
	shell := needs.Program(t, "bash", "apt-get install bash")
	needs.Program(t, "curl", "apt-get install curl")
	needs.Program(t, "python3", "apt-get install python3")
	tools := tools(t)
	found := 0
	for _, p := range pages(t) {
		for _, s := range starts(t, p) {
			found++
			t.Run(s.begin.at(), func(t *testing.T) { s.run(t, shell, tools) })
		}
	}
	if found < 5 {
		t.Errorf("%d starts found, there should be five in README.md", found)
	}
}

var (
	// port is a port in a start: of an address, of Python's web server or of the mail server for trying.
	port = regexp.MustCompile(`(127\.0\.0\.1:|http\.server |sink\.py )(\d+)`)
	// behind is the port of a service behind weir. A gate's own port is not tried: that would count.
	behind = regexp.MustCompile(`(?:http\.server|sink\.py) (\d+)`)
	// serves is the configuration of a weir.
	serves = regexp.MustCompile(`weir serve -c (\S+)`)
)

func (s *start) run(t *testing.T, shell, tools string) {
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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	paste := func(text string) (string, *exec.Cmd) {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd := exec.CommandContext(ctx, shell, "-e", "-c", text)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "PATH="+tools+string(filepath.ListSeparator)+os.Getenv("PATH"))
		cmd.Stdout, cmd.Stderr = out, out // a file: what goes on in the background does not keep Run waiting
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		err = cmd.Run()
		printed, _ := os.ReadFile(out.Name())
		if err != nil {
			t.Errorf("%v\n%s", err, printed)
		}
		return string(printed), cmd
	}

	_, begun := paste(moved(s.begin.text))
	defer endGroup(t, begun.Process.Pid)
	for _, m := range behind.FindAllStringSubmatch(s.begin.text, -1) {
		await(ctx, t, "port "+m[1], func() bool { return listens(ctx, ports[m[1]]) })
	}
	for _, m := range serves.FindAllStringSubmatch(s.begin.text, -1) {
		await(ctx, t, m[1], func() bool {
			status := exec.CommandContext(ctx, filepath.Join(tools, "weir"), "status", "-c", m[1])
			status.Dir = folder
			return status.Run() == nil
		})
	}
	if t.Failed() {
		return
	}
	printed, tried := paste(moved(s.try.text))
	defer endGroup(t, tried.Process.Pid)
	got := strings.Split(strings.TrimSpace(printed), "\n")
	for i, want := range s.want {
		if i >= len(got) || !matches(want, got[i]) {
			t.Fatalf("%s: line %d is not %q:\n%s", s.try.at(), i+1, want, printed)
		}
	}
	if len(got) > len(s.want) && s.want[len(s.want)-1] != "…" {
		t.Errorf("%s: more is printed than the page says:\n%s", s.try.at(), printed)
	}
}

// workFolder looks like the folder of the project to a start, and takes what a start writes.
func workFolder(t *testing.T) string {
	base, err := filepath.Abs(root)
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

// await returns when something is ready.
func await(ctx context.Context, t *testing.T, what string, ready func() bool) {
	for !ready() {
		select {
		case <-ctx.Done():
			t.Errorf("%s is not ready", what)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func listens(ctx context.Context, port string) bool {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// endGroup ends what a shell has left in the background, and waits until it is gone.
func endGroup(t *testing.T, group int) {
	_ = syscall.Kill(-group, syscall.SIGTERM)
	for deadline := time.Now().Add(patience); syscall.Kill(-group, 0) == nil; {
		if time.Now().After(deadline) {
			_ = syscall.Kill(-group, syscall.SIGKILL)
			t.Errorf("what the start left in the background does not end")
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
