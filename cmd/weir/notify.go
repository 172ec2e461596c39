package main

import (
	"log/slog"
	"net"
	"os"
)

// notify tells the service manager the state of weir, if there is one: sd_notify(3).
func notify(log *slog.Logger, state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	c, err := net.Dial("unixgram", path)
	if err == nil {
		defer c.Close()
		_, err = c.Write([]byte(state))
	}
	if err != nil {
		log.Warn("cannot notify the service manager", "err", err)
	}
}
