package rlsgate

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strconv"
)

// listen binds the address of the options, or makes their socket.
func listen(o *Options) (net.Listener, error) {
	network, address := splitListen(o.Listen)
	if network == "unix" {
		if err := clearSocket(address); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", o.Listen, err)
	}
	if network == "unix" {
		if err := openSocket(address, &o.Socket); err != nil {
			_ = l.Close()
			return nil, err
		}
	}
	return l, nil
}

// clearSocket removes a socket that somebody left behind who was killed. One that is in use stays, and so does any other file.
func clearSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("cannot listen on %s: there is a file of that name that is no socket", path)
	}
	if c, err := net.Dial("unix", path); err == nil {
		_ = c.Close()
		return fmt.Errorf("cannot listen on %s: somebody does already", path)
	}
	return os.Remove(path)
}

// openSocket lets those use a socket who may. Until then, it is for its owner alone as long as the umask takes the right to write from
// everybody else, as it usually does.
func openSocket(path string, s *Socket) error {
	uid, gid := -1, -1
	if s.Owner != "" {
		u, err := user.Lookup(s.Owner)
		if err != nil {
			return fmt.Errorf("socket.owner: %w", err)
		}
		uid, _ = strconv.Atoi(u.Uid)
	}
	if s.Group != "" {
		g, err := user.LookupGroup(s.Group)
		if err != nil {
			return fmt.Errorf("socket.group: %w", err)
		}
		gid, _ = strconv.Atoi(g.Gid)
	}
	if uid >= 0 || gid >= 0 {
		if err := os.Chown(path, uid, gid); err != nil {
			return fmt.Errorf("the socket cannot be given to its owner or group: %w", err)
		}
	}
	mode, err := strconv.ParseUint(s.Mode, 8, 32)
	if err == nil {
		err = os.Chmod(path, fs.FileMode(mode))
	}
	if err != nil {
		return fmt.Errorf("the mode of the socket cannot be set: %w", err)
	}
	return nil
}
