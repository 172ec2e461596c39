package console

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"

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
