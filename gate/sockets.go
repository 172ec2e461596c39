package gate

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// firstHanded is the first file descriptor that is handed over: sd_listen_fds(3).
const firstHanded = 3

// MaxHanded is how many sockets may be handed over.
const MaxHanded = 1024

// ErrTooManySockets is returned when more are handed over than MaxHanded.
var ErrTooManySockets = errors.New("too many sockets are handed over")

// Sockets are listening sockets that were open before weir began. The program that started weir, such as systemd, has
// opened them and keeps them open while weir restarts: connections wait instead of being refused. A gate takes the
// socket whose address is its own. A nil *Sockets has none: each gate opens its own. Several goroutines may call all
// methods.
type Sockets struct {
	mu     sync.Mutex
	all    []*handed
	opened []opened   // by gates
	kept   []*os.File // for a successor: a file that nobody knows is closed
}

// opened is a socket that a gate has opened by itself.
type opened struct {
	listen string
	socket interface {
		syscall.Conn
		File() (*os.File, error)
	}
}

// open reports whether the gate has not closed it.
func (o opened) open() bool {
	raw, err := o.socket.SyscallConn()
	return err == nil && raw.Control(func(uintptr) {}) == nil
}

// handed is a socket that was handed over. Its file stays open, so that a gate that a reload removed can come back.
type handed struct {
	name  string // what whoever opened it calls it
	file  *os.File
	addr  net.Addr
	taken bool
}

// InheritSockets takes the sockets that are handed over by the environment: LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES.
// Those of the weir before an upgrade are taken too. They are for this process alone: the variables are unset, and what
// it starts does not inherit the sockets.
func InheritSockets() (*Sockets, error) {
	defer func() {
		for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", successorVariable} {
			_ = os.Unsetenv(name)
		}
	}()
	s := &Sockets{}
	if err := s.succeed(os.Getenv(successorVariable)); err != nil {
		return nil, err
	}
	n, err := announced(os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getpid())
	if err != nil {
		return nil, err
	}
	var names []string
	if text := os.Getenv("LISTEN_FDNAMES"); text != "" {
		names = strings.Split(text, ":")
	}
	for i := range n {
		name := ""
		if i < len(names) {
			name = names[i]
		}
		if err := s.add(firstHanded+i, name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// add adds a socket that is handed over.
func (s *Sockets) add(fd int, name string) (err error) {
	closeOnExec(fd)
	h := &handed{name: name, file: os.NewFile(uintptr(fd), "handed-over")}
	if h.addr, err = addressOf(h.file); err != nil {
		return fmt.Errorf("descriptor %d, which was handed over: %w", fd, err)
	}
	s.all = append(s.all, h)
	return nil
}

// announced is how many sockets are handed over to a process.
func announced(forPID, count string, pid int) (int, error) {
	if count == "" || forPID != strconv.Itoa(pid) {
		return 0, nil
	}
	n, err := strconv.Atoi(count)
	switch {
	case err != nil || n < 0:
		return 0, fmt.Errorf("LISTEN_FDS=%q is not a number of sockets", count)
	case n > MaxHanded:
		return 0, fmt.Errorf("%w: %d, and %d is the most", ErrTooManySockets, n, MaxHanded)
	}
	return n, nil
}

// addressOf is the address that a socket is bound to.
func addressOf(f *os.File) (net.Addr, error) {
	if l, err := net.FileListener(f); err == nil {
		defer l.Close()
		return l.Addr(), nil
	}
	p, err := net.FilePacketConn(f)
	if err != nil {
		return nil, fmt.Errorf("neither a listening socket nor one for packets: %w", err)
	}
	defer p.Close()
	return p.LocalAddr(), nil
}

// Listen is like the function Listen, unless the socket was handed over. Then its owner and mode are not touched.
func (s *Sockets) Listen(listen string, rights Socket) (net.Listener, error) {
	network, _ := Split(listen)
	h := s.take(network, listen)
	if h == nil {
		l, err := Listen(listen, rights)
		if err == nil {
			s.remember(listen, l)
		}
		return l, err
	}
	l, err := net.FileListener(h.file)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s, which was handed over: %w", listen, err)
	}
	return l, nil
}

// ListenPacket opens a socket for UDP packets, unless it was handed over.
func (s *Sockets) ListenPacket(listen string) (net.PacketConn, error) {
	h := s.take("udp", listen)
	if h == nil {
		p, err := net.ListenPacket("udp", listen)
		if err == nil {
			s.remember(listen, p)
		}
		return p, err
	}
	p, err := net.FilePacketConn(h.file)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s, which was handed over: %w", listen, err)
	}
	return p, nil
}

func (s *Sockets) take(network, listen string) *handed {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.all {
		if h.addr.Network() == network && (h.name == SocketName(listen) || sameAddress(h.addr, listen)) {
			h.taken = true
			return h
		}
	}
	return nil
}

// SocketName is how a socket is called for a gate that listens on an address, such as %3A8080 for :8080: names have no
// colons.
func SocketName(listen string) string { return strings.ReplaceAll(url.PathEscape(listen), ":", "%3A") }

// Untaken are the addresses of the sockets that no gate has taken. Clients that connect there wait for nothing.
func (s *Sockets) Untaken() (addresses []string) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.all {
		if !h.taken {
			addresses = append(addresses, h.addr.Network()+" "+h.addr.String())
		}
	}
	return addresses
}

// sameAddress reports whether a socket is bound to the address that a gate is to listen on. A gate without a host takes
// the socket for all addresses of IPv6, which is also that for IPv4, or the one for IPv4.
func sameAddress(bound net.Addr, listen string) bool {
	network, address := Split(listen)
	if network == "unix" || bound.Network() == "unix" {
		return bound.Network() == network && bound.String() == address
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	at, err := netip.ParseAddrPort(bound.String())
	if err != nil || port != strconv.Itoa(int(at.Port())) {
		return false
	}
	switch host {
	case "":
		return at.Addr().IsUnspecified()
	case "localhost":
		return at.Addr().Unmap().IsLoopback()
	}
	want, err := netip.ParseAddr(host)
	return err == nil && want.Unmap() == at.Addr().Unmap()
}
