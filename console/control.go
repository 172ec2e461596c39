package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"weir/console/access"
)

// A Control is the socket for commands that act on a running weir. Every process that can open it may do everything;
// only weir's own user can. NewControl, Listen, Start and Stop are called in this order, by one goroutine.
type Control struct {
	path    string
	reached func()
	lifecycle
}

// NewControl returns a control that has bound nothing yet.
func NewControl(path string, b Backend, m *Metrics, log *slog.Logger) *Control {
	c := &Control{path: path, reached: func() { m.BoundReached(boundControl) }}
	stopping, stop := context.WithCancel(context.Background())
	calls := newAPI(b, log, stopping)
	c.http = newHTTPServer(calls.handler(func(_ http.ResponseWriter, r *http.Request, _ *Call) (*Request, bool) {
		return &Request{Context: r.Context(), Who: access.Local(operator(r)), From: fromControl, backend: b,
			serving: calls}, true
	}), log)
	c.http.ConnContext = withConn
	c.http.RegisterOnShutdown(stop)
	return c
}

// fromControl is where commands of this machine come from, in the audit log.
const fromControl = "control socket"

func (c *Control) Path() string { return c.path }

// Listen makes the socket. It fails with ErrRunning when another weir has it.
func (c *Control) Listen() error {
	l, err := listenSocket(c.path)
	if err != nil {
		return err
	}
	c.bind(&boundedListener{Listener: l, max: maxControlConnections, reached: c.reached})
	return nil
}

// anOperator is the name of an operator that the system does not name.
const anOperator = "operator"

type connKey struct{}

// withConn gives handlers the connection, which knows the user at its other end.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// operator is the name of the user who sent a request.
func operator(r *http.Request) string {
	if b := boundedConnOf(r); b != nil {
		if u, ok := b.Conn.(*net.UnixConn); ok {
			return cmp.Or(peerName(u), anOperator)
		}
	}
	return anOperator
}

// ErrRunning is returned when another weir uses the control socket.
var ErrRunning = errors.New("another weir is running here")

// maxSocketPath is what fits into the address of a unix socket on every system.
const maxSocketPath = 103

// listenSocket binds a unix socket that only this user can open. It replaces a socket that a dead weir left behind.
func listenSocket(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("control: %s is %d bytes long; the path of a socket has at most %d", path, len(path),
			maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	if err := clearSocket(path); err != nil {
		return nil, err
	}
	own := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return keepOthersOut(c) }}
	l, err := own.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("control: %w", err)
	}
	return l, nil
}

// clearSocket removes a socket that no process listens on any more.
func clearSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("control: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("control: %s exists and is not a socket", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
	}
	// Only a refused connection proves that no process listens: a busy weir may time out.
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("control: %w: %s answers (weir reload applies a changed configuration; "+
			"a second weir needs its own data folder)", ErrRunning, path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("control: %w", err)
	}
	return nil
}
