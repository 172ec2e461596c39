package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"weir/console"
)

// activated makes a command get a socket as systemd would hand it over.
var activated = []string{"sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec weir "$@"`, "sh"}

// A weir whose socket is handed over restarts under load without refusing a connection or leaving one unanswered: what
// comes meanwhile waits in the socket, which whoever opened it keeps open.
func TestActivation(t *testing.T) {
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
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	handed, err := socket.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer handed.Close()
	file := filepath.Join(folder, "weir.yaml")
	text := fmt.Sprintf("data: %[1]s/data\ncontrol: %[1]s/weir.sock\nconsole: {listen: \"off\"}\nlog: {access: \"off\"}\n"+
		"http: [{listen: \"%[2]s\", upstream: \"%[3]s\"}]\n", folder, socket.Addr(), upstream.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	weir := startWeirWith(t, file, []*os.File{handed}, activated...)
	stop := make(chan struct{})
	defer func() { weir.Process.Kill(); weir.Wait() }()
	var clients sync.WaitGroup
	answered, between := make([]int, 4), make(chan struct{}, 4)
	failed := make(chan struct{}, len(answered))
	for client := range answered {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := once(socket.Addr().String()); err != nil {
					t.Error(err)
					failed <- struct{}{}
					return
				}
				answered[client]++
				select {
				case between <- struct{}{}:
				default:
				}
			}
		})
	}
	for range 3 {
		for range len(answered) * 5 {
			select {
			case <-between: // some were served
			case <-failed:
				t.FailNow()
			}
		}
		if err := weir.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := weir.Wait(); err != nil {
			t.Fatalf("weir did not end well: %v", err)
		}
		weir = startWeirWith(t, file, []*os.File{handed}, activated...)
	}
	close(stop)
	clients.Wait()
	s, err := console.StatusCall.Ask(context.Background(), console.NewClient(filepath.Join(folder, "weir.sock")),
		console.None{})
	if err != nil || s.Gates[0].Address != socket.Addr().String() {
		t.Errorf("%v, %v", s.Gates, err)
	}
	t.Logf("answered: %v, none refused", answered)
}

// once asks over a connection of its own.
func once(address string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", address); err != nil {
		return err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	if len(answer) < 12 || string(answer[:12]) != "HTTP/1.1 200" {
		return fmt.Errorf("answered: %.200q", answer)
	}
	return nil
}
