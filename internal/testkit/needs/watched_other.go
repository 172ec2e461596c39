//go:build !race

package needs

// Watched says that the race detector watches this program.
const Watched = false
