package httpgate

import (
	"net/netip"

	"weir"
)

// Options configure one HTTP gate.
type Options struct {
	// The address to listen on: ":8080", "127.0.0.1:8080".
	Listen string `yaml:"listen"`
	// The service behind the gate: http://127.0.0.1:3000. With h2c://, HTTP/2 without TLS is spoken to it; with https://, TLS.
	Upstream string `yaml:"upstream"`
	// Proxies in front of the gate, whose Forwarded and X-Forwarded-For headers are believed. Default: none.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	// Where the account of a request is found, the first present counts: header:X-Api-Key, bearer, query:key, cookie:session,
	// path:1 (the first segment of the path), source (the source address). Default: none, so that nobody has an account.
	Account []string `yaml:"account"`
	// The throttles that judge each request, in order.
	Throttles []string `yaml:"throttles"`
	// Bounds on what clients may take of the gate.
	Bounds Bounds `yaml:"bounds"`
	// How long the gate waits for clients and for the upstream.
	Timeouts Timeouts `yaml:"timeouts"`
}

// Bounds keep clients from filling the server up.
type Bounds struct {
	// Open connections. One more is closed at once. Default 20000.
	Connections int `yaml:"connections"`
	// Requests under way and waiting. One more gets 503. Default 20000.
	Requests int `yaml:"requests"`
	// Requests that a throttle may hold back at a time. One more gets 503. Default 10000.
	Waiting int `yaml:"waiting"`
	// Request line and headers. More gets 431. Default 32KiB.
	Header weir.Size `yaml:"header"`
	// The body of a request. More gets 413. Default: no bound, bodies are streamed.
	Body weir.Size `yaml:"body"`
}

// Timeouts against slow clients and a slow upstream.
type Timeouts struct {
	// For request line and headers. Default 10s.
	Header weir.Duration `yaml:"header"`
	// Between two reads of a request's body, or two writes of a response: a client that makes no progress for so long is cut off.
	// Default 30s.
	Progress weir.Duration `yaml:"progress"`
	// Between two requests on a connection. Default 2m.
	Idle weir.Duration `yaml:"idle"`
	// For a connection to the upstream. Default 5s.
	Connect weir.Duration `yaml:"connect"`
	// From the end of the request to the upstream's response headers. Default 1m.
	Response weir.Duration `yaml:"response"`
}
