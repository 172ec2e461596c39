// Package http1 reads the bytes of HTTP/1: heads of requests and of answers, chunks and trailers. It is the only reader
// in the house, so that gate and upstream cannot take the same bytes for different messages.
//
// Most callers want Head. Its fields are a flat list in the order in which they came; no map is built.
//
// It is strict: lines end with CRLF, no line is folded, names are tokens, and values have no control characters. A
// message that two servers could frame in two ways is a Mistake. Whatever it reads has a bound.
//
// It keeps no clock, reads from no connection and takes no lock. A value belongs to one goroutine at a time.
package http1
