package gate

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	l, err := Listen("unix:"+path, Socket{Mode: "0640"})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Error(info, err)
	}
	if _, err := Listen("unix:"+path, Socket{}); err == nil || !strings.Contains(err.Error(), "another program does already") {
		t.Error(err)
	}
	// One that was left behind is taken over.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	if l, err = Listen("unix:"+path, Socket{}); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is left behind")
	}
	// Any other file stays.
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("unix:"+path, Socket{}); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Error(err)
	}
	_ = os.Remove(path)
	for _, wrong := range []Socket{{Owner: "no-such-user"}, {Group: "no-such-group"}, {Mode: "rw"}} {
		if _, err := Listen("unix:"+path, wrong); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%+v leaves a socket behind", wrong)
		}
	}
	if _, err := Listen("256.0.0.1:0", Socket{}); err == nil {
		t.Error("listens nowhere")
	}
}
