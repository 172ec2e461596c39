// Command weir throttles: it stands in front of a service and makes what is too much wait or go away, by the rules of
// its configuration.
//
// weir serve runs it. The other commands check a configuration, or speak to a running weir over its control socket.
// Each command is a struct in a file of its own and a field of cli; each returns 0 when it did what it should, 1 when
// it failed and 2 when it was not understood.
package main
