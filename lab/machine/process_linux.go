package machine

import "syscall"

// endWithUs asks the system to end a process with the one that started it.
func endWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }

// comeLast lets this thread, and what it starts, run when nobody else wants to. The thread must not be used for
// anything else.
func comeLast() {
	const nicest = 19
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, nicest) // on Linux, 0 is the thread
}
