// Package exim starts an Exim for tests, in a folder of its own and on free ports. It is independent of the machine's
// own mail server, and ends with the test, however that ends.
//
// Most callers want Start.
package exim
