package gate

import (
	"bufio"
	"io"
	"net"

	"github.com/pires/go-proxyproto"
)

// A ProxyHeader is what the PROXY header in front of a connection says.
type ProxyHeader struct {
	From, To *net.TCPAddr // nil where the proxy speaks for itself, as in a health check
	Ahead    []byte       // what came right behind the header
}

// headerBuffer is how much is read at once: a line of version 1, which must come in one piece, has at most 107 bytes.
// What is read beyond the header is kept in Ahead, so that a larger buffer would be of no use.
const headerBuffer = 256

// ReadProxyHeader reads the PROXY header, of version 1 or 2, that a connection begins with.
func ReadProxyHeader(r io.Reader) (h ProxyHeader, err error) {
	buffered := bufio.NewReaderSize(r, headerBuffer)
	header, err := proxyproto.Read(buffered)
	if err != nil {
		return h, err
	}
	if n := buffered.Buffered(); n > 0 {
		h.Ahead, _ = buffered.Peek(n)
	}
	if from, to, ok := header.TCPAddrs(); ok && !header.Command.IsLocal() {
		h.From, h.To = from, to
	}
	return h, nil
}
