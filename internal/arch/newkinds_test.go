package arch

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

// added are the lines that a new throttle and a new gate need outside their folders, each with its import, and the
// lines that they follow.
var added = [][2]string{
	{`	"weir/gate/httpgate"`, `	"weir/gate/knockgate"`},
	{`	"weir/throttle/bloom"`, `	"weir/throttle/drip"`},
	{`	API *apigate.Options ` + "`yaml:\"api\"`", `	Knock []knockgate.Options ` + "`yaml:\"knock\"`"},
	{`	Reach *reach.Options ` + "`yaml:\"reach\"`", `	Drip *drip.Options ` + "`yaml:\"drip\"`"},
}

// buildWith builds weir with a throttle and a gate that nobody has seen before.
func buildWith(t *testing.T, folder string) (binary string) {
	t.Helper()
	base := root(t)
	config := filepath.Join(base, "config", "config.go")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	changed := string(text)
	for _, line := range added {
		if strings.Count(changed, line[0]+"\n") != 1 {
			t.Fatalf("config.go has no line %q, or several", line[0])
		}
		changed = strings.Replace(changed, line[0]+"\n", line[0]+"\n"+line[1]+"\n", 1)
	}
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	here := filepath.Join(base, "internal", "arch", "testdata")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {
		config: write("config.go", changed),
		filepath.Join(base, "throttle", "drip", "drip.go"):       filepath.Join(here, "drip", "drip.go"),
		filepath.Join(base, "gate", "knockgate", "knockgate.go"): filepath.Join(here, "knockgate", "knockgate.go"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(folder, "weir")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-w", "-overlay", write("overlay.json", string(list)),
		"-o", binary, "./cmd/weir")
	build.Dir = base
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// A new throttle and a new gate are one folder each, and one line each in the configuration's types: they are checked,
// served, shown and reloaded like the others.
func TestNewKindsTouchOneLine(t *testing.T) {
	folder := t.TempDir()
	weir := buildWith(t, folder)
	file, socket := filepath.Join(folder, "weir.yaml"), filepath.Join(folder, "knock")
	configure := func(first int, throttle string) {
		text := fmt.Sprintf("data: %s\nconsole: {listen: off}\nknock: [{listen: 'unix:%s', throttles: [%s]}]\n"+
			"throttles: {few: {drip: {first: %d}}}\n", folder, socket, throttle, first)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(want string, args ...string) {
		t.Helper()
		out, err := exec.Command(weir, args...).CombinedOutput()
		if !strings.Contains(string(out), want) {
			t.Errorf("weir %s: %v\n%s\nwant %q", strings.Join(args, " "), err, out, want)
		}
	}
	configure(-1, "few")
	run("less than none", "check", file)
	configure(2, "fwe")
	run(`did you mean "few"?`, "check", file)
	configure(2, "few")
	run("1 gate", "check", file)

	var log strings.Builder
	serve := exec.Command(weir, "serve", "-c", file)
	serve.Stderr = &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Kill()
		_ = serve.Wait()
	})
	knock := func() string {
		t.Helper()
		var c net.Conn
		needs.Wait(t, "the gate listens", func() bool {
			var err error
			c, err = net.Dial("unix", socket)
			return err == nil
		})
		defer c.Close()
		word, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(word)
	}
	expect := func(words ...string) {
		t.Helper()
		for i, want := range words {
			if got := knock(); got != want {
				t.Errorf("knock %d: %s, want %s", i, got, want)
			}
		}
	}
	expect("admit", "admit", "refuse", "refuse")
	run(`"kind": "knock"`, "status", "--json", "-c", file)
	run(`"kind": "drip"`, "status", "--json", "-c", file)
	configure(1, "few")
	run("", "reload", "-c", file)
	expect("admit", "refuse")

	// A gate that a reload removes is gone, and weir goes on.
	old := socket
	socket = filepath.Join(folder, "other")
	configure(3, "few")
	run("", "reload", "-c", file)
	if _, err := os.Stat(old); err == nil {
		t.Error("the old gate is still there")
	}
	configure(1, "few")
	run("", "reload", "-c", file)
	expect("admit", "refuse")
	_ = serve.Process.Signal(os.Interrupt)
	if err := serve.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &log)
	}
}
