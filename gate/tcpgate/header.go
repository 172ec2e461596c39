package tcpgate

import (
	"bufio"
	"io"
	"net"

	"github.com/pires/go-proxyproto"
)

// headerRoom is what a header is read into: a line of version 1, which must come in one piece, has at most 107 bytes.
// What is read beyond the header is kept, so that more room would be no use.
const headerRoom = 256

// readHeader reads the PROXY header that a connection begins with. What came right behind it is returned too.
func readHeader(r io.Reader) (h *proxyproto.Header, ahead []byte, err error) {
	room := bufio.NewReaderSize(r, headerRoom)
	if h, err = proxyproto.Read(room); err != nil {
		return nil, nil, err
	}
	ahead, _ = room.Peek(room.Buffered())
	return h, ahead, nil
}

// writeHeader tells the upstream where a connection comes from and where it went.
func writeHeader(w io.Writer, version ProxyOut, from, to net.Addr) error {
	v := byte(2)
	if version == ProxyOutV1 {
		v = 1
	}
	text, err := proxyproto.HeaderProxyFromAddrs(v, from, to).Format()
	if err != nil {
		// Only a proxy that mixes IPv4 with IPv6 leads here. The header must come, or the upstream would take the
		// client's bytes for it.
		text, err = proxyproto.HeaderProxyFromAddrs(v, nil, nil).Format()
	}
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
