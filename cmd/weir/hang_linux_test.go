package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/testkit/needs"
)

// hungShare is a folder that never answers, as a share whose server is gone. asked waits until somebody wants something
// of it.
func hungShare(t *testing.T) (folder string, asked func()) {
	t.Helper()
	fuse, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		needs.Skip(t, err)
	}
	t.Cleanup(func() { syscall.Close(fuse) })
	folder = t.TempDir()
	if err := syscall.Mount("weir", folder, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse)); err != nil {
		needs.Skip(t, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	request := make([]byte, 64<<10)
	if _, err := syscall.Read(fuse, request); err != nil {
		t.Fatal(err)
	}
	// The kernel greets, and wants an answer before it asks (fuse(4)): version 7.12, and nothing special.
	answer := binary.NativeEndian.AppendUint32(nil, 40)
	answer = append(answer, make([]byte, 4)...)
	answer = append(answer, request[8:16]...) // which request it is for
	for _, field := range []uint32{7, 12, 0, 0, 0, 4096} {
		answer = binary.NativeEndian.AppendUint32(answer, field)
	}
	if _, err := syscall.Write(fuse, answer); err != nil {
		t.Fatal(err)
	}
	return folder, func() {
		t.Helper()
		// The request stays unread: the kernel lets go of a process only before that.
		waiting := []unix.PollFd{{Fd: int32(fuse), Events: unix.POLLIN}}
		needs.Wait(t, "a request", func() bool { n, err := unix.Poll(waiting, 0); return n == 1 && err == nil })
	}
}

// A managed weir reports its state to the test, as to a service manager.
type managed struct {
	*exec.Cmd
	manager *net.UnixConn
	folder  string
	ended   chan error
	said    *strings.Builder
}

// shortFolder is a folder for a socket: t.TempDir has too long a name.
func shortFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// startManaged starts a weir without a console, and returns when it is ready.
func startManaged(t *testing.T, text string) *managed {
	t.Helper()
	said := new(strings.Builder)
	m := manage(t, shortFolder(t), "console: {listen: \"off\"}\n"+text, said)
	m.said = said
	return m
}

// manage starts a weir with a configuration in a folder, and returns when it is ready. log is where its log goes.
func manage(t *testing.T, folder, text string, log io.Writer) *managed {
	t.Helper()
	text = fmt.Sprintf("data: %[1]s/data\ncontrol: %[1]s/weir.sock\n", folder) + text
	if err := os.WriteFile(filepath.Join(folder, "weir.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := launch(t, folder, log)
	m.await(t, "READY=1")
	return m
}

// launch starts a weir in a folder that has its configuration.
func launch(t *testing.T, folder string, log io.Writer) *managed {
	t.Helper()
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(folder, "notify")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { manager.Close() })
	manager.SetReadDeadline(time.Now().Add(2 * time.Minute))
	m := &managed{exec.Command("weir", "serve", "-c", "weir.yaml"), manager, folder, make(chan error, 1), new(strings.Builder)}
	m.Dir, m.Stderr = folder, log
	m.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(folder, "notify"), "GORACE=atexit_sleep_ms=0")
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Process.Kill() })
	go func() { m.ended <- m.Wait() }()
	return m
}

// await reads what weir tells its service manager until it says something.
func (m *managed) await(t *testing.T, state string) {
	t.Helper()
	for said := ""; !strings.Contains(said, state); {
		b := make([]byte, 4096)
		n, err := m.manager.Read(b)
		if err != nil {
			t.Fatalf("it does not say %s: %v, but: %s", state, err, m.said)
		}
		said = string(b[:n])
	}
}

// end waits until weir has ended.
func (m *managed) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-m.ended:
		return err
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not end")
		return nil
	}
}

func (m *managed) send(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := m.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// TestReloadThatHangs: a file that does not answer stops neither later reloads nor the end.
func TestReloadThatHangs(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	gate := func() string {
		return fmt.Sprintf("http: [{listen: %q, upstream: %q", needs.FreeAddress(), upstream.URL)
	}
	t.Run("a pipe in place of the file", func(t *testing.T) {
		t.Parallel()
		m := startManaged(t, gate()+"}]\n")
		file := filepath.Join(m.folder, "weir.yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(file, 0o600); err != nil {
			t.Fatal(err)
		}
		m.send(t, syscall.SIGHUP)
		m.await(t, "the last reload failed")
		reload := func() (string, error) {
			out, err := exec.Command("weir", "reload", "--control", filepath.Join(m.folder, "weir.sock")).CombinedOutput()
			return string(out), err
		}
		if out, err := reload(); err == nil || !strings.Contains(out, "the file is empty") {
			t.Errorf("%v: %s", err, out)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := reload(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		m.send(t, syscall.SIGTERM)
		if err := m.end(t); err != nil {
			t.Errorf("%v: %s", err, m.said)
		}
	})
	t.Run("a share without its server", func(t *testing.T) {
		t.Parallel()
		share, asked := hungShare(t)
		m := startManaged(t, gate()+"}]\n")
		file := filepath.Join(m.folder, "weir.yaml")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(share, "weir.yaml"), file); err != nil {
			t.Fatal(err)
		}
		m.send(t, syscall.SIGHUP)
		asked()
		m.send(t, syscall.SIGTERM)
		if err := m.end(t); err != nil {
			t.Errorf("%v: %s", err, m.said)
		}
	})
	t.Run("a share without its server, at the start", func(t *testing.T) {
		t.Parallel()
		share, asked := hungShare(t)
		folder := shortFolder(t)
		if err := os.Symlink(filepath.Join(share, "weir.yaml"), filepath.Join(folder, "weir.yaml")); err != nil {
			t.Fatal(err)
		}
		m := launch(t, folder, io.Discard)
		asked()
		m.send(t, syscall.SIGTERM)
		if err := m.end(t); err != nil {
			t.Error(err)
		}
	})
	t.Run("a certificate there", func(t *testing.T) {
		t.Parallel()
		share, asked := hungShare(t)
		m := startManaged(t, gate()+"}]\n")
		file := filepath.Join(m.folder, "weir.yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(share, filepath.Join(m.folder, "share")); err != nil {
			t.Fatal(err)
		}
		with := strings.Replace(string(text), "}]\n", ", tls: {cert: share/cert.pem, key: share/key.pem}}]\n", 1)
		if err := os.WriteFile(file, []byte(with), 0o600); err != nil {
			t.Fatal(err)
		}
		m.send(t, syscall.SIGHUP)
		asked()
		m.send(t, syscall.SIGTERM)
		if err := m.end(t); err != nil {
			t.Errorf("%v: %s", err, m.said)
		}
	})
	t.Run("a request under way, and a second signal", func(t *testing.T) {
		t.Parallel()
		asked, end := make(chan struct{}), make(chan struct{})
		silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(asked)
			<-end
		}))
		defer silent.Close()
		defer close(end)
		address := needs.FreeAddress()
		m := startManaged(t, fmt.Sprintf("http: [{listen: %q, upstream: %q}]\n", address, silent.URL))
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
		<-asked
		m.send(t, syscall.SIGTERM)
		m.await(t, "STOPPING=1")
		m.send(t, syscall.SIGTERM)
		if err := m.end(t); err == nil || !strings.Contains(m.said.String(), "before everything was done") {
			t.Errorf("%v: %s", err, m.said)
		}
	})
}
