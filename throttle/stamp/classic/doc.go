// Package classic has the puzzles of the source document, discrete logarithms, and its price that doubles. Package
// stamp makes stamps of them; whoever only wants to understand stamps need not read this.
//
//   - The logarithm in an interval (dlog): find x below a width with a^x = b, modulo a prime of 768 bits. a comes from
//     the challenge, and x is drawn by whoever asks, who verifies by drawing it again. It takes about 100 products to
//     issue and 2 HMACs to verify. Attackers gain little: 0.89 of the declared work at best (interleaved baby steps and
//     giant steps), and that needs memory; kangaroos take 1.33 and more.
//   - The logarithm in a small field (dlog-classic), as the document has it: a and b come from the challenge, and the
//     stamp is (a, x) with a^x = b, modulo a small prime that is drawn for every challenge. It takes a prime to issue
//     and a power to verify. It is weak: n bits of field cost 1.5·√(2^(n-1)) products by baby steps, and where a prime
//     comes again, index calculus takes a few thousand for each further logarithm.
//
// Both are solved by baby steps and giant steps, or by kangaroos where the table of steps would not fit.
package classic

import (
	"crypto/sha256"
	"errors"
)

// What a solver says.
var (
	ErrTooHard    = errors.New("classic: the interval is too wide")
	ErrNoSolution = errors.New("classic: no solution") // the puzzle was made up
)

// A Hash hashes what a puzzle is bound to, under a label and a number.
type Hash func(label string, n uint32) [sha256.Size]byte

// Workers share a search.
type Workers interface {
	Count() int
	// Each calls f once in each worker, with a number from zero on, and waits for all of them.
	Each(f func(worker int))
	// Add counts operations.
	Add(n uint64)
}
