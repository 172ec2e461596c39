package flood

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

// A process is a peer that runs in a process of its own.
type process struct {
	process *os.Process
	exited  chan struct{}
	said    *lastWords
	in      io.WriteCloser // where it talks
	out     io.ReadCloser
}

// A task is what a process is started for.
type task struct {
	program string
	args    []string
	talks   bool // it is spoken to, over pipes
	last    bool // it gets what everybody else leaves over of the processors
}

// startProcess runs a program until stop is called, or until this process ends, however it ends.
func startProcess(t task) (*process, error) {
	cmd := exec.Command(t.program, t.args...)
	p := &process{exited: make(chan struct{}), said: &lastWords{}}
	cmd.Stdout, cmd.Stderr = p.said, p.said
	if t.talks {
		var errs [2]error
		cmd.Stdout = nil
		p.in, errs[0] = cmd.StdinPipe()
		p.out, errs[1] = cmd.StdoutPipe()
		if err := errors.Join(errs[:]...); err != nil {
			return nil, err
		}
	}
	cmd.SysProcAttr = endWithUs()
	started := make(chan error)
	go func() {
		// The system watches the thread that started it, not the process. This one stays to the end, and ends with this
		// goroutine.
		runtime.LockOSThread()
		if t.last {
			comeLast()
		}
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.process = cmd.Process
	return p, nil
}

// listens waits until the process takes connections.
func (p *process) listens(ctx context.Context, address string) error {
	const patience = 10 * time.Second
	for end := time.Now().Add(patience); time.Now().Before(end); {
		c, err := net.DialTimeout("tcp", address, patience)
		if err == nil {
			return c.Close()
		}
		select {
		case <-p.exited:
			return fmt.Errorf("it ended by itself: %s", p.said)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("it takes no connections: %s", p.said)
}

// stop ends the process, politely at first.
func (p *process) stop() {
	p.process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(farewell):
		p.process.Kill()
		<-p.exited
	}
}

// lastWords keeps the end of what a process writes.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
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

// lookFor finds a program, also where only administrators look for it.
func lookFor(name string) (string, error) {
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

// freePort returns an address of loopback where nobody listens. Somebody may, a moment later.
func freePort() (string, error) {
	l, err := net.Listen("tcp", loopback)
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
