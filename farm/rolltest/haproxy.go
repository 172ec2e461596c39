package rolltest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

// A Node is a weir behind the balancer.
type Node struct {
	Serves  string // its gate
	Console string // which says whether the node is ready
}

// HAProxy runs HAProxy in front of nodes, with health checks and redispatch, until the test ends. start starts the
// process, and may do that in another network. A node that answers slowly on a busy machine is not taken for one that
// is down. But a check has only as long as until the next one to connect, and where HAProxy itself does not run for so
// long, it takes all nodes for down at once: then it asks them all the same.
func (l *Load) HAProxy(t testing.TB, nodes []Node, start func(*exec.Cmd) error) {
	t.Helper()
	program := needs.Program(t, "haproxy", "apt-get install haproxy")
	l.nodes = nodes
	var servers, unchecked strings.Builder
	for i, n := range nodes {
		host, port, err := net.SplitHostPort(n.Console)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&servers, "  server %c %s check addr %s port %s inter 100ms fall 1 rise 1\n", 'a'+i, n.Serves, host,
			port)
		fmt.Fprintf(&unchecked, "  server %c %s\n", 'a'+i, n.Serves)
	}
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(path, []byte(`
defaults
  mode http
  timeout connect 2s
  timeout client 30s
  timeout server 30s
  timeout check 30s
frontend in
  bind `+l.At+`
  use_backend unchecked if { nbsrv(weirs) eq 0 }
  default_backend weirs
backend weirs
  balance roundrobin
  option httpchk GET /readyz
  option redispatch 1
  retries 3
  retry-on conn-failure empty-response
`+servers.String()+`
backend unchecked
  balance roundrobin
  option redispatch 1
  retries 3
  retry-on conn-failure empty-response
`+unchecked.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-db", "-f", path)
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	needs.Wait(t, "HAProxy listens", func() bool {
		c, err := l.Dial(t.Context(), "tcp", l.At)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}
