// Package keeper runs a mail server for a test, and ends it with the test, however that ends: a shell script starts the
// server, waits for the end of its own input, and stops what it started.
//
// Most callers want Start.
package keeper
