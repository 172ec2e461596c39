// Package readfile reads the files that a configuration names, and never waits for them without end. A pipe that nobody
// writes to and a share whose server is gone would otherwise stop a reload, and with it everything that waits for it.
//
// Most callers want Read; Pair is for certificates. Goroutines may share all functions.
package readfile

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"weir"
)

// Patience is how long a file may take to answer.
const Patience = 10 * time.Second

// MaxLost is how many reads that were given up may still hang. The system does not let go of them, and each has a
// thread.
const MaxLost = 16

// MaxPEM is how large a file with certificates or a key may be.
const MaxPEM weir.Size = 4 << 20

// Errors of this package.
var (
	ErrSlow  = fmt.Errorf("it does not answer within %s", weir.Duration(Patience))
	ErrLost  = fmt.Errorf("%d files that did not answer are still being read: restart weir", MaxLost)
	ErrLarge = errors.New("is too large")
)

// lost counts the reads that hang. It is the process's: so are the threads.
var lost atomic.Int64

// Within does something with a file that may hang. After Patience it gives up and leaves do behind.
func Within[T any](path string, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if lost.Load() >= MaxLost {
		return none, &fs.PathError{Op: "read", Path: path, Err: ErrLost}
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
	}
	lost.Add(1)
	go func() {
		<-done
		lost.Add(-1)
	}()
	return none, &fs.PathError{Op: "read", Path: path, Err: ErrSlow}
}

// Read returns the content of a file. ErrLarge is about one with more than most bytes.
func Read(path string, most weir.Size) ([]byte, error) {
	return Within(path, func() ([]byte, error) {
		// Opening a pipe waits for a writer otherwise.
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		_ = f.SetReadDeadline(time.Now().Add(Patience)) // pipes have one, files do not
		content, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = &fs.PathError{Op: "read", Path: path, Err: ErrSlow}
		case err == nil && int64(len(content)) > int64(most):
			err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: at most %s", ErrLarge, most)}
		}
		if err != nil {
			return nil, err
		}
		return content, nil
	})
}

// Stat is os.Stat.
func Stat(path string) (fs.FileInfo, error) {
	return Within(path, func() (fs.FileInfo, error) { return os.Stat(path) })
}

// Pair is tls.LoadX509KeyPair.
func Pair(cert, key string) (tls.Certificate, error) {
	certs, err := Read(cert, MaxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := Read(key, MaxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certs, private)
}
