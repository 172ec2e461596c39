package stamp

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"weir"
)

// An Algorithm is a kind of puzzle. The zero value stands for the default, sha256-k.
type Algorithm uint8

// The algorithms. Their numbers are part of the format of challenges.
const (
	// SHA256K is sixteen independent hash puzzles: the default. Cheap to issue and to verify, little luck involved.
	SHA256K Algorithm = iota + 1
	// DLog is a discrete logarithm in an interval, modulo a prime of 768 bits.
	DLog
	// DLogClassic is the discrete logarithm of the document, in a field as small as the difficulty says. It is weak:
	// whoever knows more than the document's own method solves it with the root of the work, or less.
	DLogClassic
	_ // was argon2id: what it issued is malformed now
	// EQS60 is sixteen searches for indices whose SipHashes add up to zero, in 2 MiB of memory each: ten times less of
	// an advantage for graphics cards than sha256-k gives, and no dearer to verify.
	EQS60
)

// Algorithms lists all of them.
var Algorithms = [...]Algorithm{SHA256K, DLog, DLogClassic, EQS60}

var algorithmNames = [...]string{SHA256K: "sha256-k", DLog: "dlog", DLogClassic: "dlog-classic", EQS60: "eqs60"}

func (a Algorithm) known() bool { return int(a) < len(algorithmNames) && algorithmNames[a] != "" }

// allNames lists what can be written.
func allNames() (names []string) {
	for _, a := range Algorithms {
		names = append(names, a.String())
	}
	return names
}

// Least is the least work that a puzzle can ask for. With less, a guess would be right too often: at the least, a guess
// is right once in a million; for dlog-classic of n bits once in 2^(n-1), as in the document.
func (a Algorithm) Least() Work {
	if a = cmp.Or(a, SHA256K); !a.known() {
		return 1
	}
	_, w := puzzles[a].fit(1)
	return w
}

func (a Algorithm) String() string {
	switch {
	case a == 0:
		return ""
	case a.known():
		return algorithmNames[a]
	}
	return fmt.Sprintf("algorithm(%d)", uint8(a))
}

func (a Algorithm) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

func (a *Algorithm) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*a = 0
		return nil
	}
	if i := slices.Index(algorithmNames[:], string(text)); i >= 0 {
		*a = Algorithm(i)
		return nil
	}
	if string(text) == "argon2id" {
		return &weir.FieldError{Msg: "argon2id stamps were removed",
			Hint: `write "eqs60": it takes memory too, and costs the server next to nothing; or leave it out for sha256-k`}
	}
	return &weir.FieldError{Msg: fmt.Sprintf("unknown algorithm %q", text),
		Hint: weir.Suggest(string(text), allNames()...)}
}

// A puzzle is what an algorithm does. It has no state.
type puzzle interface {
	// fit returns the work that is really asked for when w is meant, and by which algorithm.
	fit(w Work) (Algorithm, Work)
	// draw fills in c.Data, which the tag covers, where the algorithm needs it.
	draw(c *Challenge, k *key)
	// check reports whether a solution of the right length is right. The challenge is genuine.
	check(c *Challenge, k *key, solution []byte) bool
	// solve finds a solution.
	solve(ctx context.Context, c *Challenge, s *search) ([]byte, error)
	// sizes returns the length of the data and of the solution in bytes.
	sizes() (data, solution int)
}

var puzzles = [...]puzzle{SHA256K: sha256k, DLog: dlog{}, DLogClassic: dlogClassic{}, EQS60: eqs{}}
