package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long a process may take to listen, and to end when it is asked to.
const patience = time.Minute

// A Task is a program to run.
type Task struct {
	Program string
	Args    []string
	Env     []string       // in addition to that of this process
	Log     io.Writer      // what it writes; nil keeps the end of it, for errors
	Talks   bool           // it is spoken to, over Process.In and Process.Out
	Last    bool           // it runs when no other process wants the processor
	Quit    syscall.Signal // asks it to end; SIGTERM if 0
}

// A Process is a program that runs.
type Process struct {
	*os.Process
	Exited chan struct{} // closed when it has ended
	In     io.WriteCloser
	Out    io.ReadCloser
	task   Task
	said   lastWords
}

// Start runs a program until Stop is called, or until this process ends, however it ends.
func Start(t Task) (*Process, error) {
	cmd := exec.Command(t.Program, t.Args...)
	p := &Process{Exited: make(chan struct{}), task: t}
	if p.task.Quit == 0 {
		p.task.Quit = syscall.SIGTERM
	}
	cmd.Env = append(os.Environ(), t.Env...)
	cmd.Stdout, cmd.Stderr = &p.said, &p.said
	if t.Log != nil {
		cmd.Stdout, cmd.Stderr = t.Log, t.Log
	}
	if t.Talks {
		var errs [2]error
		cmd.Stdout = nil
		p.In, errs[0] = cmd.StdinPipe()
		p.Out, errs[1] = cmd.StdoutPipe()
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
	}
	cmd.SysProcAttr = endWithUs()
	started := make(chan error)
	go func() {
		// The system watches the thread that started the process, not this process. That thread ends with this
		// goroutine.
		runtime.LockOSThread()
		if t.Last {
			comeLast()
		}
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			close(p.Exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.Process = cmd.Process
	return p, nil
}

// Listens waits until the process takes connections.
func (p *Process) Listens(ctx context.Context, network, address string) error {
	return p.Await(ctx, func() bool {
		c, err := net.DialTimeout(network, address, patience)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// Await waits until the process is ready.
func (p *Process) Await(ctx context.Context, ready func() bool) error {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if ready() {
			return nil
		}
		select {
		case <-p.Exited:
			return fmt.Errorf("it ended by itself: %s", &p.said)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("it takes no connections: %s", &p.said)
}

// Stop asks the process to end, and kills it if it does not.
func (p *Process) Stop() {
	p.Signal(p.task.Quit)
	select {
	case <-p.Exited:
	case <-time.After(patience):
		p.Kill()
	}
}

// Kill ends the process at once, as a crash would.
func (p *Process) Kill() {
	p.Process.Kill()
	<-p.Exited
}

// lastWords keeps the end of what a process writes.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (w *lastWords) Write(text []byte) (int, error) {
	const most = 2 << 10
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text...)
	w.text = bytes.Clone(w.text[max(len(w.text)-most, 0):])
	return len(text), nil
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.text))
}

// Find finds a program, also where only administrators look for it.
func Find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, folder := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path, nil
		}
	}
	return "", errors.New("it is not installed")
}

// FreeAddress returns an address of a host where nobody listens. Another process may take it a moment later.
func FreeAddress(host string) (string, error) {
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Describe describes this machine, for readers of figures.
func Describe() string {
	model := "an unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%s, %d cores, %s, %s/%s", model, runtime.NumCPU(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
}
