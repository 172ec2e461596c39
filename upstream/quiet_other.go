//go:build !unix

package upstream

import "net"

// peeker returns nil: that an idle connection was closed is found out when it is used.
func peeker(net.Conn) func() bool { return nil }
