//go:build linux

package main

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// watchStandstill tells how long the machine stood still, at most, until the function it returns is called. A virtual
// machine is not always given its processors. The thread that watches goes before all others, so that the load of a
// benchmark is not taken for a standstill. Where it may not go first, it tells nothing.
func watchStandstill() (end func() time.Duration) {
	stop := make(chan struct{})
	var done sync.WaitGroup
	var longest time.Duration
	done.Go(func() {
		runtime.LockOSThread() // and never unlock it: the thread ends with the goroutine
		first := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
		if unix.SchedSetAttr(0, &first, 0) != nil {
			return
		}
		nap := unix.Timespec{Nsec: int64(time.Millisecond)}
		for {
			before := time.Now()
			_ = unix.Nanosleep(&nap, nil)
			longest = max(longest, time.Since(before)-time.Millisecond)
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	return func() time.Duration {
		close(stop)
		done.Wait()
		return longest
	}
}
