package needs

import (
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

// a listener is a test that remembers how it ended.
type listener struct {
	testing.TB
	skipped, failed string
}

func (l *listener) Helper()           {}
func (l *listener) Skip(args ...any)  { l.skipped = fmt.Sprint(args...); runtime.Goexit() }
func (l *listener) Fatal(args ...any) { l.failed = fmt.Sprint(args...); runtime.Goexit() }

// TestPython: a Python is one that has the module. Without one the test is left out, and fails in CI.
func TestPython(t *testing.T) {
	python := Python(t, "json", "apt-get install python3")
	if out, err := exec.Command(python, "-c", "import json; print(json.dumps([1]))").Output(); err != nil ||
		strings.TrimSpace(string(out)) != "[1]" {
		t.Errorf("%s says %q, %v", python, out, err)
	}
	for _, ci := range []string{"", "true"} {
		t.Setenv("CI", ci)
		l := &listener{TB: t}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			t.Errorf("found %s", Python(l, "no_such_module", "nowhere to be had"))
		}()
		<-ended
		const lacking = "no Python has no_such_module (nowhere to be had)"
		if ci == "" && (l.skipped != lacking || l.failed != "") || ci == "true" &&
			(l.failed != lacking || l.skipped != "") {
			t.Errorf("CI=%s: skipped %q, failed %q", ci, l.skipped, l.failed)
		}
	}
}

// TestFreeAddress: an address can be listened on, and is given to nobody else.
func TestFreeAddress(t *testing.T) {
	given := map[string]bool{}
	for range 200 {
		address := FreeAddress()
		if given[address] || runtime.GOOS == "linux" && reserve(address) {
			t.Fatalf("%s was given away twice", address)
		}
		given[address] = true
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
}
