package rlsgate

import (
	"net"

	"weir/internal/doorway"
)

// listen binds the address of the options, or makes their socket.
func listen(o *Options) (net.Listener, error) {
	return doorway.Listen(o.Listen, doorway.Socket(o.Socket))
}
