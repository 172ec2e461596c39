//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// interleaved runs several sides in turns, so that what else the machine does hits all of them, and returns the median
// time of each.
func interleaved(rounds int, sides ...func()) []time.Duration {
	times := make([][]time.Duration, len(sides))
	for range rounds {
		for i, side := range sides {
			start := time.Now()
			side()
			times[i] = append(times[i], time.Since(start))
		}
	}
	medians := make([]time.Duration, len(sides))
	for i, t := range times {
		medians[i] = median(t)
	}
	return medians
}

// median sorts the values.
func median[T cmp.Ordered](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}

// undisturbed is interleaved for what a neighbour on the other core would slow down: a round counts only when everybody
// else together had less than a twentieth of the machine. When there are not enough of these within two minutes, all
// rounds count, and busy says so.
func undisturbed(rounds int, sides ...func()) (medians []time.Duration, busy string) {
	good, all := make([][]time.Duration, len(sides)), make([][]time.Duration, len(sides))
	for end := time.Now().Add(2 * time.Minute); len(good[0]) < rounds; {
		start, idle, ours := time.Now(), idleTime(), processTime()
		times := make([]time.Duration, len(sides))
		for i, side := range sides {
			begin := time.Now()
			side()
			times[i] = time.Since(begin)
			all[i] = append(all[i], times[i])
		}
		whole := time.Since(start) * time.Duration(runtime.NumCPU())
		if others := whole - (idleTime() - idle) - (processTime() - ours); others < whole/20 {
			for i, t := range times {
				good[i] = append(good[i], t)
			}
		}
		if time.Now().After(end) && len(all[0]) >= rounds {
			good, busy = all, ", on a busy machine"
		}
	}
	for _, t := range good {
		medians = append(medians, median(t))
	}
	return medians, busy
}

// idleTime is how long the cores of this machine have had nothing to do, together; proc_stat(5).
func idleTime() time.Duration {
	var user, nice, system, idle, wait int64
	if stat, err := os.ReadFile("/proc/stat"); err == nil {
		_, _ = fmt.Sscanf(string(stat), "cpu %d %d %d %d %d", &user, &nice, &system, &idle, &wait)
	}
	return time.Duration(idle+wait) * 10 * time.Millisecond
}

// processTime is how long this process has been running on any core.
func processTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func allocations(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// residentKB is the memory that a process has in use.
func residentKB(pid int) (int64, error) { return memoryKB(pid, "VmRSS") }

// memoryKB is a figure about the memory of a process; proc_pid_status(5).
func memoryKB(pid int, name string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kb); n == 1 {
			return kb, nil
		}
	}
	return 0, fmt.Errorf("process %d does not say its %s", pid, name)
}
