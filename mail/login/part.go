//go:build !race

package login

// hashPart divides the memory that a new password takes. A program that is made to be served takes all of it.
const hashPart = 1
