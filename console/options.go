package console

import "net/netip"

// Options configure the console: metrics and health.
type Options struct {
	// The address to listen on, or "off". Default 127.0.0.1:9000.
	Listen string `yaml:"listen"`
	// Networks that may connect. Must be given when listen is not a loopback address. Default: this machine only.
	Allow []netip.Prefix `yaml:"allow"`
}
