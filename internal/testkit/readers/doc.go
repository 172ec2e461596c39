// Package readers has models of servers, for tests: what each of them reads as a header, a query parameter, a cookie or
// a bearer token in the same request. Servers differ in that, so that an attacker can show one name to a gate and
// another to the service behind it.
//
// Most callers want Account. The functions have no state.
package readers
