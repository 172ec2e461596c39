package main

import (
	"os"
	"runtime"
	_ "time/tzdata" // periods of the calendar have time zones, and the machine may know none
)

// Linux may hand a signal to the first thread alone, even while that reads from a share that hangs. So main keeps the
// first thread, and only waits there. Go promises that thread only if it is locked before main begins.
var _ = func() bool { runtime.LockOSThread(); return true }()

func main() {
	os.Exit(run(os.Args[1:], newTerminal(os.Stdout, os.Stderr)))
}
