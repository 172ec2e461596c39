package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/console"
	"weir/internal/testkit/needs"
)

// readOnly runs the image in a folder as a container would: nothing but the data folder can be written, and weir is not
// root.
const readOnly = `mount --bind "$0" "$0" && mount --bind "$0/var/lib/weir" "$0/var/lib/weir" &&
mount -o remount,ro,bind "$0" && ip link set lo up && ! touch "$0/tmp/x" 2>/dev/null &&
exec chroot --userspec=65532:65532 "$0" /usr/bin/weir "$@"`

// runImage unpacks a layer and runs what is in it.
func runImage(t *testing.T, layer []byte) {
	t.Helper()
	if os.Getuid() != 0 {
		needs.Skip(t, "root is needed to run an image")
	}
	folder, err := os.MkdirTemp("", "weir") // t.TempDir has too long a name for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	unpack(t, layer, folder)
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command("sh", append([]string{"-c", readOnly, folder}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
			Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	if out, err := inside("check").CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "/etc/weir/weir.yaml: ok") {
		t.Errorf("weir check: %v\n%s", err, out)
	}
	data := filepath.Join(folder, "var/lib/weir")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(data, "notify")})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	if err := os.Chmod(filepath.Join(data, "notify"), 0o777); err != nil {
		t.Fatal(err)
	}
	serve := inside("serve")
	serve.Env = []string{"PATH=" + os.Getenv("PATH"), "NOTIFY_SOCKET=/var/lib/weir/notify"}
	var said bytes.Buffer
	serve.Stderr = &said
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- serve.Wait()
		manager.Close()
	}()
	if _, err := manager.Read(make([]byte, 4096)); err != nil {
		t.Fatalf("weir serve: %v\n%s", err, said.String())
	}
	client := console.NewClient(filepath.Join(data, "weir.sock"))
	s, err := console.StatusCall.Ask(context.Background(), client, console.None{})
	if err != nil || s.State != "serving" {
		t.Errorf("%s, %v", s.State, err)
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("weir serve: %v\n%s", err, said.String())
	}
}

func unpack(t *testing.T, layer []byte, folder string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(folder, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(to, os.FileMode(h.Mode&0o777))
		} else {
			var data []byte
			if data, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(to, data, os.FileMode(h.Mode&0o777))
			}
		}
		if err == nil {
			err = os.Chown(to, h.Uid, h.Gid)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
