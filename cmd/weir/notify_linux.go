package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// monotonic is the time stamp that a service manager wants with RELOADING=1, to know which reload is meant.
func monotonic() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return ""
	}
	return fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000)
}
