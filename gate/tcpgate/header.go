package tcpgate

import (
	"io"
	"net"

	"github.com/pires/go-proxyproto"
)

// writeHeader tells the upstream where a connection comes from and where it went.
func writeHeader(w io.Writer, version ProxyOut, from, to net.Addr) error {
	v := byte(2)
	if version == ProxyOutV1 {
		v = 1
	}
	text, err := proxyproto.HeaderProxyFromAddrs(v, from, to).Format()
	if err != nil {
		// Only a proxy that mixes IPv4 with IPv6 leads here. There must be a header, or the upstream would take the
		// client's bytes for one.
		text, err = proxyproto.HeaderProxyFromAddrs(v, nil, nil).Format()
	}
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}
