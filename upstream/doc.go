// Package upstream is about the services behind a gate: connections, health, and who gets the next request.
//
// Most callers want New, Pool.Do and Pool.Close. A Pool is an http.RoundTripper for requests to one service on one or
// several servers; host and scheme of a request's URL do not matter. A Pool is safe for concurrent use.
//
// HTTP/1.1 is spoken by a client of its own, in the goroutine of the request: it writes the request, reads the answer,
// and lays the connection aside for the next one. Only a body gets a goroutine, as an answer may come before it has
// been sent. HTTP/2, by h2c:// or where a server of https:// chooses it, is left to net/http's client.
//
// What a server says is read strictly: whatever could be understood in two ways, or goes beyond its bound, is an Error
// and ends the connection. A body that ends too early is an error, and never looks complete.
//
// A request is tried again on a new connection to the same server where an idle one turned out to be closed, and on
// another server within the budget for that; only when nothing of an answer was seen, nothing of a body was read, and
// asking twice does no harm (RFC 9110, section 9.2.2), or when the request cannot have arrived.
//
// Time comes from Env.Clock, with one exception: how long sockets may take, and stay idle, is real time.
package upstream
