// Package grpcserve answers gRPC calls that have one message each, over HTTP/2 with prior knowledge.
//
// Most callers want New, Serve and Shutdown. Frames and header compression are those of golang.org/x/net/http2; the
// package adds the connection: streams, windows, bounds and the end. What knows of gRPC is in call.go, reply.go,
// timeout.go and health.go; the other files speak HTTP/2 alone.
//
// Each connection has one goroutine that reads. A call that cannot wait is answered on it, and answers are sent when
// nothing more is to be read: a batch of calls costs one read and one write. A call that may wait goes to a worker, so
// that the other calls of the connection go on.
//
// Everything that a caller can make the server keep or do is bounded, in number, size and time. Bounds lists what is
// turned away, by name.
package grpcserve
