// Command weir is a throttle: it stands in front of a service, and delays or refuses requests that exceed the limits of
// its configuration.
//
// weir serve runs it. The other commands check a configuration, or talk to a running weir over its control socket.
// Each command is a struct and a field of cli. The exit code is 0 on success, 1 on failure and 2 on wrong usage.
package main
