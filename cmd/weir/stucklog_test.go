package main

import (
	"context"
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

	"weir/console"
)

// TestLogThatNobodyReads: a weir whose log is not read answers all requests, and ends when it is told to.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		io.WriteString(w, "hello")
	}))
	defer upstream.Close()
	folder, err := os.MkdirTemp("", "weir") // t.TempDir has too long a name for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(folder, "notify")})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	file, control := filepath.Join(folder, "weir.yaml"), filepath.Join(folder, "weir.sock")
	text := fmt.Sprintf("control: "+control+
		"\ndata: %s\nlog: {access: all}\nhttp: [{listen: \"127.0.0.1:0\", upstream: %s}]\n",
		filepath.Join(folder, "data"), upstream.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	unread, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	weir := exec.Command("weir", "serve", "-c", file)
	weir.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(folder, "notify"), "GORACE=atexit_sleep_ms=0")
	weir.Stderr = write
	if err := weir.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	defer weir.Process.Kill()
	manager.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := manager.Read(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	status, err := console.StatusCall.Ask(context.Background(), console.NewClient(control), console.None{})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: time.Minute}
	// A pipe holds 64 KiB; each of these lines has more than 2.
	for i := range 100 {
		res, err := client.Get("http://" + status.Gates[0].Address + "/" + strings.Repeat("x", 2000))
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	if err := weir.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- weir.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("it does not end")
	}
}
