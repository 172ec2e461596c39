package keeper

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os/exec"
	"time"
)

// Bound is the longest that a server may take to start, to stop, or to do what is awaited.
const Bound = 2 * time.Minute

// ErrStuck is returned when a server has not stopped after Bound.
var ErrStuck = errors.New("it does not stop")

// A Keeper keeps a server running.
type Keeper struct {
	hold  io.Closer     // while it is open, the script keeps the server running
	ended chan struct{} // closed when the script has ended
	end   error         // what it ended with, once it has
	said  bytes.Buffer  // by the script, once it has ended
}

// Start runs a script of the shell with its arguments.
func Start(script string, args ...string) (*Keeper, error) {
	k := &Keeper{ended: make(chan struct{})}
	shell := exec.Command("sh", append([]string{"-c", script, "keep"}, args...)...)
	shell.Stdout, shell.Stderr = &k.said, &k.said
	shell.WaitDelay = time.Second // what it started may hold the output open
	hold, err := shell.StdinPipe()
	if err != nil {
		return nil, err
	}
	k.hold = hold
	if err := shell.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(k.ended)
		if k.end = shell.Wait(); errors.Is(k.end, exec.ErrWaitDelay) {
			k.end = nil
		}
	}()
	return k, nil
}

// Up waits until a mail server answers at an address, and reports false if the script ends before, or it takes too
// long.
func (k *Keeper) Up(addr string) bool {
	up := false
	Await(func() bool {
		select {
		case <-k.ended:
			return true
		default:
			up = Greets(addr)
			return up
		}
	})
	return up
}

// Stop ends the input of the script, and waits until it has ended.
func (k *Keeper) Stop() error {
	_ = k.hold.Close()
	select {
	case <-k.ended:
		return k.end
	case <-time.After(Bound):
		return ErrStuck
	}
}

// Said is what the script said. It is known after Stop.
func (k *Keeper) Said() string {
	select {
	case <-k.ended:
		return k.said.String()
	default:
		return ""
	}
}

// Greets reports whether a mail server answers at an address.
func Greets(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(Bound))
	var code [3]byte
	_, err = io.ReadFull(c, code[:])
	_, _ = io.WriteString(c, "QUIT\r\n")
	_, _ = io.Copy(io.Discard, c) // to its end: otherwise it complains of a lost connection
	return err == nil && string(code[:]) == "220"
}

// Await waits until something has come about, and reports false when it takes too long.
func Await(done func() bool) bool {
	for end := time.Now().Add(Bound); ; time.Sleep(5 * time.Millisecond) {
		if done() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
