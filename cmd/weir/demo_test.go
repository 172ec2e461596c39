package main

import (
	"bufio"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestDemoAndItsReader: the demo ends when nobody reads it any more, and leaves nothing behind. The signal that also
// comes for any connection that was reset does not end it.
func TestDemoAndItsReader(t *testing.T) {
	folder, err := os.MkdirTemp("", "w") // short: a socket's path goes in there
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	t.Setenv("TMPDIR", folder)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	code := make(chan int, 1)
	go func() {
		defer w.Close()
		code <- run([]string{"demo", "--for", "1s", "--hold"}, &terminal{out: w, err: w})
	}()
	lines := bufio.NewScanner(r)
	scenes := 0
	for scenes < 2 && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "weir demo, scene ") {
			if scenes++; scenes == 1 {
				if err := syscall.Kill(os.Getpid(), syscall.SIGPIPE); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if scenes < 2 {
		t.Fatalf("%d scenes: %v", scenes, lines.Err())
	}
	r.Close() // with more scenes to come, and an hour of the page
	<-code
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
