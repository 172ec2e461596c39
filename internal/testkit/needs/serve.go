package needs

import (
	"net"
	"sync"
)

// Serve listens on a free port of the loopback and calls serve for each connection, in a goroutine of its own. The
// connection is closed when serve returns. stop closes all of them and waits until the last serve has returned.
func Serve(serve func(net.Conn)) (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	var mu sync.Mutex
	var serving sync.WaitGroup
	conns := map[net.Conn]bool{} // nil when it has ended
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if conns == nil {
				_ = c.Close()
			} else {
				conns[c] = true
				serving.Go(func() {
					serve(c)
					_ = c.Close()
					mu.Lock()
					delete(conns, c)
					mu.Unlock()
				})
			}
			mu.Unlock()
		}
	})
	return l.Addr().String(), func() {
		_ = l.Close()
		mu.Lock()
		for c := range conns {
			_ = c.Close()
		}
		conns = nil
		mu.Unlock()
		serving.Wait()
	}, nil
}
