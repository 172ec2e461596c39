package machine

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Busyness is how long the processors have worked: for all processes, and for ours.
type Busyness struct {
	at        time.Time
	all, ours time.Duration
}

// userHZ is the unit in which Linux reports times to processes, as a part of a second.
const userHZ = 100

// Busy returns how long the processors have worked until now. This process counts as ours, with its children that
// have ended and the processes with the given ids. The result is empty where the system does not report it.
func Busy(pids ...int) (b Busyness) {
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
	ours := Spent(pids...)
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var use syscall.Rusage
		if syscall.Getrusage(who, &use) != nil {
			return b
		}
		ours += time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	return Busyness{at: time.Now(), all: time.Duration(user+nice+system+irq+soft) * time.Second / userHZ, ours: ours}
}

// Spent is how long processes have been running on any core, in user and in system mode, together; proc_pid_stat(5).
// Those that have ended count nothing.
func Spent(pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(stat), ") ") // the name may have blanks
		if f := strings.Fields(after); len(f) > 12 {
			user, _ := strconv.ParseInt(f[11], 10, 64)
			system, _ := strconv.ParseInt(f[12], 10, 64)
			sum += time.Duration(user+system) * time.Second / userHZ
		}
	}
	return sum
}

// Family is a process and those that its first thread has started, as the workers of a server are;
// proc_tid_children(5).
func Family(pid int) []int {
	all := []int{pid}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, word := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(word); err == nil {
			all = append(all, child)
		}
	}
	return all
}

// Others returns which share of the machine others had since before, or 0 where that is not known.
func (b Busyness) Others(before Busyness) float64 {
	if b.at.IsZero() || before.at.IsZero() {
		return 0
	}
	whole := b.at.Sub(before.at) * time.Duration(runtime.NumCPU())
	return max(float64((b.all-before.all)-(b.ours-before.ours))/float64(whole), 0)
}

// endWithUs asks the system to end a process with the one that started it.
func endWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }

// comeLast gives this thread, and what it starts, the lowest priority. The thread must not be used for anything else.
func comeLast() {
	const nicest = 19
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, nicest) // on Linux, 0 is the thread
}
