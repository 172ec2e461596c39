// Package keys holds what an HTTP gate proves itself with, and what it checks the proofs of clients by: certificates
// from files and from an authority (ACME), the authorities that sign clients' certificates, and the keys of JSON Web
// Tokens, from files and from an identity provider. All of them are replaced while the gate runs, and what cannot be
// used leaves the old ones in place.
//
// A gate calls New, Begin when it starts to serve, and End. Config and Claims are for its connections and requests.
// Keys may be used by several goroutines.
package keys
