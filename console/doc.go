// Package console is for watching and operating weir: metrics and health for machines, a page for people, and the
// control socket for commands that act on a running weir.
//
// Two servers are kept apart. Server listens on TCP and only shows: /metrics, /healthz, /readyz and
// an index. Control listens on a unix socket that only weir's own user can open, and also changes things: reload,
// shadow, resetting an account. Client is the other end of the control socket.
//
// Both ask a Backend, which app implements, so that the console knows no mechanism. Metrics has the series that gates
// write as they work; counters of throttles are read from policy.Counts at each scrape. There is never a series per
// account.
package console
