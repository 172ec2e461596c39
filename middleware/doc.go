// Package middleware puts throttles in front of the handlers of a Go program: of net/http by Limiter.Handler, of gRPC
// by Limiter.Unary and Limiter.Stream. Clients are told what an HTTP gate would tell them: the same RateLimit headers,
// and the same refusals.
//
// Most callers want New and Limiter.Handler. The zero value of Options admits everything. A Limiter may be shared by
// goroutines, handlers and servers; give each throttle to one Limiter.
//
// A request that must wait waits until its turn comes or its context ends, and at most Options.MaxWaiting do so at
// once. What a request took is settled when its handler returns or panics.
//
// Limits on bytes need a gate, which sees every byte; New returns ErrVolume for them. Stamps need one as well: a client
// that would be asked for a stamp is told of the limit instead.
package middleware
