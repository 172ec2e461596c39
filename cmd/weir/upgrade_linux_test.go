package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/console"
	"weir/internal/testkit/needs"
)

// A new binary takes the place of a running weir under load, several times over, in the same process and on the same
// sockets, although no service manager holds them: no connection is refused and each gets its answer. One that does not
// understand the configuration changes nothing.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hello")
	}))
	defer upstream.Close()
	folder, err := os.MkdirTemp("", "weir") // t.TempDir has too long a name for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	file, address, control := filepath.Join(folder, "weir.yaml"), needs.FreeAddress(), filepath.Join(folder, "weir.sock")
	text := fmt.Sprintf("data: %[1]s/data\ncontrol: %[1]s/weir.sock\nconsole: {listen: \"off\"}\nlog: {access: \"off\"}\n"+
		"http: [{listen: \"%[2]s\", upstream: \"%[3]s\"}, {listen: \"unix:%[1]s/http\", upstream: \"%[3]s\"}]\n",
		folder, address, upstream.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	weir := startWeir(t, file, "weir")
	defer func() { weir.Process.Kill(); weir.Wait() }()
	stop, failed := make(chan struct{}), make(chan error, 4)
	pace := time.NewTicker(time.Millisecond / 4) // so that the new weirs get to start
	defer pace.Stop()
	var clients sync.WaitGroup
	answered := make([]int, cap(failed))
	for client := range answered {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-pace.C:
				}
				if err := once(address); err != nil {
					failed <- err
					return
				}
				answered[client]++
			}
		})
	}
	for range 3 {
		if out, err := exec.Command("weir", "upgrade", "--control", control).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	close(stop)
	clients.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	t.Logf("answered: %v, none refused", answered)
	client := console.NewClient(control)
	before, err := console.StatusCall.Ask(context.Background(), client, console.None{})
	if err != nil || len(before.Gates) != 2 {
		t.Fatalf("%d gates, %v", len(before.Gates), err)
	}
	if err := os.WriteFile(file, []byte("htp: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("weir", "upgrade", "--control", control).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the old weir goes on") || !strings.Contains(string(out), `unknown key "htp"`) {
		t.Errorf("%v: %s", err, out)
	}
	after, err := console.StatusCall.Ask(context.Background(), client, console.None{})
	if err != nil || !after.Started.Equal(before.Started) {
		t.Errorf("the old weir does not go on: %v", err)
	}
}

// What is no weir that can serve does not take the place of one, whatever it does.
func TestUpgradeToSomethingElse(t *testing.T) {
	t.Parallel()
	folder := shortFolder(t)
	binary, control := filepath.Join(folder, "weir"), filepath.Join(folder, "weir.sock")
	real, err := exec.LookPath("weir")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, binary); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "weir.yaml")
	text := fmt.Appendf(nil, "data: %[1]s/data\ncontrol: %[1]s/weir.sock\nconsole: {listen: %[2]q}\n", folder,
		needs.FreeAddress())
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	weir := startWeir(t, file, "env", "PATH="+folder+":"+os.Getenv("PATH"), "weir")
	defer func() { weir.Process.Kill(); weir.Wait() }()
	for want, script := range map[string]string{
		"it is not weir":        "#!/bin/sh\nexit 0\n",
		"exit status 3: broken": "#!/bin/sh\nsleep 600 &\necho $! >" + folder + "/pid\necho broken\nexit 3\n",
		"exit status 4: xxx":    "#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' x\nexit 4\n",
		"exec format error":     "",
	} {
		if err := os.Remove(binary); err != nil {
			t.Fatal(err)
		}
		// Another process writes it: one that this one starts meanwhile would keep it busy.
		write := exec.Command("sh", "-c", "cat >weir && chmod 700 weir")
		write.Dir, write.Stdin = folder, strings.NewReader(script)
		if err := write.Run(); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(real, "upgrade", "--control", control).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "the old weir goes on") ||
			!strings.Contains(string(out), want) || len(out) > 2*maxOpening {
			t.Errorf("%s: %v: %.500s", want, err, out)
		}
	}
	if pid, err := os.ReadFile(filepath.Join(folder, "pid")); err == nil {
		exec.Command("kill", strings.TrimSpace(string(pid))).Run()
	}
}
