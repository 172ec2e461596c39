// Package needs is for tests of what not every machine has.
package needs

import (
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
)

// Skip leaves a test out, saying what it lacks. In CI everything is there that tests need: there, the test fails.
func Skip(t testing.TB, lacking any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(lacking)
	}
	t.Skip(lacking)
}

// Long reports whether there is time: with WEIR_LONG set, as "make long" does, tests do in full what otherwise a
// smaller size stands for.
func Long() bool { return os.Getenv("WEIR_LONG") != "" }

// FreeAddress returns an address of the loopback for a program that cannot choose its port by itself. Nobody listens
// there, and nobody will by chance: the port is not one of those that the kernel gives away, and no other test gets it
// as long as this process lives.
func FreeAddress() string {
	for {
		address := "127.0.0.1:" + strconv.Itoa(10_000+rand.IntN(20_000))
		if !reserve(address) {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
}

// reserve keeps an address for this process, by a socket of that name which is never closed. Such names leave no
// files, but only Linux has them.
func reserve(address string) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return true
	}
	syscall.CloseOnExec(fd)
	if syscall.Bind(fd, &syscall.SockaddrUnix{Name: "@weir-test-" + address}) != nil {
		_ = syscall.Close(fd)
		return false
	}
	return true
}

// Program returns where a program is, looking where programs of administrators are, too. Without it the test is left
// out; from says how to get it.
func Program(t testing.TB, name, from string) string {
	t.Helper()
	for _, at := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if path, err := exec.LookPath(at); err == nil {
			return path
		}
	}
	Skip(t, name+" is not installed ("+from+")")
	return ""
}

// Python returns a Python that has a module: the first one on the path, or that of the system. Without one the test is
// left out; from says how to get the module.
func Python(t testing.TB, module, from string) string {
	t.Helper()
	for _, at := range []string{"python3", "/usr/bin/python3"} {
		if path, err := exec.LookPath(at); err == nil && exec.Command(path, "-c", "import "+module).Run() == nil {
			return path
		}
	}
	Skip(t, "no Python has "+module+" ("+from+")")
	return ""
}
