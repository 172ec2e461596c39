package machine

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// A Busyness is how much the processors have worked: for everybody, and for us and our processes that have ended.
type Busyness struct {
	at        time.Time
	all, ours time.Duration
}

// userHZ is in what part of a second Linux tells times to processes, whatever it counts in itself.
const userHZ = 100

// Busy returns it up to now. It returns nothing where it cannot be known.
func Busy() (b Busyness) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return b
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	var name string
	var user, nice, system, idle, wait, irq, soft int64
	if _, err := fmt.Sscan(string(line), &name, &user, &nice, &system, &idle, &wait, &irq, &soft); err != nil ||
		name != "cpu" {
		return b
	}
	var ours time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var use syscall.Rusage
		if syscall.Getrusage(who, &use) != nil {
			return b
		}
		ours += time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	return Busyness{at: time.Now(), all: time.Duration(user+nice+system+irq+soft) * time.Second / userHZ, ours: ours}
}

// Others returns which share of the machine others had since before, as far as that can be known.
func (b Busyness) Others(before Busyness) float64 {
	if b.at.IsZero() || before.at.IsZero() {
		return 0
	}
	whole := b.at.Sub(before.at) * time.Duration(runtime.NumCPU())
	return max(float64((b.all-before.all)-(b.ours-before.ours))/float64(whole), 0)
}
