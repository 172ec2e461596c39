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
	play := func(args ...string) (*bufio.Scanner, *os.File, chan int) {
		t.Helper()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		code := make(chan int, 1)
		go func() {
			defer w.Close()
			code <- run(append([]string{"demo"}, args...), &terminal{out: w, err: w})
		}()
		return bufio.NewScanner(r), r, code
	}
	lines, r, code := play("--for", "1s")
	if !lines.Scan() {
		t.Fatal(lines.Err())
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGPIPE); err != nil {
		t.Fatal(err)
	}
	scenes := 0
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "weir demo, scene ") {
			scenes++
		}
	}
	r.Close()
	if got := <-code; got != exitOK || scenes != 5 {
		t.Errorf("%d after %d scenes", got, scenes)
	}

	lines, r, code = play("--hold") // it would take half a minute, and then an hour
	if !lines.Scan() {
		t.Fatal(lines.Err())
	}
	r.Close()
	<-code
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
