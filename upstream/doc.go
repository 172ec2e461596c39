// Package upstream is about the services behind a gate: connections, health, and who gets the next request.
//
// Most callers want New, Pool.Do and Pool.Close. A Pool is an http.RoundTripper for requests to one service on one or
// several servers; host and scheme of a request's URL do not matter. A Pool is safe for concurrent use.
//
// HTTP/1.1 has a client of its own. In the goroutine of the request it writes the request, reads the answer, and keeps
// the connection for the next one. Only a body has its own goroutine, since an answer may come before the body is sent.
// HTTP/2 (h2c://, or https:// if the server chooses it) uses net/http's client.
//
// Answers are read strictly: one that could be understood in two ways, or that is beyond a bound, is an Error and ends
// the connection. A body that ends too early is an error and never looks complete.
//
// A request is tried again on a new connection to the same server where an idle one turned out to be closed, and on
// another server within the budget for that; only when asking twice does no harm (RFC 9110, section 9.2.2), or when the
// request cannot have arrived. Nothing of its body may have been read, unless that was kept (keptbody.go), and nothing
// of an answer seen, except for a whole head with a status that the options name (retry.go).
//
// A server that fails several times in a row gets no requests; later, one request at a time tries it (breaker.go). What
// a client causes is not a failure of the server. Names are looked up again where the options say so (resolve.go).
//
// Time comes from Env.Clock, with one exception: how long sockets may take, and stay idle, is real time.
package upstream
