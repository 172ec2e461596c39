package gate

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Socket is a file of this machine, with an owner and a mode that say who may use it.
type Socket struct {
	// Who may use it, in octal digits. Default 0660: the owner and the group.
	Mode string `yaml:"mode"`
	// Default: the user that weir runs as. Only root can name another.
	Owner string `yaml:"owner"`
	// Default: the group that weir runs as. Write the group of the program that connects, and let weir's user be in it.
	Group string `yaml:"group"`
}

// Split returns the network and the address of where a gate listens, as net.Listen wants them: "127.0.0.1:80", or
// "unix:/run/socket".
func Split(listen string) (network, address string) {
	if path, found := strings.CutPrefix(listen, "unix:"); found {
		return "unix", path
	}
	return "tcp", listen
}

// Listen binds an address, or makes a socket. A socket that a killed process left behind is taken over.
func Listen(listen string, s Socket) (net.Listener, error) {
	network, address := Split(listen)
	if network == "unix" {
		if err := clearSocket(address); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", listen, err)
	}
	if network == "unix" {
		if err := s.open(address); err != nil {
			_ = l.Close()
			return nil, err
		}
	}
	return l, nil
}

// clearSocket removes a socket that nobody listens on. One that is in use stays, and so does any other file.
func clearSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("cannot listen on %s: there is a file of that name that is not a socket", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		_ = c.Close()
		return fmt.Errorf("cannot listen on %s: another program does already", path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case !errors.Is(err, syscall.ECONNREFUSED):
		// Only a refused connection proves that nobody listens. A busy server may have no room for another connection,
		// and the right to ask may be missing.
		return fmt.Errorf("cannot listen on %s: another program may do already: %w", path, err)
	}
	return os.Remove(path)
}

// open sets owner, group and mode of a socket. Until then only its owner can use it, as long as the umask takes the
// right to write from everybody else, as it usually does.
func (s *Socket) open(path string) error {
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
	if s.Mode == "" {
		return nil
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
