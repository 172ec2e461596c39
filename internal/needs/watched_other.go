//go:build !race

package needs

// watched says that the race detector watches this program.
const watched = false
