package gate

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// handOver makes sockets of a listener or of a socket for packets, as InheritSockets would.
func handOver(t *testing.T, name string, from interface{ File() (*os.File, error) }) *handed {
	t.Helper()
	f, err := from.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	addr, err := addressOf(f)
	if err != nil {
		t.Fatal(err)
	}
	return &handed{name: name, file: f, addr: addr}
}

func TestSocketsAreTaken(t *testing.T) {
	t.Parallel()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	path := filepath.Join(t.TempDir(), "s")
	unix, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	s := &Sockets{all: []*handed{
		handOver(t, "", tcp.(*net.TCPListener)), handOver(t, "", unix.(*net.UnixListener)),
		handOver(t, SocketName("127.0.0.1:0"), udp.(*net.UDPConn)),
	}}
	if left := s.Untaken(); len(left) != 3 || !slices.Contains(left, "tcp "+tcp.Addr().String()) {
		t.Errorf("%q are not taken", left)
	}
	// Nobody else could bind the same address: it is the same socket. It goes on when the gate has closed it.
	for range 2 {
		for _, at := range []string{tcp.Addr().String(), "unix:" + path} {
			l, err := s.Listen(at, Socket{})
			if err != nil {
				t.Fatal(err)
			}
			network, address := Split(at)
			if c, err := net.Dial(network, address); err != nil {
				t.Error(err)
			} else if got, err := l.Accept(); err != nil {
				t.Error(err)
			} else {
				c.Close()
				got.Close()
			}
			l.Close()
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the gate took the socket away with it: %v", err)
	}
	p, err := s.ListenPacket("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.LocalAddr().String() != udp.LocalAddr().String() {
		t.Error("the socket for packets was not taken by its name")
	}
	if left := s.Untaken(); len(left) > 0 {
		t.Errorf("%q are not taken", left)
	}
	// What is not handed over is opened, also where nothing is.
	for _, none := range []*Sockets{s, nil} {
		l, err := none.Listen("127.0.0.1:0", Socket{})
		if err != nil || l.Addr().String() == tcp.Addr().String() {
			t.Fatalf("%v, %v", l, err)
		}
		l.Close()
	}
}

func TestSameAddress(t *testing.T) {
	t.Parallel()
	at := func(text string) net.Addr {
		a, err := net.ResolveTCPAddr("tcp", text)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, c := range []struct {
		bound, listen string
		want          bool
	}{
		{"[::]:80", ":80", true}, {"0.0.0.0:80", ":80", true}, {"127.0.0.1:80", ":80", false}, {"[::]:80", ":81", false},
		{"127.0.0.1:80", "127.0.0.1:80", true}, {"[::1]:80", "localhost:80", true}, {"[::]:80", "localhost:80", false},
		{"127.0.0.2:80", "127.0.0.1:80", false}, {"0.0.0.0:80", "[::]:80", false}, {"[::]:80", "[::]:80", true},
		{"[::]:80", "example.org:80", false}, {"[::]:80", "unix:/run/x", false}, {"[::]:80", "nonsense", false},
	} {
		if got := sameAddress(at(c.bound), c.listen); got != c.want {
			t.Errorf("a gate on %s, a socket on %s: %v", c.listen, c.bound, got)
		}
	}
}

func TestAnnouncedSockets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pid, count string
		want       int
		err        error
	}{
		{"7", "2", 2, nil}, {"8", "2", 0, nil}, {"", "2", 0, nil}, {"7", "", 0, nil}, {"7", "0", 0, nil},
		{"7", strconv.Itoa(MaxHanded), MaxHanded, nil}, {"7", strconv.Itoa(MaxHanded + 1), 0, ErrTooManySockets},
	} {
		if n, err := announced(c.pid, c.count, 7); n != c.want || !errors.Is(err, c.err) {
			t.Errorf("%+v: %d, %v", c, n, err)
		}
	}
	for _, wrong := range []string{"two", "-1"} {
		if _, err := announced("7", wrong, 7); err == nil {
			t.Errorf("%q are no sockets", wrong)
		}
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := addressOf(f); err == nil {
		t.Error("a file is no socket")
	}
}
