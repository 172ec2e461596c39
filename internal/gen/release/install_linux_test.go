package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"weir/internal/testkit/needs"
)

// insideVariable names the package to a test that runs inside a root of its own.
const insideVariable = "WEIR_INSTALL_DEB"

// checkInstall installs a package in a root of its own: this machine's, with everything that changes kept in memory,
// and with its own network and processes. There is no systemd in it.
func checkInstall(t *testing.T, deb string) {
	t.Helper()
	needs.Program(t, "dpkg", "a Debian system")
	if os.Getuid() != 0 {
		needs.Skip(t, "root is needed for a root of its own")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestInstalled$", "-test.v")
	cmd.Env = append(os.Environ(), insideVariable+"="+deb, "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestInstalled") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// TestInstalled is the inside of checkInstall: install, check, serve as the unit would, replace the binary under load,
// purge, and look for what is left.
func TestInstalled(t *testing.T) {
	deb := os.Getenv(insideVariable)
	if deb == "" {
		t.Skip("it runs in a root of its own, as part of TestRelease")
	}
	deb = enterRoot(t, deb)
	must(t, "ip", "link", "set", "lo", "up")
	before := listRoot(t)
	must(t, "dpkg", "-i", deb)
	for _, file := range []string{"weir", "mail", "xdp"} {
		must(t, "setpriv", "--reuid=weir", "--regid=weir", "--init-groups", "weir", "check", "/etc/weir/"+file+".yaml")
	}
	if out := must(t, "stat", "-c", "%U:%G %a", "/etc/weir/weir.yaml", "/var/lib/weir"); out != "root:weir 640\nweir:weir 700\n" {
		t.Errorf("owners and modes: %s", out)
	}
	must(t, "man", "-w", "weir-queue")
	serveInstalled(t, deb)
	must(t, "dpkg", "--purge", "weir")
	after := listRoot(t)
	for _, name := range after {
		if _, found := slices.BinarySearch(before, name); !found {
			t.Errorf("purge leaves %s", name)
		}
	}
	for _, name := range before {
		if _, found := slices.BinarySearch(after, name); !found {
			t.Errorf("purge took %s, which was there before", name)
		}
	}
	if users, err := os.ReadFile("/etc/passwd"); err != nil || strings.Contains(string(users), "weir") {
		t.Errorf("the user is left (%v)", err)
	}
}

// enterRoot makes this machine's files the root of this process, below what is written from now on. It returns where
// the package is in it.
func enterRoot(t *testing.T, deb string) string {
	t.Helper()
	data, err := os.ReadFile(deb)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, err error) {
		t.Helper()
		if err != nil {
			needs.Skip(t, fmt.Sprintf("no root of its own: %s: %v", what, err))
		}
	}
	top := os.Getenv("TMPDIR")
	try("private", syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	try("tmpfs", syscall.Mount("weir", top, "tmpfs", 0, "mode=755"))
	root := filepath.Join(top, "root")
	for _, name := range []string{"upper", "work", "root"} {
		try(name, os.Mkdir(filepath.Join(top, name), 0o755))
	}
	try("overlay", syscall.Mount("weir", root, "overlay", 0,
		"lowerdir=/,upperdir="+filepath.Join(top, "upper")+",workdir="+filepath.Join(top, "work")))
	try("proc", syscall.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""))
	try("dev", syscall.Mount("/dev", filepath.Join(root, "dev"), "", syscall.MS_BIND|syscall.MS_REC, ""))
	for _, folder := range []string{"tmp", "run"} {
		try(folder, syscall.Mount("weir", filepath.Join(root, folder), "tmpfs", 0, "mode=1777"))
	}
	try("chroot", syscall.Chroot(root))
	try("chdir", os.Chdir("/"))
	t.Setenv("TMPDIR", "/tmp")
	if err := os.WriteFile("/tmp/weir.deb", data, 0o600); err != nil {
		t.Fatal(err)
	}
	return "/tmp/weir.deb"
}

func must(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

// others are files that dpkg and man keep for themselves, and copies that useradd makes of its files.
var others = regexp.MustCompile(`^/(var/(lib/dpkg|log|cache)/|etc/((passwd|group|shadow|gshadow|subuid|subgid)-|\.pwd\.lock)$)`)

// listRoot lists all files that are not this test's.
func listRoot(t *testing.T) (names []string) {
	t.Helper()
	for _, top := range []string{"/etc", "/usr", "/var", "/run", "/opt"} {
		err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil && errors.Is(err, fs.ErrNotExist):
				return nil
			case !others.MatchString(name):
				names = append(names, name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	return names
}

// example is a line of an example in an installed configuration.
var example = regexp.MustCompile(`(?m)^#(\S|  )`)

// serveInstalled runs weir as weir-edge.service would: as its user, with one capability, and with a socket that is
// handed over. Under load the package is installed again, which replaces the binary, and weir restarts.
func serveInstalled(t *testing.T, deb string) {
	t.Helper()
	text, err := os.ReadFile("/etc/weir/weir.yaml")
	if err != nil {
		t.Fatal(err)
	}
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hello")
	}))
	if upstream.Listener, err = net.Listen("tcp", "127.0.0.1:3000"); err != nil {
		t.Fatal(err)
	}
	upstream.Start()
	defer upstream.Close()
	served := strings.ReplaceAll(string(example.ReplaceAll(text, []byte("$1"))), "limit: 5,", "limit: 1000000,")
	if err := os.WriteFile("/etc/weir/weir.yaml", []byte(served), 0o640); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", ":8080")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	weir := startInstalled(t, socket)
	defer func() { weir.Process.Kill(); weir.Wait() }()
	stop, failed := make(chan struct{}), make(chan error, 4)
	var clients sync.WaitGroup
	var answered sync.Map
	for client := range 4 {
		clients.Go(func() {
			transport := &http.Transport{DisableKeepAlives: true}
			for n := 1; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				resp, err := (&http.Client{Transport: transport}).Get("http://127.0.0.1:8080/")
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if resp.StatusCode != http.StatusOK {
						err = errors.Join(err, fmt.Errorf("answered %s", resp.Status))
					}
				}
				if err != nil {
					failed <- err
					return
				}
				answered.Store(client, n)
			}
		})
	}
	for range 2 {
		must(t, "dpkg", "--force-confold", "-i", deb)
		if err := weir.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := weir.Wait(); err != nil {
			t.Errorf("weir did not end well: %v", err)
		}
		weir = startInstalled(t, socket)
	}
	if out := must(t, "weir", "status"); !strings.Contains(out, ":8080") {
		t.Errorf("weir status: %s", out)
	}
	close(stop)
	clients.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	for client := range 4 {
		n, _ := answered.Load(client)
		t.Logf("client %d: %v requests answered, none refused", client, n)
	}
	if err := weir.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := weir.Wait(); err != nil {
		t.Errorf("weir did not end well: %v", err)
	}
}

// startInstalled starts the installed weir and waits until it says that it is ready.
func startInstalled(t *testing.T, socket *os.File) *exec.Cmd {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	for _, name := range []string{path, filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	weir := exec.Command("setpriv", "--reuid=weir", "--regid=weir", "--init-groups", "--no-new-privs",
		"--bounding-set=-all,+net_bind_service", "--inh-caps=-all,+net_bind_service",
		"--ambient-caps=-all,+net_bind_service", "sh", "-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec /usr/bin/weir serve")
	weir.Env = []string{"PATH=/usr/bin:/bin", "NOTIFY_SOCKET=" + path}
	weir.ExtraFiles = []*os.File{socket}
	var said strings.Builder
	weir.Stderr = &said
	if err := weir.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := manager.Read(make([]byte, 4096)); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
	return weir
}
