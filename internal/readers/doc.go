// Package readers has models of servers, for tests: what each of them reads as a header, a query parameter, a cookie
// or a bearer token in the same request. Servers differ in it, and whoever knows that can show one name to a gate and
// another to the service behind it.
//
// Most callers want Account. The functions keep nothing and may be called by anybody.
package readers
