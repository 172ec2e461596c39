// Package app puts weir together and runs it: throttles, chains, gates, console and the clock that moves them.
//
// New builds everything a configuration asks for and opens nothing. Start opens and serves; Reload changes a running
// weir completely or not at all; Stop drains and takes down in reverse. All of them may be called from any goroutine
// and wait for each other. It does not handle signals, flags or files.
//
// What a reload keeps: a throttle of the same name and mechanism stays, with its counters and everybody who waits in
// it; a gate with the same listen address stays, with its connections. When an operator has switched the shadow of a
// throttle, it stays so until a reload changes the configuration's word on it.
package app
