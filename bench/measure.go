//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// interleaved runs several sides in turns, so that what else the machine does hits all of them, and returns the median time of
// each.
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
		slices.Sort(t)
		medians[i] = t[len(t)/2]
	}
	return medians
}

// allocations returns how many objects f allocates.
func allocations(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// machine says what the figures were measured on.
func machine() string {
	model := "an unknown processor"
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores, %s, %s/%s", model, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// residentKB is the memory that a process has in use.
func residentKB(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			return kb, nil
		}
	}
	return 0, fmt.Errorf("process %d does not say how much memory it has", pid)
}
