//go:build !linux || race

package sockio

import "net"

func of(s Socket) net.Conn { return s }
