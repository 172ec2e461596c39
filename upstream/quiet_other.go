//go:build !unix

package upstream

import "net"

// peeker returns nil: whether an idle connection has been closed shows when it is used.
func peeker(net.Conn) func() bool { return nil }
