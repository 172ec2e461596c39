package main

import (
	"os"
	"runtime"
	_ "time/tzdata" // periods of the calendar have time zones, and the machine may know none
)

func main() {
	// The system may hand a signal to the first thread, and to no other. So that one only waits: it would hear nothing
	// while it reads from a disk or a share that hangs. What runs before main runs in the first thread.
	runtime.LockOSThread()
	os.Exit(run(os.Args[1:], newTerminal(os.Stdout, os.Stderr)))
}
