// Package token verifies JSON Web Tokens (RFC 7519), by which clients say their account and plan.
//
// Most callers want New and Verifier.Verify. A key fits the algorithms of its kind and no others, whatever a token
// says of itself: a public key is never taken for a shared secret, in whatever form it was copied, and a token without
// a signature is none. Tokens that were verified are remembered until they expire, in bounded memory, as checking a
// signature takes a hundred times as long as finding it again.
//
// The package reads no files, no network and no clock: keys and times are handed in.
package token
