// Package app puts weir together and runs it: throttles, chains, gates, console and the clock that moves them.
//
// New builds everything a configuration asks for and opens nothing. Start opens and serves; Reload changes a running
// weir, whole or not at all; Stop drains and takes down in reverse. All of them may be called from any goroutine and
// wait for each other. Signals, flags and files are somebody else's business.
//
// What a reload keeps: a throttle of the same name and mechanism stays, with its counters and everybody who waits in
// it; a gate with the same listen address stays, with its connections. A throttle that an operator took into shadow, or
// out of it, stays there until a reload changes what the configuration says about that throttle.
package app
