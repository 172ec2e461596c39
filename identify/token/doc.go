// Package token verifies JSON Web Tokens (RFC 7519), by which clients say their account and plan.
//
// Most callers want New and Verifier.Verify. A key is used only for the algorithms of its kind, whatever a token says:
// a public key in any form is never taken for a shared secret, and a token without a signature is refused. Verified
// tokens are remembered until they expire, in bounded memory, since checking a signature takes a hundred times as long
// as a lookup.
//
// The package reads no files, no network and no clock: callers pass in keys and times.
package token
