// Package needs is for tests that need something which not every machine has.
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

// Skip skips a test and says what is missing. In CI, which has everything that tests need, the test fails.
func Skip(t testing.TB, lacking any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(lacking)
	}
	t.Skip(lacking)
}

// Long reports whether WEIR_LONG is set, as by "make long". Then tests run in full instead of in a smaller size.
func Long() bool { return os.Getenv("WEIR_LONG") != "" }

// FreeAddress returns an address of the loopback for a program that cannot choose its port by itself. No program
// listens there. The kernel does not assign such ports by itself, and no other test gets this one while this process
// runs.
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

// reserve keeps an address for this process by a socket of that name, which is never closed. Such names leave no files,
// but only Linux has them.
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

// Program returns the path of a program. It also looks in the sbin folders. Without the program the test is skipped;
// from says how to get it.
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

// Python returns the path of a Python that has a module: the first one on the PATH, or that of the system. Without one
// the test is skipped; from says how to get the module.
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
