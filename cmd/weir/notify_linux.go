package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// monotonic is the timestamp that sd_notify(3) asks for with RELOADING=1.
func monotonic() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return ""
	}
	return fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000)
}
