package keeper

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"weir/internal/testkit/needs"
)

// TestKeeper: the script runs until its input ends, and what it says is known then.
func TestKeeper(t *testing.T) {
	folder := t.TempDir()
	k, err := Start(`touch "$1/up"; cat >/dev/null; rm "$1/up"; echo gone`, folder)
	if err != nil {
		t.Fatal(err)
	}
	up := filepath.Join(folder, "up")
	needs.Wait(t, "it starts", func() bool { _, err := os.Stat(up); return err == nil })
	if k.Said() != "" {
		t.Error("it has said something")
	}
	if err := k.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(up); !os.IsNotExist(err) || k.Said() != "gone\n" {
		t.Errorf("%v, %q", err, k.Said())
	}
}

// TestUp: a server that answers is up; one whose script has ended never will be.
func TestUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("220 here\r\n"))
			c.Close()
		}
	}()
	k, err := Start("cat >/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if !k.Up(l.Addr().String()) {
		t.Error("it answers, but is not up")
	}
	if err := k.Stop(); err != nil {
		t.Error(err)
	}
	failed, err := Start("exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if failed.Up("127.0.0.1:1") {
		t.Error("nobody is there")
	}
	if err := failed.Stop(); err == nil || err.Error() != "exit status 3" {
		t.Error(err)
	}
}
