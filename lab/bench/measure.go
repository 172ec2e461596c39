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

	"weir/lab/machine"
)

// inTurns runs every side once and returns how long each took.
func inTurns(sides []func()) (times []time.Duration) {
	for _, side := range sides {
		start := time.Now()
		side()
		times = append(times, time.Since(start))
	}
	return times
}

// interleaved runs the sides in turns, so that whatever else the machine does slows all of them, and returns the median
// time of each.
func interleaved(rounds int, sides ...func()) []time.Duration {
	var all [][]time.Duration
	for range rounds {
		all = append(all, inTurns(sides))
	}
	return medians(all)
}

// undisturbed is interleaved for measurements that a neighbour on the other core would slow down: see quietRounds.
func undisturbed(rounds int, sides ...func()) (times []time.Duration, busy string) {
	all, busy := quietRounds(rounds, 2*time.Minute, nil, func() []time.Duration { return inTurns(sides) })
	return medians(all), busy
}

// quietRounds plays rounds, and counts only those in which all processes but this one and pids had less than a
// twentieth of the machine together. Where there are too few of these in the given time, or a single round is asked
// for, every round counts, and busy says so.
func quietRounds[T any](rounds int, within time.Duration, pids []int, play func() T) (counted []T, busy string) {
	var all []T
	for end := time.Now().Add(within); len(counted) < rounds; {
		before := machine.Busy(pids...)
		one := play()
		all = append(all, one)
		if machine.Busy(pids...).Others(before) < 1./20 {
			counted = append(counted, one)
		} else if len(all) >= rounds && (rounds == 1 || time.Now().After(end)) {
			return all, ", on a busy machine"
		}
	}
	return counted, ""
}

// medians returns the median of every column of some rows.
func medians[T cmp.Ordered](rows [][]T) (all []T) {
	for i := range rows[0] {
		var column []T
		for _, row := range rows {
			column = append(column, row[i])
		}
		all = append(all, median(column))
	}
	return all
}

// median sorts the values.
func median[T cmp.Ordered](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
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

// memoryKB is a figure about the memory of a process: VmRSS is what it uses now, VmHWM the most that it ever used;
// proc_pid_status(5).
func memoryKB(pid int, name string) (kb int64) {
	for line := range strings.Lines(string(try(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))))) {
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kb); n == 1 {
			return kb
		}
	}
	panic(failure{fmt.Errorf("process %d does not report its %s", pid, name)})
}
