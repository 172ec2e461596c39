//go:build race

package login

// hashPart divides the memory that a new password takes. A program with the race detector is made for tests, which take
// very many passwords.
const hashPart = 16
