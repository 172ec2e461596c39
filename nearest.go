package weir

import (
	"fmt"
	"strings"
)

// Nearest returns the word among known that was most likely meant by got, or "" when none is close. It is for hints.
func Nearest(got string, known ...string) string {
	best, least := "", 1<<30
	for _, word := range known {
		a, b := fold(got), fold(word)
		// A third of the letters may be wrong, so that short words are not mistaken for each other.
		if d := distance(a, b); d < least && d <= len(b)/3 {
			best, least = word, d
		}
	}
	return best
}

// Suggest returns a hint for a word that is not known: the nearest of those that are, or all of them. An empty word is
// a key that is left out, and no hint.
func Suggest(got string, known ...string) string {
	if near := Nearest(got, known...); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "one of " + strings.TrimPrefix(strings.Join(known, ", "), ", ")
}

// fold makes maxWait, max-wait and max_wait the same.
func fold(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// distance is the optimal string alignment distance: letters to insert, delete, replace or swap to get from a to b.
func distance(a, b string) int {
	const long = 64
	if len(a) > long || len(b) > long {
		return long
	}
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}
