// Package authgate is the gate for those who keep their proxy: nginx (auth_request), Traefik (ForwardAuth), Caddy
// (forward_auth) and HAProxy ask it about each request, and let pass what it admits. It listens, reads from the
// headers what the request was and where it came from, puts an event before its chain of throttles, and answers with a
// status and headers.
//
// Most callers want New, Listen, Start and Stop; Prepare takes new options while questions are under way.
//
// Nothing but an admission is ever answered with 2xx: not a mistake, not a bound, not a failure. A proxy is believed
// only where it is a trusted one; anybody else gets 403. Where the headers do not say beyond doubt what the request
// was, it is refused: proxies hand on what clients write, and a client could write the headers of another proxy.
//
// What happens to an admitted request is not known here, so that it is settled as done at once: a limit on what is
// under way at a time, or on bytes, holds nothing back.
//
// What is asked is bounded: connections, questions at once, questions that wait, the headers, and the time for
// everything. Bodies are never read.
//
// Time comes from Env.Clock, with one exception: deadlines of sockets are kept by the operating system in real time.
package authgate
